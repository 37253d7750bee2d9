"""The derivation of the tuples of a step from the tuples of states and spouts, as text that two programs can compare.

A tuple comes from a state or a spout. It passes conditions, and each of its fields is computed from fields of its
origin. Steps that change none of that do not appear: repartitioning, renamed and omitted fields, the order of
independent steps, names of functions. The code of users' functions is kept beside the text, as digests.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from pyspark.sql.types import StructType

from trident.base.change_kinds import CHANGE
from trident.base.code_digest import code_digest
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.bound_expressions import Computed
from trident.operations.bundles import Bundle
from trident.operations.changes import KindOf, Signed
from trident.operations.filtered_aggregators import as_written
from trident.operations.functions import Call, Operation
from trident.operations.retractions import KeepingTuples, Retracting
from trident.operations.signed_sums import SignedSums
from trident.plan import nodes
from trident.plan.split_schema import own_fields, streams_of
from trident.plan.state_schema import keys_of, shown_type, value_of
from trident.plan.states import state_traits
from trident.spouts.dead_letters import ReplaySpout

STREAM = "the stream"
"""The origin of tuples that come from a spout. Its name may change (`newStream(formerly=)`)."""

_LONGEST = 200
"""The longest text of a value. A longer text is cut and ends with a digest."""


class Derived(NamedTuple):
    """A value, or a condition: its text, and the digests of the users' functions in it, in their order."""

    text: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Tuples of one origin.

    `origin` is text, `states` are the states in it, `stream` is the name of a spout's stream and `has` its fields.
    The tuples are those that pass all `conditions`. `fields` has the derivation of each field.
    """

    origin: str
    fields: Mapping[str, Derived]
    states: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    conditions: tuple[Derived, ...] = ()
    stream: str = ""

    def passing(self, condition: Derived) -> "Rows":
        """Return the tuples that pass one more condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def having(self, fields: Mapping[str, Derived]) -> "Rows":
        """Return the tuples with other fields."""
        return replace(self, fields=fields)


def derived_rows(node: nodes.Node) -> list[Rows]:
    """Return the derivations of the tuples of a step, one for each origin."""
    step = _STEPS.get(type(node))
    if step is not None:
        return step(node, *map(derived_rows, nodes.sources_of(node)))
    return _ORIGINS.get(type(node), _other)(node)


def _other(node: nodes.Node) -> list[Rows]:
    """Return the tuples of a step that creates new ones: an aggregate, a join within a batch, a query."""
    return [_origin(node, f"the results of {node.step.rpartition(':')[2].partition('(')[0] or type(node).__name__}")]


def _origin(node: nodes.Node, text: str, states: tuple[str, ...] = ()) -> Rows:
    return Rows(text, {name: Derived(name) for name in node.schema.names}, states)


# --- operations -------------------------------------------------------------------------------------------------------


def called(operation: Operation, inputs: Sequence[str], rows: Rows) -> Derived:
    """Return the value of an operation of a tuple, as text.

    A user's function is identified only by its inputs, and has none if it receives whole tuples.
    """
    if operation.call is Call.EXPRESSION:
        return _expression(operation.target.text, rows)
    values = [rows.fields.get(name, Derived(name)) for name in inputs]
    if isinstance(operation.target, Computed):
        return _computed(operation.target, inputs, values)
    listed = ", ".join(value.text for value in values)
    if of_the_library(operation.target):
        codes = tuple(code for value in values for code in value.codes)
        if isinstance(operation.target, KindOf):
            codes = (_digest("kinds", repr(sorted(map(repr, operation.target.kinds.items())))), *codes)
        return _bounded(Derived(f"{type(operation.target).__name__}({listed})", codes))
    own = _code(operation)
    if operation.call not in _BY_FIELD:
        return Derived("a function of the tuple", (own,))
    return _bounded(Derived(f"a function of {listed}", (own, *(code for value in values for code in value.codes))))


def _code(operation: Operation) -> str:
    """Return the digest of an operation's code.

    A Column that already exists is known by its text, without the numbers of lambdas.
    """
    if operation.call is Call.COLUMN:
        return _digest("column", re.sub(r"_\d+", "", str(operation.target)))
    return code_digest(operation.target)


def _digest(kind: str, text: str) -> str:
    return f"{kind}:{blake2b(text.encode(), digest_size=8).hexdigest()}"


_BY_FIELD = (Call.VALUES, Call.SERIES, Call.UDF)
"""The calls that pass each field in `inputs` by its position."""


