"""Count, Sum, Min and Max: aggregators that Spark and the stores know too; and what every built-in one has."""

import decimal
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import types as spark

from trident.base.types import ddl, type_ddl
from trident.operations.aggregators import CombinerAggregator, Native

_INTEGRAL = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
NUMERIC = (*_INTEGRAL, spark.FloatType, spark.DoubleType, spark.DecimalType)
ORDERED = (
    *NUMERIC,
    spark.StringType,
    spark.BinaryType,
    spark.BooleanType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
)


NAMES = frozenset({"Average", "Count", "CountDistinct", "Max", "Min", "Quantiles", "Sum", "TopK"})
"""Every built-in aggregator's: a stored state knows its aggregator by this name."""


_CALLED = {"avg": "Average()", "mean": "Average()", "average": "Average()", "topk": "TopK(3)"} | {
    name.lower(): f"{name}()" for name in ("Count", "Sum", "Min", "Max", "CountDistinct")
}


def called_like(name: str) -> str | None:
    """The built-in aggregator that somebody means who names a function of Python or Spark.

    >>> called_like("sum"), called_like("avg"), called_like("product")
    ('Sum()', 'Average()', None)
    """
    return _CALLED.get(name.replace("_", "").lower())


class BuiltinAggregator(CombinerAggregator):
    """What the built-in ones have in common: an output type that follows from the input."""

    native: ClassVar[Native | None] = None
    """Its name where Spark has exactly the same aggregate."""

    gathers: ClassVar[bool] = False
    """Whether it takes many tuples at once faster than one by one."""

    def gathered(self, tuples: list[tuple[Any, ...]]) -> Any:
        """The accumulator of these tuples, at least one."""
        raise NotImplementedError

    def problem(self, inputs: spark.StructType) -> str:
        """Why these input fields cannot be aggregated so; "" where they can."""
        raise NotImplementedError

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        """The output's type over these input fields."""
        raise NotImplementedError


@dataclass(frozen=True)
class Count(BuiltinAggregator):
    """How many tuples, nulls and all: to skip nulls put ``.each("field", FilterNull())`` before. It sees no field, and
    ignores those that it is given; the output is a bigint.

    Meaning: ``org.apache.storm.trident.operation.builtin.Count``.

    >>> count = Count()
    >>> count.combine(count.init(("dog",)), count.init(("cat",))), count.zero()
    (2, 0)
    """

    native: ClassVar[Native | None] = "count"

    def init(self, tuple: Any) -> int:
        return 1

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0

    def problem(self, inputs: spark.StructType) -> str:
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.LongType()


@dataclass(frozen=True)
class Sum(BuiltinAggregator):
    """The sum of one numeric field. Nulls are skipped; of nothing but nulls, or of nothing, it is 0.

    The output is a bigint for whole numbers, a double for float and double, and a decimal with ten more digits for a
    decimal, as in Spark. Meaning: ``org.apache.storm.trident.operation.builtin.Sum``, which raises at a null.

    >>> total = Sum()
    >>> total.combine(total.init((2,)), total.init((None,))), total.zero()
    (2, 0)
    """

    native: ClassVar[Native | None] = "sum"

    def init(self, tuple: Any) -> Any:
        return self.zero() if tuple[0] is None else tuple[0]

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return added(a, b)

    def zero(self) -> Any:
        return 0

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Sum", "adds numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        kind = inputs.fields[0].dataType
        if isinstance(kind, spark.DecimalType):
            return spark.DecimalType(min(38, kind.precision + 10), kind.scale)
        return spark.LongType() if isinstance(kind, _INTEGRAL) else spark.DoubleType()


@dataclass(frozen=True)
class Min(BuiltinAggregator):
    """The least value of one field. Nulls are skipped, NaN is greater than every number (Spark's order); of nothing
    but nulls, or of nothing, it is null. The output has the input's type.

    Over a whole batch or group, unlike Trident's ``Stream.min``, which goes by partition.

    >>> least = Min()
    >>> least.combine(least.init((2,)), least.init((None,))), least.zero()
    (2, None)
    """

    native: ClassVar[Native | None] = "min"

    def init(self, tuple: Any) -> Any:
        return tuple[0]

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if a != a or b < a else a

    def zero(self) -> Any:
        return None

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Min", "compares values", inputs, ORDERED)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return inputs.fields[0].dataType


@dataclass(frozen=True)
class Max(BuiltinAggregator):
    """The greatest value of one field. Nulls are skipped, NaN is greater than every number (Spark's order); of nothing
    but nulls, or of nothing, it is null. The output has the input's type.

    Over a whole batch or group, unlike Trident's ``Stream.max``, which goes by partition.

    >>> greatest = Max()
    >>> greatest.combine(greatest.init((2,)), greatest.init((None,))), greatest.zero()
    (2, None)
    """

    native: ClassVar[Native | None] = "max"

    def init(self, tuple: Any) -> Any:
        return tuple[0]

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if b != b or b > a else a

    def zero(self) -> Any:
        return None

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Max", "compares values", inputs, ORDERED)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return inputs.fields[0].dataType


EXACT = decimal.Context(prec=100)
"""Holds any sum of two decimals of 38 digits; Python's own context rounds to 28 without a word."""


def added(a: Any, b: Any) -> Any:
    """The sum of two numbers of one type, decimals to the last digit.

    >>> added(decimal.Decimal(10**30), decimal.Decimal("-0.5"))
    Decimal('999999999999999999999999999999.5')
    """
    exact = isinstance(a, decimal.Decimal) or isinstance(b, decimal.Decimal)  # either may be the 0 of nothing
    return EXACT.add(a, b) if exact else a + b


def one_field(name: str, does: str, inputs: spark.StructType, accepted: tuple[type[spark.DataType], ...]) -> str:
    """Why these input fields are not one of an accepted type; "" where they are."""
    if len(inputs.fields) != 1:
        return f"{name} {does} of one input field, not of {len(inputs.fields)} ({ddl(inputs)}); name the one before it"
    field = inputs.fields[0]
    if isinstance(field.dataType, accepted):
        return ""
    known = ", ".join(dict.fromkeys(kind.typeName() for kind in accepted))
    return f"{name} {does} of one field, and {field.name!r} is {type_ddl(field.dataType)}; it takes {known}"
