"""The rules of numbers: operators, rounding and signs. An overflow and a division by zero are errors."""

import decimal
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl
from trident.expressions.expression_types import (
    DOUBLE,
    FLOAT,
    LONG,
    MOST_DIGITS,
    Mismatch,
    as_decimal,
    bounds_of,
    common,
    decimal_of,
    is_decimal,
    is_floating,
    is_integral,
    is_number,
    same,
)
from trident.expressions.rules import Datum, ExpressionError, Typed, rule

_EXACT = decimal.Context(prec=800, rounding=ROUND_HALF_UP, traps=[decimal.InvalidOperation])


def fitted(value: Decimal, kind: spark.DecimalType) -> Decimal:
    """Return a number with the digits of a decimal type, rounded half up. Raises ExpressionError if it has too many."""
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise ExpressionError(f"{value} is out of range of {type_ddl(kind)}")
    return rounded if rounded else rounded.copy_abs()  # a decimal of Java has one zero


def _numbers(kinds: tuple[DataType, ...]) -> None:
    for kind in kinds:
        if not is_number(kind) and not isinstance(kind, spark.NullType):
            raise Mismatch(f"expected numbers, not {' and '.join(type_ddl(each) for each in kinds)}")


def _types(result: Callable[[spark.DecimalType, spark.DecimalType], spark.DecimalType], divides: bool = False) -> Any:
    """Return the function of types of an operator. `result` returns the type for two decimals."""

    def types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
        _numbers(kinds)
        a, b = kinds
        if isinstance(a, spark.NullType):
            a = DOUBLE if isinstance(b, spark.NullType) else b
        b = a if isinstance(b, spark.NullType) else b
        if (is_decimal(a) or is_decimal(b)) and not is_floating(a) and not is_floating(b):
            one, other = as_decimal(a), as_decimal(b)
            return Typed((one, other), result(one, other))
        kind = DOUBLE if divides else common(a, b)
        return Typed((kind, kind), kind)

    return types


