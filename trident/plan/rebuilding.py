"""A copy of a part of a plan, with other spouts and other states."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from trident.plan.nodes import Node, SpoutSource, StateSpec
from trident_spouts.executor import Spout


def rebuilt(
    roots: Iterable[Node], spout_of: Callable[[SpoutSource], Spout], state_of: Callable[[StateSpec], StateSpec]
) -> tuple[Node, ...]:
    """Return copies of nodes and of all that they are built on. Nodes that are shared stay shared."""
    made: dict[int, Node] = {}

    def again(node: Node) -> Node:
        if id(node) not in made:
            changes = {each.name: swapped(getattr(node, each.name)) for each in fields(node)}
            if isinstance(node, SpoutSource):
                changes |= {"spout": spout_of(node), "formerly": None, "anew": False}
            made[id(node)] = replace(node, **changes)
        return made[id(node)]

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
