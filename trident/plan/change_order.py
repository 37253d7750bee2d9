"""Streams of changes: whose changes they are, and the order in which the changes of a key reach a table."""

from collections.abc import Callable, Container

from trident.plan.nodes import (
    Aggregate,
    Each,
    Emitted,
    Filter,
    HeldState,
    IntervalJoin,
    Join,
    Map,
    Merge,
    MultiReduce,
    Node,
    ParallelismHint,
    Part,
    Peek,
    PersistentAggregate,
    PersistentReduce,
    Placing,
    Project,
    Repartition,
    Split,
    SpoutSource,
    TableChanges,
    Window,
    WindowJoin,
    WindowPanes,
    sources_of,
)
from trident.plan.states import state_traits
from trident.spouts.dead_letters import ReplaySpout


def consolidated(node: Node) -> bool:
    """Return whether tuples are changes of states or windows: in a batch each row leaves once and comes once."""
    if not isinstance(node, _ROW_BY_ROW):
        return bool(changed_states(node))
    return all(map(consolidated, sources_of(node)))


def changed_states(node: Node) -> list[HeldState]:
    """Return the states whose changes reach a step; none if its tuples are no changes of a state."""
    if isinstance(node, TableChanges):
        return [*node.tables]
    if isinstance(node, Emitted):
        return [node.source] if state_traits(node.source).emits_changes(node.source) else []
    if not isinstance(node, _ROW_BY_ROW):
        return []
    return [state for source in sources_of(node) for state in changed_states(source)]


def disordered(node: Node, keys: Container[str], hint_of: Callable[[Node], Node | None]) -> Node | None:
    """Return the step by which the tuples of a key may get another order than in their source; None if none.

    `hint_of` returns the parallelismHint that spreads the tuples of a source, on whatever branch it is.
    """
    if isinstance(node, _WITHOUT_ORDER):
        return node
    if changed_states(node) or isinstance(node, _ONE_OF_A_GROUP):
        return None
    if isinstance(node, Repartition) and node.how not in _ORDERLY:
        by_key = node.how in (Placing.FIELDS, Placing.CUSTOM) and all(name in keys for name in node.names)
        if not by_key:
            return node
    above = sources_of(node)
    return next(filter(None, (disordered(each, keys, hint_of) for each in above)), None) if above else hint_of(node)


_WITHOUT_ORDER = (Join, MultiReduce)
"""The steps whose results Spark gives in any order."""

_ONE_OF_A_GROUP = (Aggregate, PersistentAggregate, PersistentReduce, WindowPanes, Window, IntervalJoin, WindowJoin)
"""The steps of which a batch has one result for a group, or results of which each comes once."""


def replays_before(node: Node) -> SpoutSource | None:
    """Return the source of dead letters that joins the tuples of a step, later than newer changes of their keys."""
    if isinstance(node, SpoutSource):
        return node if isinstance(node.spout, ReplaySpout) else None
    if changed_states(node) or isinstance(node, _ONE_OF_A_GROUP):
        return None
    return next(filter(None, map(replays_before, sources_of(node))), None)


_ORDERLY = (Placing.BROADCAST, Placing.GLOBAL, Placing.BATCH_GLOBAL, Placing.IDENTITY)
"""The ways to repartition that keep the tuples of one source partition together."""

_ROW_BY_ROW = (Each, Filter, Map, Merge, ParallelismHint, Part, Peek, Project, Repartition, Split)
"""The steps that leave the changes of each row as they are."""
