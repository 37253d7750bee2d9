"""The checks of `backfill=True`, when a verb is called: whether old tuples can be read and computed again."""

from dataclasses import replace
from typing import TypeVar

from trident.base.short_texts import brief
from trident.base.step import Step
from trident.plan import nodes
from trident.plan.states import state_traits
from trident_spouts.rereading import why_not_again

WriterT = TypeVar("WriterT", nodes.PersistentAggregate | nodes.PersistentReduce, nodes.PartitionPersist)

_WAYS = (
    "Remove backfill=True, and the state begins with the next batch; or give it the older tuples' values by "
    "initialState=; or reset the topology, and all states begin at the beginning"
)

_GONE = (
    "whose former values are gone; that state needs backfill=True, too, which persistentAggregate, partitionPersist, "
    "toTable and statefulEach take"
)


def with_backfill(node: WriterT, backfill: object, step: Step) -> WriterT:
    """Return the step `node`, marked so that its state, if it is new, begins with the tuples of earlier batches.

    Raises TopologyError if these cannot be read again, or if the state would be another one then.
    """
    if not isinstance(backfill, bool):
        raise step.wrong(f"backfill={brief(backfill)}: expected True or False")
    if not backfill:
        return node
    if node.state.initial is not None:
        raise step.wrong(
            "initialState= and backfill=True both say how the state begins: with initialState= the source of the "
            "content has the older tuples, with backfill=True the streams have them. Give one of the two"
        )
    if state_traits(node).dues(node) is not None:
        raise step.wrong(
            f"backfill=True: timers would fire in other batches, and at other times, than when the tuples came. {_WAYS}"
        )
    for above in nodes.walk(node)[:-1]:
        why = _why_not(above)
        if why is not None:
            raise step.wrong(f"backfill=True: {above.step} ({above.site.location}) {why}. {_WAYS}")
    return replace(node, state=replace(node.state, backfill=True))


def _why_not(node: nodes.Node) -> str | None:
    """Return why old tuples cannot pass this step again; None if they can."""
    if isinstance(node, nodes.SpoutSource):
        why = why_not_again(node.spout)
        return None if why is None else f"cannot be read again from its beginning: {why}"
    if isinstance(node, nodes.Join | nodes.MultiReduce):
        return (
            "combines tuples that came in one batch, and tuples that are read again come in other batches. To join "
            "over all batches, make the streams tables, toTable(...).join(...), or use joinTable"
        )
    if isinstance(node, nodes.CommittedQuery):
        return "asks for the values of another moment: with asOf='committed' they are those of the present"
    if isinstance(node, nodes.StateWriter) and not node.state.backfill:
        return f"updates state {node.state.name!r}, {_GONE}"
    for state in nodes.asked_by(node):
        if isinstance(state, nodes.StaticState):
            return f"reads state {state.state.name!r} of another topology, whose former values are gone"
        if not state.state.backfill:
            return f"reads state {state.state.name!r}, {_GONE}"
    return None
