"""The aggregators Min and Max."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import types as spark

from trident.operations.aggregates.base import ORDERED, OneFieldAggregator, one_field
from trident.operations.aggregators import Native


class _ExtremeAggregator(OneFieldAggregator):
    """An aggregator that keeps one of the values of a field, of the input's type."""

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    def init(self, tuple: Any) -> Any:
        return tuple[0]

    def zero(self) -> Any:
        return None

    def problem(self, inputs: spark.StructType) -> str:
        return one_field(type(self).__name__, "compares values", inputs, ORDERED)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return inputs.fields[0].dataType


@dataclass(frozen=True)
class Min(_ExtremeAggregator):
    """The least value of one field, of the input's type.

    Nulls are skipped, and NaN is greater than every number (Spark's order). Without any value the result is null.
    It covers a whole batch or group, unlike Trident's ``Stream.min``, which covers a partition.

    >>> least = Min()
    >>> least.combine(least.init((2,)), least.init((None,))), least.zero()
    (2, None)
    """

    native: ClassVar[Native | None] = "min"

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if a != a or b < a else a


@dataclass(frozen=True)
class Max(_ExtremeAggregator):
    """The greatest value of one field, of the input's type.

    Nulls are skipped, and NaN is greater than every number (Spark's order). Without any value the result is null.
    It covers a whole batch or group, unlike Trident's ``Stream.max``, which covers a partition.

    >>> greatest = Max()
    >>> greatest.combine(greatest.init((2,)), greatest.init((None,))), greatest.zero()
    (2, None)
    """

    native: ClassVar[Native | None] = "max"

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if b != b or b > a else a
