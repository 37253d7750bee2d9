"""The Parquet format: whole files, read by Spark itself, or in the Python workers that run the operations."""

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.errors import SourceUnreadableError, SpoutContractError, TypeDeclarationError
from trident.base.spark_types import arrow_schema, spark_schema, type_ddl
from trident_spouts.casting import CastError, cast_column
from trident_spouts.emission import scan_in_order, spark_path
from trident_spouts.executor import Emission, Metadata, WorkerReader
from trident_spouts.files.file_ranges import FileRef, PlannedFile, opening_bytes, unreadable_error
from trident_spouts.files.local_storage import LocalStorage
from trident_spouts.files.parquet_reader import (
    IN_MICROSECONDS,
    GroupReader,
    RowGroups,
    column_of,
    footer,
    footers,
    only_spark_reads,
    read_groups,
    shares,
)
from trident_spouts.files.read_ahead import read_in_order
from trident_spouts.source_times import SourceSpan, divided
from trident_spouts.spark_workers import conf, numbers_frame, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MOST_SCANS = 8
"""The most files that Spark scans one by one, so that their order is kept. A scan takes about 10 ms of planning."""

_FEW_BYTES = 1 << 19
"""The largest file whose tuples are aggregated without a shuffle.

Spark never cuts so small a file. Without the shuffle, the scan and the aggregate are separate steps, which costs about
60 ns more per tuple; a shuffle of the partial results takes about 20 ms.
"""


@dataclass(frozen=True, slots=True)
class FilesEmission(Emission):
    """An emission of whole Parquet files, which the workers read.

    `paths` are local and absolute, or the planned files that a FileSpout reads.
    """

    verified = True

    paths: tuple[FileRef, ...]
    schema: StructType
    rows: int | None = None
    after: Metadata = None
    beyond_spark: bool | None = None
    """True if a file has columns that Spark's scan cannot read. None: the footers must be read to know it."""

    @property
    def bytes(self) -> int | None:
        """Return the number of bytes of the files on disk; None for files that were not planned."""
        sizes = [path.file.size for path in self.paths if isinstance(path, PlannedFile)]
        return sum(sizes) if len(sizes) == len(self.paths) else None

    @property
    def source_times(self) -> Sequence[SourceSpan]:
        """Return the times at which the files changed. The files share the tuples by their bytes."""
        planned = [path for path in self.paths if isinstance(path, PlannedFile)]
        return divided([(path.changed, path.file.size) for path in planned], self.rows)

    def arrow(self) -> pa.Table:
        """Return the tuples of the files, read into the driver's memory."""
        tables = read_in_order(self.paths, self._table, _worth)
        return pa.concat_tables([arrow_schema(self.schema).empty_table(), *tables])

    def _table(self, path: FileRef) -> Iterator[pa.Table]:
        yield read_parquet(path, self.schema)

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame of exactly these files, in their order.

        Spark lists no folder, and no row passes through the driver. Spark scans file by file. If there are many files,
        Python reads them on the workers, unless only Spark can read them.
        """
        if not self.paths:
            return spark.createDataFrame(arrow_schema(self.schema).empty_table(), schema=self.schema)
        if self.python_only(spark):
            read = self.reader(spark, self.schema.names)
            assert read is not None, "reader raises where only Python can read the files, and may not"
            return read.numbers.mapInArrow(read.read, self.schema)
        many = self.reader(spark, self.schema.names) if len(self.paths) > _MOST_SCANS else None
        if many is not None:
            return many.numbers.mapInArrow(many.read, self.schema)
        return scan_in_order(spark, [spark_path(str(path)) for path in self.paths], self.schema)

    def unordered(self, spark: "SparkSession", scratch: Path) -> "DataFrame | None":
        """Return one scan of all files; None if Spark cannot scan them, or if there is only one file."""
        if len(self.paths) < 2 or self.python_only(spark):
            return None
        return spark.read.schema(self.schema).parquet(*(spark_path(str(path)) for path in self.paths))

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether Spark itself cannot read the files.

        They are not on a disk, have unsupported columns, or names that Hadoop's local file system cannot open: it looks
        for ``.name.crc``, and takes the text before a colon for the scheme of a URL.
        """
        return self._beyond_scans

    @property
    def _beyond_scans(self) -> bool:
        names = (os.path.basename(str(path)) for path in self.paths)
        return not self._local or any(":" in name for name in names) or self._is_beyond_spark

    @property
    def cheap(self) -> bool:
        """Return whether reading the tuples twice costs less than keeping them: True for files on a local disk."""
        return self._local

    @property
    def _local(self) -> bool:
        return all(isinstance(path, str) or isinstance(path.place, LocalStorage) for path in self.paths)

    @property
    def _is_beyond_spark(self) -> bool:
        if self.beyond_spark is not None:
            return self.beyond_spark
        return any(is_beyond_spark(metadata, self.schema) for metadata in footers(self.paths))

    @property
    def one_partition(self) -> bool:
        """Return whether there is only one file and it is small, so that Spark scans it as one partition."""
        if len(self.paths) != 1 or self._beyond_scans:
            return False
        path = str(self.paths[0])
        try:
            return os.path.getsize(path) <= _FEW_BYTES
        except OSError as error:
            raise unreadable_error(path, error) from error

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return a reader of the named fields for workers; None if Arrow would read the files differently from Spark.

        Raises SpoutContractError if the files need Spark's scan, and Spark cannot read them either.
        """
        read_footers = footers(self.paths)
        if any(map(only_spark_reads, read_footers)) or conf(spark, "spark.sql.caseSensitive") == "true":
            if not self.python_only(spark):
                return None
            raise SpoutContractError(self._only_spark())
        checked = shares(self.paths, read_footers, parallelism(spark))
        fields = StructType([self.schema[name] for name in names if name in self.schema.names])
        numbers, read = numbers_frame(spark, len(checked)), GroupReader(checked, fields)
        return WorkerReader(numbers, read, arrow_schema(fields), self.schema.names)

    def _only_spark(self) -> str:
        """Return the text of the error for files that Arrow cannot read, and that Spark's scan cannot read either."""
        why = "(times of Spark before 3.1, or spark.sql.caseSensitive=true)"
        where = os.path.dirname(str(self.paths[0]))
        if not self._local:
            return (
                f"FileSpout: a file in {where} needs Spark's own reader {why}, which reads local disks only; "
                f"rewrite the files with a current version, or unset the setting"
            )
        if any(isinstance(path, PlannedFile) and path.folders for path in self.paths):
            return (
                f"FileSpout: a file in {where} needs Spark's own reader {why}, which does not know fields of "
                f"Folders(...); {_WITHOUT_FOLDERS}, or unset the setting"
            )
        return (
            f"FileSpout: a file in {where} has times in nanoseconds, a column without a type (all of it is null), "
            f"columns whose names differ only in case, or a colon in its name, which Spark cannot read; but another "
            f"file needs Spark {why}. For times, {IN_MICROSECONDS}"
        )

    def check_planned(self) -> None:
        """Check that the files still have as many rows as when the batch was planned.

        If they do, Spark reads all rows or fails, because it may not ignore damaged files. Raises SourceUnreadableError
        if a file has another number of rows.
        """
        if self.rows is None or not self._local:  # for an object, the readers check the ETag
            return
        rows = sum(metadata.num_rows for metadata in footers(self.paths))
        if rows != self.rows:
            shown = ", ".join(map(str, self.paths[:3])) + (", ..." if len(self.paths) > 3 else "")
            raise SourceUnreadableError(
                f"{len(self.paths)} Parquet file(s) had {self.rows} rows when the batch was planned, and have {rows} "
                f"now: {shown}; a file is damaged or was replaced, and must not change after it was listed"
            )

    def check_scanned(self) -> None:
        """Check, after Spark has read the files, that they are still the planned files.

        Spark opens files by their names, at the time when its tasks run. Raises SourceUnreadableError if Spark may have
        opened other files.
        """
        for path in self.paths:
            if isinstance(path, PlannedFile) and self._local:
                path.check_scanned()


