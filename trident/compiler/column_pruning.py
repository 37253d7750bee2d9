"""Which fields of each node anybody reads: what nobody reads is not carried through Python."""

from collections.abc import Iterable, Mapping, Sequence

from trident.compiler.columns.dead_letters import Caught
from trident.plan.nodes import Node, sources_of
from trident.plan.traits import traits_of


def needs(nodes: Sequence[Node], ends: Mapping[int, Iterable[str]], always: Iterable[str] = ()) -> dict[int, set[str]]:
    """For each node (by id) the fields that must leave it. `nodes` are in walk order; `ends` says what is read of
    nodes from outside; `always` are hidden fields that every node passes on."""
    hidden = set(always)
    found = {id(node): hidden | set(ends.get(id(node), ())) for node in nodes}
    for node in reversed(nodes):
        if not found[id(node)] - hidden:  # Spark carries no row without a column, so somebody must give it one
            found[id(node)] |= set(node.schema.names[:1])
        reads = traits_of(node).reads(node, found[id(node)] - hidden)
        for source, names in zip(sources_of(node), reads, strict=True):
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
