"""Disjoint sets of nodes (union-find), for the sections of partitions and for the clusters of a picture."""

from collections.abc import Iterable

from trident.plan.nodes import Node


class NodeSets:
    """Disjoint sets of nodes. At first, each node is alone in a set."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._parent = {id(node): id(node) for node in nodes}

    def unite(self, one: Node, other: Node) -> None:
        """Unite the sets of two nodes."""
        self._parent[self.root(one)] = self.root(other)

    def root(self, node: Node) -> int:
        """Return the id of the node that represents the set of `node`."""
        at = id(node)
        while self._parent[at] != at:
            self._parent[at] = self._parent[self._parent[at]]  # halves the path, which keeps long chains fast
            at = self._parent[at]
        return at
