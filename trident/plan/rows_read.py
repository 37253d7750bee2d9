"""The rows that feed a state or an output, as its program derives them: their origins and the conditions.

A start compares them with those of the previous program (`trident.recovery.changed_steps`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from trident.base.change_kinds import CHANGE
from trident.base.code_digest import code_digest
from trident.operations.aggregators import Aggregation
from trident.operations.bundles import Bundle
from trident.operations.retractions import Retracting
from trident.operations.signed_sums import SignedSums
from trident.plan import nodes
from trident.plan.row_derivation import Derived, Rows, aggregators_of, derived_rows, of_the_library
from trident.plan.sinks import sink_traits
from trident.spouts.dead_letters import ReplaySpout

Kind = Literal["tuples", "changes", "rows", "sides"]
"""The use of the rows: "tuples" are aggregated, "changes" are aggregated and may be retracted, "rows" are kept by
their keys, "sides" wait in a join by time for rows of the other side."""


class ReadRows(msgspec.Struct, frozen=True):
    """The rows of one origin that feed a state or an output; see `trident.plan.row_derivation.Rows`.

    `keys` and `values` have the derivation of each field of the state, `inputs` the names of the fields that an
    aggregator reads for each value. `codes` are the digests of the users' functions behind the conditions ("") and
    behind each field. `stream` is the name of the stream that the rows come from, if no state is between. Rows of a
    join by time have their `side`; `above` are the streams from which they come, also through states.
    """

    origin: str
    states: tuple[str, ...]
    has: tuple[str, ...]
    conditions: tuple[str, ...]
    keys: dict[str, str]
    values: dict[str, str]
    codes: dict[str, tuple[str, ...]]
    inputs: dict[str, tuple[str, ...]] = {}
    stream: str = ""
    side: str = ""
    above: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """The rows that feed a state or an output."""

    kind: Kind
    rows: tuple[ReadRows, ...]


Values = Mapping[str, tuple[tuple[str, ...], str]]
"""The fields from which each value is computed, and the digest of the aggregator's code."""


def reading_of(step: nodes.StateWriter | nodes.Sink) -> Reading | None:
    """Return the rows that feed a state or an output; None if other rows may feed it in a later program."""
    reader = _READERS.get(type(step))
    if reader is not None:
        return reader(step)
    if isinstance(step, nodes.Sink) and sink_traits(step).keeps_rows(step):
        keys = sink_traits(step).row_key(step)
        return _reading("rows", step.source, keys, {})
    return None


def _of_aggregate(node: nodes.PersistentAggregate) -> Reading:
    aggregator = node.aggregation.aggregator
    kind: Kind = "changes" if isinstance(aggregator, SignedSums | Retracting) else "tuples"
    return _reading(kind, node.source, node.group, _aggregated(node.aggregation, node.inputs))


def _of_update(node: nodes.PartitionPersist) -> Reading | None:
    values = getattr(node.updating, "values", None)
    if values is None or getattr(node.updating, "change", None) is None:
        return None
    return _reading("rows", node.source, tuple(node.keys.names), {name: ((name,), "") for name in values})


def _of_window(node: nodes.Window) -> Reading | None:
    how, source = node.windowing.aggregation, node.source
    if how is None:
        return None  # the state keeps the tuples, whose fields are part of its shape
    while isinstance(source, nodes.WindowPanes | nodes.PartitionOf):
        source = source.source
    return _reading("tuples", source, node.group, _aggregated(how, node.inputs))


def _of_join(node: nodes.TimeJoin) -> Reading:
    """Return the rows of both sides. The keys of the right side have the names that they have in the state."""
    rows = list[ReadRows]()
    for side, source, joining in zip(nodes.SIDES, node.sources, node.joining.sides, strict=True):
        keys = dict(zip(node.joining.sides[0].keys, joining.keys, strict=True))
        values: Values = {name: ((name,), "") for name in source.schema.names}
        spouts = [each for each in nodes.walk(source) if isinstance(each, nodes.SpoutSource)]
        above = sorted(each.stream for each in spouts if not isinstance(each.spout, ReplaySpout))
        read = (_read(each, keys, values) for each in derived_rows(source))
        rows += [replace(each, side=side, above=(each.stream,) if each.stream else tuple(above)) for each in read]
    return Reading("sides", tuple(rows))


_READERS: Mapping[type[nodes.Node], Callable[[Any], Reading | None]] = {
    nodes.PersistentAggregate: _of_aggregate,
    nodes.PartitionPersist: _of_update,
    nodes.Window: _of_window,
    nodes.IntervalJoin: _of_join,
    nodes.WindowJoin: _of_join,
}


def _aggregated(how: Aggregation, inputs: tuple[str, ...]) -> Values:
    """Return the fields that each aggregate of a state reads.

    A user's aggregator receives whole tuples, so the fields that it reads are not known.
    """
    aggregator = how.aggregator
    if isinstance(aggregator, SignedSums):  # the first number is that of the rows
        sums = {name: [at for at in positions if at][:1] for name, _, positions in aggregator.shows}
        return {name: (tuple(inputs[at] for at in positions), "") for name, positions in sums.items()}
    inner: Any = aggregator.inner if isinstance(aggregator, Retracting) else aggregator
    own = aggregators_of(inner, how.output)
    reads = {how.output: tuple(name for name in inputs if name != CHANGE)}
    if isinstance(inner, Bundle):
        reads = {member.aggregation.output: member.inputs for member in inner.members}
    return {name: _value_of(own[name], fields) for name, fields in reads.items()}


def _value_of(aggregator: object, fields: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    return (fields, "") if of_the_library(aggregator) else ((), code_digest(aggregator))


def _reading(kind: Kind, source: nodes.Node, keys: tuple[str, ...], values: Values) -> Reading:
    named = {name: name for name in keys}
    return Reading(kind, tuple(_read(rows, named, values) for rows in derived_rows(source)))


def _read(rows: Rows, keys: Mapping[str, str], values: Values) -> ReadRows:
    """Return rows for the log. `keys` has the rows' field for each key of the state."""
    conditions = sorted(rows.conditions)
    of_keys = {name: _field(rows, field) for name, field in keys.items()}
    of_values = {name: [_field(rows, each) for each in inputs] for name, (inputs, _) in values.items()}
    kinds = rows.fields.get(CHANGE, Derived(CHANGE)).codes  # last: records of before lack them
    codes = {"": (*_codes(conditions), *kinds)} | {name: value.codes for name, value in of_keys.items()}
    codes |= {name: (*_codes(fields), *filter(None, [values[name][1]])) for name, fields in of_values.items()}
    return ReadRows(
        rows.origin,
        rows.states,
        rows.has,
        tuple(each.text for each in conditions),
        {name: value.text for name, value in of_keys.items()},
        {name: ", ".join(each.text for each in fields) for name, fields in of_values.items()},
        {name: each for name, each in codes.items() if each},
        {name: inputs for name, (inputs, _) in values.items()},
        rows.stream,
    )


def _field(rows: Rows, name: str) -> Derived:
    return rows.fields.get(name, Derived(name))


def _codes(values: Iterable[Derived]) -> tuple[str, ...]:
    return tuple(code for value in values for code in value.codes)
