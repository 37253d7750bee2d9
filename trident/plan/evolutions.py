"""The former shapes that a state declares, and the conversion of stored values to the present shape."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.short_texts import typed_brief
from trident.base.spark_types import arrow_schema, arrow_type
from trident.base.value_conversion import NotAccepted, to_arrow, type_name
from trident.base.verb_call import Step
from trident.operations.aggregator_names import aggregator_name, bundle_names, bundle_text
from trident.operations.evolution import Evolution
from trident.plan import nodes
from trident.plan.state_schema import parts_of, value_of
from trident.plan.states import state_traits
from trident.plan.value_functions import computed
from trident.plan.wider_types import is_wider
from trident_state.binary_arrays import spread_rows, valid_rows
from trident_state.fingerprint import write_fingerprint

Change = Callable[[pa.Array], pa.Array]
"""A function from a column of former values, without nulls, to a column of present values."""


@dataclass(frozen=True)
class Former:
    """A former shape of a state: the type of its values, its aggregator, and the conversion to the present shape."""

    keys: pa.Schema
    value: pa.DataType
    meaning: str
    known: bool
    """True if the declared aggregators can also combine values of the former shape."""
    _present: pa.DataType
    _change: Change

    @property
    def fingerprint(self) -> str:
        """The fingerprint of a state of this shape."""
        return write_fingerprint(self.keys, self.value, self.meaning)

    def changed(self, values: pa.Array) -> pa.Array:
        """Return stored values of this shape as values of the present shape; null for null.

        Raises UserFunctionError if a function of the Evolution raised, StateValueError if it returned another type.
        """
        present = valid_rows(values)
        if not present.any():
            return pa.nulls(len(values), self._present)
        changed = self._change(values.drop_null() if values.null_count else values)
        return spread_rows(present, changed) if values.null_count else changed


def can_evolve(node: nodes.StateWriter) -> bool:
    """Return whether the verb of a state accepts former shapes: not windows, joins by time and dropDuplicates."""
    traits = state_traits(node)
    return not traits.in_windows and not traits.holds_back(node)


def formers_of(node: nodes.StateWriter, step: Step | None = None) -> tuple[Former, ...]:
    """Return the former shapes that a state declares. Raises TopologyError if one of them cannot become the present."""
    step, formers = step or Step(node.step, node.site), dict[str, Former]()
    for evolution in node.state.evolve:
        former = _former(node, evolution, step)
        if former.fingerprint in formers:
            raise step.wrong(
                f"evolve: two Evolutions have the same former shape, {_shown(former.value)} by {former.meaning}: "
                f"remove one of them"
            )
        formers[former.fingerprint] = former
    return tuple(formers.values())


def _former(node: nodes.StateWriter, evolution: Evolution, step: Step) -> Former:
    keys = arrow_schema(state_traits(node).keys(node))
    now, meaning = arrow_type(value_of(node).dataType), state_traits(node).meaning(node)
    was = evolution.former_type(step)
    by = evolution.by or _kept_meaning(node, was, meaning)
    if (was, by) == (now, meaning):
        raise step.wrong(
            f"evolve: {_shown(was)} by {by} is the present shape of the state. Name the former aggregator with by=, "
            f"or remove the Evolution"
        )
    change = _change(node, evolution, was, now, step)
    return Former(keys, was, by, evolution.by in (None, by) and _combines(meaning, by), now, change)


def _kept_meaning(node: nodes.StateWriter, was: pa.DataType, meaning: str) -> str:
    """Return the aggregators of a former state whose fields are computed as before; without fields, `meaning`."""
    parts = parts_of(node)
    if parts is None or not kinds.is_struct(was):
        return meaning
    former = [was.field(at).name for at in range(was.num_fields)]
    return bundle_text({n: aggregator_name(p.aggregation.aggregator) for n, p in parts.items() if n in former})


def _combines(meaning: str, by: str) -> bool:
    """Return whether the aggregators `by` are among the aggregators `meaning`, each in its field."""
    now, then = bundle_names(meaning), bundle_names(by)
    return meaning == by if now is None or then is None else then.items() <= now.items()


def _shown(kind: pa.DataType) -> str:
    return repr(type_name(kind))


# --- the changes ------------------------------------------------------------------------------------------------------


def _change(node: nodes.StateWriter, evolution: Evolution, was: pa.DataType, now: pa.DataType, step: Step) -> Change:
    if evolution.value is not None:
        return _calling(evolution.value, now, f"{step.label} ({step.called.location})")
    if kinds.is_struct(was) and kinds.is_struct(now):
        return _by_field(node, evolution.add, was, now, step)
    if evolution.add:
        raise step.wrong(
            f"evolve: add= adds fields to a struct, but the values change from {_shown(was)} to {_shown(now)}; use "
            f"value="
        )
    return _widening(was, now, "the value", step)


def _calling(function: Callable[[Any], Any], now: pa.DataType, where: str) -> Change:
    unchanged = "The stored state is unchanged"
    return lambda values: computed(function, values, now, f"{where}: evolve", "the stored ", unchanged)


def _by_field(
    node: nodes.StateWriter, add: Mapping[str, Any], was: pa.DataType, now: pa.DataType, step: Step
) -> Change:
    former, parts = {was.field(at).name: at for at in range(was.num_fields)}, parts_of(node) or {}
    _check_fields(former, add, was, now, step)

    def column(field: pa.Field) -> Change:
        if (at := former.get(field.name)) is not None:
            return _of_field(at, _widening(was.field(at).type, field.type, f"field {field.name!r}", step))
        if field.name in add:
            return _given(add[field.name], field, step)
        if field.name in parts:
            return _given(parts[field.name].aggregation.aggregator.zero(), field, step)
        raise step.wrong(
            f"evolve: the field {field.name!r} is new in {_shown(now)}: give the value that it has in stored values, "
            f"add={{{field.name!r}: ...}} (None for a null)"
        )

    fields = [now.field(at) for at in range(now.num_fields)]
    columns = list(map(column, fields))
    return lambda values: pa.StructArray.from_arrays([column(values) for column in columns], fields=fields)


def _check_fields(
    former: Collection[str], add: Collection[str], was: pa.DataType, now: pa.DataType, step: Step
) -> None:
    """Raise TopologyError if a former field is missing now, or if a field that is added is not new."""
    names = {now.field(at).name for at in range(now.num_fields)}
    if lost := [name for name in former if name not in names]:
        raise step.wrong(
            f"evolve: the field {lost[0]!r} of {_shown(was)} is not in {_shown(now)}, so its values would be lost. If "
            f"that is intended, give value=, a function from the stored value to the new one. If the stored values "
            f"have no such field, write their type: explain(name=..., checkpointLocation=...) of the former program, "
            f"and the error of a start without evolve=, show it"
        )
    if wrong := [name for name in add if name in former or name not in names]:
        raise step.wrong(f"evolve: add= names {wrong[0]!r}, which is not a new field of {_shown(now)}")


def _of_field(at: int, change: Change) -> Change:
    return lambda values: change(values.field(at) if values.offset == 0 else values.flatten()[at])


def _given(value: Any, field: pa.Field, step: Step) -> Change:
    """Return the conversion that adds a field: a value for all keys, or a function of the stored value."""
    if callable(value):
        return _calling(value, field.type, f"{step.label} ({step.called.location}), field {field.name!r}")
    try:
        (scalar,) = to_arrow([value], field.type)
    except NotAccepted as error:
        raise step.wrong(
            f"evolve: add= gives field {field.name!r} the value {typed_brief(error.value)}: expected "
            f"{type_name(field.type)}"
        ) from None
    return lambda values: pa.repeat(scalar, len(values)) if scalar.is_valid else pa.nulls(len(values), field.type)


def _widening(was: pa.DataType, now: pa.DataType, what: str, step: Step) -> Change:
    if not is_wider(now, was):
        raise step.wrong(
            f"evolve: {what} cannot become {_shown(now)} from {_shown(was)} without a loss: give value=, a function "
            f"from the stored value to the new one"
        )
    return lambda values: values if was == now else values.cast(now)
