"""Merge and join of tuples in memory, within one batch (and within one request, where requests share a pass)."""

from collections.abc import Sequence

from trident.base.types import arrow_schema
from trident.compiler.columns import Columns, concat
from trident.compiler.keys import KeyIndex
from trident.plan.nodes import Join, Merge


def merged(node: Merge, sources: Sequence[Columns], hidden: Sequence[str]) -> Columns:
    """All tuples of all sources, by position, under the node's names."""
    schema = arrow_schema(node.schema)
    parts = []
    for source, columns in zip(node.sources, sources, strict=True):
        given = {name: columns[name] for name in hidden}
        for field, name in zip(schema, source.schema.names, strict=True):
            if name in columns.names:
                given[field.name] = columns[name].cast(field.type)
        parts.append(Columns(given, columns.rows))
    common = [name for name in parts[0].names if all(name in part.names for part in parts)]
    return concat([part.select(common) for part in parts])


def joined(node: Join, sources: Sequence[Columns], hidden: Sequence[str]) -> Columns:
    """The tuples whose keys are equal, every combination: the keys, then each source's other fields, by position."""
    keys = [[*hidden, *key] for key in node.keys]
    index = KeyIndex([sources[0][name].kind for name in keys[0]])
    matches: list[tuple[int, ...]] = []
    for at, (key, columns) in enumerate(zip(keys, sources, strict=True)):
        places = index.places([columns[name] for name in key], columns.rows)
        if at == 0:
            matches, first = [(row,) for row in range(columns.rows)], places
            continue
        rows_at: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            rows_at.setdefault(place, []).append(row)
        matches = [(*match, row) for match in matches for row in rows_at.get(first[match[0]], ())]
    given = {name: sources[0][name].take([match[0] for match in matches]) for name in hidden}
    names = iter(arrow_schema(node.schema))
    for name in node.keys[0]:
        field = next(names)
        given[field.name] = sources[0][name].take([match[0] for match in matches]).cast(field.type)
    for at, (source, own) in enumerate(zip(node.sources, node.keys, strict=True)):
        rows = [match[at] for match in matches]
        for name in source.schema.names:
            if name not in own:
                field = next(names)
                given[field.name] = sources[at][name].take(rows).cast(field.type)
    return Columns(given, len(matches))
