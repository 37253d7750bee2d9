"""Conversion of rows, in the forms that users write (tuples, scalars, dicts, Rows, Arrow, pandas), to Arrow tables."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from trident.base.errors import SpoutContractError, TypeDeclarationError
from trident.base.named_values import misplaced
from trident.base.short_texts import typed_brief
from trident.base.spark_types import arrow_schema, ddl, parse_schema, schema_of, type_ddl
from trident.base.user_rows import add_rows
from trident.base.value_conversion import NotAccepted, to_arrow
from trident_spouts.casting import CastError, cast_column

if TYPE_CHECKING:
    import pandas

RowsLike: TypeAlias = Union[pa.Table, pa.RecordBatch, "pandas.DataFrame", Iterable[Any]]  # noqa: UP007  a quoted name cannot stand in X | Y, and pandas is slow to import
"""A batch as users write it: a list of tuples, of scalars (one field), of dicts or Rows; an Arrow table; pandas."""


def read_schema(fields: str | StructType) -> StructType:
    """Return the fields that a user declared, as DDL text or as a schema.

    Raises TypeDeclarationError if they are neither.

    >>> read_schema("line string").names
    ['line']
    """
    if isinstance(fields, str):
        return parse_schema(fields)
    if isinstance(fields, StructType):
        return schema_of(fields.fields)
    raise TypeDeclarationError(
        f"expected the fields as text, such as {_as_text(fields)!r}, or as a StructType, got {typed_brief(fields)}"
    )


def _as_text(fields: object) -> str:
    """Return the names and types as text, for an error about fields in the form of another library."""
    pairs = [*fields.items()] if isinstance(fields, dict) else []
    named = all(isinstance(part, str) for pair in pairs for part in pair)
    return ", ".join(" ".join(pair) for pair in pairs) if pairs and named else "word string, n long"


def table_of(rows: RowsLike, schema: StructType, where: str) -> pa.Table:
    """Return the rows as an Arrow table of exactly `schema`. `where` begins each error ("FixedBatchSpout, batch 3").

    Columns of an Arrow table or a pandas DataFrame are matched with the fields by name, in any order. Their types may
    have a width or unit other than the declared one, as long as no value changes. Python values are neither rounded nor
    parsed. Raises SpoutContractError if the rows do not fit `schema`.

    >>> table_of([("a", 1), {"word": "b", "n": None}], read_schema("word string, n long"), "here").to_pylist()
    [{'word': 'a', 'n': 1}, {'word': 'b', 'n': None}]
    >>> table_of(["a", 7], read_schema("word string"), "FixedBatchSpout, batch 0")
    Traceback (most recent call last):
    trident_client.errors.SpoutContractError: FixedBatchSpout, batch 0, row 1, field 'word': \
expected string, got 7 (int)
    """
    if is_pandas(rows):
        table = _from_pandas(rows, schema, where)
    elif isinstance(rows, pa.Table | pa.RecordBatch):
        table = _from_arrow(rows, schema, where)
    else:
        table = _from_python(rows, schema, where)
    _check_nulls(table, schema, where)
    return table


def _check_nulls(table: pa.Table, schema: StructType, where: str) -> None:
    for at, field in enumerate(schema.fields):
        column = table.column(at)
        if not field.nullable and column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise SpoutContractError(f"{where}, row {row}, field {field.name!r}: null, but the field is NOT NULL")


def _check_columns(names: Sequence[Any], schema: StructType, where: str) -> None:
    if sorted(map(str, names)) != sorted(schema.names):
        raise SpoutContractError(
            f"{where}: its columns are ({', '.join(map(str, names))}), but ({ddl(schema)}) is declared; rename or "
            f"select columns"
        )


def _from_arrow(rows: pa.Table | pa.RecordBatch, schema: StructType, where: str) -> pa.Table:
    _check_columns(rows.schema.names, schema, where)
    columns = []
    for field in arrow_schema(schema):
        try:
            columns.append(cast_column(rows.column(field.name), field.type))
        except CastError as error:
            raise _column_error(where, schema, field.name, error) from None
    return pa.table(columns, schema=arrow_schema(schema))


def _from_pandas(frame: "pandas.DataFrame", schema: StructType, where: str) -> pa.Table:
    _check_columns(list(frame.columns), schema, where)
    columns = []
    for field in arrow_schema(schema):
        series = frame[field.name]
        if series.dtype == object:
            values = [None if _missing(value) else value for value in series]
            columns.append(_column(values, field, schema, where))
            continue
        try:
            integral = pa.types.is_integer(field.type)  # pandas keeps integers with gaps as floats
            # Arrow does not copy numbers, and a program may fill the same frame for the next batch.
            array = pa.Array.from_pandas(series.copy())
            columns.append(cast_column(array, field.type, floats_to_integers=integral))
        except (CastError, pa.ArrowException) as error:
            raise _column_error(where, schema, field.name, error) from None
    return pa.table(columns, schema=arrow_schema(schema))


def is_pandas(rows: object) -> "TypeGuard[pandas.DataFrame]":
    """Return whether the rows are a pandas DataFrame, without importing pandas, which takes a second."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)  # also None while another thread imports pandas
    return frame is not None and isinstance(rows, frame)


