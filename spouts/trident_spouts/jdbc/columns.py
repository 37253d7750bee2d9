"""Columns of a database as fields: the field type for each column type, and rows in CSV as exact Arrow columns."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import types as spark
from pyspark.sql.types import DataType, StructField, StructType

from trident.base.errors import MalformedInputError, TypeDeclarationError
from trident.base.spark_types import arrow_type, type_ddl
from trident_spouts.jdbc.database import ColumnType
from trident_spouts.jdbc.relation import Relation, Source, quoted

_MOST_DIGITS = 38
_VERSION = "xmin"

_TEXTS = {
    "text",
    "character varying",
    "character",
    "bpchar",
    "name",
    '"char"',
    "uuid",
    "json",
    "jsonb",
    "enum",
    "citext",
}
_TYPES: Mapping[str, DataType] = {
    "boolean": spark.BooleanType(),
    "smallint": spark.ShortType(),
    "integer": spark.IntegerType(),
    "bigint": spark.LongType(),
    "real": spark.FloatType(),
    "double precision": spark.DoubleType(),
    "bytea": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp without time zone": spark.TimestampNTZType(),
    "timestamp with time zone": spark.TimestampType(),
} | dict.fromkeys(_TEXTS, spark.StringType())
_WIDER = {
    ("smallint", "int"), ("smallint", "bigint"), ("integer", "bigint"), ("real", "double"),
}  # fmt: skip


def natural_type(column: ColumnType, type_name: str) -> DataType | None:
    """Return the field type that can hold every value of a column; None if no type can."""
    if type_name != "numeric":
        return _TYPES.get(type_name)
    precision, scale = column.precision, column.scale
    if precision is None or scale is None or not 0 <= scale <= precision <= _MOST_DIGITS:
        return None
    return spark.DecimalType(precision, scale)


def fields_of(relation: Relation, source: Source) -> StructType:
    """Return a field for each column. Raises TypeDeclarationError for a column that no type holds exactly."""
    fields = []
    for column in relation.columns:
        type_name = relation.types.get(column.oid, "unknown")
        kind = natural_type(column, type_name)
        if kind is None:
            raise TypeDeclarationError(_unreadable(source, column, type_name))
        fields.append(StructField(column.name, kind))
    return StructType(fields)


def _unreadable(source: Source, column: ColumnType, type_name: str) -> str:
    if type_name == "numeric":
        why = (
            f"the type numeric without a precision, or with more than {_MOST_DIGITS} digits. Declare the fields, "
            f"with one such "
            f"as '{column.name} decimal(20,4)', which rejects values that do not fit, or '{column.name} string'"
        )
    else:
        why = (
            f"the type {type_name}, which no field type can hold exactly. Declare the fields, with '{column.name} "
            f"string' for its text, or omit the column"
        )
    return f"{source.owner}: {source.name}: column {column.name!r} has {why}: schema='...'"


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The SQL expression that selects each field, and whether each row also has PostgreSQL's row version (xmin)."""

    source: Source
    schema: StructType
    expressions: tuple[str, ...]
    versioned: bool

    @property
    def select(self) -> str:
        """The list of expressions after SELECT."""
        return ", ".join((*self.expressions, *([_VERSION] if self.versioned else [])))

    def table(self, chunks: Iterable[bytes]) -> tuple[pa.Table, str]:
        """Return rows in CSV as a table, with their digest. Raises MalformedInputError for a value of another type."""
        names = [str(at) for at in range(len(self.expressions))]
        kinds = {name: arrow_type(field.dataType) for name, field in zip(names, self.schema.fields, strict=True)}
        read = {name: pa.string() if pa.types.is_binary(kind) else kind for name, kind in kinds.items()}
        read |= {_VERSION: pa.int64()} if self.versioned else {}
        tables = [self._parsed(chunk, read) for chunk in chunks]
        table = pa.concat_tables([pa.schema(list(read.items())).empty_table(), *tables])
        digest = str(pc.sum(table[_VERSION]).as_py() or 0) if self.versioned else ""
        columns = [_bytes(table[name]) if pa.types.is_binary(kinds[name]) else table[name] for name in names]
        return pa.table(columns, names=self.schema.names), digest

    def _parsed(self, chunk: bytes, kinds: dict[str, pa.DataType]) -> pa.Table:
        try:
            table = csv.read_csv(
                pa.BufferReader(chunk),
                # One block, because two blocks could split a row.
                read_options=csv.ReadOptions(use_threads=False, block_size=len(chunk) + 1, column_names=[*kinds]),
                parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    column_types=kinds,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    true_values=["t"],
                    false_values=["f"],
                ),
            )
            for name, kind in kinds.items():
                if pa.types.is_decimal(kind):
                    self._check_precision(table[name], int(name))
            return table
        except pa.ArrowInvalid as error:
            raise MalformedInputError(f"{self.source.owner}: {self.source.name}{self._explained(str(error))}") from None

    def _check_precision(self, column: pa.ChunkedArray, at: int) -> None:
        """Raise MalformedInputError if a decimal has more digits than declared, which the CSV reader does not check."""
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            field = self.schema.fields[at]
            where = f"{self.source.name}, column {field.name!r}"
            message = f"{self.source.owner}: {where}: expected {type_ddl(field.dataType)}, got {error}"
            raise MalformedInputError(message) from None

    def _explained(self, error: str) -> str:
        found = re.search(r"In CSV column #(\d+):.*?(?:invalid value|: )\s*'?(.*?)'?$", error)
        if found is None or int(found[1]) >= len(self.schema.fields):
            return f": {error}"
        field = self.schema.fields[int(found[1])]
        return (
            f", column {field.name!r}: expected {type_ddl(field.dataType)}, got {error.rpartition(': ')[2]:.200}; "
            f"declare the field as string to get the database's text{self.source.exclusion}"
        )


