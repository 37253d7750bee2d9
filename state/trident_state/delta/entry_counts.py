"""The number of a state's entries as of a txid, counted only from key columns if possible."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.delta.columns import TableColumns
from trident_state.delta.data_files import DataFile
from trident_state.delta.folding import combine_of
from trident_state.delta.reading import TableReads, spans_of
from trident_state.delta.record import TableVersion
from trident_state.state_shape import Combine

_AT_ONCE = 2_000_000
"""The approximate most rows that are compared at once."""


def count_entries(
    reads: TableReads, columns: TableColumns, version: TableVersion, asOf: int, cutoff: int
) -> int | None:
    """Return the number of keys with a value as of `asOf`; None if counting needs the values.

    In a table of deltas every key with a row has a value. In a table of whole values the last row of a key counts if
    it has a value. So values are never decoded or combined.
    """
    combine, keys = combine_of(version.rows), columns.schema.names[: len(reads.keys)]
    if not keys or _may_leave(combine) or any(kinds.is_nested(columns.schema.field(name).type) for name in keys):
        return None
    names = keys if combine is not None else [*keys, columns.value, columns.txid]
    count = 0
    for table in _tables(reads, reads.past.as_of(version.files, asOf), names):
        if combine is not None:
            count += table.group_by(keys).aggregate([]).num_rows
            continue
        # For each row, twice its txid, plus one if it has a value: the greatest number of a key belongs to its last
        # row.
        last = pc.add(
            pc.multiply(table.column(columns.txid), 2), table.column(columns.value).is_valid().cast(pa.int64())
        )
        rows = table.select(keys).append_column(columns.txid, last).group_by(keys).aggregate([(columns.txid, "max")])
        greatest = rows.column(f"{columns.txid}_max").combine_chunks().to_numpy()
        count += int(((greatest % 2 == 1) & ((cutoff <= 0) | (greatest // 2 > cutoff))).sum())
    return count


def _may_leave(combine: Combine | None) -> bool:
    """Return whether a combination of deltas may remove the value."""
    return combine is not None and (combine.zeros_leave or any(_may_leave(part) for part in combine.parts or ()))


def _tables(reads: TableReads, files: Sequence[DataFile], names: list[str]) -> Iterator[pa.Table]:
    """Yield some columns of all rows, so that all rows of a key are in the same table."""
    for span in spans_of(sum(file.rows for file in files), _AT_ONCE):
        parts = [reads.selected(file, span, names) for file in files if file.rows]
        if parts:
            yield pa.concat_tables(parts)