def _worth(path: FileRef) -> int:
    return 0 if isinstance(path, str) or not opening_bytes(path) else path.file.size


def footer_schema(path: PlannedFile) -> StructType:
    """Return the fields in a Parquet file's footer. Raises TypeDeclarationError if Spark has no type for a column."""
    columns = _arrow_fields(footer(path))
    for column in columns:
        # Spark has a type for a time of day, but tuples do not support it.
        if pa.types.is_time(column.type) or not _has_spark_type(column):
            raise TypeDeclarationError(
                f"FileSpout: {path}: column {column.name!r} is {column.type}, a type that tuples cannot have; declare "
                f"the fields with schema=, and give this column another type (unsigned numbers as long) or omit it"
            )
    return spark_schema(columns)


def _has_spark_type(column: pa.Field) -> bool:
    try:
        spark_schema(pa.schema([column]))
    except Exception:  # PySpark raises errors of several kinds
        return False
    return True


def checked_footers(paths: Sequence[PlannedFile], schema: StructType) -> list[pq.FileMetaData]:
    """Return the footers of Parquet files.

    Raises SpoutContractError if a column's type does not fit its declared field. A field without a column in the file
    is not an error: it is read as null, as by Spark.
    """
    read_footers = footers(paths)
    for path, metadata in zip(paths, read_footers, strict=True):
        _check_fields(path, _arrow_fields(metadata), schema)
    return read_footers


def columns_of(read_footers: Sequence[pq.FileMetaData]) -> list[str]:
    """Return the names of the columns of these files, each name once."""
    return list(dict.fromkeys(name for metadata in read_footers for name in metadata.schema.to_arrow_schema().names))


