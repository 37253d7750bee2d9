"""Parquet: whole files, read by Spark itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.errors import SourceUnreadableError, SpoutContractError, TypeDeclarationError
from trident.base.types import arrow_schema, spark_schema, type_ddl
from trident_spouts.casting import NotCast, cast_column
from trident_spouts.emission import spark_path
from trident_spouts.executor import Metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class FilesEmission:
    """Whole Parquet files, read by the workers. `paths` are local and absolute."""

    paths: tuple[str, ...]
    schema: StructType
    rows: int | None = None
    after: Metadata = None

    def arrow(self) -> pa.Table:
        """The files' tuples in the driver's memory."""
        return pa.concat_tables(
            [arrow_schema(self.schema).empty_table(), *(read_parquet(path, self.schema) for path in self.paths)]
        )

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """One scan of exactly these files; nothing is listed, no row passes the driver."""
        if not self.paths:
            return spark.createDataFrame(arrow_schema(self.schema).empty_table(), schema=self.schema)
        return spark.read.schema(self.schema).parquet(*map(spark_path, self.paths))


def footer(path: str) -> pq.FileMetaData:
    """The file's footer; SourceUnreadableError where there is none."""
    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise SourceUnreadableError(f"FileSpout: {path} is no readable Parquet file: {error}") from error


def footer_schema(path: str) -> StructType:
    """The fields of a Parquet file."""
    found = _arrow_fields(footer(path))
    try:
        return spark_schema(found)
    except Exception as error:
        raise TypeDeclarationError(
            f"FileSpout: {path} has a column that Spark has no type for ({error}); give schema= with the fields to read"
        ) from error


def count_rows(path: str, schema: StructType) -> int:
    """The file's rows, from its footer; refuses a file whose columns are not of the declared types.

    A column that the file lacks is read as null, as Spark does.
    """
    found = footer(path)
    theirs = _arrow_fields(found)
    for field in arrow_schema(schema):
        at = theirs.get_field_index(field.name)
        if at >= 0 and not _readable(theirs.field(at).type, field.type):
            raise SpoutContractError(
                f"FileSpout: {path} has {field.name!r} as {theirs.field(at).type}, "
                f"declared is {type_ddl(schema[field.name].dataType)}"
            )
    return int(found.num_rows)


def read_parquet(path: str, schema: StructType) -> pa.Table:
    """The file's tuples as declared, as Spark's own scan would give them."""
    target = arrow_schema(schema)
    present = [field.name for field in target if field.name in footer(path).schema.to_arrow_schema().names]
    table = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read(columns=present)
    columns = []
    for field in target:
        if field.name not in present:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        try:
            columns.append(cast_column(_zoned(table.column(field.name), field.type), field.type))
        except NotCast as error:
            raise SpoutContractError(f"FileSpout: {path}, field {field.name!r}: {error}") from None
    return pa.table(columns, schema=target)


def _arrow_fields(found: pq.FileMetaData) -> pa.Schema:
    """The columns as Arrow types: dictionaries as their values, Spark's old 96-bit timestamps as instants."""
    plain = found.schema.to_arrow_schema().remove_metadata()
    old = {found.schema.column(at).path for at in range(len(found.schema)) if _is_int96(found.schema.column(at))}
    fields = []
    for field in plain:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_timestamp(kind):
            instant = kind.tz is not None or field.name in old
            kind = pa.timestamp("us", "UTC" if instant else None)
        fields.append(pa.field(field.name, kind, field.nullable))
    return pa.schema(fields)


def _is_int96(column: pq.ColumnSchema) -> bool:
    return bool(column.physical_type == "INT96")


def _zoned(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """96-bit timestamps come without a zone and mean UTC."""
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_timestamp(column.type) and not column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column


def _readable(theirs: pa.DataType, ours: pa.DataType) -> bool:
    empty = pa.chunked_array([pa.array([], theirs)])
    try:
        cast_column(empty, ours)
    except NotCast:
        return False
    return True
