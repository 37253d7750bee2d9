"""Checks of Python values against a declared column type, and their conversion to the form that Arrow accepts.

Every value from outside is checked here: results of users' functions, rows of spouts, arguments of queries, keys of
states. Arrow itself is not safe: some values end the process (a Decimal with a large exponent), and others are stored
as a different value (1e-77 as 0.00). So only values that the declared type can hold exactly reach Arrow.
"""

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row

from trident.base.named_values import misplaced
from trident.base.short_texts import brief
from trident.base.years import OUTSIDE_YEARS


class NotAccepted(ValueError):
    """A column of type `kind` cannot hold `value`.

    `row` is the value's row, from 0, or -1 if the row is not known yet.
    """

    def __init__(self, value: object, kind: pa.DataType, row: int = -1, why: str = "") -> None:
        super().__init__(value, kind, row, why)
        self.value, self.kind, self.row, self.why = value, kind, row, why

    def __str__(self) -> str:
        return f"{brief(self.value)} is not accepted as {self.kind}{f': {self.why}' if self.why else ''}"


def accept(value: Any, kind: pa.DataType) -> Any:
    """Return the value in the form that Arrow accepts. Raises NotAccepted if it is not of type `kind`.

    >>> accept(decimal.Decimal("1.5"), pa.decimal128(10, 2))
    Decimal('1.50')
    >>> accept(1, pa.string())
    Traceback (most recent call last):
    trident.base.accepted_values.NotAccepted: 1 is not accepted as string
    """
    if value is None:
        return None
    if isinstance(value, numpy.generic):
        value = _of_numpy(value, kind)
    for matches, accept_nested in _NESTED:
        if matches(kind):
            return accept_nested(value, kind)
    for matches, accepted in _PLAIN:
        if matches(kind):
            return _accept_plain(value, kind, accepted)
    raise NotAccepted(value, kind)


def check_nulls(values: Sequence[Any], field: pa.Field) -> None:
    """Raise NotAccepted for the first None if the field is declared NOT NULL.

    Spark trusts the declaration: it would fail at a null without saying where, or read one as 0.
    """
    if not field.nullable and None in values:
        raise NotAccepted(None, field.type, values.index(None), f"{field.name!r} is NOT NULL")


def _of_numpy(value: Any, kind: pa.DataType) -> Any:
    """Return a NumPy scalar as a Python value. A time that only fits an int of nanoseconds raises NotAccepted."""
    item = value.item()
    if isinstance(value, numpy.datetime64 | numpy.timedelta64) and isinstance(item, int):
        raise NotAccepted(value, kind, why="finer than a microsecond; write .astype('datetime64[us]')")
    return item


def _accept_list(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, list | tuple | numpy.ndarray) or (isinstance(value, numpy.ndarray) and not value.ndim):
        raise NotAccepted(value, kind)
    return [accept(item, kind.value_type) for item in value]


def _accept_map(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, dict):
        raise NotAccepted(value, kind)
    if None in value:
        raise NotAccepted(value, kind, why="a key of a map cannot be null")
    pairs = [(accept(key, kind.key_type), accept(item, kind.item_type)) for key, item in value.items()]
    if kinds.is_floating(kind.key_type) and len(pairs) > 1:
        held = numpy.array([key for key, _ in pairs], numpy.float64)
        with numpy.errstate(over="ignore"):
            if len(numpy.unique(held.astype(kind.key_type.to_pandas_dtype()))) < len(pairs):
                raise NotAccepted(value, kind, why="two of its keys are the same number in the type of the keys")
    return pairs


def _accept_struct(value: Any, kind: pa.DataType) -> Any:
    fields = list(kind)  # read once, because each access creates new objects
    names = [field.name for field in fields]
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        value = value.asDict()
    if isinstance(value, dict):
        if not set(value) <= set(names):
            raise NotAccepted(value, kind, why=f"the struct has ({', '.join(names)})")
        items = [value.get(name) for name in names]
    elif isinstance(value, tuple) and len(value) == len(names):
        if (why := misplaced(value, names)) is not None:
            raise NotAccepted(value, kind, why=why)
        items = list(value)
    else:
        raise NotAccepted(value, kind)
    for field, item in zip(fields, items, strict=True):
        check_nulls((item,), field)
    return {field.name: accept(item, field.type) for field, item in zip(fields, items, strict=True)}


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


