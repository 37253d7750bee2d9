"""The base classes of the built-in aggregators, and the checks that they share."""

import dataclasses
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Column
from pyspark.sql import types as spark

from trident.base.argument_checks import check_whole_number
from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.base.spark_types import ddl, type_ddl
from trident.expressions.tree import ColumnExpression
from trident.operations.aggregators import CombinerAggregator, Native
from trident.operations.expressions import Expression
from trident.operations.functions import Filter

INTEGRAL = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
NUMERIC = (*INTEGRAL, spark.FloatType, spark.DoubleType, spark.DecimalType)
ORDERED = (
    *NUMERIC,
    spark.StringType,
    spark.BinaryType,
    spark.BooleanType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
)


WhereLike = ColumnExpression | Expression | Column | Filter | Callable[..., Any] | None
"""A condition of an aggregator: any argument that `Stream.filter` accepts without input fields."""

NAMES = frozenset({"Average", "Count", "CountDistinct", "Max", "Min", "Quantiles", "Sum", "TopK"})
"""The class names of the first built-in aggregators, which stored states use without a prefix.

Later built-in aggregators are stored with "trident." before the class name, because an older state may hold a user's
class of the same name. Do not add to this list.
"""


@dataclass(frozen=True)
class BuiltinAggregator(CombinerAggregator):
    """The base class of the built-in aggregators. The types of the input fields determine the type of the output.

    With ``where=`` only the tuples that satisfy a condition are aggregated: an expression over the fields of the
    stream, ``Count(where=col("price") < 100)``, or anything else that `Stream.filter` takes without input fields, such
    as a function of a TridentTuple of all fields. A tuple for which the condition is null is skipped. A group whose
    tuples are all skipped has the result of no tuples. The verb computes the condition; ``init`` never sees it.
    Meaning: ``FILTER (WHERE ...)`` of SQL.
    """

    where: WhereLike = dataclasses.field(default=None, kw_only=True, repr=False, compare=False)

    native: ClassVar[Native | None] = None
    """The name of Spark's aggregate with exactly the same results; None if there is none."""

    gathers: ClassVar[bool] = False
    """True if one call of `gathered` with many tuples is faster than `init` and `combine` for each tuple."""

    idempotent: ClassVar[bool] = False
    """True if aggregating a value again changes nothing, so that values that replace each other may be aggregated."""

    ordered: ClassVar[bool] = False
    """True if the result depends on the order of tuples. Then `initColumn` gets two more columns after the input
    fields: the txid of each tuple's batch, and the tuple's number in the batch."""

    known_by_name: ClassVar[bool] = False
    """True if all instances combine and present in the same way. Then a state of the aggregator can be opened by the
    class name, without its program."""

    @property
    def variant(self) -> str:
        """The parameters of the accumulators as text, which stores keep with the name; "" if there are none."""
        return ""

    @property
    def inputFields(self) -> tuple[str, ...] | None:
        """The input fields named in the aggregator, as in ``Sum("price")``; None if the verb names them."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Spark and Arrow compute a native aggregate without calling the aggregator, so they would ignore an overridden
        # method, such as `init` in a user's subclass of Sum. Such a subclass is native only if it sets `native` itself.
        if {"init", "combine", "zero", "present"} & vars(cls).keys():
            if "native" not in vars(cls):
                cls.native = None
            if "gathered" not in vars(cls):
                cls.gathers = False
        # A subclass that overrides combine cannot use the `retract` of its base class.
        if {"combine", "zero"} & vars(cls).keys() and "retract" not in vars(cls) and hasattr(cls, "retract"):
            cls.retract = None
        if {"init", "combine", "zero"} & vars(cls).keys():
            for method in ("initColumn", "combineColumn"):
                if method not in vars(cls) and hasattr(cls, method):
                    setattr(cls, method, None)

    def gathered(self, tuples: list[tuple[Any, ...]]) -> Any:
        """Return the accumulator of `tuples`, a non-empty list."""
        raise NotImplementedError

    def problem(self, inputs: spark.StructType) -> str:
        """Return the reason why these input fields cannot be aggregated; "" if they can be."""
        raise NotImplementedError

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        """Return the type of the accumulator over these input fields.

        Without a ``present``, it is also the output's type.
        """
        raise NotImplementedError

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType | None:
        """Return the type of ``present``'s result for an accumulator type; None if its annotation declares the type."""
        return None


@dataclass(frozen=True)
class OneFieldAggregator(BuiltinAggregator):
    """The base class of aggregators of one field, which either the aggregator or the verb names.

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


EXACT = decimal.Context(prec=100)
"""A context in which any sum of two decimals of 38 digits is exact. Python's default context rounds to 28 digits."""


def added(a: Any, b: Any) -> Any:
    """Return the sum of two numbers of the same type. Decimals are added exactly.

    >>> added(decimal.Decimal(10**30), decimal.Decimal("-0.5"))
    Decimal('999999999999999999999999999999.5')
    """
    # zero() may return an int in place of the type
    exact = isinstance(a, decimal.Decimal) or isinstance(b, decimal.Decimal)
    return EXACT.add(a, b) if exact else a + b


def negated(a: Any) -> Any:
    """Return the negative of a number. Decimals are exact, as in `added`.

    >>> negated(decimal.Decimal(10**30 + 1))
    Decimal('-1000000000000000000000000000001')
    """
    return EXACT.minus(a) if isinstance(a, decimal.Decimal) else -a


def check_parameter(name: str, parameter: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise TopologyError unless a parameter of the aggregator `name` is a whole number from `least` to `most`."""
    if isinstance(value, str):
        way_out = f"name a field before the aggregator, as in ({value!r}, {name}(...))"
        raise TopologyError(f"{name}({brief(value)}): {parameter} must be a whole number; {way_out}")
    check_whole_number(f"{name}: {parameter}", value, least, most)


def one_field(name: str, does: str, inputs: spark.StructType, accepted: tuple[type[spark.DataType], ...]) -> str:
    """Return why `inputs` are not a single field of an accepted type; "" if they are.

    The reason begins with `name` and `does`.
    """
    if len(inputs.fields) != 1:
        return (
            f"{name} {does} of one input field, not of {len(inputs.fields)} ({ddl(inputs)}); name the field "
            f"before the aggregator"
        )
    field = inputs.fields[0]
    if isinstance(field.dataType, accepted):
        return ""
    known = ", ".join(dict.fromkeys(kind.typeName() for kind in accepted))
    return f"{name} {does} of one field, but {field.name!r} is {type_ddl(field.dataType)}; it takes {known}"


def is_ordered(aggregator: object) -> bool:
    """Return whether an aggregator is built in and its result depends on the order of tuples."""
    return isinstance(aggregator, BuiltinAggregator) and aggregator.ordered
