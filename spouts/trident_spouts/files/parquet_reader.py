"""Reading of Parquet files by Python in Spark's workers: row groups form shares, and a Spark partition reads a share.

If Spark's own operations follow, Spark's scan is faster. If Python operations follow, the scan is slower: the JVM
decodes the rows, writes them as Arrow, and sends them to a worker that could have read the file itself.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident.base.spark_types import arrow_schema
from trident_spouts.casting import CastError, cast_column
from trident_spouts.emission import PART_BYTES
from trident_spouts.files.file_ranges import FileRef, PlannedFile, opening_bytes
from trident_spouts.files.read_ahead import read_in_order
from trident_spouts.files.storage import ListedFile
from trident_spouts.spark_workers import numbers_of, settle

IN_MICROSECONDS = 'write it with coerce_timestamps="us", allow_truncated_timestamps=True (pandas, pyarrow)'
"""The advice in errors about times in nanoseconds."""

_FEW = 16
"""The number of footers that are read at the same time. To open an object takes about ten milliseconds of waiting."""

_BATCH_ROWS = 10_000
"""The number of rows that are read at once, which is also the number that Spark sends to a worker at once."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of one Parquet file, by their numbers, in order."""

    path: FileRef
    numbers: tuple[int, ...]
    bytes: int = 0
    """The approximate number of bytes in the columns of these row groups."""


@contextmanager
def _reading(path: FileRef) -> Iterator[None]:
    """Raise SourceUnreadableError if the block fails because the file cannot be read, or is not a Parquet file."""
    try:
        yield
    except SourceUnreadableError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise SourceUnreadableError(f"FileSpout: {path} is not a readable Parquet file: {error}") from error


def footer(path: FileRef) -> pq.FileMetaData:
    """Return the footer of a Parquet file. Raises SourceUnreadableError if the file has none or cannot be read."""
    if isinstance(path, PlannedFile) and path.file.tag:
        return _footer_with_tag(path)
    return _read_footer(path)


@lru_cache(maxsize=64)
def _footer_with_tag(file: PlannedFile) -> pq.FileMetaData:
    """Return the footer of an object. It is read only once, because the ETag identifies the content."""
    return _read_footer(file)


def _read_footer(path: FileRef) -> pq.FileMetaData:
    with _reading(path):
        return pq.read_metadata(_for_arrow(path))


def footers(paths: Sequence[FileRef]) -> list[pq.FileMetaData]:
    """Return the footers of Parquet files. If there are many, several threads read them."""
    if len(paths) <= _FEW:
        return [footer(path) for path in paths]
    with ThreadPoolExecutor(_FEW) as threads:
        return list(threads.map(footer, paths))


def _for_arrow(path: FileRef) -> Any:
    return path if isinstance(path, str) else path.place.for_arrow(path.file)


def only_spark_reads(metadata: pq.FileMetaData) -> bool:
    """Return whether Spark may read a file's dates before 1582 and times before 1900 by the calendar of Spark 2.

    Arrow does not know that calendar. Spark uses it if the footer says so, or if an old version of Spark wrote the
    file, which had no other calendar (for 96-bit timestamps: before 3.1).
    """
    about = metadata.metadata or {}
    version = about.get(b"org.apache.spark.version", b"9").decode()
    marked = any(f"org.apache.spark.legacy{kind}".encode() in about for kind in ("DateTime", "INT96"))
    return marked or version < "3.1.0"  # compared as text, as Spark does


