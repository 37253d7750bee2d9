"""How many partitions the tuples that leave each step are in.

A *section* is a stretch of steps between two repartitionings: its tuples stay in their partitions. A hint anywhere in
a section holds for all of it, the greatest one where there are several (as in Trident). Without one the engine chooses.
"""

from collections.abc import Iterable, Sequence

from trident.plan.nodes import Node, ParallelismHint, Placing, Repartition, sources_of
from trident.plan.traits import traits_of

Counts = dict[int, int | None]
"""By a node's id; None: the engine's own choice, which is 1 in the driver-side engine."""

_ALONE = (Placing.BROADCAST, Placing.GLOBAL, Placing.BATCH_GLOBAL, Placing.CUSTOM)
"""What goes to one partition, or to each, needs their number: without a hint that is 1."""


def keeps_partitions(node: Node) -> bool:
    """Return whether what leaves this node is in the partitions of what enters it."""
    return traits_of(node).keeps_partitions(node)


def partition_counts(nodes: Sequence[Node], starts: Iterable[int] = ()) -> Counts:
    """The number of partitions of each of these nodes. Nothing below a start (by id) is looked at."""
    first = set(starts)
    section = {id(node): id(node) for node in nodes}

    def root(at: int) -> int:
        while section[at] != at:
            section[at] = section[section[at]]
            at = section[at]
        return at

    for node in nodes:
        if id(node) not in first and keeps_partitions(node):
            for source in sources_of(node):
                section[root(id(source))] = root(id(node))
    found: Counts = {}
    for node in nodes:
        at = root(id(node))
        count = node.count if isinstance(node, ParallelismHint) else None
        if isinstance(node, Repartition) and node.how in _ALONE:
            count = 1
        found[at] = max(count or 0, found.get(at) or 0) or None
    return {id(node): found[root(id(node))] for node in nodes}
