"""Cuts a topology into what runs: batch groups, and in each group the stages between state steps."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from trident.base.types import arrow_schema, select
from trident.compiler.program import Group, Output, Program, RequestPlan, Stage
from trident.compiler.states.shapes import nullable, shape_of
from trident.plan.nodes import (
    Debug,
    Emitted,
    LateTuples,
    LettersOf,
    MultiReduce,
    Node,
    Peek,
    RequestSource,
    Sink,
    SpoutSource,
    StateQuery,
    StateUpdate,
    StateWriter,
    StaticState,
    Transform,
    Watermark,
    Window,
    sources_of,
    walk,
)
from trident.plan.topology_plan import TopologyPlan
from trident.plan.traits import has_python_form, operation_of, traits_of


def cut(topology: TopologyPlan) -> Program:
    """The program of a whole topology."""
    return cut_nodes(topology.sinks, topology.requests)


def cut_nodes(sinks: Iterable[Node], requests: Mapping[str, tuple[RequestSource, Node]]) -> Program:
    """The program of these sinks (leaf nodes, and every step that writes a state) and DRPC functions."""
    plans = tuple(_request(function, source, leaf) for function, (source, leaf) in requests.items())
    asked = {id(node) for _, leaf in requests.values() for node in walk(leaf)}
    roots = [sink for sink in sinks if id(sink) not in asked or isinstance(sink, StateWriter)]
    roots += [query.updated for plan in plans for query in plan.queries if isinstance(query.updated, StateWriter)]
    nodes = walk(*_with_states(roots))
    groups = tuple(sorted((_group(part) for part in _connected(nodes)), key=lambda group: group.name))
    shapes = {node.state.name: shape_of(node) for node in nodes if isinstance(node, StateWriter)}
    queries = [*(q for plan in plans for q in plan.queries), *(n for n in nodes if isinstance(n, StateQuery))]
    statics = dict.fromkeys(query.updated for query in queries if isinstance(query.updated, StaticState))
    return Program(groups, plans, shapes, tuple(statics))


def _with_states(roots: Sequence[Node]) -> list[Node]:
    """The roots, and the writers of every state that is read below them."""
    found: dict[int, Node] = {}
    waiting = list(roots)
    while waiting:
        root = waiting.pop(0)
        if id(root) not in found:
            found[id(root)] = root
            waiting += [writer for node in walk(root) for writer in _asked(node)]
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
        if isinstance(node, StateQuery) and isinstance(node.updated, StateWriter):
            parent[root(id(node.updated))] = root(id(node))
        if isinstance(node, StateWriter):
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
        level[id(node)] = _level(node, level)
    read = {id(source) for node in nodes for source in sources_of(node) if not isinstance(node, LettersOf)}
    carried = _carried(nodes, level)
    names = _output_names(nodes, carried)
    stages = []
    for number in range(1, max(level.values(), default=0) + 1):
        mine = [node for node in nodes if level[id(node)] == number]
        here = [node for node in mine if not _of_the_driver(node)]
        ends = [node for node in here if _is_state(node) or isinstance(node, Sink)]
        ends += [node for node in here if id(node) in carried]
        outputs = tuple(_output(names[id(node)], node, carried.get(id(node), [])) for node in ends)
        debugs = tuple(node for node in here if isinstance(node, Debug))
        effects = tuple(node for node in here if id(node) not in read and node not in ends and _acts(node))
        updates = tuple(_output(names[id(n)], n) for n in mine if _of_the_driver(n))
        if outputs or debugs or effects or updates:
            stages.append(Stage(number, _inputs(here, level), outputs, debugs, effects, updates))
    return tuple(stages)


def _level(node: Node, level: Mapping[int, int]) -> int:
    """The stage that a node belongs to: a state update to the one after its tuples', because these are frozen first."""
    if isinstance(node, StateUpdate | LateTuples):
        return level[id(node.source)] + 1
    if isinstance(node, Emitted | LettersOf):
        return level[id(node.source)]
    return max((_leaves(source, level) for source in sources_of(node)), default=1)


def _is_state(node: Node) -> bool:
    """Whether what leaves it is there in the next stage."""
    return isinstance(node, StateWriter | StateQuery | Emitted | LateTuples | LettersOf)


def _of_the_driver(node: Node) -> bool:
    """Whether the driver makes this output, from tables that it has in the commit turn anyway."""
    if isinstance(node, Sink):
        return _is_state(node.source)
    return isinstance(node, StateUpdate | Emitted | LateTuples | LettersOf)


