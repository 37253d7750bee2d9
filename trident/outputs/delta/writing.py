"""The writes that put the tuples of a batch into a Delta table, each one version of the table."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.change_kinds import CHANGE, adding
from trident.base.names import free_name
from trident.outputs.delta.table import schema_of
from trident.outputs.last_changes import last_of_keys
from trident.plan.delta_target import DeltaTarget
from trident_state.binary_arrays import buffers_of, one_chunk
from trident_state.encoding import encode_column

ReadBatch = Callable[[], Iterable[pa.Table]]
"""A function that returns the tables of a batch, which are read again at each call."""


def values_of(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Yield the values of a batch as bytes, the same for the same rows."""
    for table in tables:
        for column in table.columns:
            yield bytes(buffers_of(encode_column(one_chunk(column)))[0])


class DeltaWriter:
    """Writes batches of one stream. `fields` are the fields that the table receives."""

    def __init__(self, target: DeltaTarget, fields: pa.Schema, module: Any) -> None:
        self._target, self._fields, self._module = target, fields, module

    def write(self, table: Any, read: ReadBatch, properties: Any) -> None:
        """Write a batch as a version that follows the one that is loaded."""
        if not self._target.key:
            self._append(table, read, properties)
            return
        self._merge(table, read, properties)

    def note(self, table: Any, properties: Any) -> None:
        """Write a version without rows."""
        none = schema_of(table).empty_table()
        self._module.write_deltalake(table, none, mode="append", commit_properties=properties)

    def _append(self, table: Any, read: ReadBatch, properties: Any) -> None:
        """Add a row for each tuple. Columns that the stream does not have are null."""
        columns = schema_of(table)
        kept = pa.schema([self._fields.field(c.name) if c.name in self._fields.names else c for c in columns])
        kept = pa.schema([field.with_nullable(True) for field in kept])

        def rows() -> Iterator[pa.RecordBatch]:
            for part in read():
                arrays = [
                    part.column(field.name) if field.name in part.column_names else pa.nulls(len(part), field.type)
                    for field in kept
                ]
                yield from pa.table(arrays, schema=kept).to_batches()

        data = pa.RecordBatchReader.from_batches(kept, rows())
        self._module.write_deltalake(table, data, mode="append", commit_properties=properties)

    def _merge(self, table: Any, read: ReadBatch, properties: Any) -> None:
        """Replace or insert the row of each key; if the tuples are changes, delete the rows that they remove."""
        target = self._target
        adds = free_name("adds", self._fields.names)
        schema = self._fields.append(pa.field(adds, pa.bool_()))

        def rows() -> Iterator[pa.RecordBatch]:
            change = CHANGE if target.changes else None
            for part in last_of_keys(read, target.key, change, target.consolidated):
                added = adding(one_chunk(part.column(CHANGE))) if change else pa.repeat(True, len(part))
                arrays = [
                    _comparable(part.column(n)) if n in target.key else part.column(n) for n in self._fields.names
                ]
                yield from pa.table([*arrays, added], schema=schema).to_batches()

        # Reading the whole source before the target would let Delta skip files, and hold the batch in memory.
        merger = table.merge(
            pa.RecordBatchReader.from_batches(schema, rows()),
            " and ".join(f"t.{_quoted(name)} = b.{_quoted(name)}" for name in target.key),
            source_alias="b",
            target_alias="t",
            commit_properties=properties,
        )
        values = {_quoted(name): f"b.{_quoted(name)}" for name in self._fields.names}
        replaced = {name: value for name, value in values.items() if name not in map(_quoted, target.key)}
        if target.changes:
            merger = merger.when_matched_delete(f"not b.{_quoted(adds)}")
        if replaced:
            merger = merger.when_matched_update(replaced)
        version = table.version()
        merger.when_not_matched_insert(values, f"b.{_quoted(adds)}").execute()
        if table.version() == version:  # a merge that changes no row makes no version
            self.note(table, properties)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a key. Two zeros, or two NaNs, are equal as keys."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(
        pc.is_nan(column), pa.scalar(float("nan"), column.type), pc.add(column, pa.scalar(0, column.type))
    )


def _quoted(name: str) -> str:
    return f"`{name}`"
