"""Cuts a topology into batch groups, and each group into stages between its state steps."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from trident.base.spark_types import arrow_schema, select
from trident.compiler.program import Group, Output, Program, RequestPlan, Stage
from trident.compiler.states.shapes import nullable, shape_of
from trident.plan.debugged_steps import DebugSteps, shown_steps
from trident.plan.node_sets import NodeSets
from trident.plan.nodes import (
    SIDES,
    Debug,
    Derived,
    LateTuples,
    LettersOf,
    MultiReduce,
    Node,
    Peek,
    RequestSource,
    Sink,
    SpoutSource,
    StateQuery,
    StateReader,
    StateUpdate,
    StateWriter,
    StaticState,
    TableChanges,
    Transform,
    Watermark,
    asked_by,
    sources_of,
    walk,
    watermarks_of,
)
from trident.plan.state_schema import value_of
from trident.plan.topology_protocol import TopologyPlan
from trident.plan.traits import has_python_form, operation_of, traits_of


def cut(topology: TopologyPlan, shown: DebugSteps = False) -> Program:
    """Return the program of a whole topology. `shown` names the steps whose tuples are shown."""
    return cut_nodes([*topology.sinks, *shown_steps(shown, topology.nodes)], topology.requests)


def cut_nodes(sinks: Iterable[Node], requests: Mapping[str, tuple[RequestSource, Node]]) -> Program:
    """Return the program of a plan and its DRPC functions, `requests`.

    `sinks` are the ends of the plan: its leaf nodes, and all steps that write a state.
    """
    plans = tuple(_request(function, source, leaf) for function, (source, leaf) in requests.items())
    nodes = walk(*_with_writers(_roots(sinks, plans)))
    groups = tuple(sorted((_group(component) for component in _components(nodes)), key=lambda group: group.name))
    shapes = {node.state.name: shape_of(node) for node in nodes if isinstance(node, StateWriter)}
    return Program(groups, plans, shapes, _statics(nodes, plans))


def _roots(sinks: Iterable[Node], plans: Sequence[RequestPlan]) -> list[Node]:
    """Return the ends of the plan that batches reach, and the writers of the states that DRPC functions query."""
    of_requests = {id(node) for plan in plans for node in walk(plan.leaf)}
    queried = (query.updated for plan in plans for query in plan.queries)
    ends = [sink for sink in sinks if id(sink) not in of_requests or isinstance(sink, StateWriter)]
    return ends + [node for node in queried if isinstance(node, StateWriter)]


def _statics(nodes: Sequence[Node], plans: Sequence[RequestPlan]) -> tuple[StaticState, ...]:
    """Return the states that are queried and that no step of the topology writes."""
    readers = [node for node in nodes if isinstance(node, StateReader)]
    queried = [query.updated for query in (*(query for plan in plans for query in plan.queries), *readers)]
    return tuple(dict.fromkeys(state for state in queried if isinstance(state, StaticState)))


def _with_writers(roots: Sequence[Node]) -> list[Node]:
    """Return the roots, and every step that writes a state which a root, or another such step, reads."""
    complete: dict[int, Node] = {}
    waiting = list(roots)
    while waiting:
        root = waiting.pop(0)
        if id(root) not in complete:
            complete[id(root)] = root
            waiting += [writer for node in walk(root) for writer in _writers_read(node)]
    return list(complete.values())


# --- batch groups -------------------------------------------------------------------------------------------------


def _components(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes of each batch group. A source, a query or a common state connects nodes in one group."""
    sets = NodeSets(nodes)
    for one, other in _connections(nodes):
        sets.unite(one, other)
    components: dict[int, list[Node]] = {}
    for node in nodes:
        components.setdefault(sets.root(node), []).append(node)
    return list(components.values())


