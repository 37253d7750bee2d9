"""Conversion between Arrow columns and the Python values that users' functions see.

A function sees the values that PySpark would give it, except that timestamps carry their zone: str, int, float, bool,
bytes, Decimal, date, aware datetime (timestamp), naive datetime (timestamp_ntz), list, dict (map) and Row (struct).
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
from trident.base.years import OUTSIDE_YEARS, row_outside_years, time_text


class NotAccepted(ValueError):
    """A column of type `kind` cannot hold `value`.

    `row` is the value's row, from 0, or -1 if the row is not known yet.
    """

    def __init__(self, value: object, kind: pa.DataType, row: int = -1, why: str = "") -> None:
        super().__init__(value, kind, row, why)
        self.value, self.kind, self.row, self.why = value, kind, row, why


class OutsideYears(ValueError):
    """A column holds a time that no datetime can hold, in row `row`, counted from 0; `text` is the time."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(f"row {row} has the time {text}; {OUTSIDE_YEARS}")
        self.text, self.row = text, row


def type_name(kind: pa.DataType) -> str:
    """Return an Arrow type in the form in which a user declares it.

    >>> type_name(pa.list_(pa.int64()))
    'array<bigint>'
    """
    return type_ddl(from_arrow_type(kind))


# --- from Arrow ---------------------------------------------------------------------------------------------------


def to_python(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column in the form in which users' functions see them.

    Raises OutsideYears if a value is a time that no datetime can hold.
    """
    try:
        values: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):
        row = row_outside_years(array)
        if row is None:
            raise
        raise OutsideYears(time_text(array, row), row) from None
    convert = _converter(array.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the function from Arrow's Python values to the values that users see; None if both are the same."""
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        convert = _converter(kind.value_type)
        return convert and (lambda items: [None if item is None else convert(item) for item in items])
    if kinds.is_map(kind):
        convert_key, convert_item = _converter(kind.key_type) or _same, _converter(kind.item_type) or _same
        return lambda pairs: {convert_key(k): None if v is None else convert_item(v) for k, v in pairs}
    if kinds.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        converters = [_converter(kind.field(at).type) or _same for at in range(kind.num_fields)]
        row = Row(*names)
        return lambda items: row(
            *[None if items[n] is None else convert(items[n]) for n, convert in zip(names, converters, strict=True)]
        )
    return None


def _same(value: Any) -> Any:
    return value


# --- to Arrow -----------------------------------------------------------------------------------------------------


def to_arrow(values: list[Any], kind: pa.DataType, exact: bool | None = None) -> pa.Array:
    """Return the values as a column of type `kind`. Raises NotAccepted for the first value that is not of that type.

    Nothing is parsed or truncated: 1.5, "1" and True are not ints, and a time finer than a microsecond is refused. 1 is
    a float: in a column of floats a number becomes the nearest float of that width, beyond its range an infinite one,
    as in a cast of Spark. `exact` is the result of `are_exact`, if the caller has it already.
    """
    if not (are_exact(values, kind) if exact is None else exact):
        values = [_accept_row(value, kind, row) for row, value in enumerate(values)]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        # Arrow does not name the row, so each value is tried alone.
        for row, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as row_error:
                raise NotAccepted(value, kind, row, str(row_error)) from None
        raise NotAccepted(values, kind, 0, str(error)) from error


def exact_type(kind: pa.DataType) -> type | None:
    """Return the Python type whose values a column of type `kind` returns unchanged; None if there is none."""
    return _EXACT.get(kind)


def are_exact(values: list[Any], kind: pa.DataType) -> bool:
    """Return whether every value is None or of the `exact_type` of `kind`.

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


def _accept_row(value: Any, kind: pa.DataType, row: int) -> Any:
    """Return the value of a row in the form that Arrow accepts. Raises NotAccepted if it is not of type `kind`."""
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
    for matches, accept in _NESTED:
        if matches(kind):
            return accept(value, kind)
    for matches, accepted in _PLAIN:
        if matches(kind):
            return _accept_plain(value, kind, accepted)
    raise NotAccepted(value, kind)


def _accept_list(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, list | tuple | numpy.ndarray):
        raise NotAccepted(value, kind)
    return [_accept(item, kind.value_type) for item in value]


def _accept_map(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, dict):
        raise NotAccepted(value, kind)
    return [(_accept(key, kind.key_type), _accept(item, kind.item_type)) for key, item in value.items()]


def _accept_struct(value: Any, kind: pa.DataType) -> Any:
    fields = list(kind)  # once: each look at a type makes objects
    names = [field.name for field in fields]
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        value = value.asDict()
    if isinstance(value, dict):
        if not set(value) <= set(names):
            raise NotAccepted(value, kind, why=f"the struct has ({', '.join(names)})")
        items = [value.get(name) for name in names]
    elif isinstance(value, tuple) and len(value) == len(names):
        items = list(value)
    else:
        raise NotAccepted(value, kind)
    return {field.name: _accept(item, field.type) for field, item in zip(fields, items, strict=True)}


def _accept_time(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, datetime.datetime):
        raise NotAccepted(value, kind)
    if kind.tz is not None and value.tzinfo is None:
        raise NotAccepted(value, kind, why="a datetime without a zone; give it a tzinfo, or declare timestamp_ntz")
    if kind.tz is None and value.tzinfo is not None:
        raise NotAccepted(value, kind, why="a datetime with a zone; declare timestamp")
    if type(value) is not datetime.datetime and getattr(value, "nanosecond", False):  # a pandas Timestamp
        raise NotAccepted(value, kind, why="finer than a microsecond; write .floor('us')")
    if not 1 < value.year < 9999 and not _is_in_years(value):
        raise NotAccepted(value, kind, why=OUTSIDE_YEARS)
    return value


def _is_in_years(value: datetime.datetime) -> bool:
    """Return whether a datetime is in the years 1 to 9999 in UTC, too. A pandas Timestamp may be outside them."""
    try:
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
    except (OverflowError, ValueError):
        return False
    return 1 <= moment.year <= 9999


def _accept_plain(value: Any, kind: pa.DataType, accepted: tuple[Any, ...]) -> Any:
    if not isinstance(value, accepted):
        raise NotAccepted(value, kind)
    if isinstance(value, bool) and bool not in accepted:
        raise NotAccepted(value, kind, why="a bool is not a number here; write int(...)")
    if isinstance(value, datetime.datetime):
        raise NotAccepted(value, kind, why="write .date()")
    if kinds.is_floating(kind):
        try:
            return float(value)
        except OverflowError:
            raise NotAccepted(value, kind, why="it is beyond the greatest double") from None
    return bytes(value) if kinds.is_binary(kind) else value


_NESTED: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]] = [
    (kinds.is_list, _accept_list),
    (kinds.is_map, _accept_map),
    (kinds.is_struct, _accept_struct),
    (kinds.is_timestamp, _accept_time),
]

_PLAIN: list[tuple[Callable[[pa.DataType], bool], tuple[type, ...]]] = [
    (kinds.is_string, (str,)),
    (kinds.is_integer, (int,)),
    (kinds.is_floating, (float, int)),
    (kinds.is_boolean, (bool,)),
    (kinds.is_binary, (bytes, bytearray, memoryview)),
    (kinds.is_decimal, (decimal.Decimal, int)),
    (kinds.is_date, (datetime.date,)),
]


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly this schema. Columns correspond by position, and are cast if their type differs."""
    if table.schema.equals(schema):
        return table
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema) if columns else table.select([])
