"""The aggregator Count."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.column_sums import row_sums
from trident.operations.aggregators import Native


@known_fields({})
@dataclass(frozen=True)
class Count(BuiltinAggregator):
    """The number of tuples, nulls included, as a bigint.

    Count ignores its input fields. To skip nulls, call ``.each("field", FilterNull())`` before the aggregate.
    Meaning: ``org.apache.storm.trident.operation.builtin.Count``.

    >>> count = Count()
    >>> count.combine(count.init(("dog",)), count.init(("cat",))), count.zero()
    (2, 0)
    """

    known_by_name: ClassVar[bool] = True

    native: ClassVar[Native | None] = "count"

    def init(self, tuple: Any) -> int:
        return 1

    def combine(self, a: int, b: int) -> int:
        return a + b

    def retract(self, a: int, b: int) -> int:
        """Return the count of the tuples of `a` without those of `b`."""
        return a - b

    def zero(self) -> int:
        return 0

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        return pa.array(np.bincount(groups, minlength=count), pa.int64())

    def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
        """Return the combined accumulators of `a` and `b`, row by row; NotImplemented if a count overflows its type."""
        sums = row_sums(a, b)
        return NotImplemented if sums is None else sums

    def problem(self, inputs: spark.StructType) -> str:
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.LongType()
