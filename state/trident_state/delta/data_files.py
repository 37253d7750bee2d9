"""The data files of a state's table: their names, their writing and their reading.

A file's name contains the batches and buckets of its rows. So the list of a version's files tells a reader which files
it needs, for one key or for a read as of a txid.
"""

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trident.base.durable_files import fsync_folder
from trident.base.errors import StateCorruptError
from trident.files.delta_folder import TableFolder
from trident_state.binary_arrays import in_halves
from trident_state.delta.columns import Numbers, Rows, TableColumns

ROW_GROUP = 16_384
"""The rows of a row group, the smallest unit that a read of one key loads."""

_GROUP_BYTES = 32 * 2**20
"""The approximate most bytes of a row group."""

_FOOTERS = 256
"""The number of files whose footers are kept in memory."""
_FACTS_HELD = 4_096
"""The number of files whose facts are kept in memory."""
_FACTS = b"trident"
"""The key of a file's facts among the metadata in its footer."""
_TAG_BITS = 48
_FEW = 8
"""The most row groups of a file that a read takes through the cache."""


class DataFile(NamedTuple):
    """A file: its batches, its buckets, its rows, and the share of the sum's range that its values may use (`used`)."""

    low: int
    high: int
    first: int
    last: int
    rows: int
    used: int
    tag: int
    """A 48-bit number, random unless the check of all files requires a certain one."""
    name: str
    """A random part of the name, because two merges of the same files may have the same numbers."""
    size: int

    @property
    def path(self) -> str:
        """The path within the table's folder."""
        batches, buckets = f"{self.low}-{self.high}", f"{self.first}-{self.last}"
        return f"{batches}_{buckets}_{self.rows}_{self.used}_{self.tag:012x}_{self.name}.parquet"


def file_of(path: str, size: int, where: str) -> DataFile:
    """Return the file at a path. Raises StateCorruptError if no store wrote it.

    >>> file_of("3-5_0-65535_12_7_0000000000ab_x.parquet", 700, "a state").high
    5
    """
    try:
        batches, buckets, rows, used, tag, name = path.removesuffix(".parquet").split("_")
        (low, high), (first, last) = batches.split("-"), buckets.split("-")
        return DataFile(int(low), int(high), int(first), int(last), int(rows), int(used), int(tag, 16), name, size)
    except ValueError:
        raise StateCorruptError(
            f"{where}: another program wrote the file {path}. Only the state may write its table: bring back the last "
            f"version that the state wrote (DeltaTable.restore, or RESTORE in Spark), or drop the state"
        ) from None


def first_batch(path: str) -> int:
    """Return the first batch of a file in the table's folder, parsed from its name; -1 for any other file.

    >>> first_batch("3-5_0-65535_12_7_0000000000ab_x.parquet"), first_batch("part-0.parquet")
    (3, -1)
    """
    number = path.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def check_of(files: Iterable[DataFile]) -> int:
    """Return a number that changes with the set of files.

    >>> check_of([])
    0
    """
    number = 0
    for file in files:
        number ^= file.tag
    return number


def runs_of(files: Iterable[DataFile]) -> list[list[DataFile]]:
    """Return the files grouped by their batches. `files` must be in the order of their batches."""
    return [list(run) for _, run in groupby(files, key=lambda file: (file.low, file.high))]


def make_durable(folder: TableFolder, name: str) -> None:
    """Write a new file of a table to the disk, if the table is on one."""
    if folder.local:
        path = Path(folder.uri) / name
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        fsync_folder(path.parent)


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a file, stored in its footer."""

    cutoff: int = 0
    """The txid up to which values have expired as of the last of the file's batches."""
    written: int = 0
    """When the rows of the last of its batches were written, in milliseconds since 1970."""
    made: int = 0
    """When the file was written."""
    merged: tuple[tuple[str, int], ...] = ()
    """The paths and sizes of the files that this file and the other files of its run replaced."""


class _Footer(NamedTuple):
    metadata: pq.FileMetaData
    firsts: Numbers
    lasts: Numbers


class _Group(NamedTuple):
    """Rows read from a file, and their buckets."""

    table: pa.Table
    buckets: Numbers

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes + self.buckets.nbytes)


