"""The aggregator TopK: the greatest values, exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark

from trident.base.spark_order import Key
from trident.base.types import type_ddl
from trident.operations.aggregates.base import ORDERED, BuiltinAggregator, check_parameter
from trident.operations.aggregates.element_lists import Elements


@dataclass(frozen=True)
class TopK(BuiltinAggregator):
    """The `k` greatest values of a field, the greatest first.

    Equal values count separately. The result is exact, though no more than `k` values of a group are ever kept. (TopK
    does not find the most *frequent* values.)

    Over several fields it gives the `k` greatest tuples, by the first field, then by the second and so on: name the
    score first, ``aggregate("score, user", TopK(3), "best")``. The output is an array of the field's type, or of
    structs if there are several fields. A tuple with a null in the first field is skipped; in the other fields a null
    is the least value. NaN is greater than every number (Spark's order). If `k` grows between two starts, a state still
    holds only the values that the smaller `k` kept for existing keys.

    Raises
    ------
    TopologyError
        If `k` is not a whole number of at least 1.

    >>> top = TopK(2)
    >>> top.combine(top.combine([3, 1], top.init((7,))), top.init((None,)))
    [7, 3]
    """

    k: int
    gathers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameter("TopK", "k", self.k)

    def init(self, tuple: Any) -> list[Any]:
        return self.gathered([tuple])

    def combine(self, a: Any, b: Any) -> Any:
        return nlargest(self.k, [*a, *b], key=_rank)

    def zero(self) -> list[Any]:
        return []

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> list[Any]:
        one_field = len(tuples[0]) == 1
        values = [row[0] if one_field else tuple(row) for row in tuples if row[0] is not None]
        return nlargest(self.k, values, key=_rank)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        first, *others = columns.columns
        values = pa.StructArray.from_arrays(columns.columns, names=columns.schema.names) if others else first
        return self._best(Elements.valid(values, groups, first), count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the accumulators of `a` and `b` together, row by row."""
        return self._best(Elements.of(a, b), len(a), a.type)

    def _best(self, elements: Elements, count: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the greatest elements of each list as a column of `count` lists."""
        values = elements.values
        fields = values.flatten() if kinds.is_struct(values.type) else [values]
        keys: list[Key] = [(field, "descending") for field in fields]
        return elements.ranked(*keys).first(self.k).column(count, kind)

    def problem(self, inputs: spark.StructType) -> str:
        if not inputs.fields:
            return "TopK compares values; name the field before the aggregator"
        for field in inputs.fields:
            if not isinstance(field.dataType, ORDERED):
                return f"TopK compares values, and {field.name!r} is {type_ddl(field.dataType)}: leave it out"
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        if len(inputs.fields) == 1:
            return spark.ArrayType(inputs.fields[0].dataType)
        return spark.ArrayType(spark.StructType([spark.StructField(f.name, f.dataType) for f in inputs.fields]))


def _rank(value: Any) -> tuple[Any, ...]:
    """Return a sort key for a value in Spark's order: null, numbers, NaN."""
    if isinstance(value, tuple):  # a Row is a tuple, too
        return tuple(map(_rank, value))
    if value is None:
        return (0,)
    return (1, value) if value == value else (2,)
