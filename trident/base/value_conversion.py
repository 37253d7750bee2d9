"""Conversion between Arrow columns and the Python values that users' functions see.

A function sees the values that PySpark would give it, except that timestamps carry their zone: str, int, float, bool,
bytes, Decimal, date, aware datetime (timestamp), naive datetime (timestamp_ntz), list, dict (map) and Row (struct).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_type

from trident.base.accepted_values import NotAccepted as NotAccepted
from trident.base.accepted_values import accept
from trident.base.exact_types import are_exact as are_exact
from trident.base.exact_types import exact_type as exact_type
from trident.base.nested_columns import ValueColumns, offsets_of
from trident.base.spark_types import type_ddl
from trident.base.years import OUTSIDE_YEARS, row_outside_years, time_text


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


def _converter(kind: pa.DataType, within_key: bool = False) -> Callable[[Any], Any] | None:
    """Return the function from Arrow's Python values to the values that users see; None if both are the same.

    Within a key of a map a list becomes a tuple, because a list cannot be a key of a dict.
    """
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        convert = _converter(kind.value_type, within_key)
        if within_key:
            return lambda items: tuple(item if item is None or convert is None else convert(item) for item in items)
        return convert and (lambda items: [None if item is None else convert(item) for item in items])
    if kinds.is_map(kind):
        convert_key = _converter(kind.key_type, within_key=True) or _same
        convert_item = _converter(kind.item_type, within_key) or _same
        return lambda pairs: {convert_key(k): None if v is None else convert_item(v) for k, v in pairs}
    return _to_row(kind, within_key) if kinds.is_struct(kind) else None


def _to_row(kind: pa.StructType, within_key: bool) -> Callable[[Any], Any]:
    """Return the function from Arrow's dict of a struct to a Row."""
    names = [kind.field(at).name for at in range(kind.num_fields)]
    converters = [_converter(kind.field(at).type, within_key) or _same for at in range(kind.num_fields)]
    row = Row(*names)
    return lambda items: row(
        *[None if items[n] is None else convert(items[n]) for n, convert in zip(names, converters, strict=True)]
    )


def _same(value: Any) -> Any:
    return value


# --- to Arrow -----------------------------------------------------------------------------------------------------


def to_arrow(values: list[Any], kind: pa.DataType, exact: bool | None = None) -> pa.Array:
    """Return the values as a column of type `kind`. Raises NotAccepted for the first value that is not of that type.

    Nothing is parsed or truncated: 1.5, "1" and True are not ints, and a time finer than a microsecond is refused. An
    int is accepted as a float. In a column of floats a number becomes the nearest float of that width; a finite number
    beyond its range is refused. `exact` is the result of `are_exact`, if the caller has it already.
    """
    if not (are_exact(values, kind) if exact is None else exact):
        if len(values) >= _MANY and (column := _VALUES.whole(values, kind)) is not None:
            return column
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


_VALUES = ValueColumns()
_MANY = 16
"""The number of values from which on checking a whole column at once pays."""


def infer_arrow(values: list[Any], dictsAreStructs: bool = False) -> pa.Array:
    """Return values without a declared type as a column of a type that holds all of them.

    A Row becomes a struct, a dict a map, or with `dictsAreStructs` a struct. Without this function, Arrow would treat a
    dict as a struct of the keys of all dicts, and a Row as a list of its values. Raises an ArrowException,
    OverflowError, TypeError or ValueError if no type holds all values: Arrow's, or NotAccepted if dates and times are
    mixed.

    >>> infer_arrow([Row(n=2, mean=1.5)]).to_pylist(), to_python(infer_arrow([{7: "a"}, None, {}]))
    ([{'n': 2, 'mean': 1.5}], [{7: 'a'}, None, {}])
    """
    builders = {_build_of(value, dictsAreStructs) for value in values if value is not None}
    if len(builders) > 1:
        raise TypeError("arrays, maps, structs and other values are mixed")
    (build,) = builders or {None}
    if build is not None:
        return build(values, partial(infer_arrow, dictsAreStructs=dictsAreStructs))
    array = pa.array(values)
    # Beside other times Arrow takes a datetime for a date, and a time without a zone for one in UTC.
    return to_arrow(values, array.type) if kinds.is_timestamp(array.type) or kinds.is_date(array.type) else array


_Infer = Callable[[list[Any]], pa.Array]


def _build_of(value: Any, dictsAreStructs: bool) -> Callable[[list[Any], _Infer], pa.Array] | None:
    """Return the function that converts values like this one to a column; None for a value without parts."""
    if isinstance(value, dict):
        return _structs_of if dictsAreStructs else _maps_of
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        return _structs_of
    return _lists_of if isinstance(value, list | tuple | set | frozenset | numpy.ndarray) else None


def _structs_of(values: list[Any], infer: _Infer) -> pa.Array:
    fields = [value.asDict() if isinstance(value, Row) else value for value in values]
    names = dict.fromkeys(name for each in fields if each is not None for name in each)
    if not names or not all(isinstance(name, str) for name in names):
        return pa.array(fields)
    columns = [infer([None if each is None else each.get(name) for each in fields]) for name in names]
    return pa.StructArray.from_arrays(columns, names=list(names), mask=pa.array([each is None for each in fields]))


def _maps_of(values: list[Any], infer: _Infer) -> pa.Array:
    keys = [key for value in values if value for key in value]
    if any(key is None for key in keys):
        raise TypeError("a key of a map cannot be null")
    items = infer([item for value in values if value for item in value.values()])
    return pa.MapArray.from_arrays(offsets_of(values), infer(keys) if keys else pa.array([], pa.string()), items)


def _lists_of(values: list[Any], infer: _Infer) -> pa.Array:
    items = [item for value in values if value is not None for item in value]
    return pa.ListArray.from_arrays(offsets_of(values), infer(items))


def are_within(values: list[Any], kind: pa.DataType) -> bool:
    r"""Return whether a column of type `kind` can hold values for which `are_exact` is true.

    It cannot hold an int beyond its range, or a str with half a surrogate pair.

    >>> are_within([127, None], pa.int8()), are_within([128], pa.int8()), are_within(["\ud800"], pa.string())
    (True, False, False)
    """
    if kind.id == _TEXT:
        return all([value is None or value.isascii() or _is_unicode(value) for value in values])
    width = _WIDTHS.get(kind.id)
    return width is None or all([value is None or -width <= value < width for value in values])


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_TEXT: int = pa.string().id

_WIDTHS: dict[int, int] = {pa.int8().id: 2**7, pa.int16().id: 2**15, pa.int32().id: 2**31, pa.int64().id: 2**63}
"""The first number beyond each type of whole numbers."""


def _accept_row(value: Any, kind: pa.DataType, row: int) -> Any:
    """Return the value of a row in the form that Arrow accepts. Raises NotAccepted if it is not of type `kind`."""
    try:
        return accept(value, kind)
    except NotAccepted as error:
        error.row = row
        raise


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly this schema. Columns correspond by position, and are cast if their type differs."""
    if table.schema.equals(schema):
        return table
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema) if columns else table.select([])
