"""The fields of a step's sources that determine given fields of its tuples, as far as the library can see."""

from collections.abc import Callable, Mapping
from typing import Any

from trident.plan import nodes
from trident.plan.joins import origins_of
from trident.plan.split_schema import own_fields

Names = frozenset[str]


def determining(node: nodes.Node, names: Names) -> list[Names] | None:
    """Return for each source of a step the fields that determine the fields `names`; None if they are not known.

    A function of a tuple has the same results for the same arguments. The values of a state, of an aggregate and of a
    batch's DataFrame may change from batch to batch.
    """
    known = _DETERMINING.get(type(node))
    return None if known is None else known(node, names)


def _same(node: Any, names: Names) -> list[Names] | None:
    return [names]


def _each(node: nodes.Each, names: Names) -> list[Names] | None:
    computed = names.intersection(node.outputs.names)
    return [(names - computed) | frozenset(node.inputs)] if computed else [names]


def _map(node: nodes.Map, names: Names) -> list[Names] | None:
    return [frozenset(node.inputs)]


def _project(node: nodes.Project, names: Names) -> list[Names] | None:
    return [frozenset(before for name, before in zip(node.schema.names, node.names, strict=True) if name in names)]


def _query(node: nodes.StateReader, names: Names) -> list[Names] | None:
    return None if names.intersection(node.outputs.names) else [names]


def _aggregate(node: nodes.Aggregate, names: Names) -> list[Names] | None:
    return [names] if names.issubset(node.group) else None


def _split(node: nodes.Split, names: Names) -> list[Names] | None:
    return [names if names.issubset(node.carried) else names.intersection(node.carried) | frozenset(node.inputs)]


def _part(node: nodes.Part, names: Names) -> list[Names] | None:
    return [frozenset(inner for inner, name in own_fields(node).items() if name in names)]


def _merge(node: nodes.Merge, names: Names) -> list[Names] | None:
    places = [at for at, name in enumerate(node.schema.names) if name in names]
    schemas = [source.schema for source in node.sources]
    return [frozenset(schema.names[at] for at in places if at < len(schema.names)) for schema in schemas]


def _join(node: nodes.Join, names: Names) -> list[Names] | None:
    places = [origins for name, origins in zip(node.schema.names, origins_of(node), strict=True) if name in names]
    pairs = [pair for origins in places for pair in origins]
    return [frozenset(name for at, name in pairs if at == number) for number in range(len(node.sources))]


_DETERMINING: Mapping[type[nodes.Node], Callable[[Any, Names], list[Names] | None]] = {
    **dict.fromkeys((nodes.Filter, nodes.Peek, nodes.Debug, nodes.Pick, nodes.Repartition), _same),
    **dict.fromkeys((nodes.ParallelismHint, nodes.LateTuples), _same),
    **dict.fromkeys((nodes.StateQuery, nodes.CommittedQuery), _query),
    **{nodes.Each: _each, nodes.Map: _map, nodes.Project: _project, nodes.Aggregate: _aggregate},
    **{nodes.Split: _split, nodes.Part: _part, nodes.Merge: _merge, nodes.Join: _join},
}
"""The function for each known step. Other steps create new tuples, or their results may change from batch to batch."""
