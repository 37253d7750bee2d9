"""The Parquet format: whole files, read by Spark itself, or in the Python workers that run the operations."""

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.errors import SourceUnreadableError, SpoutContractError, TypeDeclarationError
from trident.base.types import arrow_schema, spark_schema, type_ddl
from trident_spouts.casting import CastError, cast_column
from trident_spouts.emission import spark_path
from trident_spouts.executor import Emission, Metadata, WorkerReader
from trident_spouts.files.parquet_reader import (
    IN_MICROSECONDS,
    GroupReader,
    RowGroups,
    column_of,
    footer,
    only_spark_reads,
    read_groups,
    shares,
)
from trident_spouts.files.ranges import PlannedFile, unreadable_error
from trident_spouts.workers import conf, numbers_frame, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_UNCUT_BYTES = 4 << 20
"""The largest file that Spark never cuts (spark.sql.files.openCostInBytes)."""


@dataclass(frozen=True, slots=True)
class FilesEmission(Emission):
    """An emission of whole Parquet files, which the workers read.

    `paths` are local and absolute. `planned` holds the planned file to which each path must lead, in the order of
    `paths`; it is empty for an emission that a user's spout makes.
    """

    paths: tuple[str, ...]
    schema: StructType
    rows: int | None = None
    after: Metadata = None
    planned: tuple[PlannedFile, ...] = ()
    nanoseconds: bool | None = None
    """Whether a file has times in nanoseconds, which Spark cannot read; None: the footers have to be asked."""
    cheap = True

    @property
    def bytes(self) -> int | None:
        """Return the number of bytes of the files on disk; None for files that were not planned."""
        return sum(file.size for file in self.planned) if len(self.planned) == len(self.paths) else None

    def arrow(self) -> pa.Table:
        """Return the tuples of the files, read into the driver's memory."""
        tables = (read_parquet(path, self.schema, self._planned.get(path)) for path in self.paths)
        return pa.concat_tables([arrow_schema(self.schema).empty_table(), *tables])

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame that scans exactly these files; Spark lists no folder, and no row passes the driver."""
        if not self.paths:
            return spark.createDataFrame(arrow_schema(self.schema).empty_table(), schema=self.schema)
        if self._has_nanoseconds:
            read = self.reader(spark, self.schema.names)
            assert read is not None, "reader raises where only Python can read the files, and may not"
            return read.numbers.mapInArrow(read.read, self.schema)
        return spark.read.schema(self.schema).parquet(*map(spark_path, self.paths))

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether Spark itself cannot read the files, because one has times in nanoseconds, as pandas has."""
        return self._has_nanoseconds

    @property
    def _has_nanoseconds(self) -> bool:
        if self.nanoseconds is not None:
            return self.nanoseconds
        return any(has_nanoseconds(footer(path)) for path in self.paths)

    @property
    def one_partition(self) -> bool:
        """Return whether Spark scans the files as one partition, because there is one file that Spark does not cut."""
        if len(self.paths) != 1 or self._has_nanoseconds:
            return False
        try:
            return os.path.getsize(self.paths[0]) <= _UNCUT_BYTES
        except OSError as error:
            raise unreadable_error(self.paths[0], error) from error

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return how workers read the named fields; None if Arrow would read the files otherwise than Spark's own scan.

        Raises SpoutContractError if only Spark could read what only Python can.
        """
        footers = [footer(path) for path in self.paths]
        if any(map(only_spark_reads, footers)) or conf(spark, "spark.sql.caseSensitive") == "true":
            if not self._has_nanoseconds:
                return None
            raise SpoutContractError(
                f"FileSpout: a file in {os.path.dirname(self.paths[0])} has times in nanoseconds, which Spark cannot "
                f"read, and one needs Spark (times of Spark before 3.1, or spark.sql.caseSensitive=true); "
                f"{IN_MICROSECONDS}"
            )
        checked = tuple(
            tuple(replace(groups, planned=self._planned.get(groups.path)) for groups in share)
            for share in shares(self.paths, footers, parallelism(spark))
        )
        fields = StructType([self.schema[name] for name in names if name in self.schema.names])
        numbers, read = numbers_frame(spark, len(checked)), GroupReader(checked, fields)
        return WorkerReader(numbers, read, arrow_schema(fields), self.schema.names)

    def check_planned(self) -> None:
        """Check that the files still have as many rows as when the batch was planned.

        If they have, Spark reads all rows or fails, because it may not ignore damaged files. Raises
        SourceUnreadableError if they have not.
        """
        if self.rows is None:
            return
        rows = sum(footer(path).num_rows for path in self.paths)
        if rows != self.rows:
            shown = ", ".join(self.paths[:3]) + (", ..." if len(self.paths) > 3 else "")
            raise SourceUnreadableError(
                f"{len(self.paths)} Parquet file(s) had {self.rows} rows when the batch was planned, and have {rows} "
                f"now: {shown}; a file is damaged or was replaced, and must not change after it was listed"
            )

    def check_scanned(self) -> None:
        """Check, after Spark has read the files, that they are still the planned ones.

        Spark opens files by their names, whenever its tasks run. Raises SourceUnreadableError if Spark may have opened
        other files.
        """
        for file in self.planned:
            file.check_scanned()

    @property
    def _planned(self) -> dict[str, PlannedFile]:
        return {file.path: file for file in self.planned}


def footer_schema(path: str) -> StructType:
    """Return the fields in a Parquet file's footer. Raises TypeDeclarationError if Spark has no type for one."""
    columns = _arrow_fields(footer(path))
    try:
        return spark_schema(columns)
    except Exception as error:
        raise TypeDeclarationError(
            f"FileSpout: {path} has a column for which Spark has no type ({error}); give the fields as schema="
        ) from error


