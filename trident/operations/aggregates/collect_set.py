"""The aggregator CollectSet: the distinct values of a field, in ascending order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.option_names import known_fields
from trident.operations.aggregates.base import ORDERED, OneFieldAggregator, one_field
from trident.operations.aggregates.element_lists import Elements, one_of_equals


@known_fields({})
@dataclass(frozen=True)
class CollectSet(OneFieldAggregator):
    """The distinct values of one field, an array in ascending order. Nulls are skipped.

    Values are equal if they are equal in Spark: 0.0 is -0.0, and all NaN are one value, the greatest. Spark's
    ``collect_set`` leaves the order open. In a state the arrays grow with every new value, and each change of a key
    writes its whole array; `CountDistinct` counts distinct values in two kilobytes.

    >>> collect = CollectSet()
    >>> collect.combine(collect.init(("dog",)), collect.combine(collect.init(("cat",)), collect.init(("dog",))))
    ['cat', 'dog']
    """

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    gathers: ClassVar[bool] = True

    def init(self, tuple: Any) -> list[Any]:
        return self.gathered([tuple])

    def combine(self, a: Any, b: Any) -> list[Any]:
        return _distinct([*a, *b])

    def zero(self) -> list[Any]:
        return []

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> list[Any]:
        return _distinct(value for (value,) in tuples if value is not None)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        values = columns.column(0)
        return _sets(Elements.valid(values, groups, values), count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        return _sets(Elements.of(a, b), len(a), a.type)

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("CollectSet", "orders values", inputs, ORDERED)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.ArrayType(inputs.fields[0].dataType)


def _sets(elements: Elements, count: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return the sorted distinct elements of each of `count` lists, as one column."""
    ranked = elements.ranked((elements.values, "ascending"))
    found = ranked.take(ranked.runs(ranked.values))
    return Elements(one_of_equals(found.values), found.lists).column(count, kind)


def _distinct(values: Iterable[Any]) -> list[Any]:
    numbers = set(values)
    if any(isinstance(value, float) for value in numbers):
        whole = sorted({value if value else 0.0 for value in numbers if value == value})
        return whole if all(value == value for value in numbers) else [*whole, float("nan")]
    return sorted(numbers)
