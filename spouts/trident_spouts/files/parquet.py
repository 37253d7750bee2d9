"""Parquet: whole files, read by Spark itself, or by Python operations where they run."""

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
from trident_spouts.casting import NotCast, cast_column
from trident_spouts.emission import spark_path
from trident_spouts.executor import Metadata
from trident_spouts.files.parquet_reader import (
    GroupReader,
    RowGroups,
    column_of,
    footer,
    only_spark_reads,
    read_groups,
    shares,
)
from trident_spouts.files.ranges import PlannedFile
from trident_spouts.workers import conf, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_UNCUT = 4 << 20
"""Up to this Spark cuts no file (spark.sql.files.openCostInBytes)."""


@dataclass(frozen=True, slots=True)
class FilesEmission:
    """Whole Parquet files, read by the workers. `paths` are local and absolute. `planned` says which files these must
    be, in the same order; empty where nobody planned them."""

    paths: tuple[str, ...]
    schema: StructType
    rows: int | None = None
    after: Metadata = None
    digest: None = None
    planned: tuple[PlannedFile, ...] = ()

    def arrow(self) -> pa.Table:
        """Return the files' tuples in the driver's memory."""
        tables = (read_parquet(path, self.schema, self._planned.get(path)) for path in self.paths)
        return pa.concat_tables([arrow_schema(self.schema).empty_table(), *tables])

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return one scan of exactly these files. Nothing is listed, and no row passes the driver."""
        if not self.paths:
            return spark.createDataFrame(arrow_schema(self.schema).empty_table(), schema=self.schema)
        return spark.read.schema(self.schema).parquet(*map(spark_path, self.paths))

    @property
    def one(self) -> bool:
        """Return whether Spark's scan is one partition, because a file of this size is not cut."""
        if len(self.paths) != 1:
            return False
        try:
            return os.path.getsize(self.paths[0]) <= _UNCUT
        except OSError as error:
            raise SourceUnreadableError(f"FileSpout: cannot read {self.paths[0]}: {error.strerror or error}") from error

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> "tuple[DataFrame, GroupReader] | None":
        """Return the partitions and the function that reads these fields, for Python operations that run behind it in
        the same worker. None where only Spark's own scan reads the files as Spark does."""
        footers = [footer(path) for path in self.paths]
        if any(map(only_spark_reads, footers)) or conf(spark, "spark.sql.caseSensitive") == "true":
            return None
        cut = tuple(
            tuple(replace(groups, planned=self._planned.get(groups.path)) for groups in share)
            for share in shares(self.paths, footers, parallelism(spark))
        )
        fields = StructType([self.schema[name] for name in names])
        return spark.range(0, len(cut), 1, len(cut)), GroupReader(cut, fields)

    @property
    def _planned(self) -> dict[str, PlannedFile]:
        return {file.path: file for file in self.planned}


def footer_schema(path: str) -> StructType:
    """Return the fields of a Parquet file."""
    found = _arrow_fields(footer(path))
    try:
        return spark_schema(found)
    except Exception as error:
        raise TypeDeclarationError(
            f"FileSpout: {path} has a column that Spark has no type for ({error}); give schema= with the fields to read"
        ) from error


def count_rows(path: str, schema: StructType) -> int:
    """Return how many rows the file has, by its footer. Raise for a file whose columns are not of the declared types.

    A column that the file lacks is read as null, as Spark does.
    """
    found = footer(path)
    theirs = _arrow_fields(found)
    for field in arrow_schema(schema):
        name = column_of(field.name, theirs.names)
        if name is not None and not _readable(theirs.field(name).type, field.type):
            raise SpoutContractError(
                f"FileSpout: {path} has {name!r} as {theirs.field(name).type}, "
                f"declared is {type_ddl(schema[field.name].dataType)}"
            )
    return int(found.num_rows)


def read_parquet(path: str, schema: StructType, planned: PlannedFile | None = None) -> pa.Table:
    """Return the file's tuples as declared, as Spark's own scan would give them. Raises SourceUnreadableError where
    only Spark knows the calendar of its days."""
    found = footer(path)
    groups = RowGroups(path, tuple(range(found.num_row_groups)), planned)
    table = pa.Table.from_batches(read_groups(groups, schema), arrow_schema(schema))
    if only_spark_reads(found) and any(_has_old_days(chunk) for column in table.columns for chunk in column.chunks):
        raise SourceUnreadableError(
            f"FileSpout: {path} has days before {_NEW_DAYS} or times before {_NEW_TIMES.date()} by the calendar of "
            f"Spark 2: only Spark reads them; start the topology on Spark"
        )
    return table


_NEW_DAYS = datetime.date(1582, 10, 15)
_NEW_TIMES = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
"""From here on both calendars agree."""


def _has_old_days(values: pa.Array) -> bool:
    """Return whether a day or a time in these values, or within them, is one that the two calendars count otherwise."""
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


def _arrow_fields(found: pq.FileMetaData) -> pa.Schema:
    """Return the columns' Arrow types: of dictionaries those of their values, of 96-bit timestamps instants."""
    plain = found.schema.to_arrow_schema().remove_metadata()
    columns = [found.schema.column(at) for at in range(len(found.schema))]
    old = {column.path for column in columns if column.physical_type == "INT96"}
    fields = []
    for field in plain:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_timestamp(kind):
            instant = kind.tz is not None or field.name in old
            kind = pa.timestamp("us", "UTC" if instant else None)
        fields.append(pa.field(field.name, kind, field.nullable))
    return pa.schema(fields)


def _readable(theirs: pa.DataType, ours: pa.DataType) -> bool:
    empty = pa.chunked_array([pa.array([], theirs)])
    try:
        cast_column(empty, ours)
    except NotCast:
        return False
    return True