def is_table(rows: object) -> "TypeGuard[pa.Table | pa.RecordBatch | pandas.DataFrame]":
    """Return whether the rows are a table of columns.

    Iterating over it gives columns or their names instead of rows.
    """
    return isinstance(rows, pa.Table | pa.RecordBatch) or is_pandas(rows)


def _missing(value: Any) -> bool:
    import pandas

    return value is None or value is pandas.NA or value is pandas.NaT or (isinstance(value, float) and value != value)


def _from_python(rows: Iterable[Any], schema: StructType, where: str) -> pa.Table:
    if isinstance(rows, str | bytes | dict) or not isinstance(rows, Iterable):
        raise SpoutContractError(
            f"{where} is {typed_brief(rows)}; expected a list of rows (tuples, dicts, Rows, or scalars for one field), "
            f"an Arrow table or a pandas DataFrame"
        )
    held: list[Any] = []
    # An iterator may fill the same list or dict for every row.
    add_rows(held, rows, own=not isinstance(rows, list | tuple))
    target = arrow_schema(schema)
    columns = _split_rows(held, schema, target, where)
    arrays = [_column(values, field, schema, where) for values, field in zip(columns, target, strict=True)]
    return pa.table(arrays, schema=target)


def _column(values: Sequence[Any], field: pa.Field, schema: StructType, where: str) -> pa.Array:
    try:
        return to_arrow(list(values), field.type)
    except NotAccepted as error:
        declared = type_ddl(schema[field.name].dataType)
        why = f"; {error.why}" if error.why else ""
        raise SpoutContractError(
            f"{where}, row {error.row}, field {field.name!r}: expected {declared}, got {typed_brief(error.value)}{why}"
        ) from None


def _split_rows(rows: list[Any], schema: StructType, target: pa.Schema, where: str) -> list[Sequence[Any]]:
    """Return one sequence of Python values for each field, from rows of Python values."""
    width = len(schema.names)
    if {*map(type, rows)} <= {tuple} and {*map(len, rows)} <= {width}:
        return list(zip(*rows, strict=True)) if rows else [()] * width
    cells = [_cells(row, schema, target, f"{where}, row {at}") for at, row in enumerate(rows)]
    return list(zip(*cells, strict=True))


def _cells(row: Any, schema: StructType, target: pa.Schema, where: str) -> Sequence[Any]:
    names = schema.names
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        row = row.asDict()
    if isinstance(row, dict) and not _is_value(row, target):
        return _cells_by_name(row, schema, where)
    if isinstance(row, tuple) or (isinstance(row, list) and len(names) > 1):
        if len(row) != len(names):
            raise SpoutContractError(
                f"{where}: {typed_brief(row)} has {len(row)} values, expected {len(names)} ({ddl(schema)})"
            )
        if (why := misplaced(row, names)) is not None:
            raise SpoutContractError(f"{where}: {typed_brief(row)}: {why}")
        return row
    if len(names) > 1:
        raise SpoutContractError(
            f"{where}: expected a row of {len(names)} fields ({ddl(schema)}), got {typed_brief(row)}"
        )
    return (row,)


def _is_value(row: dict[Any, Any], target: pa.Schema) -> bool:
    """Return whether a dict is the value of the only field (a map or struct), and not a row by field name."""
    field = target.field(0)
    holds_dicts = pa.types.is_map(field.type) or pa.types.is_struct(field.type)
    return len(target) == 1 and holds_dicts and [*row] != [field.name]


def _cells_by_name(row: dict[Any, Any], schema: StructType, where: str) -> Sequence[Any]:
    names = schema.names
    for name in row:
        if name not in names:
            raise SpoutContractError(f"{where}: unknown field {name!r}; the fields are ({ddl(schema)})")
    for name in names:
        if name not in row:
            raise SpoutContractError(
                f"{where}: field {name!r} is missing; write None for a null (fields: {ddl(schema)})"
            )
    return [row[name] for name in names]


def _column_error(where: str, schema: StructType, name: str, error: Exception) -> SpoutContractError:
    return SpoutContractError(f"{where}, field {name!r}: expected {type_ddl(schema[name].dataType)}, but {error}")
