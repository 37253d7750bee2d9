"""The outline of a batch group: each frozen output, described by the graph of steps around it, not by its name.

The steps above an output lead to it; the steps below read it. A batch is frozen with the outline of its program. When a
later run commits the batch, each frozen output goes to the output of the later program that has the same position in
the same graph, even if the order of lines in the program has changed. The user's functions may change in between,
because a common reason for a restart is a fix of a function. If the graph alone cannot distinguish two outputs, the
user must have named their branches.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import TopologyError
from trident.plan.nodes import Merge, Node, Sink, StateSpec, StateStep, StateWriter, sources_of, walk

_NOT_SHAPE = {
    *("step", "site", "function_site", "source", "sources", "onError"),
    *("path", "storage", "partitions", "kafka", "jdbc", "delta", "formerly", "anew", "bootstrap"),
}
"""Fields of nodes that are not part of a node's shape, because they do not change which tuples flow where."""


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
    "state counts". `branch` has the names of the streams above the output, as `newStream` and `name` gave them: they
    distinguish parts that are equal otherwise.
    """

    stage: int
    name: str
    schema: str
    shape: str
    leads: tuple[str, ...]
    above: tuple[int, ...]
    branch: tuple[str, ...]


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

    `stage_of` returns the number of the stage in which a step is run. Raises TopologyError for branches of equal form
    without names.
    """
    nodes = walk(*(step for *_, step in outputs))
    indices, shapes = {id(node): at for at, node in enumerate(nodes)}, shapes_above(nodes, sources_of)
    leads, parts = _below(nodes, stage_of), list[Part]()
    places = dict[tuple[object, ...], Node]()
    for stage, name, schema, step in outputs:
        above, below = walk(step), tuple(sorted(leads[id(step)]))
        branch = tuple(sorted({node.step.partition(":")[0].rpartition("/")[0] for node in above}))
        part = Part(stage, name, _shown(schema), shapes[id(step)], below, tuple(indices[id(n)] for n in above), branch)
        other = places.setdefault((stage, part.schema, part.shape, below, branch), step)
        if other is not step and below:
            raise _alike(other, step, below)
        parts.append(part)
    return Outline(tuple(parts), tuple(Step(_named(node), _shape_text(node)) for node in nodes))


def shapes_above(nodes: Iterable[Node], sources_of: Callable[[Node], Iterable[Node]]) -> dict[int, str]:
    """Return for each node (by id) a digest of the graph of the node and the steps above it.

    Each of the `nodes` is after its sources. The digest has those that `sources_of` returns.
    """
    shapes = dict[int, str]()
    for node in nodes:
        sources = [shapes[id(each)] for each in sources_of(node)]
        if isinstance(node, Merge) and not node.labels:
            sources.sort()  # the order of a merge's streams has no meaning
        shapes[id(node)] = _digest([type(node).__name__, *_shape(node), *sources])
    return shapes


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


# --- the steps below ------------------------------------------------------------------------------------------------


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
    for field in fields(node):
        if field.name not in _NOT_SHAPE and (plain := _plain(getattr(node, field.name))) is not None:
            yield field.name
            yield plain


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


# --- branches of equal form -----------------------------------------------------------------------------------------


def _alike(one: Node, other: Node, leads: Sequence[str]) -> TopologyError:
    """Return the error for two outputs that neither the graph nor the names of their branches distinguish."""
    branches = [[node for node in walk(step) if node not in walk(far)] for step, far in ((one, other), (other, one))]
    first, second = (branch[0] for branch in branches)
    verb = second.step.partition(":")[2]
    return TopologyError(
        f"two branches have equal steps: one from {_named(first)} to {_named(one)}, the other from {_named(second)} to "
        f"{_named(other)}; they lead to {' and '.join(leads)}. After a crash the library could not know which frozen "
        f"tuples belong to which branch. Name each branch before its first step: `.name('first').{verb}` and "
        f"`.name('second').{verb}`, or in a loop `.name(f'branch-{{n}}').{verb}`"
    )


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
