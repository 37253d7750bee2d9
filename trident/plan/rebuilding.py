"""A copy of a part of a plan, with other spouts and other states."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from trident.plan.nodes import Node, SpoutSource, StateSpec


def rebuilt(
    roots: Iterable[Node], source_of: Callable[[SpoutSource], SpoutSource], state_of: Callable[[StateSpec], StateSpec]
) -> tuple[Node, ...]:
    """Return copies of nodes and of all that they are built on. Nodes that are shared stay shared."""
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
