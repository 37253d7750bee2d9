"""Casts of Arrow columns to a declared type of the same family, which may differ in width, unit or encoding."""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.years import OUTSIDE_YEARS, row_outside_years, time_text


class CastError(ValueError):
    """The error for a column that the declared type cannot hold unchanged, because of its type or of a value."""


def cast_column(
    column: pa.Array | pa.ChunkedArray, kind: pa.DataType, *, floats_to_integers: bool = False
) -> pa.Array | pa.ChunkedArray:
    """Return the column as type `kind`. Raises CastError if a value would change; a double becomes the nearest float.

    >>> cast_column(pa.array([1, 2], pa.int32()), pa.int64()).type
    DataType(int64)
    >>> cast_column(pa.array(["1"]), pa.int64())
    Traceback (most recent call last):
    trident_spouts.casting.CastError: the column is string
    """
    if column.type.equals(kind):
        return _in_utf8(_in_years(column))
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (_castable(column.type, kind) or (floats_to_integers and kinds.is_floating(column.type))):
        raise CastError(f"the column is {column.type}{_hint(column.type, kind)}")
    try:
        cast = pc.cast(column, kind)
    except pa.ArrowException as error:
        raise CastError(f"the column is {column.type} and {error}") from None
    if kinds.is_float32(kind) and pc.any(pc.and_not(pc.is_inf(cast), pc.is_inf(column))).as_py():
        raise CastError(f"the column is {column.type} and has a number beyond the range of float")
    return _in_utf8(_in_years(cast))


def _in_years(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the column. Raises CastError if it has a time that no Python datetime can hold."""
    if (row := row_outside_years(column)) is not None:
        raise CastError(f"row {row} has the time {time_text(column, row)}; {OUTSIDE_YEARS}")
    return column


def _in_utf8(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the column. Raises CastError if it has a text that is not UTF-8, which no Python function can get."""
    if _has_text(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CastError(
                f"a text is not UTF-8 ({error}); only a column of type binary may hold such bytes"
            ) from None
    return column


def _has_text(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return _is_text(kind) or any(map(_has_text, inner))


def _family(kind: pa.DataType) -> str:
    for name, test in _FAMILIES:
        if test(kind):
            return name
    return str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


_FAMILIES = [
    ("null", kinds.is_null),
    ("text", _is_text),
    ("bytes", _is_bytes),
    ("integer", kinds.is_integer),
    ("float", kinds.is_floating),
    ("bool", kinds.is_boolean),
    ("decimal", kinds.is_decimal),
    ("date", kinds.is_date),
    ("instant", lambda kind: kinds.is_timestamp(kind) and kind.tz is not None),
    ("wall time", kinds.is_timestamp),
    ("duration", kinds.is_duration),
    ("list", _is_list),
    ("map", kinds.is_map),
    ("struct", kinds.is_struct),
]


def _castable(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether two types, and the types inside them, are of one family: then a cast can fail only for values."""
    family, actual_family = _family(declared), _family(actual)
    if actual_family == "null" or (family, actual_family) == ("float", "integer"):
        return True
    if family != actual_family:
        return False
    if family == "list":
        return _castable(actual.value_type, declared.value_type)
    if family == "map":
        return _castable(actual.key_type, declared.key_type) and _castable(actual.item_type, declared.item_type)
    if family == "struct":
        names = [actual.field(at).name for at in range(actual.num_fields)]
        declared_fields = [declared.field(at) for at in range(declared.num_fields)]
        return names == [field.name for field in declared_fields] and all(
            _castable(actual.field(at).type, field.type) for at, field in enumerate(declared_fields)
        )
    return True


def _hint(actual: pa.DataType, declared: pa.DataType) -> str:
    pair = (_family(declared), _family(actual))
    if pair == ("instant", "wall time"):
        return ", which has no time zone; add one, or declare timestamp_ntz"
    if pair == ("wall time", "instant"):
        return ", which has a time zone; declare timestamp"
    return ""
