"""Column pruning: the fields of each node that later nodes read. Other fields are not carried through Python."""

from collections.abc import Iterable, Mapping, Sequence

from trident.compiler.columns.dead_letters import Caught
from trident.plan.nodes import Node, sources_of
from trident.plan.traits import traits_of


def needs(nodes: Sequence[Node], ends: Mapping[int, Iterable[str]], always: Iterable[str] = ()) -> dict[int, set[str]]:
    """Return for each node (by id) the fields that its output must have.

    `nodes` are in walk order: each after its sources. `ends` gives, by a node's id, the fields of the node that are
    read by others than `nodes`, such as an output. `always` are hidden fields that every node passes on.
    """
    hidden = set(always)
    needed = {id(node): hidden | set(ends.get(id(node), ())) for node in nodes}
    for node in reversed(nodes):
        if not needed[id(node)] - hidden:  # Spark keeps no row without a column, so the first field is kept
            needed[id(node)] |= set(node.schema.names[:1])
        reads = traits_of(node).reads(node, needed[id(node)] - hidden)
        for source, names in zip(sources_of(node), reads, strict=True):
            if id(source) in needed:
                needed[id(source)] |= names
    return needed


def with_letters(
    nodes: Sequence[Node], ends: Mapping[Node, Iterable[str]], caught: Mapping[int, Caught]
) -> dict[int, set[str]]:
    """Return `ends` by the nodes' ids, and add the sources of steps that make dead letters, with all their fields."""
    read = {id(node): set(names) for node, names in ends.items()}
    for node in nodes:
        if id(node) in caught and caught[id(node)].dead:
            (source,) = sources_of(node)
            read.setdefault(id(source), set()).update(source.schema.names)
    return read
