"""The rules of conditions: comparisons, and, or, not, nulls, and choices between values."""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl
from trident.expressions.expression_types import (
    BOOLEAN,
    Mismatch,
    common_of,
    is_floating,
    is_integral,
    is_number,
    known,
    same,
)
from trident.expressions.rules import Datum, Typed, as_is, rule

_ORDERED = (
    spark.StringType,
    spark.BinaryType,
    spark.BooleanType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
)


def is_ordered(kind: DataType) -> bool:
    """Return whether values of a type can be compared."""
    return is_number(kind) or isinstance(kind, (*_ORDERED, spark.NullType))


def compared_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    """Return the types of a comparison."""
    for kind in kinds:
        if not is_ordered(kind):
            raise Mismatch(f"a {type_ddl(kind)} is not compared as a whole; compare its parts")
    kind = common_of(kinds)
    return Typed(tuple(kind for _ in kinds), BOOLEAN, params)


def order_of(value: Any) -> Any:
    """Return a value that Python orders as Spark does: NaN is the greatest number, and text is ordered by code point.

    >>> order_of(float("nan")) > order_of(float("inf"))
    True
    """
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _comparing(function: Callable[[Any, Any], bool]) -> Callable[[Typed], Callable[[Any, Any], bool]]:
    return as_is(lambda a, b: function(order_of(a), order_of(b)))


def has_nan(*columns: Datum) -> bool:
    """Return whether one of these values is NaN, which Arrow orders differently."""
    return any(pa.types.is_floating(each.type) and _any_true(pc.is_nan(each)) for each in columns)


def _any_true(values: Datum) -> bool:
    return bool((values if isinstance(values, pa.Scalar) else pc.any(values)).as_py())


def _by_arrow(function: Callable[[Datum, Datum], Datum]) -> Callable[..., Datum | None]:
    return lambda call, a, b: None if has_nan(a, b) else function(a, b)


for _sign, _function, _arrow, _sql in (
    ("==", lambda a, b: a == b, pc.equal, "="),
    ("!=", lambda a, b: a != b, pc.not_equal, "<>"),
    ("<", lambda a, b: a < b, pc.less, "<"),
    ("<=", lambda a, b: a <= b, pc.less_equal, "<="),
    (">", lambda a, b: a > b, pc.greater, ">"),
    (">=", lambda a, b: a >= b, pc.greater_equal, ">="),
):
    rule(_sign, compared_types, _comparing(_function), f"({{}} {_sql} {{}})", _by_arrow(_arrow))


def _equal_or_null(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return bool(order_of(a) == order_of(b))


def _isin(call: Typed) -> Callable[..., Any]:
    def value(sought: Any, *values: Any) -> Any:
        if sought is None:
            return None
        if any(each is not None and order_of(each) == order_of(sought) for each in values):
            return True
        return None if any(each is None for each in values) else False

    return value


def _isin_arrow(call: Typed, sought: Datum, *values: Datum) -> Datum | None:
    constants = all(isinstance(each, pa.Scalar) and each.is_valid for each in values)
    if not constants or not isinstance(sought, pa.Array) or has_nan(sought, *values):
        return None
    if is_floating(call.kinds[0]):  # a set of floats distinguishes 0.0 and -0.0
        return None
    found = pc.is_in(sought, pa.array([each.as_py() for each in values], sought.type))
    return pc.if_else(pc.is_valid(sought), found, pa.scalar(None, pa.bool_()))


rule("eqNullSafe", compared_types, as_is(_equal_or_null), "({} <=> {})", nulls=True)
rule("isin", compared_types, _isin, lambda call, first, *more: f"({first} IN ({', '.join(more)}))", _isin_arrow, True)


def _any_type(gives: DataType) -> Callable[[tuple[DataType, ...], tuple[Any, ...]], Typed]:
    return lambda kinds, params: Typed(kinds, gives, params)


def _nan_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if not is_floating(kinds[0]):
        raise Mismatch(f"expected a float or double, not {type_ddl(kinds[0])}")
    return Typed(kinds, BOOLEAN)


def _booleans(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    for kind in kinds:
        if not isinstance(kind, spark.BooleanType | spark.NullType):
            raise Mismatch(f"expected conditions, not {type_ddl(kind)}; write a comparison, such as col('n') != 0")
    return Typed(tuple(BOOLEAN for _ in kinds), BOOLEAN)


rule("isNull", _any_type(BOOLEAN), as_is(lambda a: a is None), "({} IS NULL)", lambda call, a: pc.is_null(a), True)
rule(
    "isNaN",
    _nan_types,
    as_is(lambda a: a is not None and math.isnan(a)),
    "isnan({})",
    lambda call, a: pc.fill_null(pc.is_nan(a), False),
    True,
)
rule("not", _booleans, as_is(lambda a: not a), "(NOT {})", lambda call, a: pc.invert(a))

# The evaluators know these by name, because they compute a part only if its value is needed.
LAZY = ("&", "|", "coalesce")


def _lazily(call: Typed) -> Callable[..., Any]:
    raise TypeError("computed by the evaluators")


def _coalesced(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    kind = known(common_of(kinds))
    return Typed(tuple(kind for _ in kinds), kind)


rule("&", _booleans, _lazily, "({} AND {})", nulls=True)
rule("|", _booleans, _lazily, "({} OR {})", nulls=True)
rule("coalesce", _coalesced, _lazily, lambda call, *texts: f"coalesce({', '.join(texts)})", nulls=True)


def _alike(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if len(kinds) < 2:
        raise Mismatch("expected at least two values")
    call = compared_types(kinds, params)
    return Typed(call.kinds, known(call.kinds[0]))


def _extreme(choose: Callable[..., Any]) -> Callable[[Typed], Callable[..., Any]]:
    def value(*values: Any) -> Any:
        present = [each for each in values if each is not None]
        return choose(present, key=order_of) if present else None

    return as_is(value)


rule("greatest", _alike, _extreme(max), lambda call, *texts: f"greatest({', '.join(texts)})", nulls=True)
rule("least", _alike, _extreme(min), lambda call, *texts: f"least({', '.join(texts)})", nulls=True)


def _nullif_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    kind = known(compared_types(kinds, params).kinds[0])
    if not same(kind, kinds[0]):
        raise Mismatch(f"the second value is {type_ddl(kinds[1])}, the first {type_ddl(kinds[0])}; cast the first")
    return Typed((kind, kind), kind)


def _nullif_columns(call: Typed, a: Datum, b: Datum) -> Datum | None:
    if not (isinstance(call.result, spark.StringType) or is_integral(call.result)):
        return None  # here NaN equals NaN, in Arrow it does not
    return pc.if_else(pc.fill_null(pc.equal(a, b), False), pa.scalar(None, call.arrow), a)


rule(
    "nullif",
    _nullif_types,
    as_is(lambda a, b: None if a is not None and b is not None and order_of(a) == order_of(b) else a),
    "nullif({}, {})",
    _nullif_columns,
    nulls=True,
)


def case_type(kinds: list[DataType]) -> DataType:
    """Return the type of a choice between values of these types."""
    return known(common_of(kinds))