def _check_fields(path: PlannedFile, columns: pa.Schema, schema: StructType) -> None:
    for field in arrow_schema(schema):
        name = column_of(field.name, columns.names)
        alike = [column for column in columns.names if column.lower() == field.name.lower()]
        if (name is None and alike) or columns.names.count(field.name) > 1:
            raise SpoutContractError(
                f"FileSpout: {path} has {len(alike)} columns that match the field {field.name!r}: "
                f"{', '.join(map(repr, alike))}; declare the field with the exact name of one of them, and rename "
                f"columns that have the same name"
            )
        if name is not None and not _castable(columns.field(name).type, field.type):
            raise SpoutContractError(
                f"FileSpout: {path} has {name!r} as {columns.field(name).type}, "
                f"expected {type_ddl(schema[field.name].dataType)}"
            )


def is_beyond_spark(metadata: pq.FileMetaData, schema: StructType) -> bool:
    """Return whether a Parquet file has a column that Python can read, but Spark's scan cannot.

    Such columns are times in nanoseconds (INT64, not the INT96 that Spark writes), unsigned numbers of 64 bits, columns
    of type null, as pandas writes for a column without values, and columns whose names differ only in case. Spark also
    takes a null for a value of a field that is NOT NULL.
    """
    columns = [metadata.schema.column(at) for at in range(len(metadata.schema))]
    names = [name.lower() for name in metadata.schema.to_arrow_schema().names]
    return (
        len(set(names)) < len(names)
        or any(
            (column.physical_type == "INT64" and "nanoseconds" in str(column.logical_type))
            or str(column.logical_type) in ("Null", _UNSIGNED)
            for column in columns
        )
        or any(not field.nullable and _may_be_null(metadata, field.name) for field in schema.fields)
    )


_UNSIGNED = "Int(bitWidth=64, isSigned=false)"


def _may_be_null(metadata: pq.FileMetaData, name: str) -> bool:
    """Return whether a field may have a null in a file, as far as the footer says."""
    column = column_of(name, metadata.schema.to_arrow_schema().names)
    if column is None:
        return True
    own = [at for at in range(len(metadata.schema)) if metadata.schema.column(at).path == column]
    if not own:  # a list, map or struct
        return True
    groups = (metadata.row_group(number).column(own[0]).statistics for number in range(metadata.num_row_groups))
    required = metadata.schema.column(own[0]).max_definition_level == 0
    return not required and any(found is None or found.null_count != 0 for found in groups)


def read_parquet(path: FileRef, schema: StructType) -> pa.Table:
    """Return the tuples of a Parquet file with the declared fields, equal to the rows of Spark's scan.

    Raises SourceUnreadableError if the file has old dates or times in a calendar that only Spark knows.
    """
    metadata = footer(path)
    groups = RowGroups(path, tuple(range(metadata.num_row_groups)))
    table = pa.Table.from_batches(read_groups(groups, schema), arrow_schema(schema))
    if only_spark_reads(metadata) and any(_has_old_days(chunk) for column in table.columns for chunk in column.chunks):
        in_folders = isinstance(path, PlannedFile) and path.folders
        raise SourceUnreadableError(
            f"FileSpout: {path} has days before {_NEW_DAYS} or times before {_NEW_TIMES.date()} in the calendar of "
            f"Spark 2, which only Spark reads; "
            + (_WITHOUT_FOLDERS if in_folders else "start the topology with engine='spark'")
        )
    return table


_WITHOUT_FOLDERS = (
    "rewrite the files with Spark 3.1 or later (spark.read.parquet(...).write.partitionBy(...)), or read them without "
    "Folders(...) and with engine='spark'"
)

_NEW_DAYS = datetime.date(1582, 10, 15)
_NEW_TIMES = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
"""The first date, and the first time, from which on the calendars of Spark 2 and Spark 3 agree."""


def _has_old_days(values: pa.Array) -> bool:
    """Return whether a value, or a value inside it, is a date or time on which the two calendars may differ."""
    kind = values.type
    if pa.types.is_struct(kind):
        return any(map(_has_old_days, values.flatten()))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _has_old_days(values.flatten())
    if pa.types.is_date(kind):
        return bool(pc.any(pc.less(values, pa.scalar(_NEW_DAYS, kind))).as_py())
    if pa.types.is_timestamp(kind):
        return bool(pc.any(pc.less(values, pa.scalar(_NEW_TIMES, pa.timestamp("us", "UTC")).cast(kind))).as_py())
    return False


def _arrow_fields(metadata: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a Parquet file as Arrow fields, with types as Spark reads them.

    A dictionary has the type of its values. A 96-bit timestamp is an instant (a timestamp with time zone).
    """
    plain = metadata.schema.to_arrow_schema().remove_metadata()
    columns = [metadata.schema.column(at) for at in range(len(metadata.schema))]
    int96 = {column.path for column in columns if column.physical_type == "INT96"}
    fields = []
    for field in plain:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_timestamp(kind):
            instant = kind.tz is not None or field.name in int96
            kind = pa.timestamp("us", "UTC" if instant else None)
        fields.append(pa.field(field.name, kind, field.nullable))
    return pa.schema(fields)


def _castable(actual: pa.DataType, declared: pa.DataType) -> bool:
    empty = pa.chunked_array([pa.array([], actual)])
    try:
        cast_column(empty, declared)
    except CastError:
        return False
    return True
