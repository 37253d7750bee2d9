"""The outline of a batch group: what each frozen output is, by the graph above and below it and not by its name.

A batch is frozen with the outline of its program. When it is committed by a later run, each of its outputs is handed to
the output of that program which is the same part of the same graph, however lines were swapped meanwhile. What the
functions of a user do may change in between: a mended function is why one starts again. Only where the graph alone
cannot tell two outputs apart, the functions above them do (`trident.compiler.code_digest`).
"""

import hashlib
import json
import linecache
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.compiler.code_digest import traits
from trident.plan.nodes import Merge, Node, Sink, StateSpec, StateStep, StateWriter, sources_of, walk

_NOT_SHAPE = {
    *("step", "site", "function_site", "source", "sources", "onError"),
    *("path", "partitions", "formerly", "anew"),
}
"""Fields of nodes that say nothing of which tuples flow where."""

_NOT_CODE = {*_NOT_SHAPE, "spout", "state", "branch"}
"""Fields that hold no function of the tuples above an output; `branch` is below one."""

_STORED_NAMES = {("Part", "number"): "place"}
"""The names that outlines have in the log for fields of nodes that the code has renamed: class and field.

A name is part of the shape. Under another one, a batch that waits would not fit the program that froze it.
"""


class Step(msgspec.Struct, frozen=True):
    """One step above an output, for messages. `name`: with its place ("s/1:each(f) at wc.py:3"). `shape`: what of it
    is part of the graph ("each (inputs v; outputs struct<x:bigint>)")."""

    name: str
    shape: str


