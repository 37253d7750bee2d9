"""Columns as pandas Series and DataFrames, and Series as columns of a declared type.

A Series has the dtype that PySpark's ``pandas_udf`` gives, with three exceptions that keep values exact: whole numbers
beyond 2**53 among nulls are Int64, timestamps carry their zone, and nested values are those of functions of tuples.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.pandas_series import flat_series
from trident.base.value_conversion import NotAccepted, are_exact, to_arrow, to_python
from trident.base.years import OUTSIDE_YEARS, row_outside_years
from trident.compiler.columns.columns import Column, Columns


class WrongDtype(TypeError):
    """A Series has a dtype whose values a column of the declared type cannot hold."""


# --- from columns -------------------------------------------------------------------------------------------------


def to_series(column: Column, name: str) -> "pd.Series[Any]":
    """Return a column as a Series that the user's function may change."""
    series = _viewed(column, name)
    return series if series.dtype == object else series.copy()  # Arrow's memory must not be changed


def to_frame(columns: Columns, names: Sequence[str]) -> pd.DataFrame:
    """Return these columns as a DataFrame that a user's function may change."""
    series = {name: _viewed(columns[name], name) for name in names}
    return pd.DataFrame(series, index=pd.RangeIndex(columns.rows), copy=True)


def _viewed(column: Column, name: str) -> "pd.Series[Any]":
    """Return a column as a Series. The Series may share Arrow's memory."""
    if kinds.is_nested(column.kind):
        series: pd.Series[Any] = pd.Series(column.values(), dtype=object)
    else:
        series = flat_series(column.array())
    series.name = name
    return series


# --- to columns ---------------------------------------------------------------------------------------------------


def from_series(series: "pd.Series[Any]", kind: pa.DataType) -> pa.Array:
    """Return a Series as a column of type `kind`; None, NaN, NaT and NA become null.

    Whole numbers may become doubles, and doubles without a fraction whole numbers, because pandas turns whole numbers
    among nulls into doubles. Nothing else is converted: nothing is rounded, parsed or truncated. Raises NotAccepted for
    the first value that is not of type `kind`, and WrongDtype if no value of the Series' dtype can be.
    """
    array = _converted(series, kind)
    if (row := row_outside_years(array)) is not None:
        raise NotAccepted(series.iloc[row], kind, row, OUTSIDE_YEARS)
    return array


def _converted(series: "pd.Series[Any]", kind: pa.DataType) -> pa.Array:
    if series.dtype == object:
        return _from_objects(series.to_numpy(), kind)
    try:
        # Arrow reads numbers in place, and a function may fill the same buffer in its next call.
        array = pa.array(series.copy(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise WrongDtype(f"({error})") from None
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    array = array.dictionary_decode() if kinds.is_dictionary(array.type) else array
    if array.type.equals(kind):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if _fits(array.type, kind):
        return _cast(array, kind)
    raise WrongDtype(_hint(array.type, kind))


def _from_objects(values: Any, kind: pa.DataType) -> pa.Array:
    """Return a NumPy array of objects as a column.

    Each value passes the gate for values of functions. Arrow's own conversion would take a datetime for a date, and a
    time without a zone for one in UTC, if they stand beside others of the type.
    """
    plain, whole = values.tolist(), kinds.is_integer(kind)
    if kinds.is_floating(kind) or not are_exact(plain, kind):
        plain = [_plain(value, whole, row, kind) for row, value in enumerate(plain)]
    return to_arrow(plain, kind)


def _plain(value: Any, whole: bool, row: int, kind: pa.DataType) -> Any:
    """Return an object in a Series in the form in which a function of tuples would return it."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float):  # numpy.float64 too
        if value != value:
            return None
        return int(value) if whole and value.is_integer() else value
    if isinstance(value, pd.Timestamp) and value.nanosecond:
        raise NotAccepted(value, kind, row, _FINER)
    return value


_FINER = "finer than a microsecond; write .dt.floor('us')"


def _fits(kind: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether values of type `kind` may become values of the declared type."""
    if kinds.is_integer(kind):
        return _is_number(declared)
    if kinds.is_floating(kind):
        return bool(kinds.is_integer(declared) or kinds.is_floating(declared))
    if kinds.is_timestamp(kind):
        return kinds.is_timestamp(declared) and (kind.tz is None) == (declared.tz is None)
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return bool(kinds.is_string(declared))
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return bool(kinds.is_binary(declared))
    of_values = kinds.is_decimal if kinds.is_decimal(kind) else kinds.is_nested
    return bool(of_values(kind) and of_values(declared))


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if kinds.is_nested(kind) or kinds.is_decimal(kind):
        return to_arrow(to_python(array), kind)
    try:
        cast = array.cast(kind, safe=not kinds.is_floating(kind))
        if kinds.is_float32(kind) and pc.any(pc.and_not(pc.is_inf(cast), pc.is_inf(array.cast(pa.float64())))).as_py():
            return to_arrow(to_python(array), kind)  # refuses a number that is out of range
        return cast
    except pa.ArrowInvalid:
        why = _FINER if kinds.is_timestamp(kind) else ""
        raise NotAccepted(*_first_misfit(array, kind), why) from None


def _first_misfit(array: pa.Array, kind: pa.DataType) -> tuple[Any, pa.DataType, int]:
    """Return the first value that a cast to this type would change, the type, and the value's row."""
    for row in range(len(array)):  # Arrow does not name the row, so each value is tried alone
        try:
            array[row : row + 1].cast(kind)
        except pa.ArrowInvalid:
            return array[row].as_py(), kind, row
    raise AssertionError(f"only {kind} can represent every value of {array.type}")


def _hint(kind: pa.DataType, declared: pa.DataType) -> str:
    """Return advice on how to convert values of type `kind` to the declared type; "" if there is none."""
    if kinds.is_timestamp(kind) and kinds.is_timestamp(declared):
        zoned = "give it a zone with .dt.tz_localize('UTC'), or declare timestamp_ntz"
        return f"({zoned})" if kind.tz is None else "(declare timestamp, or write .dt.tz_localize(None))"
    if kinds.is_timestamp(kind) and kinds.is_date(declared):
        return "(write .dt.date)"
    if kinds.is_boolean(kind) and _is_number(declared):
        return "(a bool is not accepted as a number; write .astype('int64'))"
    return ""
