"""A copy of a part of a plan, with other spouts and other states."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from trident.plan.nodes import Node, RequestSource, SpoutSource, StateSpec, walk
from trident.plan.topology_protocol import TopologyPlan


def rebuilt(
    roots: Iterable[Node], source_of: Callable[[SpoutSource], SpoutSource], state_of: Callable[[StateSpec], StateSpec]
) -> tuple[Node, ...]:
    """Return copies of nodes and of all nodes that they are built on. Shared nodes stay shared."""
    made: dict[int, Node] = {}

    def again(node: Node) -> Node:
        if id(node) not in made:
            made[id(node)] = source_of(node) if isinstance(node, SpoutSource) else copied(node)
        return made[id(node)]

    def copied(node: Node) -> Node:
        return replace(node, **{each.name: swapped(getattr(node, each.name)) for each in fields(node)})

    def swapped(value: Any) -> Any:
        match value:
            case Node():
                return again(value)
            case StateSpec():
                return state_of(value)
            case tuple() if value and all(isinstance(each, Node) for each in value):
                return tuple(map(again, value))
        return value

    return tuple(map(again, roots))


@dataclass(frozen=True)
class PlanOfCopies:
    """A plan of copies of a topology's steps, all or some. Texts and pictures are those of the topology."""

    topology: TopologyPlan
    sinks: tuple[Node, ...]
    requests: Mapping[str, tuple[RequestSource, Node]] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, each after the nodes that it reads."""
        return tuple(walk(*self.sinks, *(leaf for _, leaf in self.requests.values())))

    def explain(self, *arguments: Any, **options: Any) -> None:
        """Print the steps as the topology does."""
        self.topology.explain(*arguments, **options)

    def draw(self, format: str = "svg") -> str:
        """Return the picture of the topology."""
        return self.topology.draw(format)
