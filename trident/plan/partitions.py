"""The number of partitions of the tuples that leave each step.

A *section* is a stretch of steps between two repartitionings: its tuples stay in their partitions. A hint anywhere in
a section holds for all of it. The greatest of several hints counts, as in Trident. Without a hint the engine chooses.
"""

from collections.abc import Iterable, Sequence

from trident.plan.node_sets import NodeSets
from trident.plan.nodes import Node, ParallelismHint, Placing, Repartition, sources_of
from trident.plan.traits import traits_of

Counts = dict[int, int | None]
"""By a node's id. None is the engine's own choice, which is 1 in the Arrow engine."""

_ALONE = (Placing.BROADCAST, Placing.GLOBAL, Placing.BATCH_GLOBAL, Placing.CUSTOM)
"""Rules that send tuples to one partition, or to every one, need to know their number: without a hint it is 1."""


def keeps_partitions(node: Node) -> bool:
    """Return whether the tuples that leave this node are in the partitions of those that enter it."""
    return traits_of(node).keeps_partitions(node)


def partition_counts(nodes: Sequence[Node], starts: Iterable[int] = ()) -> Counts:
    """Return the number of partitions of each of these nodes. Sections do not reach below the ids in `starts`."""
    first = set(starts)
    sections = NodeSets(nodes)
    for node in nodes:
        if id(node) not in first and keeps_partitions(node):
            for source in sources_of(node):
                sections.unite(source, node)
    counts: Counts = {}
    for node in nodes:
        section = sections.root(node)
        count = node.count if isinstance(node, ParallelismHint) else None
        if isinstance(node, Repartition) and node.how in _ALONE:
            count = 1
        counts[section] = max(count or 0, counts.get(section) or 0) or None
    return {id(node): counts[sections.root(node)] for node in nodes}