def _expression(text: str, rows: Rows) -> Derived:
    """Return the text of a native expression, in which the derivations of fields replace their names."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    named = {name.lower(): value for name, value in rows.fields.items() if name.lower() in words}
    codes = tuple(code for value in named.values() for code in value.codes)

    def replaced(found: re.Match[str]) -> str:
        value = named.get(found.group().lower())
        if value is None or value.text == found.group():
            return found.group()
        return value.text if value.text.isidentifier() else f"[{value.text}]"

    return _bounded(Derived(f"expr({_WORD_OR_TEXT.sub(replaced, ' '.join(text.split()))!r})", codes))


_WORD_OR_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\w+""")
"""A word of an expression, or a text in quotes, which holds no names."""


def _computed(target: Computed, inputs: Sequence[str], values: Sequence[Derived]) -> Derived:
    """Return the text of expressions, in which the derivations of fields replace their names."""
    named = dict(zip(inputs, values, strict=True))
    codes = tuple(code for value in values for code in value.codes)

    def replaced(found: re.Match[str]) -> str:
        path = literal_eval(found.group(1))
        name = path if path in named else path.partition(".")[0]
        value = named.get(name)
        if value is None or value.text == name:
            return found.group()
        inner = path[len(name) :]
        return f"col({value.text + inner!r})" if value.text.isidentifier() else f"[{value.text}]{inner}"

    return _bounded(Derived(_FIELD.sub(replaced, target.shown), codes))


_FIELD = re.compile(r"""\bcol\(('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""")


def _bounded(value: Derived) -> Derived:
    if len(value.text) <= _LONGEST:
        return value
    rest = blake2b(value.text.encode(), digest_size=6).hexdigest()
    return value._replace(text=f"{value.text[:_LONGEST]}... ({rest})")


def of_the_library(target: object) -> bool:
    """Return whether an operation or an aggregator is one of this library."""
    return type(target).__module__.partition(".")[0] == "trident"


def _outputs(operation: Operation, inputs: Sequence[str], outputs: StructType, rows: Rows) -> dict[str, Derived]:
    """Return the derivations of the fields that an operation emits."""
    if isinstance(operation.target, Signed):  # the number of the row, then the values to be summed
        summed = [rows.fields[name] for name in inputs[1:]]
        return dict(zip(outputs.names, [Derived("1"), *summed], strict=True))
    if isinstance(operation.target, Computed):
        value = called(operation, inputs, rows)
        return {name: value._replace(text=f"{value.text} [{at}]") for at, name in enumerate(outputs.names)}
    ours = operation.call is not Call.EXPRESSION and of_the_library(operation.target)
    if ours and set(outputs.names) <= set(inputs):
        return {}  # a check, which returns its input values
    value = called(operation, inputs, rows)
    if ours:
        return {name: value._replace(text=f"{value.text}.{name}") for name in outputs.names}
    places = ["", *(f" [{at}]" for at in range(1, len(outputs.names)))]
    return {name: value._replace(text=value.text + at) for name, at in zip(outputs.names, places, strict=True)}


def _may_drop(operation: Operation) -> bool:
    """Return whether an operation may emit no tuple, or several."""
    return operation.many or operation.call is Call.FUNCTION


# --- steps ------------------------------------------------------------------------------------------------------------


def _each(node: nodes.Each, source: Sequence[Rows]) -> list[Rows]:
    made = [rows.having({**rows.fields, **_outputs(node.function, node.inputs, node.outputs, rows)}) for rows in source]
    if not _may_drop(node.function):
        return made
    return [new.passing(called(node.function, node.inputs, old)) for old, new in zip(source, made, strict=True)]


def _map(node: nodes.Map, source: Sequence[Rows]) -> list[Rows]:
    made = [rows.having(_outputs(node.function, node.inputs, node.schema, rows)) for rows in source]
    if not _may_drop(node.function):
        return made
    return [new.passing(called(node.function, node.inputs, old)) for old, new in zip(source, made, strict=True)]


def _filter(node: nodes.Filter, source: Sequence[Rows]) -> list[Rows]:
    return [rows.passing(called(node.predicate, node.inputs, rows)) for rows in source]


def _project(node: nodes.Project, source: Sequence[Rows]) -> list[Rows]:
    names = [*zip(node.schema.names, node.names, strict=True)]
    return [rows.having({new: rows.fields[old] for new, old in names}) for rows in source]


def _merge(node: nodes.Merge, *sources: Sequence[Rows]) -> list[Rows]:
    merged = list[Rows]()
    for above, source in zip(node.sources, sources, strict=True):
        places = [*zip(node.schema.names, above.schema.names, strict=False)]
        for rows in source:
            fields = {new: rows.fields[old] for new, old in places}
            merged.append(rows.having({name: fields.get(name, Derived(name)) for name in node.schema.names}))
    return merged


def _split(node: nodes.Split, source: Sequence[Rows]) -> list[Rows]:
    made = list[Rows]()
    for rows in source:
        value = called(node.function, node.inputs, rows)
        fields = {name: rows.fields[name] if name in node.carried else value for name in node.schema.names}
        made.append(rows.having(fields))
    return made