class Part(msgspec.Struct, frozen=True):
    """One output of one stage.

    `shape` tells the graph above it, `above` names the steps of that graph (by their places in `Outline.steps`, its own
    step last), `leads` the states and outputs below it ("state counts", "output letters").

    `traits` are empty where no other part of the stage has this shape and these fields. Else they are digests of what
    users gave the steps above, by "<place in above>:<field>:<trait>", as far as such twins differ in them. `text` is
    empty where these tell it from all of its twins, or where nothing of them is unknown. Else it is a digest of the
    program's source text: only an unchanged program is known to have such twins in the same order.
    """

    stage: int
    name: str
    schema: str
    shape: str
    leads: tuple[str, ...]
    above: tuple[int, ...]
    traits: dict[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a group, in stage order, and the steps above them."""

    parts: tuple[Part, ...]
    steps: tuple[Step, ...]

    def encode(self) -> str:
        """Return it as text for the log."""
        return msgspec.json.encode((self.parts, self.steps)).decode()

    @staticmethod
    def decode(text: str) -> "Outline":
        """Return what `encode` wrote."""
        return Outline(*msgspec.json.decode(text, type=tuple[tuple[Part, ...], tuple[Step, ...]]))

    def above(self, part: Part) -> tuple[Step, ...]:
        """Return the steps above a part, its own last."""
        return tuple(self.steps[at] for at in part.above)


def outline_of(outputs: Sequence[tuple[int, str, pa.Schema, Node]], stage_of: Callable[[Node], int]) -> Outline:
    """Return the outline of a group whose stages freeze these outputs: stage, name, schema and step of each.

    `stage_of` tells in which stage a step is run.
    """
    nodes = walk(*(step for *_, step in outputs))
    places, shapes = {id(node): at for at, node in enumerate(nodes)}, dict[int, str]()
    for node in nodes:
        sources = [shapes[id(each)] for each in sources_of(node)]
        if isinstance(node, Merge) and not node.labels:
            sources.sort()  # in whatever order they are merged
        shapes[id(node)] = _digest([type(node).__name__, *_shape(node), *sources])
    leads, twins = _leads(nodes, stage_of), defaultdict[tuple[int, str, str], list[Node]](list)
    for stage, _, schema, step in outputs:
        twins[stage, _shown(schema), shapes[id(step)]].append(step)
    told = {at: found for steps in twins.values() for at, found in _told_apart(steps).items()}
    parts = []
    for stage, name, schema, step in outputs:
        below, above = tuple(sorted(leads[id(step)])), tuple(places[id(node)] for node in walk(step))
        parts.append(Part(stage, name, _shown(schema), shapes[id(step)], below, above, *told[id(step)]))
    return Outline(tuple(parts), tuple(Step(_named(node), _shape_text(node)) for node in nodes))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


# --- what lies below ------------------------------------------------------------------------------------------------


def _leads(nodes: Sequence[Node], stage_of: Callable[[Node], int]) -> Mapping[int, set[str]]:
    """Return the states and outputs below each node, itself included; `nodes` are in walk order.

    A table that is carried to a later stage leads only to what reads it there: in the stage that made it, the step
    itself is read and not the table.
    """
    below: dict[int, set[str]] = {id(node): set() for node in nodes}
    later: dict[int, set[str]] = {id(node): set() for node in nodes}
    for node in reversed(nodes):
        if isinstance(node, StateWriter):
            below[id(node)].add(f"state {node.state.name}")
        elif isinstance(node, Sink):
            below[id(node)].add(f"output {node.name}")
        for source in sources_of(node):
            below[id(source)] |= below[id(node)]
            if stage_of(node) > stage_of(source):
                later[id(source)] |= below[id(node)]
    return {id(node): below[id(node)] if isinstance(node, StateStep | Sink) else later[id(node)] for node in nodes}


# --- the shape above ------------------------------------------------------------------------------------------------


def _shape(node: Node) -> Iterator[Any]:
    """Yield what tells a node's place in its graph: names, fields and numbers, and no function."""
    for name, value in _stored_fields(node, _NOT_SHAPE):
        if (plain := _plain(value)) is not None:
            yield name
            yield plain


def _stored_fields(value: Any, without: Container[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node, or of what it holds, by the names under which outlines are stored."""
    for field in fields(value):
        if field.name not in without:
            yield _STORED_NAMES.get((type(value).__name__, field.name), field.name), getattr(value, field.name)


def _plain(value: Any) -> Any:
    """Return a value as JSON, or None for one that is a function or nothing."""
    match value:
        case bool() | int() | str():
            return value
        case Enum():
            return value.name
        case StructType():
            return value.simpleString()
        case StateSpec():
            return value.name
        case Node():  # a state that is asked, or a window whose late tuples these are
            return _plain(getattr(value, "state", None))
        case tuple():
            return [_plain(each) for each in value]
    return None


def _shape_text(node: Node) -> str:
    """Return the shape in words, without the fields that leave."""
    shape = list(_shape(node))
    told = [
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in zip(shape[::2], shape[1::2], strict=True)
        if name != "schema" and value not in ([], "")
    ]
    verb = node.step.partition(":")[2].partition("(")[0] or "stream"
    return f"{verb} ({'; '.join(told)})" if told else verb


def _named(node: Node) -> str:
    return f"{node.step} at {node.site.location}" if node.site.file else node.step


# --- what tells twins apart -----------------------------------------------------------------------------------------

_TRAITS: WeakKeyDictionary[Node, dict[str, str]] = WeakKeyDictionary()
"""By step, as its functions were at the topology's first start: a run may change an object's attributes."""


def _told_apart(twins: Sequence[Node]) -> Mapping[int, tuple[dict[str, str], str]]:
    """Return by id, for outputs of one stage, shape and schema: the traits in which they differ, and the text."""
    if len(twins) == 1:
        return {id(twins[0]): ({}, "")}
    above = {id(step): _traits_above(step) for step in twins}
    keys = sorted({key for traits_of in above.values() for key in traits_of})
    keys = [key for key in keys if len({traits_of.get(key) for traits_of in above.values()}) > 1]
    told = {at: {key: traits_of[key] for key in keys if key in traits_of} for at, traits_of in above.items()}
    alike = [at for at in told if sum(told[at] == other for other in told.values()) > 1]
    unknown = [at for at in alike if any(value.endswith("?") for value in above[at].values())]
    text = _text(twins) if unknown else ""
    return {at: (told[at], text if at in unknown else "") for at in told}


def _traits_above(step: Node) -> dict[str, str]:
    above: dict[str, str] = {}
    for at, node in enumerate(walk(step)):
        if node not in _TRAITS:
            _TRAITS[node] = dict(_code(node, ""))
        above |= {f"{at}:{key}": value for key, value in _TRAITS[node].items()}
    return above


def _code(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield what is known of the user's functions within a step, each under a name."""
    if value is None or isinstance(value, CallSite) or (name and isinstance(value, Node)):
        return
    if is_dataclass(value) and type(value).__module__.startswith("trident."):
        for field, held in _stored_fields(value, _NOT_CODE):
            yield from _code(held, f"{name}.{field}" if name else field)
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from _code(each, f"{name}.{at}")
    else:
        yield from ((f"{name}:{trait}", found) for trait, found in traits(value))


def _text(twins: Sequence[Node]) -> str:
    """Return a digest of the files, or cells, that the steps above these are written in."""
    files = sorted({node.site.file for node in walk(*twins)})
    linecache.checkcache()
    return _digest([linecache.getlines(file) for file in files])


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
