"""The refusal of aggregates over all batches that would count a key's value again at each replacement.

`newValuesStream` of an aggregate emits a key's whole new value in each batch that changes it. If an aggregate over all
batches adds up such values, it counts the former value's tuples again.
"""

from collections.abc import Container, Sequence
from typing import Any

from trident.base.verb_call import Step
from trident.operations.bundles import Bundle
from trident.operations.filtered_aggregators import as_written
from trident.plan.determining_fields import Names, determining
from trident.plan.nodes import Emitted, Join, MultiReduce, Node, StateWriter, sources_of
from trident.plan.states import state_traits


def check_counts_once(source: Node, aggregator: Any, every_change: Container[Node], step: Step) -> None:
    """Raise TopologyError if an aggregate over all batches reads values that replace each other.

    It may read them if a repeated value changes nothing, as for Max, or if they pass a node in `every_change`: for
    these nodes the program declares that each change counts.
    """
    counting = _counting(aggregator)
    state = None if counting is None else _replacing(source, every_change)
    if state is None:
        return
    raise step.wrong(
        f"its tuples come from newValuesStream() of state {state.state.name!r} ({state.site.location}), where each "
        f"new value of a key replaces the previous one. {counting} over all batches would count a key again at each "
        f"change. To count each key once, aggregate its changes, state.changes(), or the input of that state; to "
        f"keep the latest, greatest or smallest value, use Last(), Max() or Min(), or your own aggregator with "
        f"idempotent = True (a repeated value changes nothing). To count the changes themselves, write "
        f"newValuesStream(everyChange=True)"
    )


def _counting(aggregator: Any) -> str | None:
    """Return the name of an aggregator that would count a repeated value again; None if it would not."""
    if isinstance(aggregator, Bundle):
        return next(filter(None, (_counting(member.aggregation.aggregator) for member in aggregator.members)), None)
    if getattr(aggregator, "idempotent", False) is True:  # a user's aggregator may declare it, too
        return None
    return type(as_written(aggregator)).__name__


def _replacing(node: Node, every_change: Container[Node], by: Names | None = None) -> StateWriter | None:
    """Return the state whose values replace each other in the tuples of a node; None if there is no such state.

    Values that pass a node in `every_change` do not count. `by` are the fields by which a later step passes on only the
    first tuple, for ever: if the key of a state determines them, a key's later values are dropped there.
    """
    if node in every_change:
        return None
    writer = node.source if isinstance(node, Emitted) else node
    if isinstance(writer, StateWriter):
        return _of_state(writer, every_change, by)
    if isinstance(node, Join) and _pairs_come_once(node, every_change):
        return None
    found = _in_sources(node, every_change, None if by is None else determining(node, by))
    if isinstance(node, MultiReduce) and not all(found):
        return None  # the reducer may emit only for a tuple that comes once
    return next((state for state in found if state is not None), None)


def _of_state(writer: StateWriter, every_change: Container[Node], by: Names | None) -> StateWriter | None:
    """Return the result of `_replacing` for the tuples that leave a step with a state."""
    traits = state_traits(writer)
    if traits.replaces(writer):
        return None if by is not None and by.issubset(traits.keys(writer).names) else writer
    if not traits.passes_on(writer):
        return None
    first = traits.first_of(writer)
    if first is not None and not any(_in_sources(writer, every_change, [frozenset(first)])):
        return None
    one = len(sources_of(writer)) == 1  # its tuples pass unchanged, while a pair of two streams has other fields
    found = _in_sources(writer, every_change, [by] if by is not None and one else None)
    return next((state for state in found if state is not None), None)


def _pairs_come_once(node: Join, every_change: Container[Node]) -> bool:
    """Return whether each pair has a tuple that comes once: that of a source that every pair has."""
    found = _in_sources(node, every_change, None)
    return any(state is None and not outer for state, outer in zip(found, node.outer, strict=True))


def _in_sources(node: Node, every_change: Container[Node], by: Sequence[Names] | None) -> list[StateWriter | None]:
    sources = sources_of(node)
    each = [None] * len(sources) if by is None else by
    return [_replacing(source, every_change, names) for source, names in zip(sources, each, strict=True)]