def row_format(relation: Relation, source: Source, schema: StructType) -> RowFormat:
    """Return the row format for the fields of `schema`. Raises TypeDeclarationError if a column has another type."""
    by_name = {column.name: column for column in relation.columns}
    expressions = []
    for field in schema.fields:
        if field.name not in by_name:
            raise TypeDeclarationError(
                f"{source.owner}: {source.name} has no column {field.name!r}; its columns are {', '.join(by_name)}"
            )
        expressions.append(_expression(by_name[field.name], field, relation, source))
    return RowFormat(source, schema, tuple(expressions), relation.versioned)


def _expression(column: ColumnType, field: StructField, relation: Relation, source: Source) -> str:
    type_name = relation.types.get(column.oid, "unknown")
    natural, declared = natural_type(column, type_name), field.dataType
    name = quoted(column.name)
    if natural == declared or (type_name, declared.simpleString()) in _WIDER:
        return name
    if isinstance(declared, spark.StringType):
        return f"{name}::text"
    if isinstance(declared, spark.DecimalType) and type_name == "numeric" and _holds(declared, natural):
        return name
    accepted = "string" if natural is None else f"{type_ddl(natural)} or string"
    raise TypeDeclarationError(
        f"{source.owner}: {source.name}: column {column.name!r} has the type {type_name}, but its field is declared as "
        f"{type_ddl(declared)}; expected {accepted}"
    )


def _holds(declared: spark.DecimalType, natural: DataType | None) -> bool:
    """Return whether a decimal type can be the field type of a numeric column.

    It must hold every value of `natural`, the column's own type. If `natural` is None, the type can be any: each value
    is checked when it is read.
    """
    if not isinstance(natural, spark.DecimalType):
        return True
    return declared.scale >= natural.scale and declared.precision - declared.scale >= natural.precision - natural.scale


def _bytes(column: pa.ChunkedArray) -> pa.Array:
    r"""Return a column of texts such as ``\x6869`` as bytes."""
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in column.to_pylist()], pa.binary())
