"""Checks of `backfill=True` at the verb's call: whether earlier tuples can be read and computed again."""

from dataclasses import replace
from typing import TypeVar

from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.plan import nodes
from trident.plan.states import state_traits
from trident_spouts.rereadable_sources import why_not_again

WriterT = TypeVar("WriterT", nodes.PersistentAggregate | nodes.PersistentReduce, nodes.PartitionPersist)

_WAYS = (
    "remove backfill=True, so that the state begins with the next batch; or pass the values of earlier tuples as "
    "initialState=; or reset the topology, so that all states begin at the beginning"
)

_GONE = (
    "whose earlier values no longer exist; that state needs backfill=True, too (persistentAggregate, "
    "partitionPersist, toTable and statefulEach take it)"
)


def with_backfill(node: WriterT, backfill: object, step: Step) -> WriterT:
    """Mark the step `node`: if its state is new, it first processes the tuples of earlier batches. Return the step.

    Raises TopologyError if the earlier tuples cannot be read again, or would give another result.
    """
    if not isinstance(backfill, bool):
        raise step.wrong(f"backfill={brief(backfill)}: expected True or False")
    if not backfill:
        return node
    if node.state.initial is not None:
        raise step.wrong(
            "initialState= and backfill=True exclude each other: either initialState= provides the content of earlier "
            "tuples, or backfill=True reads these tuples again. Pass one of the two"
        )
    if state_traits(node).dues(node) is not None:
        raise step.wrong(
            f"backfill=True: timers would fire in other batches, and at other times, than in the original run. {_WAYS}"
        )
    for above in nodes.walk(node)[:-1]:
        why = _why_not(above)
        if why is not None:
            raise step.wrong(f"backfill=True: {above.step} ({above.site.location}) {why}. {_WAYS}")
    return replace(node, state=replace(node.state, backfill=True))


def _why_not(node: nodes.Node) -> str | None:
    """Return why earlier tuples cannot pass this step again; None if they can."""
    if isinstance(node, nodes.SpoutSource):
        why = why_not_again(node.spout)
        return None if why is None else f"cannot be read again from its beginning: {why}"
    if isinstance(node, nodes.Join | nodes.MultiReduce):
        return (
            "joins or merges tuples of one batch, but tuples that are read again arrive in other batches. To join "
            "over all batches, make the streams tables, toTable(...).join(...), or use joinTable"
        )
    if isinstance(node, nodes.CommittedQuery):
        return (
            "reads another state as of another moment: asOf='committed' would return the present values, not those of "
            "that time"
        )
    if isinstance(node, nodes.StateWriter) and not node.state.backfill:
        return f"updates state {node.state.name!r}, {_GONE}"
    for state in nodes.asked_by(node):
        if isinstance(state, nodes.StaticState):
            return f"reads state {state.state.name!r} of another topology, whose earlier values no longer exist"
        if not state.state.backfill:
            return f"reads state {state.state.name!r}, {_GONE}"
    return None