def checked_footer(path: str, schema: StructType) -> pq.FileMetaData:
    """Return the footer of a Parquet file.

    Raises SpoutContractError if a column's type does not fit its declared field. A field for which the file has no
    column is no error: it is read as null, as by Spark.
    """
    metadata = footer(path)
    columns = _arrow_fields(metadata)
    for field in arrow_schema(schema):
        name = column_of(field.name, columns.names)
        if name is not None and not _castable(columns.field(name).type, field.type):
            raise SpoutContractError(
                f"FileSpout: {path} has {name!r} as {columns.field(name).type}, "
                f"expected {type_ddl(schema[field.name].dataType)}"
            )
    return metadata


def has_nanoseconds(metadata: pq.FileMetaData) -> bool:
    """Return whether a column of a Parquet file has times in nanoseconds: INT64, not the INT96 that Spark writes."""
    columns = [metadata.schema.column(at) for at in range(len(metadata.schema))]
    return any(column.physical_type == "INT64" and "nanoseconds" in str(column.logical_type) for column in columns)


def read_parquet(path: str, schema: StructType, planned: PlannedFile | None = None) -> pa.Table:
    """Return the tuples of a Parquet file with the declared fields, equal to what Spark's own scan would return.

    Raises SourceUnreadableError if the file has old days or times in a calendar that only Spark knows.
    """
    metadata = footer(path)
    groups = RowGroups(path, tuple(range(metadata.num_row_groups)), planned)
    table = pa.Table.from_batches(read_groups(groups, schema), arrow_schema(schema))
    if only_spark_reads(metadata) and any(_has_old_days(chunk) for column in table.columns for chunk in column.chunks):
        raise SourceUnreadableError(
            f"FileSpout: {path} has days before {_NEW_DAYS} or times before {_NEW_TIMES.date()} by the calendar of "
            f"Spark 2: only Spark reads them; start the topology on Spark"
        )
    return table


_NEW_DAYS = datetime.date(1582, 10, 15)
_NEW_TIMES = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
"""The first day and the first time from which on the calendars of Spark 2 and Spark 3 agree."""


def _has_old_days(values: pa.Array) -> bool:
    """Return whether a value, or a value inside one, is a day or a time on which the two calendars may differ."""
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