def _sum_type(a: spark.DecimalType, b: spark.DecimalType) -> spark.DecimalType:
    scale = max(a.scale, b.scale)
    return decimal_of(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def _product_type(a: spark.DecimalType, b: spark.DecimalType) -> spark.DecimalType:
    return decimal_of(a.precision + b.precision + 1, a.scale + b.scale)


def _quotient_type(a: spark.DecimalType, b: spark.DecimalType) -> spark.DecimalType:
    scale = max(6, a.scale + b.precision + 1)
    return decimal_of(a.precision - a.scale + b.scale + scale, scale)


def _remainder_type(a: spark.DecimalType, b: spark.DecimalType) -> spark.DecimalType:
    scale = max(a.scale, b.scale)
    return decimal_of(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _in_range(value: int, kind: DataType, said: str) -> int:
    least, greatest = bounds_of(kind)
    if not least <= value <= greatest:
        raise ExpressionError(f"{said} is out of range of {type_ddl(kind)}")
    return value


def _computed(sign: str, function: Callable[[Any, Any], Any], decimals: Callable[[Decimal, Decimal], Decimal]) -> Any:
    """Return `Rule.value` of an operator: `function` for ints and floats, `decimals` for decimals."""

    def value(call: Typed) -> Callable[[Any, Any], Any]:
        kind = call.result
        if isinstance(kind, spark.DecimalType):
            return lambda a, b: fitted(decimals(a, b), kind)
        if same(kind, FLOAT):
            return lambda a, b: _single(function, a, b)
        if is_floating(kind):
            return function
        return lambda a, b: _in_range(function(a, b), kind, f"{a} {sign} {b}")

    return value


def _single(function: Callable[[Any, Any], Any], a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(function(np.float32(a), np.float32(b))))


def _quotient(a: float, b: float) -> float:
    if b == 0:
        raise ExpressionError(f"{a} / {b}: division by zero")
    return a / b


def _quotient_of_decimals(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise ExpressionError(f"{a} / {b}: division by zero")
    return _EXACT.divide(a, b).quantize(Decimal(1).scaleb(-38), context=_EXACT)  # as Spark: 38 digits, then the type's


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise ExpressionError(f"{a} % {b}: division by zero")
    if isinstance(a, int):
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    if math.isnan(a) or math.isnan(b) or math.isinf(a):
        return math.nan
    return type(a)(math.fmod(a, b))


def _remainder_of_decimals(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise ExpressionError(f"{a} % {b}: division by zero")
    return _EXACT.remainder(a, b)


def _by_arrow(function: Callable[..., Datum], of_decimals: bool = True) -> Callable[..., Datum | None]:
    def columns(call: Typed, a: Datum, b: Datum) -> Datum | None:
        if not is_decimal(call.result):
            return function(a, b)
        made = function(a, b) if of_decimals else None
        return made if made is not None and made.type.equals(call.arrow) else None

    return columns


def _divided(call: Typed, a: Datum, b: Datum) -> Datum | None:
    zero = pc.equal(b, 0.0)
    if is_decimal(call.result) or (zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero).as_py()):
        return None
    return pc.divide(a, b)


def _remainders(call: Typed, a: Datum, b: Datum) -> Datum | None:
    """Return remainders with the sign of the dividend. Arrow has no function for them."""
    if not is_integral(call.result):
        return None
    rest = pc.subtract(a, pc.multiply(pc.divide(a, b), b))  # a division by zero is an error of Arrow
    whole = pc.and_(pc.is_valid(a), pc.equal(b, -1))  # Arrow divides the least number by -1 to 0
    return pc.if_else(whole, pa.scalar(0, call.arrow), rest)


rule("+", _types(_sum_type), _computed("+", lambda a, b: a + b, _EXACT.add), "({} + {})", _by_arrow(pc.add_checked))
rule(
    "-",
    _types(_sum_type),
    _computed("-", lambda a, b: a - b, _EXACT.subtract),
    "({} - {})",
    _by_arrow(pc.subtract_checked),
)
rule(
    "*",
    _types(_product_type),
    _computed("*", lambda a, b: a * b, _EXACT.multiply),
    "({} * {})",
    _by_arrow(pc.multiply_checked),
)
rule("/", _types(_quotient_type, divides=True), _computed("/", _quotient, _quotient_of_decimals), "({} / {})", _divided)
rule("%", _types(_remainder_type), _computed("%", _remainder, _remainder_of_decimals), "({} % {})", _remainders)


# --- one number -------------------------------------------------------------------------------------------------------


def _one_number(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if len(kinds) != 1 or not is_number(kinds[0]):
        raise Mismatch(f"expected one number, not {', '.join(type_ddl(kind) for kind in kinds)}")
    return Typed(kinds, kinds[0], params)


def _signed(said: str, function: Callable[[Any], Any]) -> Callable[[Typed], Callable[[Any], Any]]:
    def value(call: Typed) -> Callable[[Any], Any]:
        if not is_integral(call.result):
            return function
        return lambda a: _in_range(function(a), call.result, said.format(a))

    return value


def _whole(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    _one_number(kinds, params)
    (kind,) = kinds
    if isinstance(kind, spark.DecimalType):
        return Typed(kinds, decimal_of(kind.precision - kind.scale + 1, 0) if kind.scale else kind)
    return Typed((DOUBLE if is_floating(kind) else LONG,), LONG)


def _to_whole(function: Callable[[Any], int], rounding: str) -> Callable[[Typed], Callable[[Any], Any]]:
    def value(call: Typed) -> Callable[[Any], Any]:
        if is_decimal(call.result):
            return lambda a: a.quantize(Decimal(1), rounding=rounding, context=_EXACT)
        if is_integral(call.kinds[0]):
            return lambda a: a
        return lambda a: _as_long(a, function)

    return value


def _as_long(value: float, function: Callable[[Any], int]) -> int:
    if math.isnan(value):
        return 0  # as Spark
    if math.isinf(value):
        raise ExpressionError(f"{value} is out of range of bigint")
    return _in_range(function(value), LONG, str(value))


def _rounded_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    call = _one_number(kinds, params)
    (kind,), (scale,) = kinds, params
    if not isinstance(kind, spark.DecimalType):
        return call
    digits, kept = kind.precision - kind.scale + 1, min(kind.scale, max(scale, 0))
    return Typed(kinds, spark.DecimalType(min(max(digits + kept, 1 - scale), MOST_DIGITS), kept), params)


def _rounded(call: Typed) -> Callable[[Any], Any]:
    (scale,) = call.params
    kind = call.result
    unit = Decimal(1).scaleb(-scale)
    if isinstance(kind, spark.DecimalType):
        return lambda a: fitted(_EXACT.quantize(a, unit), kind)
    if is_integral(kind):
        if scale >= 0:
            return lambda a: a
        return lambda a: _in_range(int(_EXACT.quantize(Decimal(a), unit)), kind, f"round({a}, {scale})")
    shorter = (lambda a: float(np.float32(a))) if same(kind, FLOAT) else (lambda a: a)
    return lambda a: shorter(_round_float(a, unit, same(kind, FLOAT)))


def _round_float(value: float, unit: Decimal, single: bool) -> float:
    if not math.isfinite(value):
        return value
    text = str(np.float32(value)) if single else repr(value)
    return float(Decimal(text).quantize(unit, context=_EXACT)) + 0.0  # a decimal of Java has one zero


def _of_sign(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    call = _one_number(kinds, params)
    if isinstance(call.result, spark.DecimalType) and call.result.precision > _SIGNED_DIGITS:
        given = type_ddl(call.result)
        raise Mismatch(f"Spark rounds the sign of {given} to {_SIGNED_DIGITS} digits; cast it to a shorter decimal")
    return call


_SIGNED_DIGITS = 34

rule(
    "negative",
    _of_sign,
    _signed("-({})", lambda a: _EXACT.minus(a) if isinstance(a, Decimal) else -a),
    "(- {})",
    lambda call, a: None if is_decimal(call.result) else pc.negate_checked(a),
)
rule(
    "abs",
    _of_sign,
    _signed("abs({})", lambda a: _EXACT.abs(a) if isinstance(a, Decimal) else abs(a)),
    "abs({})",
    lambda call, a: None if is_decimal(call.result) else pc.abs_checked(a),
)
rule("floor", _whole, _to_whole(math.floor, ROUND_FLOOR), "floor({})")
rule("ceil", _whole, _to_whole(math.ceil, ROUND_CEILING), "ceil({})")
rule("round", _rounded_types, _rounded, lambda call, text: f"round({text}, {call.params[0]})")


def _double(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    _one_number(kinds, params)
    return Typed((DOUBLE,), DOUBLE)


rule("sqrt", _double, lambda call: lambda a: math.sqrt(a) if a >= 0 else math.nan, "sqrt({})")


def _pmod_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if len(kinds) != 2 or not all(map(is_integral, kinds)):
        raise Mismatch(f"expected two whole numbers, not {' and '.join(type_ddl(kind) for kind in kinds)}")
    kind = common(*kinds)
    return Typed((kind, kind), kind)


def _pmod(call: Typed) -> Callable[[int, int], int]:
    half = 1 << (63 if same(call.result, LONG) else 31)

    def value(a: int, b: int) -> int:
        rest: int = _remainder(a, b)
        moved = (rest + b + half) % (2 * half) - half  # Java's sum, which may wrap around
        return _remainder(moved, b) if rest < 0 else rest

    return value


rule("pmod", _pmod_types, _pmod, "pmod({}, {})")
