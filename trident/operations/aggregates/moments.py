"""Variance, VarPop, StdDev and StdDevPop, which share one accumulator: a count, a mean, and squared deviations.

Two accumulators are combined by the method of T. Chan, G. Golub and R. LeVeque ("Updating formulae and a pairwise
algorithm for computing sample variances", 1979). Unlike a sum of squares, the result stays accurate to a few digits of
a double for large values that are close together.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.operations.aggregates.base import NUMERIC, OneFieldAggregator, one_field


@dataclass(frozen=True)
class MomentsAggregator(OneFieldAggregator):
    """The base class of the aggregators of this module."""

    sample: ClassVar[bool] = True
    """True for a sample: the sum of squared deviations is divided by the number of values less one."""

    def init(self, tuple: Any) -> Any:
        if tuple[0] is None:
            return self.zero()
        value = float(tuple[0])
        return 1, value, value - value  # 0.0, but NaN for NaN and infinities, as in `initColumn`

    def combine(self, a: Any, b: Any) -> Any:
        (n, mean, squares), (m, other, more) = a, b
        if not n or not m:
            return b if m else a
        apart = other - mean
        return n + m, mean + apart * m / (n + m), squares + more + apart * apart * n * m / (n + m)

    def zero(self) -> Any:
        return 0, 0.0, 0.0

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        column = pc.cast(columns.column(0), pa.float64(), safe=False)
        values, own = column.drop_null().to_numpy(zero_copy_only=False), groups[_valid(column)]
        sizes = np.bincount(own, minlength=count)
        some = np.maximum(sizes, 1)
        # Distances to one value of the group keep the digits in which the values differ.
        pivot = np.zeros(count)
        pivot[own] = values
        with np.errstate(all="ignore"):  # infinite values give NaN, as in Spark
            mean = pivot + np.bincount(own, values - pivot[own], count) / some
            squares = np.bincount(own, np.square(values - mean[own]), count)
        return _accumulators(sizes, mean, squares)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        (n, mean, squares), (m, other, more) = _parts(a), _parts(b)
        total = np.maximum(n + m, 1)
        with np.errstate(all="ignore"):
            apart = other - mean
            joint_mean = mean + apart * m / total
            joint = squares + more + apart * apart * n * m / total
        empty = [m == 0, n == 0]
        return _accumulators(
            n + m, np.select(empty, [mean, other], joint_mean), np.select(empty, [squares, more], joint)
        )

    def problem(self, inputs: spark.StructType) -> str:
        return one_field(type(self).__name__, "measures numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        double = spark.DoubleType()
        fields = [("count", spark.LongType()), ("mean", double), ("squares", double)]
        return spark.StructType([spark.StructField(name, kind) for name, kind in fields])

    def _variance(self, acc: Any) -> float | None:
        count, _, squares = acc
        free = count - 1 if self.sample else count
        return squares / free if free > 0 else None


def _valid(column: pa.Array) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _parts(accumulators: pa.Array) -> list[Any]:
    return [field.to_numpy(zero_copy_only=False) for field in accumulators.flatten()]


def _accumulators(count: Any, mean: Any, squares: Any) -> pa.Array:
    arrays = [pa.array(count, pa.int64()), pa.array(mean, pa.float64()), pa.array(squares, pa.float64())]
    return pa.StructArray.from_arrays(arrays, names=["count", "mean", "squares"])


@known_fields({})
@dataclass(frozen=True)
class Variance(MomentsAggregator):
    """The sample variance of one numeric field, a double, as Spark's ``variance`` and ``var_samp``.

    Nulls are skipped. With fewer than two values it is null.

    >>> variance = Variance()
    >>> variance.present(variance.combine(variance.init((2,)), variance.init((6,))))
    8.0
    """

    known_by_name: ClassVar[bool] = True

    def present(self, acc: Any) -> float | None:
        """Return the variance."""
        return self._variance(acc)


@known_fields({})
@dataclass(frozen=True)
class VarPop(Variance):
    """The variance of one numeric field over a whole population, a double, as Spark's ``var_pop``.

    Nulls are skipped. Without any value it is null.

    >>> variance = VarPop()
    >>> variance.present(variance.combine(variance.init((2,)), variance.init((6,))))
    4.0
    """

    sample: ClassVar[bool] = False


@known_fields({})
@dataclass(frozen=True)
class StdDev(MomentsAggregator):
    """The sample standard deviation of one numeric field, a double, as Spark's ``stddev`` and ``stddev_samp``.

    Nulls are skipped. With fewer than two values it is null.

    >>> deviation = StdDev()
    >>> deviation.present(deviation.combine(deviation.init((1,)), deviation.init((9,)))) == 32**0.5
    True
    """

    known_by_name: ClassVar[bool] = True

    def present(self, acc: Any) -> float | None:
        """Return the standard deviation."""
        variance = self._variance(acc)
        return None if variance is None else math.sqrt(variance)


@known_fields({})
@dataclass(frozen=True)
class StdDevPop(StdDev):
    """The standard deviation of one numeric field over a whole population, a double, as Spark's ``stddev_pop``.

    Nulls are skipped. Without any value it is null.

    >>> deviation = StdDevPop()
    >>> deviation.present(deviation.combine(deviation.init((1,)), deviation.init((9,))))
    4.0
    """

    sample: ClassVar[bool] = False
