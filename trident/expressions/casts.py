"""Conversions between types whose result does not depend on a session, a time zone or a Java version."""

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl
from trident.expressions.arithmetic_rules import fitted
from trident.expressions.expression_types import (
    Mismatch,
    as_decimal,
    bounds_of,
    is_decimal,
    is_floating,
    is_integral,
    same,
)
from trident.expressions.rules import Datum, ExpressionError, Typed, rule

Convert = Callable[[Any], Any]


def _refused(a: DataType, b: DataType) -> str:
    """Return the reason why a cast is refused, with the way out; "" if it is accepted."""
    if same(a, b) or isinstance(a, spark.NullType) or kind_of(b) in _ACCEPTED.get(kind_of(a), ()):
        return ""
    return _REASONS.get((kind_of(a), kind_of(b)), _NO)


def kind_of(kind: DataType) -> str:
    """Return the category of a type; types of one category are cast in the same way.

    >>> kind_of(spark.LongType()), kind_of(spark.TimestampNTZType())
    ('whole', 'time')
    """
    if is_integral(kind):
        return "whole"
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return "time"
    return str(kind.typeName())


_NUMBERS = ("whole", "float", "double", "decimal")
_ACCEPTED = {
    "whole": (*_NUMBERS, "boolean", "string"),
    "decimal": (*_NUMBERS, "boolean", "string"),
    "double": (*_NUMBERS, "boolean"),
    "float": ("whole", "float", "double", "boolean"),
    "boolean": (*_NUMBERS, "string"),
    "string": (*_NUMBERS, "boolean", "date", "binary"),
    "date": ("string",),
}
"""The categories to which each category can be cast."""

_ZONE = "it depends on a time zone; use to_date, date_format or unix_micros, which are in UTC"
_JAVA = "its text depends on the Java version; write a function"
_REASONS = {
    ("float", "decimal"): "cast it to double first",
    ("float", "string"): _JAVA,
    ("double", "string"): _JAVA,
    ("string", "time"): "a text has no time zone; write a function",
    ("time", "string"): _ZONE,
    ("time", "date"): _ZONE,
    ("time", "time"): _ZONE,
    ("date", "time"): _ZONE,
}
_NO = "there is no such conversion; write a function"


def cast_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    """Return the types of a cast to the type in `params`."""
    (a,), (b,) = kinds, params
    why = _refused(a, b)
    if why:
        raise Mismatch(f"{type_ddl(a)} cannot be cast to {type_ddl(b)}: {why}")
    return Typed(kinds, b, params)


def _cast(call: Typed) -> Convert:
    (a,), b = call.kinds, call.result
    if same(a, b) or isinstance(a, spark.NullType):
        return lambda value: value
    if isinstance(a, spark.StringType):
        return _from_text(b)
    if isinstance(b, spark.StringType):
        return _to_text(a)
    if isinstance(b, spark.BooleanType):
        return lambda value: bool(value != 0)
    if isinstance(b, spark.DecimalType):
        return lambda value: fitted(_exact(value), b)
    if same(b, spark.FloatType()):
        return _single
    return float if is_floating(b) else _to_integral(b)


def _single(value: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(float(value)) if isinstance(value, Decimal) else np.float32(value))


def _exact(value: Any) -> Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError(f"{value} is not a decimal number")
        return Decimal(repr(value))
    return Decimal(int(value)) if isinstance(value, bool) else Decimal(value)


def _to_integral(kind: DataType) -> Convert:
    least, greatest = bounds_of(kind)

    def convert(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError(f"{value} is out of range of {type_ddl(kind)}")
        whole = int(value)
        if not least <= whole <= greatest:
            raise ExpressionError(f"{value} is out of range of {type_ddl(kind)}")
        return whole

    return convert


def _to_text(kind: DataType) -> Convert:
    if isinstance(kind, spark.BooleanType):
        return lambda value: "true" if value else "false"
    if is_decimal(kind):
        return lambda value: f"{value:f}"
    return lambda value: value.isoformat() if isinstance(value, datetime.date) else str(value)


_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_NAMED = {
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf, "-inf": -math.inf,
    "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_BLANKS = "".join(map(chr, range(33))) + "\x7f"


def _from_text(kind: DataType) -> Convert:
    name = type_ddl(kind)
    if isinstance(kind, spark.BinaryType):
        return lambda text: text.encode()
    read: Callable[[str], Any]
    if isinstance(kind, spark.BooleanType):
        read = _boolean
    elif isinstance(kind, spark.DateType):
        read = _date
    elif isinstance(kind, spark.DecimalType):
        read = lambda text: fitted(Decimal(text), kind) if _DECIMAL.fullmatch(text) else None  # noqa: E731
    elif is_floating(kind):
        read = _float if same(kind, spark.DoubleType()) else lambda text: _to_single(_float(text))  # noqa: E731
    else:
        narrow = _to_integral(kind)
        read = lambda text: narrow(int(text)) if _WHOLE.fullmatch(text) else None  # noqa: E731

    def convert(text: str) -> Any:
        try:
            value = read(text.strip(_BLANKS))
        except (ValueError, InvalidOperation):
            value = None
        if value is None:
            raise ExpressionError(f"the text {text[:50]!r} is not a valid {name}")
        return value

    return convert


def _boolean(text: str) -> bool | None:
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _date(text: str) -> datetime.date | None:
    found = _DATE.fullmatch(text)
    return None if found is None else datetime.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def _float(text: str) -> float | None:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    return float(text.rstrip("dDfF")) if _FLOAT.fullmatch(text) else None


def _to_single(value: float | None) -> float | None:
    return None if value is None else _single(value)


def _cast_columns(call: Typed, values: Datum) -> Datum | None:
    (a,), b = call.kinds, call.result
    if same(a, b):
        return values
    if is_integral(a) and is_integral(b):
        return pc.cast(values, call.arrow)  # fails if a value is out of range
    if (is_integral(a) or is_floating(a)) and same(b, spark.DoubleType()):
        return pc.cast(values, call.arrow, safe=False)
    if is_integral(a) and isinstance(b, spark.StringType):
        return pc.cast(values, pa.string())
    if (is_integral(a) or is_decimal(a)) and isinstance(b, spark.DecimalType) and _widens(as_decimal(a), b):
        return pc.cast(values, call.arrow)
    return None


def _widens(a: spark.DecimalType, b: spark.DecimalType) -> bool:
    """Return whether a decimal type holds every value of another without rounding."""
    return b.scale >= a.scale and b.precision - b.scale >= a.precision - a.scale


rule("cast", cast_types, _cast, lambda call, text: f"CAST({text} AS {type_ddl(call.result)})", _cast_columns)
