"""Merge and join of tuples in memory: within one batch, or within each of several requests answered together."""

from collections.abc import Collection, Iterator, Sequence
from itertools import product

import pyarrow as pa

from trident.base.spark_types import arrow_schema
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.plan.joins import origins_of
from trident.plan.nodes import Join, Merge

Picked = Sequence[int | None]
"""For each tuple of a join's result, its row in one source; None if the source has no tuple with the key."""


def merged(node: Merge, sources: Sequence[Columns], hidden: Sequence[str]) -> Columns:
    """Return the tuples of all sources under the merge's field names. Fields correspond by position."""
    schema = arrow_schema(node.schema)
    parts = []
    for number, (source, columns) in enumerate(zip(node.sources, sources, strict=True)):
        columns_by_name = {name: columns[name] for name in hidden}
        for field, name in zip(schema, source.schema.names, strict=False):
            if name in columns.names:
                columns_by_name[field.name] = columns[name].cast(field.type)
        if node.labels:
            columns_by_name[schema.names[-1]] = Column(pa.string(), None, [node.labels[number]] * columns.rows)
        parts.append(Columns(columns_by_name, columns.rows))
    common = [name for name in parts[0].names if all(name in part.names for part in parts)]
    return concat([part.select(common) for part in parts])


def joined(node: Join, sources: Sequence[Columns], hidden: Sequence[str], after: Collection[str]) -> Columns:
    """Return every combination of tuples with equal keys, one from each source, with only the fields in `after`."""
    matches = list(_matches(node, sources, hidden))
    picked: list[Picked] = [[match[at] for match in matches] for at in range(len(sources))]
    columns_by_name = {}
    for name in hidden:
        columns_by_name[name] = _first_present([columns[name] for columns in sources], picked)
    for field, from_ in zip(arrow_schema(node.schema), origins_of(node), strict=True):
        if field.name in after:
            columns = [sources[at][name] for at, name in from_]
            columns_by_name[field.name] = _first_present(columns, [picked[at] for at, _ in from_]).cast(field.type)
    return Columns(columns_by_name, len(matches))


def _matches(node: Join, sources: Sequence[Columns], hidden: Sequence[str]) -> Iterator[tuple[int | None, ...]]:
    """Yield for each joined tuple its row in each source, key by key; None for a source that lacks the key."""
    keys = [[*hidden, *key] for key in node.keys]
    index = KeyNumbers([sources[0][name].kind for name in keys[0]])
    rows: list[dict[int, list[int]]] = []
    for key, columns in zip(keys, sources, strict=True):
        rows_by_key: dict[int, list[int]] = {}
        for row, key_number in enumerate(index.numbers([columns[name] for name in key], columns.rows)):
            rows_by_key.setdefault(key_number, []).append(row)
        rows.append(rows_by_key)
    missing: list[int | None] = [None]
    for key_number in range(len(index)):
        candidates = [
            rows_by_key.get(key_number, missing if outer else [])
            for rows_by_key, outer in zip(rows, node.outer, strict=True)
        ]
        yield from product(*candidates)


def _first_present(columns: Sequence[Column], picked: Sequence[Picked]) -> Column:
    """Return a value for each joined tuple, from the first source that has a row in it; null if none has."""
    if len(columns) == 1 and None not in picked[0]:
        return columns[0].take(picked[0])  # type: ignore[arg-type]
    offsets, rows = [0], 0
    for column in columns:
        rows += len(column)
        offsets.append(rows)
    positions = [
        next((offset + row for offset, row in zip(offsets, match, strict=False) if row is not None), None)
        for match in zip(*picked, strict=True)
    ]
    all_values = pa.concat_arrays([column.array() for column in columns])
    return Column(columns[0].kind, all_values.take(pa.array(positions, pa.int64())), None)
