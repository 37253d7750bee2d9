"""The outline of a batch group: what each frozen output is, by the graph above and below it and not by its name.

A batch is frozen with the outline of its program. When it is committed by a later run, each of its outputs is handed to
the output of that program which is the same part of the same graph, however lines were swapped meanwhile. What the
functions of a user do may change in between: a mended function is why one starts again.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from types import CodeType
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from trident.plan.nodes import Node, Sink, StateSpec, StateWriter, sources_of, walk

_NOT_SHAPE = {
    *("step", "site", "function_site", "source", "sources", "onError"),
    *("path", "partitions", "formerly", "anew"),
}
"""Fields of nodes that say nothing of which tuples flow where."""


class Part(msgspec.Struct, frozen=True):
    """One output of one stage.

    `shape` tells the graph above it, `code` the functions in that graph, `leads` the states and outputs below it
    ("state counts", "output letters").
    """

    stage: int
    name: str
    schema: str
    shape: str
    code: str
    leads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a group, in stage order."""

    parts: tuple[Part, ...]

    def encode(self) -> str:
        """Return it as text for the log."""
        return msgspec.json.encode(self.parts).decode()

    @staticmethod
    def decode(text: str) -> "Outline":
        """Return what `encode` wrote."""
        return Outline(tuple(msgspec.json.decode(text, type=list[Part])))


def outline_of(outputs: Sequence[tuple[int, str, pa.Schema, Node]]) -> Outline:
    """Return the outline of a group whose stages freeze these outputs: stage, name, schema and step of each."""
    nodes = walk(*(step for *_, step in outputs))
    shapes, codes, leads = dict[int, str](), dict[int, str](), _leads(nodes)
    for node in nodes:
        above = sources_of(node)
        shapes[id(node)] = _digest([type(node).__name__, *_shape(node), *(shapes[id(each)] for each in above)])
        codes[id(node)] = _digest([*_code(node), *(codes[id(each)] for each in above)])
    return Outline(
        tuple(
            Part(stage, name, _shown(schema), shapes[id(step)], codes[id(step)], tuple(sorted(leads[id(step)])))
            for stage, name, schema, step in outputs
        )
    )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _leads(nodes: Sequence[Node]) -> Mapping[int, set[str]]:
    """Return the states and outputs below each node, itself included; `nodes` are in walk order."""
    found: dict[int, set[str]] = {id(node): set() for node in nodes}
    for node in reversed(nodes):
        if isinstance(node, StateWriter):
            found[id(node)].add(f"state {node.state.name}")
        elif isinstance(node, Sink):
            found[id(node)].add(f"output {node.name}")
        for source in sources_of(node):
            found[id(source)] |= found[id(node)]
    return found


def _shape(node: Node) -> Iterator[Any]:
    """Yield what tells a node's place in its graph: names, fields and numbers, and no function."""
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name not in _NOT_SHAPE and (plain := _plain(value)) is not None:
            yield field.name
            yield plain


def _plain(value: Any) -> Any:
    """Return a value as JSON, or None for one that is a function, a node or nothing."""
    match value:
        case bool() | int() | str():
            return value
        case Enum():
            return value.name
        case StructType():
            return value.simpleString()
        case StateSpec():
            return value.name
        case tuple():
            return [_plain(each) for each in value]
    return None


def _code(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield what tells the user's functions within a value: their names and their bytecode."""
    if isinstance(value, CodeType):
        yield value.co_code.hex()
        yield from (repr(const) for const in value.co_consts if isinstance(const, str | int | float))
        for const in value.co_consts:
            yield from _code(const, depth)
    elif (code := getattr(value, "__code__", None)) is not None:
        yield value.__qualname__
        yield from _code(code, depth)
    elif hasattr(value, "__dataclass_fields__") and depth < 4:
        for field in fields(value):
            inner = getattr(value, field.name)
            if not isinstance(inner, Node) and field.name not in _NOT_SHAPE:
                yield from _code(inner, depth + 1)
    elif isinstance(value, tuple):
        for each in value:
            yield from _code(each, depth)
    elif value is not None and not isinstance(value, str | int | float | Enum | StructType):
        yield type(value).__qualname__


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
