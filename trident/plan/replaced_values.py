"""Refusal of aggregates over all batches that would count a key's value again each time that it is replaced.

`newValuesStream` of an aggregate gives a key's whole new value in each batch that changes it. If an aggregate over all
batches adds up such values, it counts the former value's tuples again.
"""

from collections.abc import Container
from typing import Any

from trident.base.step import Step
from trident.operations.bundles import Bundle
from trident.operations.filtered_aggregators import as_written
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


def _replacing(node: Node, every_change: Container[Node]) -> StateWriter | None:
    """Return the state whose values replace each other in the tuples of a node; None if there is no such state.

    Values that pass a node in `every_change` do not count.
    """
    if node in every_change:
        return None
    writer = node.source if isinstance(node, Emitted) else node
    if isinstance(writer, StateWriter):
        return writer if state_traits(writer).replaces(writer) else None
    if isinstance(node, MultiReduce):
        return None
    found = [_replacing(source, every_change) for source in sources_of(node)]
    if isinstance(node, Join) and not all(found):
        return None  # one source has tuples that come once, so the pairs do too
    return next((state for state in found if state is not None), None)