def _connections(nodes: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of nodes that share batches. The second node of a pair is the step that connects them.

    `nodes` are in walk order. All pairs of sources come before all pairs of queries, so that both nodes of a query are
    already in one set with their spouts.
    """
    for node in nodes:
        yield from ((source, node) for source in sources_of(node))
    writers: dict[str, Node] = {}
    for node in nodes:
        if isinstance(node, StateWriter):
            yield writers.setdefault(node.state.name, node), node
    yield from ((n.updated, n) for n in nodes if isinstance(n, StateQuery) and isinstance(n.updated, StateWriter))


def _links(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the steps of a group that connect streams which no earlier step connected."""
    sets, links = NodeSets(nodes), dict[int, Node]()
    spouts = [node for node in nodes if isinstance(node, SpoutSource)]
    for one, other in _connections(nodes):
        roots = {sets.root(one), sets.root(other)}
        if len(roots & {sets.root(spout) for spout in spouts}) == 2:
            links[id(other)] = other
        sets.unite(one, other)
    return tuple(links.values())


def _group(nodes: list[Node]) -> Group:
    spouts = tuple(sorted((n for n in nodes if isinstance(n, SpoutSource)), key=lambda spout: spout.stream))
    return Group(spouts[0].stream, spouts, _stages(nodes), _links(nodes) if len(spouts) > 1 else ())


# --- stages -------------------------------------------------------------------------------------------------------


def _stages(nodes: list[Node]) -> tuple[Stage, ...]:
    """Return the stages of one group. `nodes` are in walk order: each after its sources."""
    level: dict[int, int] = {}
    for node in nodes:
        level[id(node)] = _level(node, level)
    # A LettersOf does not read the tuples that leave its source: a step that nothing else reads is still a leaf, and
    # runs for its effect.
    read = {id(source) for node in nodes for source in sources_of(node) if not isinstance(node, LettersOf)}
    carried = _carried(nodes, level)
    cut = _Cut(level, read, carried, _output_names(nodes, carried))
    stages = [cut.stage(number, nodes) for number in range(1, max(level.values(), default=0) + 1)]
    return tuple(stage for stage in stages if stage is not None)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The facts by which a group is cut into stages, by the ids of nodes. `level` is the stage of each node."""

    level: Mapping[int, int]
    read: Container[int]
    carried: Mapping[int, list[Node]]
    names: Mapping[int, str]

    def stage(self, number: int, nodes: Sequence[Node]) -> Stage | None:
        """Return the stage of this number; None if it has nothing to do."""
        of_stage = [node for node in nodes if self.level[id(node)] == number]
        by_engine = [node for node in of_stage if not _made_by_driver(node)]
        ends = _ends(by_engine, self.carried)
        outputs = tuple(self._output(node, self.carried.get(id(node), [])) for node in ends)
        debugs = tuple(node for node in by_engine if isinstance(node, Debug))
        effects = _effects(by_engine, self.read, ends)
        updates = tuple(self._output(node) for node in of_stage if _made_by_driver(node))
        stage = Stage(number, _inputs(by_engine, self.level), outputs, debugs, effects, updates)
        return stage if stage.runs or updates else None

    def _output(self, node: Node, readers: Sequence[Node] = ()) -> Output:
        return _output(self.names[id(node)], node, readers)


def _ends(nodes: list[Node], carried: Container[int]) -> list[Node]:
    """Return the nodes of a stage with frozen tuples: those that end the stage, then those that are carried on."""
    ends = [node for node in nodes if _ends_stage(node) or isinstance(node, Sink)]
    return ends + [node for node in nodes if id(node) in carried]


def _effects(nodes: list[Node], read: Container[int], ends: Container[Node]) -> tuple[Node, ...]:
    """Return the leaves of a stage that run only for their effect."""
    return tuple(node for node in nodes if id(node) not in read and node not in ends and _has_effect(node))


def _level(node: Node, level: Mapping[int, int]) -> int:
    """Return the number of the stage to which a node belongs.

    A state update belongs to the stage after the one that makes its tuples, because the tuples are frozen first. So
    does a query of committed values, whose answers the driver computes, like an update, and freezes.
    """
    if isinstance(node, StateUpdate | Derived):
        beside_source = isinstance(node, Derived) and not node.after_source
        return max(level[id(source)] for source in sources_of(node)) + (0 if beside_source else 1)
    return max((_level_behind(source, level) for source in sources_of(node)), default=1)


def _level_behind(node: Node, level: Mapping[int, int]) -> int:
    """Return the number of the first stage that can read this node's output."""
    return level[id(node)] + 1 if _ends_stage(node) else level[id(node)]


def _ends_stage(node: Node) -> bool:
    """Return whether only a later stage can read this node's output."""
    return isinstance(node, StateWriter | StateReader | Derived)


def _made_by_driver(node: Node) -> bool:
    """Return whether the driver computes this node's output, from tables that it has in the commit turn anyway."""
    if isinstance(node, Sink):
        return _ends_stage(node.source)
    return isinstance(node, StateUpdate | Derived)


def _writers_read(node: Node) -> list[Node]:
    """Return the writers of the states that this node reads."""
    if asked := asked_by(node):
        return [state for state in asked if isinstance(state, StateWriter)]
    return [node.window] if isinstance(node, LateTuples) else list(watermarks_of(node))


def _carried(nodes: list[Node], level: Mapping[int, int]) -> dict[int, list[Node]]:
    """Return for each carried node (by id) the nodes of later stages that read it.

    A carried node does not end its stage, but later stages read its tuples, which are therefore frozen, too.
    """
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for source in sources_of(node):
            if not _ends_stage(source) and level[id(source)] < level[id(node)]:
                readers.setdefault(id(source), []).append(node)
    return readers


def _inputs(nodes: list[Node], level: Mapping[int, int]) -> tuple[Node, ...]:
    """Return the nodes from which a stage starts: its spouts, and the steps of earlier stages that its `nodes` read."""
    inputs: dict[int, Node] = {}
    for node in nodes:
        if isinstance(node, SpoutSource):
            inputs[id(node)] = node
        for source in sources_of(node):
            if _ends_stage(source) or level[id(source)] < level[id(node)]:
                inputs[id(source)] = source
    return tuple(inputs.values())


def _output_names(nodes: list[Node], carried: Mapping[int, list[Node]]) -> dict[int, str]:
    """Return for each node (by id) the name of its output. It is unique in the group, and the same after restarts.

    - "<state>": the values that a step writes into its state
    - "<state>?<n>": the tuples that enter the n-th query of a state
    - "<state>?<n>=": the tuples with the answers of the n-th query of a state, if it asks for committed values
    - "<state>>": the tuples that an updater or a window emits
    - "<state>>late": the late tuples of a window; "<state>.left>late", "<state>.right>late": of the streams of a join
    - "<state>>changes": the changes of a state; "<state>>join<n>": those of the n-th join of the state with another
    - "<state>>entries": the changes of a state, in which a value that is presented as null is a row
    - "<step>~": dead letters of a step
    - "<sink>!": the tuples that enter a sink
    - "<state>|": tuples carried to the update of a state; "<state>.left|", "<state>.right|": to a join of two streams
    - "<state>>late|": tuples carried to the search for a window's late tuples
    - "<step>|": the step's tuples, carried to any other node

    Logs hold these names: a change of their form needs a migration.
    """
    names: dict[int, str] = {}
    queries: dict[str, int] = {}
    joins: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, StateWriter):
            names[id(node)] = node.state.name
        elif isinstance(node, Sink):
            names[id(node)] = f"{node.name}!"
        elif isinstance(node, StateReader):
            name = node.updated.state.name
            queries[name] = queries.get(name, 0) + 1
            names[id(node)] = f"{name}?{queries[name]}{node.ending if isinstance(node, Derived) else ''}"
        elif isinstance(node, TableChanges) and node.other is not None:
            joins[node.origin] = joins.get(node.origin, 0) + 1
            names[id(node)] = f"{node.origin}>join{joins[node.origin]}"
        elif isinstance(node, TableChanges) and node.entries:
            names[id(node)] = f"{node.origin}>entries"
        elif isinstance(node, Derived):
            names[id(node)] = f"{node.origin}{node.ending}"
        else:
            names[id(node)] = f"{_carried_to(node, carried.get(id(node), []))}|"
    return names


