"""The outline of a batch group: each frozen output, described by the graph above and below it, not by its name.

A batch is frozen with the outline of its program. When a later run commits the batch, each frozen output goes to the
output of the later program that has the same place in the same graph, even if the order of lines in the program has
changed. The user's functions may change in between, because to fix a function is a reason to start again. Functions
count only if the graph alone cannot distinguish two outputs (`trident.compiler.code_digest`).
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
    *("path", "storage", "partitions", "kafka", "formerly", "anew"),
}
"""Fields of nodes that are not part of a node's shape, because they do not change which tuples flow where."""

_NOT_CODE = {*_NOT_SHAPE, "spout", "state", "branch"}
"""Fields that are not searched for user functions: no function there computes an output's tuples (`branch` only reads
them)."""

_STORED_NAMES = {("Part", "number"): "place"}
"""Former names of renamed fields, by class and new name. Outlines in the log have the former names. A field's name is
part of the shape: with the new name, a waiting batch would not match the program that froze it."""


class Step(msgspec.Struct, frozen=True):
    """One step above an output, for messages."""

    name: str
    """The step with its site: "s/1:each(f) at wc.py:3"."""
    shape: str
    """The description of the step in the graph: "each (inputs v; outputs struct<x:bigint>)"."""


class Part(msgspec.Struct, frozen=True):
    """One output of one stage.

    `shape` is a digest of the graph above the output. `above` lists the steps of that graph by their indices in
    `Outline.steps`, the output's own step last. `leads` names the states and outputs below the output, such as
    "state counts".

    Twins are parts of one stage with the same shape and the same fields. `traits` are digests of the user's functions
    in the steps above, by "<index in above>:<field>:<trait>": only those in which twins differ, so a part without twins
    has none. `text` is a digest of the program's source text. A part has it if its traits do not distinguish it from
    every twin and one of the traits is partly unknown: only an unchanged program is known to have such twins in the
    same order.
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
        """Return the outline as text for the log."""
        return msgspec.json.encode((self.parts, self.steps)).decode()

    @staticmethod
    def decode(text: str) -> "Outline":
        """Return the outline of a text that `encode` returned."""
        return Outline(*msgspec.json.decode(text, type=tuple[tuple[Part, ...], tuple[Step, ...]]))

    def above(self, part: Part) -> tuple[Step, ...]:
        """Return the steps above a part. The part's own step is the last one."""
        return tuple(self.steps[at] for at in part.above)


def outline_of(outputs: Sequence[tuple[int, str, pa.Schema, Node]], stage_of: Callable[[Node], int]) -> Outline:
    """Return the outline of a group. `outputs` are the frozen outputs: stage number, name, schema and step.

    `stage_of` returns the number of the stage in which a step is run.
    """
    nodes = walk(*(step for *_, step in outputs))
    indices, shapes = {id(node): at for at, node in enumerate(nodes)}, dict[int, str]()
    for node in nodes:
        sources = [shapes[id(each)] for each in sources_of(node)]
        if isinstance(node, Merge) and not node.labels:
            sources.sort()  # the order of a merge's streams has no meaning
        shapes[id(node)] = _digest([type(node).__name__, *_shape(node), *sources])
    leads, twins = _below(nodes, stage_of), defaultdict[tuple[int, str, str], list[Node]](list)
    for stage, _, schema, step in outputs:
        twins[stage, _shown(schema), shapes[id(step)]].append(step)
    differences = {at: pair for steps in twins.values() for at, pair in _differences(steps).items()}
    parts = []
    for stage, name, schema, step in outputs:
        below, above = tuple(sorted(leads[id(step)])), tuple(indices[id(node)] for node in walk(step))
        parts.append(Part(stage, name, _shown(schema), shapes[id(step)], below, above, *differences[id(step)]))
    return Outline(tuple(parts), tuple(Step(_named(node), _shape_text(node)) for node in nodes))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


# --- what lies below ------------------------------------------------------------------------------------------------


