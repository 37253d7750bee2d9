"""Python values and Arrow columns: what a function sees of a column, and what may become one again.

A function sees what PySpark would show it, except that timestamps carry their zone: str, int, float, bool, bytes,
Decimal, date, aware datetime (timestamp), naive datetime (timestamp_ntz), list, dict (map) and Row (struct).
"""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_type

from trident.base.types import type_ddl


class NotAccepted(ValueError):
    """A value that a column of this type does not take. `row` counts from the start of the column."""

    def __init__(self, value: object, kind: pa.DataType, row: int = -1, why: str = "") -> None:
        super().__init__(value, kind, row, why)
        self.value, self.kind, self.row, self.why = value, kind, row, why


def type_name(kind: pa.DataType) -> str:
    """An Arrow type as the user declared it.

    >>> type_name(pa.list_(pa.int64()))
    'array<bigint>'
    """
    return type_ddl(from_arrow_type(kind))


# --- from Arrow ---------------------------------------------------------------------------------------------------


def to_python(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, as functions see them."""
    values: list[Any] = array.to_pylist()
    shown = _shown(array.type)
    return values if shown is None else [None if value is None else shown(value) for value in values]


def _shown(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """How a value of Arrow's becomes what a function sees; None where it is that already."""
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        inner = _shown(kind.value_type)
        return inner and (lambda items: [None if item is None else inner(item) for item in items])
    if kinds.is_map(kind):
        key, item = _shown(kind.key_type) or _same, _shown(kind.item_type) or _same
        return lambda pairs: {key(k): None if v is None else item(v) for k, v in pairs}
    if kinds.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        parts = [_shown(kind.field(at).type) or _same for at in range(kind.num_fields)]
        row = Row(*names)
        return lambda items: row(
            *[None if items[n] is None else part(items[n]) for n, part in zip(names, parts, strict=True)]
        )
    return None


def _same(value: Any) -> Any:
    return value


# --- to Arrow -----------------------------------------------------------------------------------------------------


def to_arrow(values: list[Any], kind: pa.DataType, exact: bool | None = None) -> pa.Array:
    """A column of these values; raises NotAccepted for the first one that is not of the declared type.

    Nothing is rounded, parsed or cut: 1.5 is no int, "1" is no int, True is no int, 1 is a float. `exact` says whether
    the values are all `are_exact`, where that is known already.
    """
    if not (are_exact(values, kind) if exact is None else exact):
        values = [_checked(value, kind, row) for row, value in enumerate(values)]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        for row, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as one:
                raise NotAccepted(value, kind, row, str(one)) from None
        raise NotAccepted(values, kind, 0, str(error)) from error


def exact_type(kind: pa.DataType) -> type | None:
    """The Python type whose values go into such a column and come out of it unchanged, if there is one."""
    return _EXACT.get(kind)


def are_exact(values: list[Any], kind: pa.DataType) -> bool:
    """Whether every value is null or of the column's `exact_type`.

    >>> are_exact([1, None], pa.int64()), are_exact([True], pa.int64())
    (True, False)
    """
    exact = exact_type(kind)
    return exact is not None and set(map(type, values)) <= {exact, type(None)}


_EXACT: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.int8(): int,
    pa.int16(): int,
    pa.int32(): int,
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.date32(): datetime.date,
}


def _checked(value: Any, kind: pa.DataType, row: int) -> Any:
    """The value, as Arrow takes it; NotAccepted where its type is not the declared one."""
    if value is None:
        return None
    try:
        return _accept(value, kind)
    except NotAccepted as error:
        error.row = row
        raise


def _accept(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, numpy.generic):
        value = value.item()
    if kinds.is_list(kind):
        if isinstance(value, list | tuple | numpy.ndarray):
            return [_accept(item, kind.value_type) for item in value]
    elif kinds.is_map(kind):
        if isinstance(value, dict):
            return [(_accept(k, kind.key_type), _accept(v, kind.item_type)) for k, v in value.items()]
    elif kinds.is_struct(kind):
        return _accept_struct(value, kind)
    elif kinds.is_timestamp(kind):
        return _accept_time(value, kind)
    else:
        for accepts, test in _PLAIN:
            if test(kind):
                return _accept_plain(value, kind, accepts)
    raise NotAccepted(value, kind)


_PLAIN: list[tuple[tuple[type, ...], Callable[[pa.DataType], bool]]] = [
    ((str,), kinds.is_string),
    ((int,), kinds.is_integer),
    ((float, int), kinds.is_floating),
    ((bool,), kinds.is_boolean),
    ((bytes, bytearray, memoryview), kinds.is_binary),
    ((decimal.Decimal, int), kinds.is_decimal),
    ((datetime.date,), kinds.is_date),
]


def _accept_plain(value: Any, kind: pa.DataType, accepts: tuple[Any, ...]) -> Any:
    if not isinstance(value, accepts):
        raise NotAccepted(value, kind)
    if isinstance(value, bool) and bool not in accepts:
        raise NotAccepted(value, kind, why="a bool is no number here; write int(...)")
    if isinstance(value, datetime.datetime):
        raise NotAccepted(value, kind, why="write .date()")
    if kinds.is_floating(kind):
        try:
            return float(value)
        except OverflowError:
            raise NotAccepted(value, kind, why="it is beyond the greatest double") from None
    return bytes(value) if kinds.is_binary(kind) else value


def _accept_time(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, datetime.datetime):
        raise NotAccepted(value, kind)
    if kind.tz is not None and value.tzinfo is None:
        raise NotAccepted(value, kind, why="a datetime without a zone; give it a tzinfo, or declare timestamp_ntz")
    if kind.tz is None and value.tzinfo is not None:
        raise NotAccepted(value, kind, why="a datetime with a zone; declare timestamp")
    return value


def _accept_struct(value: Any, kind: pa.DataType) -> Any:
    names = [kind.field(at).name for at in range(kind.num_fields)]
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        value = value.asDict()
    if isinstance(value, dict):
        if not set(value) <= set(names):
            raise NotAccepted(value, kind, why=f"the struct has ({', '.join(names)})")
        given = [value.get(name) for name in names]
    elif isinstance(value, tuple) and len(value) == len(names):
        given = list(value)
    else:
        raise NotAccepted(value, kind)
    return {name: _accept(item, kind.field(at).type) for at, (name, item) in enumerate(zip(names, given, strict=True))}


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same table under exactly this schema: by position, types cast where an engine uses a cousin of them."""
    if table.schema.equals(schema):
        return table
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema) if columns else table.select([])