def _asked(node: Node) -> list[Node]:
    """The writers of the states that this node reads."""
    match node:
        case StateQuery(updated=updated) if isinstance(updated, StateWriter):
            return [updated]
        case Window(watermark=watermark) if watermark is not None:
            return [watermark]
        case LateTuples(window=window):
            return [window]
    return []


def _leaves(node: Node, level: Mapping[int, int]) -> int:
    """The first stage that can read what leaves this node."""
    return level[id(node)] + 1 if _is_state(node) else level[id(node)]


def _carried(nodes: list[Node], level: Mapping[int, int]) -> dict[int, list[Node]]:
    """Nodes without state whose tuples a later stage reads, with those readers: these tuples are frozen beside what
    enters the states."""
    found: dict[int, list[Node]] = {}
    for node in nodes:
        for source in sources_of(node):
            if not _is_state(source) and level[id(source)] < level[id(node)]:
                found.setdefault(id(source), []).append(node)
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


def _output_names(nodes: list[Node], carried: Mapping[int, list[Node]]) -> dict[int, str]:
    """Names that are unique in a group and stable over restarts: the state's, "<state>?<n>" for a query, "<state>>" for
    what an updater emits, "<state>>late" for a window's late tuples, "<step>~" for dead letters, "<state>|" for what
    enters an update, "<sink>!" for what enters a sink, "<step>|" for what else is carried."""
    names: dict[int, str] = {}
    asked: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, StateWriter):
            names[id(node)] = node.state.name
        elif isinstance(node, Sink):
            names[id(node)] = f"{node.name}!"
        elif isinstance(node, Emitted):
            names[id(node)] = f"{node.source.state.name}>"
        elif isinstance(node, LateTuples):
            names[id(node)] = f"{node.window.state.name}>late"
        elif isinstance(node, LettersOf):
            names[id(node)] = f"{node.source.step}~"
        elif isinstance(node, StateQuery):
            name = node.updated.state.name
            asked[name] = asked.get(name, 0) + 1
            names[id(node)] = f"{name}?{asked[name]}"
        else:
            update = min((n for n in carried.get(id(node), []) if isinstance(n, StateUpdate)), key=_helps, default=None)
            late = next((n for n in carried.get(id(node), []) if isinstance(n, LateTuples)), None)
            beside = node.step if late is None else f"{late.window.state.name}>late"
            names[id(node)] = f"{beside if update is None else update.state.name}|"
    return names


def _helps(update: StateUpdate) -> bool:
    """Whether this is beside another one: a watermark is beside its window."""
    return isinstance(update, Watermark)


def _output(name: str, node: Node, readers: Sequence[Node] = ()) -> Output:
    """The table that a stage makes for this node, which these nodes of later stages read."""
    if isinstance(node, StateWriter):
        shape = shape_of(node)
        return Output(name, node, shape.keys.append(pa.field(node.schema.names[-1], shape.value)))
    if isinstance(node, StateQuery):
        return Output(name, node, nullable(arrow_schema(node.source.schema)))
    updates = [reader for reader in readers if isinstance(reader, StateUpdate)]
    if not updates or len(updates) < len(readers):
        return Output(name, node, nullable(arrow_schema(node.schema)))
    needed = {field for update in updates for fields in traits_of(update).reads(update, set()) for field in fields}
    kept = [field for field in node.schema.names if field in needed] or node.schema.names[:1]
    schema = nullable(arrow_schema(select(node.schema, kept)))
    return Output(name, node, schema)


def _acts(leaf: Node) -> bool:
    """Whether running this leaf matters without a result: something below it calls a user's code. Below a Debug that
    is only a peek, because the tuples that it shows are evaluated anyway."""
    nodes = walk(leaf)
    if isinstance(leaf, Debug):
        return any(isinstance(node, Peek) for node in nodes)
    return any(map(_calls_user, nodes))


def _calls_user(node: Node) -> bool:
    operation = operation_of(node)
    called = operation is not None and not operation.call.native
    return called or isinstance(node, MultiReduce | Transform)


# --- requests -----------------------------------------------------------------------------------------------------


def _request(function: str, source: RequestSource, leaf: Node) -> RequestPlan:
    nodes = walk(leaf)
    queries = tuple(node for node in nodes if isinstance(node, StateQuery))
    return RequestPlan(function, source, leaf, queries, all(map(has_python_form, nodes)))
