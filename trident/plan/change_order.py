"""Streams of changes: the states that they come from, and the order in which the changes of a key reach a table."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trident.plan.nodes import (
    Aggregate,
    CommittedQuery,
    Debug,
    Each,
    Emitted,
    Filter,
    HeldState,
    LateTuples,
    Map,
    Merge,
    Node,
    ParallelismHint,
    Part,
    Peek,
    Placing,
    Project,
    Repartition,
    Split,
    SpoutSource,
    StateQuery,
    TableChanges,
    sources_of,
)
from trident.plan.states import STATES, state_traits
from trident.spouts.dead_letters import ReplaySpout


def consolidated(node: Node) -> bool:
    """Return whether tuples are changes of states or windows: in a batch each row is removed once and added once."""
    if not isinstance(node, _ROW_BY_ROW):
        return bool(changed_states(node))
    return all(map(consolidated, sources_of(node)))


def changed_states(node: Node) -> list[HeldState]:
    """Return the states whose changes reach a step; empty if its tuples are not changes of a state."""
    if isinstance(node, TableChanges):
        return [*node.tables]
    if isinstance(node, Emitted):
        return [node.source] if state_traits(node.source).emits_changes(node.source) else []
    if not isinstance(node, _ROW_BY_ROW):
        return []
    return [state for source in sources_of(node) for state in changed_states(source)]


def disordered(node: Node, keys: Iterable[str], hint_of: Callable[[Node], Node | None]) -> Node | None:
    """Return a step that may reorder the tuples of a key compared with their source; None if there is none.

    `keys` are the names of the key's fields. Any step that is not known to keep the order counts. `hint_of`
    returns the parallelismHint that spreads the tuples of a source, on whatever branch it is.
    """
    names = frozenset(keys)
    if isinstance(node, _ORIGINS) or _is_changes(node):
        return hint_of(node)
    if (sources := _KEPT.get(type(node), _of_state)(node, names)) is None:
        return node
    return next(filter(None, (disordered(source, known, hint_of) for source, known in sources)), None)


_ORIGINS = (SpoutSource, TableChanges)


def _is_changes(node: Node) -> bool:
    return isinstance(node, Emitted) and state_traits(node.source).emits_changes(node.source)


Names = frozenset[str]

Kept = list[tuple[Node, Names]] | None
"""The sources of a step that keeps the order of the tuples of a key, each with the names of the key's fields there.
A field that the step computes has none. None: the step may reorder the tuples."""


def _same(node: Any, keys: Names) -> Kept:
    return [(node.source, keys)]


def _computed(node: Each | StateQuery | CommittedQuery, keys: Names) -> Kept:
    return [(node.source, keys.difference(node.outputs.names))]


def _mapped(node: Map, keys: Names) -> Kept:
    return [(node.source, frozenset())]


def _projected(node: Project, keys: Names) -> Kept:
    return [(node.source, _renamed(node, node.names, keys))]


def _merged(node: Merge, keys: Names) -> Kept:
    return [(source, _renamed(node, source.schema.names, keys)) for source in node.sources]


def _part(node: Part, keys: Names) -> Kept:
    within = node.source
    return [(within.source, keys.intersection(within.carried)) if isinstance(within, Split) else (within, keys)]


def _moved(node: Repartition, keys: Names) -> Kept:
    by_key = node.how in (Placing.FIELDS, Placing.CUSTOM) and keys.issuperset(node.names)
    return [(node.source, keys)] if by_key or node.how in _ORDERLY else None


def _aggregated(node: Aggregate, keys: Names) -> Kept:
    # An aggregator may emit the tuples that it received, in their order.
    together = node.scope == "batch" and keys.issuperset(node.group)
    return [(node.source, frozenset(node.group))] if together else None


def _late(node: LateTuples, keys: Names) -> Kept:
    return [(node.source, keys.intersection(node.source.schema.names))]


def _of_state(node: Node, keys: Names) -> Kept:
    """Return the same for the new values of a state, and for the tuples that its update emits."""
    update = node.source if isinstance(node, Emitted) else node
    if type(update) not in STATES:
        return None
    traits = state_traits(update)
    if (alone := traits.alone(update)) is not None and keys.issuperset(alone):
        return []
    brought = traits.in_order(update)
    return None if brought is None else [(source, keys.intersection(brought)) for source in sources_of(update)]


_KEPT: Mapping[type[Node], Callable[[Any, Names], Kept]] = {
    **dict.fromkeys((Filter, Peek, Debug, ParallelismHint), _same),
    **dict.fromkeys((Each, StateQuery, CommittedQuery), _computed),
    **{Map: _mapped, Project: _projected, Merge: _merged, Part: _part, Repartition: _moved},
    **{Aggregate: _aggregated, LateTuples: _late},
}


def _renamed(node: Node, names: Iterable[str], keys: Names) -> Names:
    """Return the names that the fields `keys` of a step have in its source. `names` lists them by position."""
    return frozenset(name for name, now in zip(names, node.schema.names, strict=False) if now in keys)


def replays_before(node: Node) -> SpoutSource | None:
    """Return the source of dead letters that are merged into a step's tuples, after newer changes of their keys."""
    if isinstance(node, SpoutSource):
        return node if isinstance(node.spout, ReplaySpout) else None
    own = type(node) in STATES and state_traits(node).new_values == "own"
    if own or isinstance(node, TableChanges) or _is_changes(node):
        return None  # the values of a state, which are those of the newest batch
    return next(filter(None, map(replays_before, sources_of(node))), None)


_ORDERLY = (Placing.BROADCAST, Placing.GLOBAL, Placing.BATCH_GLOBAL, Placing.IDENTITY)
"""The ways to repartition that keep the tuples of one source partition together."""

_ROW_BY_ROW = (Each, Filter, Map, Merge, ParallelismHint, Part, Peek, Project, Repartition, Split)
"""The steps that leave the changes of each row as they are."""
