"""The aggregator Sum."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.operations.aggregates.base import INTEGRAL, NUMERIC, OneFieldAggregator, added, negated, one_field
from trident.operations.aggregates.column_sums import group_sums, row_sums
from trident.operations.aggregators import Native


@known_fields({})
@dataclass(frozen=True)
class Sum(OneFieldAggregator):
    """The sum of one numeric field. Nulls are skipped; without any other value the sum is 0.

    The output is a bigint for whole numbers, a double for float and double, and a decimal with ten more digits for a
    decimal, as in Spark. Meaning: ``org.apache.storm.trident.operation.builtin.Sum``, which raises at a null.

    >>> total = Sum()
    >>> total.combine(total.init((2,)), total.init((None,))), total.zero()
    (2, 0)
    """

    known_by_name: ClassVar[bool] = True

    native: ClassVar[Native | None] = "sum"

    def init(self, tuple: Any) -> Any:
        return self.zero() if tuple[0] is None else tuple[0]

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return added(a, b)

    def retract(self, a: Any, b: Any) -> Any:
        """Return the sum of the tuples of `a` without those of `b`."""
        return a if b is None else added(0 if a is None else a, negated(b))

    def zero(self) -> Any:
        return 0

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        """Return the accumulators of `count` groups; NotImplemented if a sum may overflow its type."""
        values = columns.column(0)
        if kinds.is_floating(values.type):  # the first value is not added to 0: -0.0 stays -0.0
            doubles = np.full(count, -0.0)
            with np.errstate(all="ignore"):  # infinite values give NaN, as in Python
                np.add.at(doubles, groups, values.cast(pa.float64()).fill_null(0.0).to_numpy())
            return doubles
        sums = group_sums(values, groups, count)
        return NotImplemented if sums is None else sums

    def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
        """Return the combined accumulators of `a` and `b`, row by row; NotImplemented if a sum overflows its type."""
        sums = row_sums(a, b)
        return NotImplemented if sums is None else sums

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Sum", "adds numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        kind = inputs.fields[0].dataType
        if isinstance(kind, spark.DecimalType):
            return spark.DecimalType(min(38, kind.precision + 10), kind.scale)
        return spark.LongType() if isinstance(kind, INTEGRAL) else spark.DoubleType()
