"""The aggregators Min and Max."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.base.spark_order import Order, chosen, exceeds
from trident.operations.aggregates.base import ORDERED, OneFieldAggregator, one_field
from trident.operations.aggregates.column_sums import by_group
from trident.operations.aggregates.element_lists import Elements
from trident.operations.aggregators import Native


class _ExtremeAggregator(OneFieldAggregator):
    """An aggregator that keeps one of a field's values, with the type of the input."""

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    order: ClassVar[Order]
    """The sort order in which the value to keep comes first."""

    def init(self, tuple: Any) -> Any:
        return tuple[0]

    def zero(self) -> Any:
        return None

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        values = columns.column(0)
        if self.native in ("min", "max") and not kinds.is_floating(values.type):
            return by_group(values, groups, count, self.native)
        valid = Elements.valid(values, groups, values)
        found = valid.ranked((valid.values, self.order)).first(1)
        rows = np.full(count, -1, np.int64)
        rows[found.lists] = np.arange(len(found.lists))
        return found.values.take(pa.array(rows, mask=rows < 0))

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        better = exceeds(a, b) if self.order == "ascending" else exceeds(b, a)
        return chosen(better.to_numpy(zero_copy_only=False), a, b)

    def problem(self, inputs: spark.StructType) -> str:
        return one_field(type(self).__name__, "compares values", inputs, ORDERED)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return inputs.fields[0].dataType


@known_fields({})
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
    order: ClassVar[Order] = "ascending"
    initColumn, combineColumn = _ExtremeAggregator.initColumn, _ExtremeAggregator.combineColumn

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if a != a or b < a else a


@known_fields({})
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
    order: ClassVar[Order] = "descending"
    initColumn, combineColumn = _ExtremeAggregator.initColumn, _ExtremeAggregator.combineColumn

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if b != b or b > a else a
