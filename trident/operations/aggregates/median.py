"""The aggregator Median: the exact median of a numeric field."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.argument_checks import check_whole_number
from trident.base.option_names import known_fields
from trident.operations.aggregates.base import NUMERIC, OneFieldAggregator, one_field
from trident.operations.aggregates.element_lists import Elements, one_of_equals


@known_fields({})
@dataclass(frozen=True)
class Median(OneFieldAggregator):
    """The median of one numeric field, a double, as Spark's ``median`` and ``percentile(x, 0.5)``.

    Of an even number of values it is the mean of the two in the middle, each taken as a double. Nulls are skipped;
    without any other value the median is null. NaN is greater than every number (Spark's order).

    An exact median needs all values. So each accumulator holds every distinct value once, with its count, as in Spark,
    and each change of a key in a state writes all of them. That suits ages, prices or whole milliseconds. A key or a
    group with more than `limit` distinct values fails the batch. Then restart with a greater `limit`: a state does not
    store the limit, and the waiting batch is committed. To keep less, round the values first, compute the median of a
    window, or estimate it with `Quantiles`, which keeps two kilobytes; a state with `Quantiles` starts empty.

    Raises
    ------
    TopologyError
        If `limit` is not a whole number of at least 1.

    >>> median = Median()
    >>> acc = median.combine(median.gathered([(7,), (1,), (7,)]), median.init((2,)))
    >>> acc, median.present(acc)
    ([(1, 1), (2, 1), (7, 2)], 4.5)
    """

    limit: int = 10_000

    known_by_name: ClassVar[bool] = True

    gathers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("Median: limit", self.limit, 1)

    def init(self, tuple: Any) -> list[Any]:
        return self.gathered([tuple])

    def combine(self, a: Any, b: Any) -> list[Any]:
        return self._counted([*a, *b])

    def zero(self) -> list[Any]:
        return []

    def present(self, acc: Any) -> float | None:
        """Return the median."""
        total = sum(count for _, count in acc)
        if not total:
            return None
        low, high = _at(acc, (total - 1) // 2), _at(acc, total // 2)
        return low if low == high else low * 0.5 + high * 0.5

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._counted((value, 1) for (value,) in tuples if value is not None)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        """Return the accumulators of `count` groups; NotImplemented if one exceeds the limit."""
        values = columns.column(0)
        found = Elements.valid(values, groups, values)
        ones = pa.array(np.ones(len(found.values), np.int64))
        return self._counts(Elements(_pairs(found.values, ones), found.lists), count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
        """Return the combined accumulators of `a` and `b`, row by row; NotImplemented if one exceeds the limit."""
        return self._counts(Elements.of(a, b), len(a), a.type)

    def _counts(self, elements: Elements, count: int, kind: pa.DataType | None = None) -> Any:
        """Return the sorted distinct values of each of `count` lists with their counts, as one column."""
        ranked = elements.ranked((elements.values.field(0), "ascending"))
        values, counts = ranked.values.flatten()
        starts = ranked.runs(values)
        lists = ranked.lists[starts]
        if np.bincount(lists, minlength=1).max() > self.limit:
            return NotImplemented
        sums = np.add.reduceat(counts.to_numpy(), starts) if len(starts) else counts
        pairs = _pairs(one_of_equals(values.take(pa.array(starts))), pa.array(sums, pa.int64()))
        return Elements(pairs, lists).column(count, kind)

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Median", "orders numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        value = spark.StructField("value", inputs.fields[0].dataType)
        return spark.ArrayType(spark.StructType([value, spark.StructField("count", spark.LongType())]))

    def _counted(self, pairs: Iterable[Any]) -> list[Any]:
        """Return the sorted distinct values with their counts. Raises ValueError above the limit."""
        counts: dict[Any, int] = {}
        missing = 0
        for value, count in pairs:
            if value == value:
                number = value or abs(value)  # 0.0 for -0.0
                counts[number] = counts.get(number, 0) + count
            else:
                missing += count
        found = [*sorted(counts.items()), *([(float("nan"), missing)] if missing else [])]
        if len(found) > self.limit:
            problem = (
                f"it keeps every distinct value, and a group has {len(found)} of them, more than limit={self.limit}"
            )
            way_out = "restart with a greater limit, round the values first, or estimate the median with Quantiles(0.5)"
            raise ValueError(f"{problem}: {way_out}")
        return found


def _pairs(values: pa.Array, counts: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values, counts], names=["value", "count"])


def _at(acc: Any, place: int) -> float:
    """Return the value at index `place` in ascending order, as a double."""
    for value, count in acc:
        place -= count
        if place < 0:
            return float(value)
    raise IndexError("the rank exceeds the number of values")
