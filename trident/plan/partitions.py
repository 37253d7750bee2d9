"""The number of partitions of each step's output.

A *section* is the run of steps between two repartitionings, within which tuples stay in their partitions. A
parallelismHint anywhere in a section applies to the whole section. If there are several, the greatest counts, as in
Trident. Without a hint the engine chooses.
"""

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from trident.plan.node_sets import NodeSets
from trident.plan.nodes import Debug, Node, ParallelismHint, Placing, Repartition, sources_of
from trident.plan.parallelism_hints import Hints, step_of
from trident.plan.traits import traits_of

Counts = dict[int, int | None]
"""The number of partitions of each node's output, by the node's id. None: the engine chooses (the embedded one: 1)."""

_ALONE = (Placing.BROADCAST, Placing.GLOBAL, Placing.BATCH_GLOBAL, Placing.CUSTOM)
"""The rules that need the number of partitions, because they may send a tuple to any or to all. Without a hint it is
1."""


def keeps_partitions(node: Node) -> bool:
    """Return whether a node's output stays in the partitions of the node's input."""
    return traits_of(node).keeps_partitions(node)


def moves(node: Node) -> bool:
    """Return whether a node outputs each tuple once and unchanged, because it only repartitions or shows tuples."""
    # A user's function may choose several partitions for a tuple.
    moved = isinstance(node, Repartition) and node.how not in (Placing.BROADCAST, Placing.CUSTOM)
    return moved or isinstance(node, ParallelismHint | Debug)


def partition_counts(nodes: Sequence[Node], starts: Iterable[int] = (), hints: Hints = MappingProxyType({})) -> Counts:
    """Return the number of partitions of each node's output. A node with an id in `starts` always begins a section.

    `hints` take the place of the counts that the program gives.
    """
    sections = _sections(nodes, set(starts))
    counts: Counts = {}
    for node in nodes:
        section = sections.root(node)
        count = hints.get(step_of(node), node.count) if isinstance(node, ParallelismHint) else None
        if isinstance(node, Repartition) and node.how in _ALONE:
            count = 1
        counts[section] = max(count or 0, counts.get(section) or 0) or None
    return {id(node): counts[sections.root(node)] for node in nodes}


def hint_of_section(nodes: Sequence[Node], node: Node) -> ParallelismHint | None:
    """Return a hint that applies to the output of `node`, on any of its branches; None if there is none."""
    sections = _sections(nodes, set())
    own = sections.root(node)
    return next((each for each in nodes if isinstance(each, ParallelismHint) and sections.root(each) == own), None)


def _sections(nodes: Sequence[Node], first: set[int]) -> NodeSets:
    """Return the sections of these nodes. A node with an id in `first` begins one."""
    sections = NodeSets(nodes)
    for node in nodes:
        if id(node) not in first and keeps_partitions(node):
            for source in sources_of(node):
                sections.unite(source, node)
    return sections
