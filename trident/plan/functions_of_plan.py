"""The functions and parameters of a plan's steps as text: equal for programs whose steps do the same."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from trident.base.callsite import CallSite
from trident.base.code_digest import code_digest
from trident.plan import nodes
from trident.plan.row_derivation import of_the_library

_NOT_DONE = ("step", "site", "schema", "source", "sources", "state")
"""The fields of nodes that do not affect what the node does to tuples."""


def functions_of(node: nodes.Node) -> list[str]:
    """Return the digest of each user's function of a step, and the parameters of the library's operations."""
    values = [getattr(node, field.name) for field in fields(node) if field.name not in _NOT_DONE]
    return [text for value in values for text in _texts(value)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, nodes.Node | nodes.StateSpec | CallSite):
        return
    if value is None or isinstance(value, str | int | float):
        yield repr(value)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _texts(each)
    elif of_the_library(value) and is_dataclass(value):
        yield type(value).__name__
        for field in fields(value):
            yield from _texts(getattr(value, field.name))
    else:
        yield code_digest(value) or type(value).__name__