def _carried_to(node: Node, readers: Sequence[Node]) -> str:
    """Return the name of a carried node's output: from an updated state, a window's late tuples, or the node's step."""
    updates = [reader for reader in readers if isinstance(reader, StateUpdate)]
    join = next((reader for reader in updates if len(sources_of(reader)) > 1), None)
    if join is not None:
        return f"{join.state.name}.{SIDES[sources_of(join).index(node)]}"
    if updates:  # the window comes before its watermark: both read the same tuples
        return min(updates, key=lambda update: isinstance(update, Watermark)).state.name
    late = next((reader for reader in readers if isinstance(reader, LateTuples)), None)
    return node.step if late is None else f"{late.origin}{late.ending}"


def _output(name: str, node: Node, readers: Sequence[Node]) -> Output:
    """Return the output that a stage has for a node. `readers` are the nodes of later stages that read the output."""
    if isinstance(node, StateWriter):
        shape = shape_of(node)
        return Output(name, node, shape.keys.append(pa.field(value_of(node).name, shape.value)))
    if isinstance(node, StateQuery):
        return Output(name, node, nullable(arrow_schema(node.source.schema)))
    updates = [reader for reader in readers if isinstance(reader, StateUpdate)]
    if not updates or len(updates) < len(readers):
        return Output(name, node, nullable(arrow_schema(node.schema)))
    needed = {field for update in updates for fields in traits_of(update).reads(update, set()) for field in fields}
    kept = [field for field in node.schema.names if field in needed] or node.schema.names[:1]
    return Output(name, node, nullable(arrow_schema(select(node.schema, kept))))


def _has_effect(leaf: Node) -> bool:
    """Return whether a leaf without readers must run, because a step above it calls user code.

    On the way to a Debug only a Peek counts: the tuples that a Debug shows are evaluated anyway.
    """
    nodes = walk(leaf)
    if isinstance(leaf, Debug):
        return any(isinstance(node, Peek) for node in nodes)
    return any(map(_calls_user, nodes))


def _calls_user(node: Node) -> bool:
    operation = operation_of(node)
    in_python = operation is not None and not operation.call.native
    return in_python or isinstance(node, MultiReduce | Transform)


# --- requests -----------------------------------------------------------------------------------------------------


def _request(function: str, source: RequestSource, leaf: Node) -> RequestPlan:
    nodes = walk(leaf)
    queries = tuple(node for node in nodes if isinstance(node, StateQuery))
    return RequestPlan(function, source, leaf, queries, all(map(has_python_form, nodes)))
