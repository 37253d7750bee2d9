"""The model of a picture: boxes, arrows and clusters. The writers of all formats draw this model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trident.base.spark_types import ddl
from trident.picture.explain import carries_changes, policy_of
from trident.plan.node_sets import NodeSets
from trident.plan.nodes import (
    HeldState,
    Node,
    RequestSource,
    SpoutSource,
    StateQuery,
    StateWriter,
    StaticState,
    asked_by,
    sources_of,
    walk,
)
from trident.plan.state_schema import keys_of, parts_of, value_of
from trident.plan.states import state_traits
from trident.plan.traits import Role, traits_of


@dataclass(frozen=True, slots=True)
class Box:
    """A step or a state. `lines` are below the title, `hint` is a tooltip, `cluster` is the id of the box's cluster.

    `step` is the label of the step, as progress events name it; for a state, of the step that writes it.
    """

    id: str
    kind: Role
    title: str
    lines: tuple[str, ...]
    hint: str
    cluster: str
    step: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another, by the ids of the boxes. A dashed arrow is a query of a state."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """Steps that run together: a batch group, or a DRPC function."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All boxes, arrows and clusters, in the order of the program."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    clusters: tuple[Cluster, ...]


def picture(roots: Iterable[Node]) -> Picture:
    """Return the picture of `roots`, of the nodes that lead to them, and of the states that they write or query."""
    nodes = _with_writers(list(roots))
    clusters, member = _clusters(nodes)
    ids = {id(node): f"n{at}" for at, node in enumerate(nodes, 1)}
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    for node in nodes:
        box_id, cluster = ids[id(node)], member[id(node)]
        if isinstance(node, StaticState):
            boxes.append(_state_box(node, f"{box_id}s", cluster))
            continue
        boxes.append(_box(node, box_id, cluster))
        for source in sources_of(node):
            own = isinstance(source, StateWriter) and state_traits(source).new_values == "own"
            label = "new values" if own else "changes" if carries_changes(source) else ""
            arrows.append(Arrow(ids[id(source)], box_id, label))
        if isinstance(node, StateWriter):
            boxes.append(_state_box(node, f"{box_id}s", cluster))
            arrows.append(Arrow(box_id, f"{box_id}s"))
        arrows += [Arrow(f"{ids[id(state)]}s", box_id, dashed=True) for state in asked_by(node)]
    return Picture(tuple(boxes), tuple(arrows), tuple(clusters))


def _with_writers(roots: list[Node]) -> list[Node]:
    """Return the nodes `roots`, the writers of all states that are queried, and all nodes before any of these.

    Each node comes after the nodes that it reads and after the writer that it queries.
    """
    while True:
        nodes = walk(*roots)
        missing = {state: None for node in nodes for state in asked_by(node) if state not in nodes}
        if not missing:
            return nodes
        roots = [*missing, *roots]


def _clusters(nodes: Sequence[Node]) -> tuple[list[Cluster], dict[int, str]]:
    """Return a cluster for each set of nodes that share batches, and the id of each node's cluster by the node's id.

    A state unites the batch groups of the steps that write or query it. A DRPC request only reads states, so it unites
    nothing; neither does a query with ``asOf="committed"``.
    """
    groups = NodeSets(nodes)
    requests = {id(node) for node in nodes if isinstance(node, RequestSource)}
    for node in nodes:
        for source in sources_of(node):
            requests |= {id(node)} if id(source) in requests else set()
            groups.unite(node, source)
        if isinstance(node, StateQuery) and id(node) not in requests:
            groups.unite(node, node.updated)
    members: dict[int, list[Node]] = {}
    for node in nodes:
        members.setdefault(groups.root(node), []).append(node)
    clusters = {
        root: Cluster(f"c{number}", _cluster_title(group)) for number, (root, group) in enumerate(members.items(), 1)
    }
    return list(clusters.values()), {id(node): clusters[groups.root(node)].id for node in nodes}


def _cluster_title(members: Sequence[Node]) -> str:
    for node in members:
        if isinstance(node, RequestSource):
            return f"DRPC function {node.function}"
    streams = [node.stream for node in members if isinstance(node, SpoutSource)]
    return f"batch group {min(streams)}" if streams else "static state"  # a state that only DRPC functions query


def _box(node: Node, id: str, cluster: str) -> Box:
    title, traits = node.step.partition(":")[2], traits_of(node)
    lines = [_new_fields(node), (traits.caption or traits.summary)(node)]
    if isinstance(node, SpoutSource):
        title, lines = node.stream, [f"{type(node.spout).__name__}, {traits.summary(node)}", ddl(node.schema)]
    elif isinstance(node, RequestSource):
        title, lines = f"{node.function}({', '.join(node.schema.names)})", [ddl(node.schema)]
    lines.append(policy_of(node))
    return Box(
        id,
        traits.role,
        title,
        tuple(line for line in lines if line),
        f"{node.step}, {node.site.location}",
        cluster,
        node.step,
    )


def _new_fields(node: Node) -> str:
    """Return the output fields of a node as text; "" if they are the same as its input fields."""
    unchanged = [source.schema for source in sources_of(node)] == [node.schema]
    return "" if unchanged else traits_of(node).fields(node)


def _state_box(node: HeldState, id: str, cluster: str) -> Box:
    keys = ", ".join(keys_of(node).names)
    factory = node.state.factory
    kind = "static" if isinstance(node, StaticState) else factory.kind.value
    value = ", ".join(parts_of(node) or [value_of(node).name])
    lines = (f"{type(factory).__name__}, {kind}", f"{keys} → {value}" if keys else "")
    shown = tuple(line for line in lines if line)
    return Box(id, "state", node.state.name, shown, f"state {node.state.name}", cluster, node.step)
