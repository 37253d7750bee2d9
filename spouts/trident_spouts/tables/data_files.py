"""Reading of a table's data files: Parquet files with sizes and numbers of rows in the table's log.

The log contains the facts by which files are divided into shares without reading their footers. A worker that reads a
part of a file reads the row groups whose middle is in the part, as Spark's scan does.
"""

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as kinds
from pyspark.sql.types import StructType

from trident.base.errors import DataLossError, SourceUnreadableError, SpoutContractError
from trident.base.short_texts import one_line
from trident.base.spark_types import arrow_schema
from trident_spouts.casting import CastError, cast_column
from trident_spouts.emission import PART_BYTES
from trident_spouts.files.parquet_reader import column_of, only_spark_reads
from trident_spouts.spark_workers import numbers_of, settle

_BATCH_ROWS = 10_000
"""The number of rows that are read at once, which is also the number that Spark sends to a worker at once."""


@dataclass(frozen=True, slots=True)
class OnlyRows:
    """The rows of a file in which `column` has one of `values`."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table, as the table's log describes it."""

    path: str
    """The path to pass to the table's `Storage`."""

    size: int
    """The size in bytes."""

    rows: int | None = None
    """The number of rows; None if the log does not have it."""

    constants: tuple[tuple[str, Any], ...] = ()
    """The partition columns, which are not in the file, each with its value (a Python value, or its text)."""

    only: OnlyRows | None = None
    """The rows to read; None for all of them."""


class Storage(Protocol):
    """The storage of a table's files. It is picklable, because it is sent to workers."""

    @property
    def shown(self) -> str:
        """Return the storage as messages show it, such as "DeltaSpout: /lake/orders"."""
        ...

    def open(self, path: str) -> pa.NativeFile:
        """Return an opened file. Raises FileNotFoundError if it is missing, or another OSError if it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """One of `parts` parts of about equal size of a file; `number` counts from 0."""

    file: DataFile
    number: int = 0
    parts: int = 1


def shares(files: Sequence[DataFile], most: int, least: int = PART_BYTES) -> tuple[tuple[Part, ...], ...]:
    """Cut files, in order, into at most `most` shares of about equal size; no share has far fewer bytes than `least`.

    >>> [len(share) for share in shares([DataFile("a", 10), DataFile("b", 10), DataFile("c", 80)], 4, 1)]
    [2, 1, 1, 1]
    """
    total = sum(file.size for file in files)
    size = max(1, least, -(-total // max(1, most)))
    cut: list[list[Part]] = [[]]
    before = 0
    for file in files:
        parts = max(1, round(file.size / size))
        for number in range(parts):
            bytes_ = file.size // parts
            if cut[-1] and before + bytes_ // 2 >= size * len(cut):  # its middle is in the next share
                cut.append([])
            cut[-1].append(Part(file, number, parts))
            before += bytes_
    return tuple(map(tuple, cut))


@dataclass(frozen=True, slots=True)
class ShareReader:
    """The function by which a worker reads shares of data files. Each row of its input is the number of a share."""

    shares: tuple[tuple[Part, ...], ...]
    storage: Storage
    schema: StructType
    """The fields to read, as declared."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of the shares that `batches` numbers."""
        settle()
        for number in numbers_of(batches):
            for part in self.shares[number]:
                yield from read_part(part, self.storage, self.schema)