def _below(nodes: Sequence[Node], stage_of: Callable[[Node], int]) -> Mapping[int, set[str]]:
    """Return for each node (by id) the states and outputs below it, including the node's own.

    `nodes` are in walk order: each after its sources. For a carried node only those below its readers in later stages
    count, because in the stage of the step nodes read the step itself and not the frozen table.
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
    """Yield the description of a node in the graph: each field's name, then its value as JSON, without functions."""
    for name, value in _stored_fields(node, _NOT_SHAPE):
        if (plain := _plain(value)) is not None:
            yield name
            yield plain


def _stored_fields(value: Any, without: Container[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node, or of an object in it: the name that outlines in the log have, and the value."""
    for field in fields(value):
        if field.name not in without:
            yield _STORED_NAMES.get((type(value).__name__, field.name), field.name), getattr(value, field.name)


def _plain(value: Any) -> Any:
    """Return a value as JSON; None for a function and for None."""
    match value:
        case bool() | int() | str():
            return value
        case Enum():
            return value.name
        case StructType():
            return value.simpleString()
        case StateSpec():
            return value.name
        case Node():  # the state step that a query reads, or the window of late tuples: the name of its state
            return _plain(getattr(value, "state", None))
        case tuple():
            return [_plain(each) for each in value]
    return None


def _shape_text(node: Node) -> str:
    """Return a node's shape in words, without its output fields."""
    shape = list(_shape(node))
    described = [
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in zip(shape[::2], shape[1::2], strict=True)
        if name != "schema" and value not in ([], "")
    ]
    verb = node.step.partition(":")[2].partition("(")[0] or "stream"
    return f"{verb} ({'; '.join(described)})" if described else verb


def _named(node: Node) -> str:
    return f"{node.step} at {node.site.location}" if node.site.file else node.step


# --- what tells twins apart -----------------------------------------------------------------------------------------

_TRAITS: WeakKeyDictionary[Node, dict[str, str]] = WeakKeyDictionary()
"""The traits of the functions in each step at the first start of the topology, because a run may change attributes."""


def _differences(twins: Sequence[Node]) -> Mapping[int, tuple[dict[str, str], str]]:
    """Return the `traits` and the `text` of each twin, as `Part` defines them, by the id of the twin's step."""
    if len(twins) == 1:
        return {id(twins[0]): ({}, "")}
    above = {id(step): _traits_above(step) for step in twins}
    keys = sorted({key for traits_of in above.values() for key in traits_of})
    keys = [key for key in keys if len({traits_of.get(key) for traits_of in above.values()}) > 1]
    differing = {at: {key: traits_of[key] for key in keys if key in traits_of} for at, traits_of in above.items()}
    alike = [at for at in differing if sum(differing[at] == other for other in differing.values()) > 1]
    unknown = [at for at in alike if any(value.endswith("?") for value in above[at].values())]
    text = _text(twins) if unknown else ""
    return {at: (differing[at], text if at in unknown else "") for at in differing}


def _traits_above(step: Node) -> dict[str, str]:
    above: dict[str, str] = {}
    for at, node in enumerate(walk(step)):
        if node not in _TRAITS:
            _TRAITS[node] = dict(_code(node, ""))
        above |= {f"{at}:{key}": value for key, value in _TRAITS[node].items()}
    return above


def _code(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the traits of the user's functions within a step: "<field>:<trait>", and the digest."""
    if value is None or isinstance(value, CallSite) or (name and isinstance(value, Node)):
        return
    if is_dataclass(value) and type(value).__module__.startswith("trident."):
        for field, held in _stored_fields(value, _NOT_CODE):
            yield from _code(held, f"{name}.{field}" if name else field)
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from _code(each, f"{name}.{at}")
    else:
        yield from ((f"{name}:{trait}", digest) for trait, digest in traits(value))


def _text(twins: Sequence[Node]) -> str:
    """Return a digest of the source files or notebook cells in which the twins and the steps above them are written."""
    files = sorted({node.site.file for node in walk(*twins)})
    linecache.checkcache()
    return _digest([linecache.getlines(file) for file in files])


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