class DataFiles:
    """Writes and reads the data files of one table. Row groups of small reads are cached in up to `most` bytes."""

    def __init__(self, folder: TableFolder, columns: TableColumns, most: int) -> None:
        self._folder, self._columns, self._most = folder, columns, most
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, _Footer] = OrderedDict()
        self._facts: OrderedDict[str, FileFacts] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], _Group] = OrderedDict()
        self._held = 0

    def write(
        self, table: pa.Table, low: int, high: int, used: int, facts: FileFacts, tag: int | None = None
    ) -> DataFile:
        """Write the rows of some batches, sorted by bucket, into a new file. On a local disk the file is durable."""
        buckets = table.column(self._columns.bucket)
        tag = secrets.randbits(_TAG_BITS) if tag is None else tag
        first, last = (buckets[0].as_py(), buckets[-1].as_py()) if len(table) else (0, 0)
        file = DataFile(low, high, first, last, len(table), used, tag, secrets.token_hex(4), 0)
        table = table.replace_schema_metadata({_FACTS: msgspec.json.encode(facts)})
        with self._folder.output(file.path) as sink:
            rows = min(ROW_GROUP, max(1, _GROUP_BYTES * len(table) // max(1, table.nbytes)))
            pq.write_table(table, sink, row_group_size=rows, use_dictionary=[self._columns.txid])
            size = sink.tell()
        make_durable(self._folder, file.path)
        return file._replace(size=size)

    def read(self, file: DataFile, buckets: Numbers) -> list[Rows]:
        """Yield the rows of a file that have one of these sorted, distinct buckets, in parts."""
        footer = self._footer(file)
        first, last = np.searchsorted(buckets, footer.firsts), np.searchsorted(buckets, footer.lasts, "right")
        groups = np.flatnonzero(first < last).tolist()
        if len(groups) > _FEW:
            groups_read = [self._read_groups(file, footer, groups)]
        else:
            groups_read = [self._group(file, footer, group) for group in groups]
        return [part for group in groups_read for part in self._rows(group, buckets)]

    def keys(self, file: DataFile) -> pa.Array:
        """Return the encoded keys of all rows of a file."""
        with self._folder.open(file.path) as source:
            table = pq.ParquetFile(source).read(columns=self._columns.schema.names[: self._columns.keyFields])
        return self._columns.keys(table)

    def selected(self, file: DataFile, buckets: range, names: Sequence[str]) -> pa.Table:
        """Return some columns of the rows of a file with one of the buckets, unconverted."""
        footer = self._footer(file)
        groups = np.flatnonzero((footer.firsts < buckets.stop) & (footer.lasts >= buckets.start)).tolist()
        with self._folder.open(file.path) as source:
            held = pq.ParquetFile(source, metadata=footer.metadata)
            table = held.read_row_groups(groups, columns=[*names, self._columns.bucket])
        held_buckets = table.column(self._columns.bucket).to_numpy()
        first, last = np.searchsorted(held_buckets, [buckets.start, buckets.stop]).tolist()
        return table.select(names).slice(first, last - first).replace_schema_metadata(None)

    def _rows(self, group: _Group, buckets: Numbers) -> list[Rows]:
        """Return the rows of a group that have one of the buckets; the others are not converted."""
        at = _rows_in(group.buckets, buckets)
        table = group.table if at is None else group.table.take(pa.array(at))
        part = in_halves(
            lambda rows: self._columns.rows(table.slice(rows.start, rows.stop - rows.start)), 0, len(table)
        )
        return list(part)

    def facts(self, file: DataFile) -> FileFacts:
        """Return the facts in a file's footer, empty for files of older versions. Raises FileNotFoundError."""
        with self._lock:
            if (held := self._facts.get(file.path)) is not None:
                self._facts.move_to_end(file.path)
                return held
        with self._folder.open(file.path) as source:
            text = (pq.read_metadata(source).metadata or {}).get(_FACTS)
        facts = FileFacts() if text is None else msgspec.json.decode(text, type=FileFacts)
        with self._lock:
            self._facts[file.path] = facts
            while len(self._facts) > _FACTS_HELD:
                self._facts.popitem(last=False)
        return facts

    def forget(self, kept: set[str]) -> None:
        """Release the memory of files that are not among `kept`."""
        with self._lock:
            for path in [path for path in self._footers if path not in kept]:
                del self._footers[path]
            for key in [key for key in self._groups if key[0] not in kept]:
                self._held -= self._groups.pop(key).nbytes

    def _group(self, file: DataFile, footer: _Footer, group: int) -> _Group:
        key = (file.path, group)
        with self._lock:
            if (rows := self._groups.get(key)) is not None:
                self._groups.move_to_end(key)
                return rows
        rows = self._read_groups(file, footer, [group])
        with self._lock:
            if key not in self._groups:
                self._groups[key] = rows
                self._held += rows.nbytes
            while self._held > self._most and self._groups:
                self._held -= self._groups.popitem(last=False)[1].nbytes
        return rows

    def _read_groups(self, file: DataFile, footer: _Footer, groups: list[int]) -> _Group:
        with self._folder.open(file.path) as source:
            table = pq.ParquetFile(source, metadata=footer.metadata).read_row_groups(
                groups, use_threads=len(groups) > _FEW
            )
        return _Group(table, table.column(self._columns.bucket).to_numpy())

    def _footer(self, file: DataFile) -> _Footer:
        with self._lock:
            if (held := self._footers.get(file.path)) is not None:
                self._footers.move_to_end(file.path)
                return held
        with self._folder.open(file.path) as source:
            metadata = pq.ParquetFile(source).metadata
        column = metadata.num_columns - 1  # the buckets come last
        spans = [metadata.row_group(at).column(column).statistics for at in range(metadata.num_row_groups)]
        footer = _Footer(metadata, *(np.array([getattr(s, end) for s in spans], np.int64) for end in ("min", "max")))
        with self._lock:
            self._footers[file.path] = footer
            while len(self._footers) > _FOOTERS:
                self._footers.popitem(last=False)
        return footer


def _rows_in(held: Numbers, buckets: Numbers) -> Numbers | None:
    """Return the indices of the rows that have one of the buckets; None for all rows. Both inputs are sorted."""
    if len(buckets) * 4 > len(held):
        wanted = np.zeros(int(max(buckets[-1], held[-1])) + 1, np.bool_)
        wanted[buckets] = True
        hits = wanted[held]
        return None if hits.all() else np.flatnonzero(hits)
    starts, stops = np.searchsorted(held, buckets), np.searchsorted(held, buckets, "right")
    lengths = stops - starts
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths))
