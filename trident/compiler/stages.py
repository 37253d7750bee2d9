"""Cuts a topology into what runs: batch groups, and in each group the stages between state steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from trident.base.types import arrow_schema
from trident.compiler.kernels import work_of
from trident.compiler.program import Group, Output, Program, RequestPlan, Stage
from trident.compiler.shapes import nullable, shape_of
from trident.plan.nodes import (
    Debug,
    Each,
    Filter,
    Map,
    Node,
    Peek,
    PersistentAggregate,
    RequestSource,
    SpoutSource,
    StateQuery,
    Transform,
    sources_of,
    walk,
)

if TYPE_CHECKING:
    from trident.topology import TridentTopology


def cut(topology: "TridentTopology") -> Program:
    """The program of a whole topology."""
    return cut_nodes(topology.sinks, topology.requests)


def cut_nodes(sinks: Iterable[Node], requests: Mapping[str, tuple[RequestSource, Node]]) -> Program:
    """The program of these sinks (leaf nodes, and every PersistentAggregate) and DRPC functions."""
    plans = tuple(_request(function, source, leaf) for function, (source, leaf) in requests.items())
    asked = {id(node) for _, leaf in requests.values() for node in walk(leaf)}
    roots = [sink for sink in sinks if id(sink) not in asked or isinstance(sink, PersistentAggregate)]
    roots += [query.updated for plan in plans for query in plan.queries]
    nodes = walk(*_with_states(roots))
    groups = tuple(sorted((_group(part) for part in _connected(nodes)), key=lambda group: group.name))
    shapes = {node.state.name: shape_of(node) for node in nodes if isinstance(node, PersistentAggregate)}
    return Program(groups, plans, shapes)


def _with_states(roots: Sequence[Node]) -> list[Node]:
    """The roots, and the writers of every state that is read below them."""
    found: dict[int, Node] = {}
    waiting = list(roots)
    while waiting:
        root = waiting.pop(0)
        if id(root) not in found:
            found[id(root)] = root
            waiting += [node.updated for node in walk(root) if isinstance(node, StateQuery)]
    return list(found.values())


# --- batch groups -------------------------------------------------------------------------------------------------


def _connected(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes in parts that share no node, no state and so no txid."""
    parent = {id(node): id(node) for node in nodes}

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    writers: dict[str, int] = {}
    for node in nodes:
        for other in sources_of(node):
            parent[root(id(other))] = root(id(node))
        if isinstance(node, StateQuery):
            parent[root(id(node.updated))] = root(id(node))
        if isinstance(node, PersistentAggregate):
            first = writers.setdefault(node.state.name, id(node))
            parent[root(first)] = root(id(node))
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(root(id(node)), []).append(node)
    return list(parts.values())


def _group(nodes: list[Node]) -> Group:
    spouts = tuple(sorted((n for n in nodes if isinstance(n, SpoutSource)), key=lambda spout: spout.stream))
    return Group(spouts[0].stream, spouts, _stages(nodes))


# --- stages -------------------------------------------------------------------------------------------------------


def _stages(nodes: list[Node]) -> tuple[Stage, ...]:
    """The stages of one group; `nodes` are in walk order, each after those it reads."""
    level: dict[int, int] = {}
    for node in nodes:
        level[id(node)] = max((_leaves(source, level) for source in sources_of(node)), default=1)
    read = {id(source) for node in nodes for source in sources_of(node)}
    names = _output_names(nodes)
    carried = _carried(nodes, level)
    stages = []
    for number in range(1, max(level.values(), default=0) + 1):
        here = [node for node in nodes if level[id(node)] == number]
        ends = [node for node in here if _is_state(node)] + [node for node in here if id(node) in carried]
        outputs = tuple(Output(names[id(node)], node, _entering(node)) for node in ends)
        debugs = tuple(node for node in here if isinstance(node, Debug))
        effects = tuple(node for node in here if id(node) not in read and not _is_state(node) and _acts(node))
        if outputs or debugs or effects:
            stages.append(Stage(number, _inputs(here, level), outputs, debugs, effects))
    return tuple(stages)


def _is_state(node: Node) -> bool:
    return isinstance(node, PersistentAggregate | StateQuery)


def _leaves(node: Node, level: Mapping[int, int]) -> int:
    """The first stage that can read what leaves this node."""
    return level[id(node)] + 1 if _is_state(node) else level[id(node)]


def _carried(nodes: list[Node], level: Mapping[int, int]) -> set[int]:
    """Nodes without state whose tuples a later stage reads: these are frozen beside what enters the states."""
    found = set()
    for node in nodes:
        for source in sources_of(node):
            if not _is_state(source) and level[id(source)] < level[id(node)]:
                found.add(id(source))
    return found


def _inputs(here: list[Node], level: Mapping[int, int]) -> tuple[Node, ...]:
    """What a stage starts from: its spouts, and whatever earlier stages gave that its nodes read."""
    found: dict[int, Node] = {}
    for node in here:
        if isinstance(node, SpoutSource):
            found[id(node)] = node
        for source in sources_of(node):
            if _is_state(source) or level[id(source)] < level[id(node)]:
                found[id(source)] = source
    return tuple(found.values())


def _output_names(nodes: list[Node]) -> dict[int, str]:
    """Names that are unique in a group and stable over restarts: the state's, "<state>?<n>", "<step>|"."""
    names: dict[int, str] = {}
    asked: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, PersistentAggregate):
            names[id(node)] = node.state.name
        elif isinstance(node, StateQuery):
            name = node.updated.state.name
            asked[name] = asked.get(name, 0) + 1
            names[id(node)] = f"{name}?{asked[name]}"
        else:
            names[id(node)] = f"{node.step}|"
    return names


def _entering(node: Node) -> pa.Schema:
    """The schema of the table that a stage makes for this node."""
    if isinstance(node, PersistentAggregate):
        shape = shape_of(node)
        return shape.keys.append(pa.field(node.aggregation.output, shape.value))
    return nullable(arrow_schema(node.source.schema if isinstance(node, StateQuery) else node.schema))


def _acts(leaf: Node) -> bool:
    """Whether running this leaf matters without a result: something below it calls a user's code. Below a Debug that
    is only a peek, because the tuples that it shows are evaluated anyway."""
    nodes = walk(leaf)
    if isinstance(leaf, Debug):
        return any(isinstance(node, Peek) for node in nodes)
    return any(isinstance(node, Transform) or _calls_user(node) for node in nodes)


def _calls_user(node: Node) -> bool:
    return isinstance(node, Each | Filter | Map | Peek) and work_of(node) is not None


# --- requests -----------------------------------------------------------------------------------------------------


def _request(function: str, source: RequestSource, leaf: Node) -> RequestPlan:
    nodes = walk(leaf)
    queries = tuple(node for node in nodes if isinstance(node, StateQuery))
    return RequestPlan(function, source, leaf, queries, all(map(has_python_form, nodes)))


def has_python_form(node: Node) -> bool:
    """Whether this node can run without Spark."""
    match node:
        case Each(function=operation) | Map(function=operation):
            return not operation.call.native
        case Filter(predicate=operation) | Peek(action=operation):
            return not operation.call.native
    return not isinstance(node, Transform)
