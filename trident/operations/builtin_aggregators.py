"""Count, Sum, Min and Max, which Spark and the stores can also compute, and the base class of built-in aggregators."""

import dataclasses
import decimal
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import types as spark

from trident.base.checks import check_whole_number
from trident.base.errors import TopologyError
from trident.base.short_texts import brief
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
"""The class names of the first built-in aggregators. Stored states hold them to tell which aggregator a state has.

Stored states hold the later ones with "trident." before the name, because a state that was stored before may have been
made by a user's class of the same name. Do not add to this list.
"""


_ALIKE = {
    "avg": "Average()",
    "mean": "Average()",
    "average": "Average()",
    "topk": "TopK(3)",
    "argmax": "MaxBy('value', 'by')",
    "argmin": "MinBy('value', 'by')",
    "maxby": "MaxBy('value', 'by')",
    "minby": "MinBy('value', 'by')",
    "std": "StdDev()",
    "stddevsamp": "StdDev()",
    "var": "Variance()",
    "varsamp": "Variance()",
    "approxcountdistinct": "CountDistinct()",
    "percentileapprox": "Quantiles(0.5)",
}
_BARE = ("Count", "Sum", "Min", "Max", "CountDistinct", "First", "Last", "CollectList", "CollectSet")
_BY_FOREIGN_NAME = _ALIKE | {
    name.lower(): f"{name}()" for name in (*_BARE, "StdDev", "StdDevPop", "Variance", "VarPop")
}


def called_like(name: str) -> str | None:
    """Return how to write the built-in aggregator that a function's name in Python or Spark means; None without one.

    >>> called_like("sum"), called_like("avg"), called_like("product")
    ('Sum()', 'Average()', None)
    """
    return _BY_FOREIGN_NAME.get(name.replace("_", "").lower())


class BuiltinAggregator(CombinerAggregator):
    """The base class of the built-in aggregators. The types of the input fields determine the type of the output."""

    native: ClassVar[Native | None] = None
    """Spark's name of the same aggregate; None if Spark has no aggregate with exactly the same results."""

    gathers: ClassVar[bool] = False
    """True if one call of `gathered` with many tuples is faster than `init` and `combine` for each tuple."""

    idempotent: ClassVar[bool] = False
    """True if a value that comes once more changes nothing, so that a key's values may replace each other."""

    ordered: ClassVar[bool] = False
    """True if the result depends on the order of tuples. Then `initColumn` gets two more columns after the input
    fields: the txid of each tuple's batch, and the tuple's number in the batch."""

    @property
    def inputFields(self) -> tuple[str, ...] | None:
        """The input fields that the aggregator names itself, as in ``Sum("price")``; None if the verb names them."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Spark and Arrow compute a native aggregate without calling the aggregator. They would ignore the methods of a
        # user's subclass of Sum that has, say, an `init` of its own. So a subclass is native only if it says so itself.
        if {"init", "combine", "zero", "present"} & vars(cls).keys():
            if "native" not in vars(cls):
                cls.native = None
            if "gathered" not in vars(cls):
                cls.gathers = False
        if {"init", "combine", "zero"} & vars(cls).keys():
            for method in ("initColumn", "combineColumn"):
                if method not in vars(cls) and hasattr(cls, method):
                    setattr(cls, method, None)

    def gathered(self, tuples: list[tuple[Any, ...]]) -> Any:
        """Return the accumulator of `tuples`, of which there is at least one."""
        raise NotImplementedError

    def problem(self, inputs: spark.StructType) -> str:
        """Return why these input fields cannot be aggregated; "" if they can."""
        raise NotImplementedError

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        """Return the type of the accumulator over these input fields.

        Without a ``present``, it is also the output's type.
        """
        raise NotImplementedError

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType | None:
        """Return the type of ``present``'s result for an accumulator's type; None if its annotation has the type."""
        return None


@dataclass(frozen=True)
class OneFieldAggregator(BuiltinAggregator):
    """The base class of aggregators of one field. The field is named by the aggregator, or by the verb.

    ``aggregate("price", Sum(), "total")`` and ``aggregate(Sum("price"), "total")`` mean the same.
    """

    field: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.field is not None and not isinstance(self.field, str):
            name = type(self).__name__
            raise TopologyError(f"{name}({brief(self.field)}): give the name of one field, such as {name}('price')")

    @property
    def inputFields(self) -> tuple[str, ...] | None:
        return None if self.field is None else (self.field,)


@dataclass(frozen=True)
class Count(BuiltinAggregator):
    """The number of tuples, nulls included, as a bigint.

    Count ignores its input fields. To skip nulls, put ``.each("field", FilterNull())`` before the aggregate.
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
class Sum(OneFieldAggregator):
    """The sum of one numeric field. Nulls are skipped; if there is no other value, the sum is 0.

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
class Min(OneFieldAggregator):
    """The least value of one field, of the input's type.

    Nulls are skipped, and NaN is greater than every number (Spark's order). Without any value the result is null.
    It covers a whole batch or group, unlike Trident's ``Stream.min``, which covers a partition.

    >>> least = Min()
    >>> least.combine(least.init((2,)), least.init((None,))), least.zero()
    (2, None)
    """

    idempotent: ClassVar[bool] = True

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
class Max(OneFieldAggregator):
    """The greatest value of one field, of the input's type.

    Nulls are skipped, and NaN is greater than every number (Spark's order). Without any value the result is null.
    It covers a whole batch or group, unlike Trident's ``Stream.max``, which covers a partition.

    >>> greatest = Max()
    >>> greatest.combine(greatest.init((2,)), greatest.init((None,))), greatest.zero()
    (2, None)
    """

    idempotent: ClassVar[bool] = True

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
"""A context in which any sum of two decimals of 38 digits is exact. Python's default context rounds to 28 digits."""


def added(a: Any, b: Any) -> Any:
    """Return the sum of two numbers of one type. Decimals are exact to the last digit.

    >>> added(decimal.Decimal(10**30), decimal.Decimal("-0.5"))
    Decimal('999999999999999999999999999999.5')
    """
    exact = isinstance(a, decimal.Decimal) or isinstance(b, decimal.Decimal)  # one of the two may be zero(), an int
    return EXACT.add(a, b) if exact else a + b


def check_parameter(name: str, parameter: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise TopologyError unless the parameter of the aggregator `name` is a whole number from `least` to `most`."""
    if isinstance(value, str):
        way_out = f"name a field before the aggregator, as in ({value!r}, {name}(...))"
        raise TopologyError(f"{name}({brief(value)}): {parameter} is a whole number; {way_out}")
    check_whole_number(f"{name}: {parameter}", value, least, most)


def one_field(name: str, does: str, inputs: spark.StructType, accepted: tuple[type[spark.DataType], ...]) -> str:
    """Return why `inputs` are not one field of an accepted type; "" if they are.

    The text begins with `name` and `does`.
    """
    if len(inputs.fields) != 1:
        return f"{name} {does} of one input field, not of {len(inputs.fields)} ({ddl(inputs)}); name the one before it"
    field = inputs.fields[0]
    if isinstance(field.dataType, accepted):
        return ""
    known = ", ".join(dict.fromkeys(kind.typeName() for kind in accepted))
    return f"{name} {does} of one field, and {field.name!r} is {type_ddl(field.dataType)}; it takes {known}"
