"""The aggregator Average. It accumulates a sum and a count, and returns their quotient."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.operations.aggregates.base import NUMERIC, OneFieldAggregator, added, negated, one_field
from trident.operations.aggregates.column_sums import group_sums, row_sums
from trident.operations.aggregates.sum import Sum
from trident.operations.aggregators import Native


@known_fields({})
@dataclass(frozen=True)
class Average(OneFieldAggregator):
    """The mean of one numeric field, a double. Nulls are skipped; without any other value the mean is null.

    A state holds a struct of the sum (with the type of `Sum`) and the count, so that batches combine exactly.

    >>> mean = Average()
    >>> acc = mean.combine(mean.init((2,)), mean.init((5,)))
    >>> acc, mean.present(acc)
    ((7, 2), 3.5)
    """

    known_by_name: ClassVar[bool] = True

    native: ClassVar[Native | None] = "average"
    gathers: ClassVar[bool] = True

    def init(self, tuple: Any) -> Any:
        return self.zero() if tuple[0] is None else (tuple[0], 1)

    def combine(self, a: Any, b: Any) -> Any:
        return added(a[0], b[0]), a[1] + b[1]

    def retract(self, a: Any, b: Any) -> Any:
        """Return the accumulator of the tuples of `a` without those of `b`."""
        return added(a[0], negated(b[0])), a[1] - b[1]

    def zero(self) -> Any:
        return 0, 0

    def present(self, acc: Any) -> float | None:
        """Return the mean."""
        return float(acc[0]) / acc[1] if acc[1] else None

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> Any:
        values = [value for (value,) in tuples if value is not None]
        return reduce(added, values, 0), len(values)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        """Return the accumulators of `count` groups; NotImplemented if a sum may overflow its type."""
        values = columns.column(0)
        total = group_sums(values, groups, count)
        if total is None:
            return NotImplemented
        number = np.bincount(groups[values.is_valid().to_numpy(zero_copy_only=False)], minlength=count)
        return _accumulators(total, pa.array(number, pa.int64()))

    def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
        """Return the combined accumulators of `a` and `b`, row by row; NotImplemented if a sum overflows its type."""
        sums = [row_sums(one, other) for one, other in zip(a.flatten(), b.flatten(), strict=True)]
        return NotImplemented if None in sums else _accumulators(*sums)

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Average", "adds numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        total = Sum().type_of(inputs)
        return spark.StructType([spark.StructField("total", total), spark.StructField("count", spark.LongType())])


def _accumulators(*fields: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(fields, names=["total", "count"])
