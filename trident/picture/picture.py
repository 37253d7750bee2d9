"""A plan as a picture, before anyone has drawn it: boxes, arrows, clusters. Every writer starts from this."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trident.base.types import ddl
from trident.picture.explain import policy_of
from trident.plan.nodes import (
    HeldState,
    Node,
    PersistentAggregate,
    PersistentReduce,
    RequestSource,
    SpoutSource,
    StateQuery,
    StateWriter,
    StaticState,
    sources_of,
    walk,
)
from trident.plan.state_schema import keys_of, value_of
from trident.plan.traits import Role, traits_of


@dataclass(frozen=True, slots=True)
class Box:
    """One thing in the picture. `lines` stand below the title, `hint` is shown on demand, `cluster` is an id."""

    id: str
    kind: Role
    title: str
    lines: tuple[str, ...]
    hint: str
    cluster: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """From box to box; `dashed` where a state is read."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """What runs together: a batch group, or a DRPC function."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it, in the order in which it was written."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    clusters: tuple[Cluster, ...]


def picture(roots: Iterable[Node]) -> Picture:
    """The picture of these nodes, of what leads to them, and of the states that they meet."""
    nodes = _with_writers(list(roots))
    clusters, member = _clusters(nodes)
    ids = {id(node): f"n{at}" for at, node in enumerate(nodes, 1)}
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    for node in nodes:
        mine = ids[id(node)]
        if isinstance(node, StaticState):
            boxes.append(_state_box(node, f"{mine}s", member[id(node)]))
            continue
        boxes.append(_box(node, mine, member[id(node)]))
        for source in sources_of(node):
            new = "new values" if isinstance(source, PersistentAggregate | PersistentReduce) else ""
            arrows.append(Arrow(ids[id(source)], mine, new))
        if isinstance(node, StateWriter):
            boxes.append(_state_box(node, f"{mine}s", member[id(node)]))
            arrows.append(Arrow(mine, f"{mine}s"))
        if isinstance(node, StateQuery):
            arrows.append(Arrow(f"{ids[id(node.updated)]}s", mine, dashed=True))
    return Picture(tuple(boxes), tuple(arrows), tuple(clusters))


def _with_writers(roots: list[Node]) -> list[Node]:
    """The nodes below the roots, and below the writers of the states they ask; each after those it reads or asks."""
    while True:
        nodes = walk(*roots)
        missing = {node.updated: None for node in nodes if isinstance(node, StateQuery) and node.updated not in nodes}
        if not missing:
            return nodes
        roots = [*missing, *roots]


def _clusters(nodes: Sequence[Node]) -> tuple[list[Cluster], dict[int, str]]:
    """Nodes that share batches. A state joins the batch groups that meet in it; a request only looks on."""
    parent = {id(node): id(node) for node in nodes}

    def root(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    requests = {id(node) for node in nodes if isinstance(node, RequestSource)}
    for node in nodes:
        for source in sources_of(node):
            requests |= {id(node)} if id(source) in requests else set()
            parent[root(id(node))] = root(id(source))
        if isinstance(node, StateQuery) and id(node) not in requests:
            parent[root(id(node))] = root(id(node.updated))
    found: dict[int, Cluster] = {}
    for node in nodes:
        if root(id(node)) not in found:
            members = [each for each in nodes if root(id(each)) == root(id(node))]
            found[root(id(node))] = Cluster(f"c{len(found) + 1}", _cluster_title(members))
    return list(found.values()), {id(node): found[root(id(node))].id for node in nodes}


def _cluster_title(members: Sequence[Node]) -> str:
    for node in members:
        if isinstance(node, RequestSource):
            return f"DRPC function {node.function}"
    return "batch group " + min(node.stream for node in members if isinstance(node, SpoutSource))


def _box(node: Node, id: str, cluster: str) -> Box:
    title, traits = node.step.partition(":")[2], traits_of(node)
    lines = [_new_fields(node), (traits.caption or traits.summary)(node)]
    if isinstance(node, SpoutSource):
        title, lines = node.stream, [f"{type(node.spout).__name__}, {traits.summary(node)}", ddl(node.schema)]
    elif isinstance(node, RequestSource):
        title, lines = f"{node.function}({', '.join(node.schema.names)})", [ddl(node.schema)]
    lines.append(policy_of(node))
    return Box(
        id, traits.role, title, tuple(line for line in lines if line), f"{node.step}, {node.site.location}", cluster
    )


def _new_fields(node: Node) -> str:
    """Return what is new about a node's fields."""
    unchanged = [source.schema for source in sources_of(node)] == [node.schema]
    return "" if unchanged else traits_of(node).fields(node)


def _state_box(node: HeldState, id: str, cluster: str) -> Box:
    keys = ", ".join(keys_of(node).names)
    factory = node.state.factory
    kind = "static" if isinstance(node, StaticState) else factory.kind.value
    lines = (f"{type(factory).__name__}, {kind}", f"{keys} → {value_of(node).name}" if keys else "")
    return Box(id, "state", node.state.name, tuple(line for line in lines if line), f"state {node.state.name}", cluster)
