"""The former shape of a state, with which its store is read and applies batches frozen in that shape."""

from dataclasses import replace
from typing import Any

from pyarrow import types as kinds

from trident.compiler.columns.function_errors import Where
from trident.compiler.states.shapes import combine_of, nullable
from trident.operations.aggregator_names import bundle_names
from trident.plan import nodes
from trident.plan.evolutions import Former
from trident_state.state_shape import Combine, StateShape, replacing


def former_shape(node: nodes.StateWriter, former: Former) -> StateShape | None:
    """Return the shape of a state in a former program; None if only that program can combine its values."""
    combine = _combine(node, former)
    return None if combine is None else StateShape(nullable(former.keys), former.value, combine)


def read_only_shape(former: Former) -> StateShape:
    """Return the shape of a state that only the former program can write.

    Its Combine is not `replacing`: a store in memory publishes for external readers how batches are combined, and a
    reader would still use that rule when the former program continues.
    """
    return StateShape(former.keys, former.value, Combine(former.meaning, _unwritten))


def _unwritten(stored: Any, delta: Any) -> Any:
    raise AssertionError("a batch in a former shape is refused before it is combined")


def _combine(node: nodes.StateWriter, former: Former) -> Combine | None:
    if not isinstance(node, nodes.PersistentAggregate):
        return replacing(former.meaning)
    if not former.known:
        return None
    now = combine_of(node.aggregation, Where(node.step, node.aggregation.site, node.inputs))
    if now.parts is None or not kinds.is_struct(former.value):
        return _by_value(now, former.meaning)
    parts = dict(zip(bundle_names(now.name) or {}, now.parts, strict=True))
    names = [former.value.field(at).name for at in range(former.value.num_fields)]
    if not {*names} <= parts.keys():
        return None
    return replace(now, name=former.meaning, parts=tuple(_by_value(parts[n], parts[n].name) for n in names))


def _by_value(combine: Combine, name: str) -> Combine:
    """Return a Combine that works on values one by one, because its columns have the types of this program."""
    return replace(combine, name=name, columns=None)