def read_part(part: Part, storage: Storage, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a file with the declared fields, up to 10,000 at once.

    A field for which the file has neither a column nor a constant is null. Raises DataLossError if the file is gone,
    SourceUnreadableError if it cannot be read or is not the file that the log describes, SpoutContractError if a column
    does not fit its field.
    """
    file = part.file
    try:
        with storage.open(file.path) as opened:
            if opened.size() != file.size:
                raise _other_file_error(storage, file, opened.size(), f"{file.size} bytes")
            with pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as parquet:
                if file.rows not in (None, parquet.metadata.num_rows):
                    raise _other_file_error(storage, file, parquet.metadata.num_rows, f"{file.rows} rows")
                yield from _rows(parquet, part, storage, schema)
    except SourceUnreadableError:
        raise
    except FileNotFoundError as error:
        raise DataLossError(
            f"{storage.shown}: the data file {file.path} was removed before its rows were read, by VACUUM or another "
            f"program. Let VACUUM keep files for longer than the topology may lag; to continue without the lost rows, "
            f"give the stream another name, with newStream(..., anew=True)"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise SourceUnreadableError(
            f"{storage.shown}: cannot read the data file {file.path}: {one_line(error)}"
        ) from error


def _other_file_error(storage: Storage, file: DataFile, came: int, expected: str) -> SourceUnreadableError:
    return SourceUnreadableError(
        f"{storage.shown}: the data file {file.path} has {came}, but {expected} according to the table's log; it "
        f"was damaged or overwritten, and must not change"
    )


def _rows(parquet: pq.ParquetFile, part: Part, storage: Storage, schema: StructType) -> Iterator[pa.RecordBatch]:
    target, where = arrow_schema(schema), f"{storage.shown}: {part.file.path}"
    if only_spark_reads(parquet.metadata) and any(map(_has_days, target.types)):
        raise SourceUnreadableError(
            f"{where} may have dates and times in the calendar of Spark 2, which only Spark reads: use SparkSpout"
        )
    constants = {name: _constant(value, target.field(name), where) for name, value in part.file.constants
                 if name in target.names}  # fmt: skip
    names = [None if name in constants else column_of(name, parquet.schema_arrow.names) for name in target.names]
    groups = _groups(parquet.metadata, part)
    columns, only = [name for name in names if name is not None], part.file.only
    if only is not None and only.column not in columns:
        columns.append(only.column)
    if columns:
        batches = parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False)
    else:  # Arrow yields no batch if it reads no column
        batches = _without_columns(sum(parquet.metadata.row_group(number).num_rows for number in groups))
    for batch in batches:
        arrays = []
        for name, field in zip(names, target, strict=True):
            if name is None:
                value = constants.get(field.name, pa.scalar(None, field.type))
                arrays.append(pa.repeat(value, batch.num_rows))
            else:
                arrays.append(_cast(batch.column(name), field, where))
        rows = pa.RecordBatch.from_arrays(arrays, schema=target)
        yield rows if only is None else rows.filter(_rows_of(only, batch))


def _rows_of(only: OnlyRows, batch: pa.RecordBatch) -> pa.Array:
    """Return for each row of a batch whether to read it."""
    return pc.is_in(batch.column(only.column).cast(pa.string()), pa.array(only.values))


def _without_columns(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, _BATCH_ROWS):
        yield pa.record_batch({"": pa.nulls(min(_BATCH_ROWS, rows - start))})


def _groups(metadata: pq.FileMetaData, part: Part) -> list[int]:
    """Return the row groups whose middle (by size) is in the part. So each group is in exactly one part."""
    if part.parts == 1:
        return list(range(metadata.num_row_groups))
    sizes = [max(1, metadata.row_group(number).total_byte_size) for number in range(metadata.num_row_groups)]
    total, before, chosen = sum(sizes), 0, []
    for number, size in enumerate(sizes):
        if (2 * before + size) * part.parts // (2 * total) == part.number:
            chosen.append(number)
        before += size
    return chosen


def _cast(column: pa.Array, field: pa.Field, where: str) -> pa.Array:
    kind = column.type
    if kinds.is_timestamp(field.type) and field.type.tz and kinds.is_timestamp(kind) and not kind.tz:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))  # 96-bit timestamps, which Arrow reads without a zone
    try:
        return cast_column(column, field.type)
    except CastError as error:
        raise SpoutContractError(f"{where}, field {field.name!r}: {error}, but {field.type} is declared") from None


def _constant(value: Any, field: pa.Field, where: str) -> pa.Scalar:
    """Return the value of a partition column as a scalar of the field's type. `value` may be given as text."""
    kind = field.type
    if value is None or value == "":  # tables also write a missing value as an empty text
        return pa.scalar(None, kind)
    try:
        if not isinstance(value, str) or kinds.is_string(kind):
            return pa.scalar(value, kind)
        if kinds.is_timestamp(kind) and kind.tz and value[-1:].isdigit() and "+" not in value:
            return pc.cast(pc.cast(pa.scalar(value), pa.timestamp("us")), kind)  # a time without a zone is in UTC
        if kinds.is_decimal(kind):
            return pa.scalar(decimal.Decimal(value), kind)
        return pc.cast(pa.scalar(value), kind)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise SpoutContractError(
            f"{where}: the partition column {field.name!r} has {value!r}, but {kind} is declared ({error})"
        ) from None


def _has_days(kind: pa.DataType) -> bool:
    children = (kind.field(at).type for at in range(kind.num_fields))
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind)) or any(map(_has_days, children))
