"""Merge and join of tuples in memory, within one batch (and within one request, where requests share a pass)."""

from collections.abc import Collection, Iterator, Sequence
from itertools import product

import pyarrow as pa

from trident.base.types import arrow_schema
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.keys import KeyIndex
from trident.plan.joins import origins_of
from trident.plan.nodes import Join, Merge

Picked = Sequence[int | None]
"""The row of one source for each tuple that leaves a join; None where the source is missing."""


def merged(node: Merge, sources: Sequence[Columns], hidden: Sequence[str]) -> Columns:
    """All tuples of all sources, by position, under the node's names."""
    schema = arrow_schema(node.schema)
    parts = []
    for place, (source, columns) in enumerate(zip(node.sources, sources, strict=True)):
        given = {name: columns[name] for name in hidden}
        for field, name in zip(schema, source.schema.names, strict=False):
            if name in columns.names:
                given[field.name] = columns[name].cast(field.type)
        if node.labels:
            given[schema.names[-1]] = Column(pa.string(), None, [node.labels[place]] * columns.rows)
        parts.append(Columns(given, columns.rows))
    common = [name for name in parts[0].names if all(name in part.names for part in parts)]
    return concat([part.select(common) for part in parts])


def joined(node: Join, sources: Sequence[Columns], hidden: Sequence[str], after: Collection[str]) -> Columns:
    """The tuples whose keys are equal, every combination, of the fields in `after`."""
    matches = list(_matches(node, sources, hidden))
    picked: list[Picked] = [[match[at] for match in matches] for at in range(len(sources))]
    given = {}
    for name in hidden:
        given[name] = _first_there([columns[name] for columns in sources], picked)
    for field, from_ in zip(arrow_schema(node.schema), origins_of(node), strict=True):
        if field.name in after:
            columns = [sources[at][name] for at, name in from_]
            given[field.name] = _first_there(columns, [picked[at] for at, _ in from_]).cast(field.type)
    return Columns(given, len(matches))


def _matches(node: Join, sources: Sequence[Columns], hidden: Sequence[str]) -> Iterator[tuple[int | None, ...]]:
    """The rows that meet, one of each source, None where it is missing; key by key."""
    keys = [[*hidden, *key] for key in node.keys]
    index = KeyIndex([sources[0][name].kind for name in keys[0]])
    rows: list[dict[int, list[int]]] = []
    for key, columns in zip(keys, sources, strict=True):
        found: dict[int, list[int]] = {}
        for row, place in enumerate(index.numbers([columns[name] for name in key], columns.rows)):
            found.setdefault(place, []).append(row)
        rows.append(found)
    nobody: list[int | None] = [None]
    for place in range(len(index)):
        there = [found.get(place, nobody if outer else []) for found, outer in zip(rows, node.outer, strict=True)]
        yield from product(*there)


def _first_there(columns: Sequence[Column], picked: Sequence[Picked]) -> Column:
    """The values of the picked rows, each of the first column whose source is there; null where none is."""
    if len(columns) == 1 and None not in picked[0]:
        return columns[0].take(picked[0])  # type: ignore[arg-type]
    starts, rows = [0], 0
    for column in columns:
        rows += len(column)
        starts.append(rows)
    places = [
        next((start + row for start, row in zip(starts, match, strict=False) if row is not None), None)
        for match in zip(*picked, strict=True)
    ]
    every = pa.concat_arrays([column.array() for column in columns])
    return Column(columns[0].kind, every.take(pa.array(places, pa.int64())), None)