def _part(node: nodes.Part, source: Sequence[Rows]) -> list[Rows]:
    own = own_fields(node)
    name, _ = streams_of(node.source)[node.number]
    return [
        rows.having({new: rows.fields[old] for old, new in own.items()}).passing(Derived(f"sent to {name!r}"))
        for rows in source
    ]


def _repartitioned(node: nodes.Repartition, source: Sequence[Rows]) -> list[Rows]:
    if node.how is not nodes.Placing.BROADCAST:
        return [*source]
    return [rows.passing(Derived("broadcast, once for each partition")) for rows in source]


def _unchanged(node: nodes.Node, source: Sequence[Rows]) -> list[Rows]:
    return [*source]


# --- origins ----------------------------------------------------------------------------------------------------------


def _spout(node: nodes.SpoutSource) -> list[Rows]:
    if isinstance(node.spout, ReplaySpout):
        return []  # tuples that entered before
    return [replace(_origin(node, STREAM), has=tuple(node.schema.names), stream=node.stream)]


def _changes(node: nodes.TableChanges) -> list[Rows]:
    names, table = [*node.schema.names[:-1]], node.table
    states = tuple(dict.fromkeys(each.state.name for each in node.tables))
    own = [*(Derived(name) for name in keys_of(table).names), *_values(table)]
    text = f"the changes of state {table.state.name!r}{', with its null values' if node.entries else ''}"
    if node.other is not None:
        by = f" by {', '.join(node.refers)}" if node.refers else ""
        text = f"the {'left' if node.left else 'inner'} join of {table.state.name!r} with {node.other.state.name!r}{by}"
        own += [value._replace(text=f"{node.other.state.name}.{value.text}") for value in _values(node.other)]
    fields = dict(zip(names, own, strict=True))
    return [Rows(text, {**fields, CHANGE: Derived(CHANGE)}, states)]


def _emitted(node: nodes.Emitted) -> list[Rows]:
    rows, update = _origin(node, f"the results of state {node.origin!r}", (node.origin,)), node.source
    if state_traits(update).emits_changes(update):
        assert isinstance(update, nodes.Window), "only windows emit changes"
        # This program's aggregator recomputes the row that a change retracts.
        given = _given(update.windowing.outputs.names, update.windowing.aggregator)
        rows = rows.having({**rows.fields, **given})
    return [rows]


def _values(held: nodes.HeldState) -> list[Derived]:
    """Return the derivations of the fields of a state's value, as queries see it."""
    kind, how = shown_type(held), state_traits(held).presents(held)
    names = kind.names if isinstance(kind, StructType) else [value_of(held).name]
    return [Derived(name) for name in names] if how is None else [*_given(names, how.aggregator).values()]


def _given(names: Sequence[str], aggregator: object) -> dict[str, Derived]:
    """Return the derivations of an aggregator's result: one field, the fields of a struct, or several fields."""
    return {name: _aggregated(name, aggregators_of(aggregator, name).get(name)) for name in names}


def _aggregated(name: str, aggregator: object) -> Derived:
    """Return a value with the parameters of the aggregator that computes it."""
    if aggregator is None:
        return Derived(name)
    if isinstance(aggregator, BuiltinAggregator) and of_the_library(aggregator):
        shown = repr(aggregator)
        return Derived(name if shown.endswith("()") or " at 0x" in shown else f"{name} of {shown}")
    return Derived(name, (code_digest(aggregator),))


def aggregators_of(aggregator: Any, output: str) -> dict[str, Any]:
    """Return the aggregators that the user passed, by output field."""
    if isinstance(aggregator, SignedSums):
        return {name: how for name, how, _ in aggregator.shows}
    if isinstance(aggregator, Retracting | KeepingTuples):
        return aggregators_of(aggregator.inner, output)
    if isinstance(aggregator, Bundle):
        members = [(each.aggregation.output, each.aggregation.aggregator) for each in aggregator.members]
        return {name: aggregators_of(own, name)[name] for name, own in members}
    return {output: as_written(aggregator)}


_STEPS: Mapping[type[nodes.Node], Callable[..., list[Rows]]] = {
    nodes.Each: _each,
    nodes.Map: _map,
    nodes.Filter: _filter,
    nodes.Project: _project,
    nodes.Merge: _merge,
    nodes.Split: _split,
    nodes.Part: _part,
    nodes.Peek: _unchanged,
    nodes.Debug: _unchanged,
    nodes.Repartition: _repartitioned,
    nodes.ParallelismHint: _unchanged,
}
"""The steps that take tuples one by one."""

_ORIGINS: Mapping[type[nodes.Node], Callable[..., list[Rows]]] = {
    nodes.SpoutSource: _spout,
    nodes.TableChanges: _changes,
    nodes.Emitted: _emitted,
}