def shares(
    paths: Sequence[FileRef], footers: Sequence[pq.FileMetaData], most: int, least: int = PART_BYTES
) -> tuple[tuple[RowGroups, ...], ...]:
    """Cut the row groups of all files, in order, into at most `most` shares of about equal size.

    No share has far fewer bytes than `least`.
    """
    groups = [
        (path, number, metadata.row_group(number).total_byte_size)
        for path, metadata in zip(paths, footers, strict=True)
        for number in range(metadata.num_row_groups)
    ]
    total = sum(size for _, _, size in groups)
    size = max(1, -(-total // max(1, min(most, total // least))))
    cut: list[list[RowGroups]] = [[]]
    before = 0
    for path, number, bytes_ in groups:
        if before >= size * len(cut):
            cut.append([])
        last = cut[-1][-1] if cut[-1] else None
        if last is not None and last.path == path and not opening_bytes(path):
            cut[-1][-1] = RowGroups(path, (*last.numbers, number), last.bytes + bytes_)
        else:  # several row groups of an object are read ahead
            cut[-1].append(RowGroups(path, (number,), bytes_))
        before += bytes_
    return tuple(map(tuple, cut))


@dataclass(frozen=True, slots=True)
class GroupReader:
    """The function by which a worker reads shares of row groups. Each row of its input is the number of a share."""

    shares: tuple[tuple[RowGroups, ...], ...]
    schema: StructType
    """The fields to read, as declared."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of the shares that `batches` numbers."""
        settle()
        for number in numbers_of(batches):
            yield from read_in_order(self.shares[number], partial(read_groups, schema=self.schema), _worth)


def _worth(groups: RowGroups) -> int:
    return groups.bytes if opening_bytes(groups.path) else 0


def read_groups(groups: RowGroups, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the tuples of row groups with the declared fields, as Spark's own scan returns them, up to 10,000 at once.

    Raises SourceUnreadableError if the file cannot be read or is not the planned file, SpoutContractError if a column
    does not fit its field.
    """
    target, source = arrow_schema(schema), _for_arrow(groups.path)
    # Arrow itself opens a path. From an opened file it reads a row group in a few long reads, if it may buffer.
    buffered = not isinstance(source, str)
    known = footer(groups.path) if isinstance(groups.path, PlannedFile) and groups.path.file.tag else None
    options = {"metadata": known, "pre_buffer": buffered, "coerce_int96_timestamp_unit": "us"}
    with _reading(groups.path), pq.ParquetFile(source, **options) as file:
        before = _checked(groups.path, None)
        names = [column_of(name, file.schema_arrow.names) for name in target.names]
        columns = [name for name in names if name is not None]
        for numbers in [(number,) for number in groups.numbers] if buffered else [groups.numbers]:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=numbers, columns=columns, use_threads=False):
                yield _as_declared(batch, names, target, groups.path)
        _checked(groups.path, before)


def _checked(path: FileRef, before: ListedFile | None) -> ListedFile | None:
    """Check that a path leads to the planned file, and return its status. `before` is the result of an earlier check.

    Arrow does not reveal which file it has opened. So the path is opened once more, after Arrow has opened it: if the
    path still leads to the planned file, Arrow has opened that file too.
    """
    if isinstance(path, str):
        return None
    with path.open() as opened:
        return path.check_same_file(opened, before)


def column_of(name: str, columns: Sequence[str]) -> str | None:
    """Return the name of the column that Spark reads for field `name`: `name`, else the name in another case.

    Return None if there is no such column, or if several names differ only in case.

    >>> column_of("word", ["n", "Word"])
    'Word'
    """
    if name in columns:
        return name
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _as_declared(batch: pa.RecordBatch, names: Sequence[str | None], target: pa.Schema, path: object) -> pa.RecordBatch:
    """Return a file's columns with the declared names and types; `names` are the columns, None for a field of nulls."""
    columns, values = [], dict(path.folders) if isinstance(path, PlannedFile) else {}
    for name, field in zip(names, target, strict=True):
        if name is None:  # no column has the name of a field of folders
            columns.append(pa.repeat(pa.scalar(values.get(field.name), field.type), batch.num_rows))
            continue
        try:
            columns.append(cast_column(_zoned(batch.column(name), field.type), field.type))
        except CastError as error:
            finer = pa.types.is_timestamp(batch.column(name).type) and batch.column(name).type.unit == "ns"
            hint = f"; {IN_MICROSECONDS}" if finer else ""
            raise SpoutContractError(f"FileSpout: {path}, field {field.name!r}: {error}{hint}") from None
    for column, field in zip(columns, target, strict=True):
        if column.null_count and not field.nullable:
            raise SpoutContractError(f"FileSpout: {path}, field {field.name!r}: null, but the field is NOT NULL")
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _zoned(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with UTC as its time zone if it holds 96-bit timestamps, which Arrow reads without a zone."""
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_timestamp(column.type) and not column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column
