"""The types of expressions: the common type of two operands, and the type of a result, as in Spark's ANSI mode."""

from collections.abc import Sequence

from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl

BOOLEAN, STRING, BINARY = spark.BooleanType(), spark.StringType(), spark.BinaryType()
BYTE, SHORT, INT, LONG = spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType()
FLOAT, DOUBLE = spark.FloatType(), spark.DoubleType()
DATE, TIMESTAMP, TIMESTAMP_NTZ, NULL = (
    spark.DateType(),
    spark.TimestampType(),
    spark.TimestampNTZType(),
    spark.NullType(),
)

_BITS: dict[type[DataType], int] = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32, spark.LongType: 64}
_DIGITS: dict[type[DataType], int] = {spark.ByteType: 3, spark.ShortType: 5, spark.IntegerType: 10, spark.LongType: 20}
MOST_DIGITS = 38
_KEPT_DIGITS = 6
"""The digits after the point that a result keeps if it has more than `MOST_DIGITS` digits."""


class Mismatch(Exception):
    """Operands of types that do not fit. The text says which types came and what is accepted."""


def is_integral(kind: DataType) -> bool:
    """Return whether a type is byte, short, int or long."""
    return type(kind) in _BITS


def is_floating(kind: DataType) -> bool:
    """Return whether a type is float or double."""
    return isinstance(kind, spark.FloatType | spark.DoubleType)


def is_decimal(kind: DataType) -> bool:
    """Return whether a type is a decimal."""
    return isinstance(kind, spark.DecimalType)


def is_number(kind: DataType) -> bool:
    """Return whether a type is a number."""
    return is_integral(kind) or is_floating(kind) or is_decimal(kind)


def bounds_of(kind: DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integral type."""
    half: int = 1 << (_BITS[type(kind)] - 1)
    return -half, half - 1


def as_decimal(kind: DataType) -> spark.DecimalType:
    """Return the decimal type that holds every value of an integral or decimal type."""
    return kind if isinstance(kind, spark.DecimalType) else spark.DecimalType(_DIGITS[type(kind)], 0)


def decimal_of(digits: int, scale: int) -> spark.DecimalType:
    """Return the decimal type of a result. Beyond 38 digits, digits after the point are dropped first."""
    if digits <= MOST_DIGITS:
        return spark.DecimalType(digits, scale)
    before = digits - scale
    return spark.DecimalType(MOST_DIGITS, max(MOST_DIGITS - before, min(scale, _KEPT_DIGITS)))


def same(a: DataType, b: DataType) -> bool:
    """Return whether two types are equal, apart from nullability."""
    return bool(a.simpleString() == b.simpleString())


def common(a: DataType, b: DataType) -> DataType:
    """Return the type in which values of two types are compared or returned. Raises Mismatch if there is none."""
    if same(a, b) or isinstance(b, spark.NullType):
        return a
    if isinstance(a, spark.NullType):
        return b
    if is_integral(a) and is_integral(b):
        return max(a, b, key=lambda kind: _BITS[type(kind)])
    if is_number(a) and is_number(b):
        if is_floating(a) or is_floating(b):
            return DOUBLE
        one, other = as_decimal(a), as_decimal(b)
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        if digits <= MOST_DIGITS:
            return spark.DecimalType(digits, scale)
        raise Mismatch(
            f"{type_ddl(a)} and {type_ddl(b)} have no common type of at most {MOST_DIGITS} digits; cast one of them"
        )
    raise Mismatch(f"{type_ddl(a)} and {type_ddl(b)} have no common type; cast one of them to the type of the other")


def common_of(kinds: Sequence[DataType]) -> DataType:
    """Return the common type of several types. Raises Mismatch if there is none."""
    result = kinds[0]
    for kind in kinds[1:]:
        result = common(result, kind)
    return result


def known(kind: DataType) -> DataType:
    """Return the type; void, the type of ``lit(None)`` without a cast, is an error."""
    if isinstance(kind, spark.NullType):
        raise Mismatch("its type is not known, because it is always null; give it one, as in lit(None).cast('long')")
    return kind
