"""Which fields of each node anybody reads: what nobody reads is not carried through Python."""

from collections.abc import Iterable, Mapping, Sequence

from trident.compiler.aggregates.specs import inputs_of
from trident.compiler.columns.dead_letters import Caught
from trident.compiler.columns.kernels import work_of
from trident.compiler.windows.inputs import entering_panes
from trident.plan.joins import origins_of
from trident.plan.nodes import (
    Aggregate,
    Debug,
    Each,
    Filter,
    Join,
    Map,
    Merge,
    MultiReduce,
    Node,
    Part,
    PartitionOf,
    Peek,
    PersistentAggregate,
    Pick,
    Repartition,
    StateQuery,
    WindowPanes,
    sources_of,
)
from trident.plan.split_schema import PLACE, own_fields


def needs(nodes: Sequence[Node], ends: Mapping[int, Iterable[str]], always: Iterable[str] = ()) -> dict[int, set[str]]:
    """For each node (by id) the fields that must leave it. `nodes` are in walk order; `ends` says what is read of
    nodes from outside; `always` are hidden fields that every node passes on."""
    hidden = set(always)
    found = {id(node): hidden | set(ends.get(id(node), ())) for node in nodes}
    for node in reversed(nodes):
        if not found[id(node)] - hidden:  # Spark carries no row without a column, so somebody must give it one
            found[id(node)] |= set(node.schema.names[:1])
        for source, names in zip(sources_of(node), entering(node, found[id(node)] - hidden), strict=True):
            if id(source) in found:
                found[id(source)] |= names
    return found


def with_letters(
    nodes: Sequence[Node], ends: Mapping[Node, Iterable[str]], caught: Mapping[int, Caught]
) -> dict[int, set[str]]:
    """`ends` by id, and all fields of the tuples that may become dead letters."""
    found = {id(node): set(names) for node, names in ends.items()}
    for node in nodes:
        if id(node) in caught and caught[id(node)].dead:
            (source,) = sources_of(node)
            found.setdefault(id(source), set()).update(source.schema.names)
    return found


def entering(node: Node, after: set[str]) -> list[set[str]]:
    """What a node reads of each of its sources, if these fields are needed of what leaves it."""
    work = work_of(node)
    if work is not None:
        return [work.before(after)]
    match node:
        case Each(inputs=inputs, outputs=outputs) | StateQuery(inputs=inputs, outputs=outputs):
            return [(after - set(outputs.names)) | set(inputs)]
        case Filter(inputs=inputs) | Peek(inputs=inputs) | Debug(inputs=inputs):
            return [after | set(inputs)]
        case Repartition(names=names):
            return [after | set(names)]
        case Map(inputs=inputs):
            return [set(inputs)]
        case Pick(inputs=inputs):
            return [after | set(inputs)]
        case Aggregate() | PersistentAggregate():
            return [{*node.group, *inputs_of(node)}]
        case Part():
            return [{PLACE} | {inner for inner, name in own_fields(node).items() if name in _some(node, after)}]
        case PartitionOf():
            return [after & set(node.source.schema.names)]
        case WindowPanes():
            return [set(entering_panes(node))]
        case MultiReduce(inputs=read, groups=groups):
            return [{*own, *(groups[at] if groups else ())} for at, own in enumerate(read)]
        case Merge(sources=sources):
            places = [place for place, name in enumerate(node.schema.names) if name in after]
            return [{s.schema.names[place] for place in places if place < len(s.schema.names)} for s in sources]
        case Join(keys=keys):
            wanted = [set(key) for key in keys]
            for name, from_ in zip(node.schema.names, origins_of(node), strict=True):
                for at, own in from_ if name in _some(node, after) else ():
                    wanted[at].add(own)
            return wanted
    return [set(source.schema.names) for source in sources_of(node)]


def _some(node: Node, after: set[str]) -> set[str]:
    """The fields that are needed of what leaves a node, one at least: Spark carries no row without a column."""
    return after.intersection(node.schema.names) or set(node.schema.names[:1])