def _accept_decimal(value: Any, kind: pa.DataType) -> decimal.Decimal:
    """Return a number as a Decimal with exactly as many digits after the point as the type has.

    Arrow rescales any other Decimal by a table of powers of ten, which it reads out of bounds for large exponents.
    """
    if not isinstance(value, decimal.Decimal | int):
        raise NotAccepted(value, kind)
    if isinstance(value, bool):
        raise NotAccepted(value, kind, why=_NO_BOOL)
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:  # before the conversion, which takes long for very long numbers
            raise NotAccepted(value, kind, why=_too_long(kind))
        value = decimal.Decimal(value)
    if not value.is_finite():
        raise NotAccepted(value, kind, why="a decimal is a finite number; declare double for NaN and infinities")
    try:
        exact: decimal.Decimal = value.quantize(*exactly(kind.precision, kind.scale))
        return exact
    except decimal.Inexact:
        raise NotAccepted(value, kind, why=f"it has more than {kind.scale} digits after the point") from None
    except decimal.InvalidOperation:
        raise NotAccepted(value, kind, why=_too_long(kind)) from None


@lru_cache
def exactly(precision: int, scale: int) -> tuple[decimal.Decimal, None, decimal.Context]:
    """Return the arguments with which `quantize` converts a Decimal to this type.

    `quantize` raises if the result lost a digit or has too many digits. Arguments by position are read twice as fast as
    those by name.
    """
    context = decimal.Context(
        precision,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.Inexact, decimal.InvalidOperation],
    )
    return decimal.Decimal((0, (1,), -scale)), None, context


def _too_long(kind: pa.DataType) -> str:
    return f"it has more than {kind.precision - kind.scale} digits before the point"


def _accept_plain(value: Any, kind: pa.DataType, accepted: tuple[Any, ...]) -> Any:
    if not isinstance(value, accepted):
        raise NotAccepted(value, kind)
    if isinstance(value, bool) and bool not in accepted:
        raise NotAccepted(value, kind, why=_NO_BOOL)
    if isinstance(value, datetime.datetime):
        raise NotAccepted(value, kind, why="write .date()")
    if kinds.is_floating(kind):
        return _accept_floating(value, kind)
    return bytes(value) if kinds.is_binary(kind) else value


def _accept_floating(value: float, kind: pa.DataType) -> float:
    """Return a number as a float of the type. A finite number must stay finite."""
    try:
        number = float(value)
    except OverflowError:
        raise NotAccepted(value, kind, why="it is greater than the largest double") from None
    if _BEYOND_FLOAT <= abs(number) < math.inf and kinds.is_float32(kind):
        raise NotAccepted(value, kind, why="it is beyond the range of a float; declare double, or return infinity")
    return number


_BEYOND_FLOAT = 2.0**128 - 2.0**103
"""The least number that a float of 32 bits would round to infinity."""

_NO_BOOL = "a bool is not accepted as a number; write int(...)"
_MOST_BITS = 127
"""The most bits that a decimal of 38 digits needs."""

_NESTED: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]] = [
    (kinds.is_list, _accept_list),
    (kinds.is_map, _accept_map),
    (kinds.is_struct, _accept_struct),
    (kinds.is_timestamp, _accept_time),
    (kinds.is_decimal, _accept_decimal),
]

_PLAIN: list[tuple[Callable[[pa.DataType], bool], tuple[type, ...]]] = [
    (kinds.is_string, (str,)),
    (kinds.is_integer, (int,)),
    (kinds.is_floating, (float, int)),
    (kinds.is_boolean, (bool,)),
    (kinds.is_binary, (bytes, bytearray, memoryview)),
    (kinds.is_date, (datetime.date,)),
]
