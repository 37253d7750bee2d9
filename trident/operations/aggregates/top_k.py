"""The aggregator TopK: the exact greatest or least values."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark

from trident.base.errors import TopologyError
from trident.base.option_names import known_fields
from trident.base.short_texts import brief
from trident.base.spark_order import Key, rank_of
from trident.base.spark_types import ddl, type_ddl
from trident.operations.aggregates.base import ORDERED, BuiltinAggregator, check_parameter
from trident.operations.aggregates.element_lists import Elements


@known_fields({})
@dataclass(frozen=True)
class TopK(BuiltinAggregator):
    """The `k` greatest values of a field, the greatest first.

    Equal values count separately. The result is exact, though no more than `k` values of a group are ever kept. (TopK
    does not find the most *frequent* values.)

    Over several fields it gives the `k` greatest tuples, by the first field, then by the second and so on: so name the
    score first, ``aggregate("score, user", TopK(3), "best")``. The output is an array of the field's type, or of
    structs if there are several fields. A tuple with a null in the first field is skipped; in the other fields a null
    is the least value. NaN is greater than every number (Spark's order). If a restart raises `k`, existing keys still
    have only the values that the smaller `k` kept.

    ``ascending=True`` gives the `k` least values, the least first. For several fields, pass a list with a direction
    for each, as in ``orderBy`` of PySpark: ``TopK(1, ascending=[False, True])`` over ``"price, at"`` gives the highest
    price, and among equal prices the earliest tuple. A start refuses a state with another order.

    Raises
    ------
    TopologyError
        If `k` is not a whole number of at least 1, or `ascending` is neither a bool nor a list of them.

    >>> top = TopK(2)
    >>> top.combine(top.combine([3, 1], top.init((7,))), top.init((None,)))
    [7, 3]
    """

    k: int
    ascending: bool | Sequence[bool] = False
    gathers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameter("TopK", "k", self.k)
        directions = [self.ascending] if isinstance(self.ascending, bool) else self.ascending
        if not isinstance(directions, list | tuple) or not all(isinstance(each, bool) for each in directions):
            problem = f"TopK: ascending={brief(self.ascending)}: expected True, False, or a list of them"
            raise TopologyError(f"{problem} with one for each field, such as [False, True]")
        if not isinstance(self.ascending, bool):
            object.__setattr__(self, "ascending", tuple(directions))

    @property
    def variant(self) -> str:
        directions = self._directions(1)
        if not any(directions):
            return ""
        return "ascending" if all(directions) else f"by {''.join('+' if each else '-' for each in directions)}"

    def _directions(self, fields: int) -> Sequence[bool]:
        """Return whether each field is ascending, as a list."""
        return [self.ascending] * fields if isinstance(self.ascending, bool) else self.ascending

    def init(self, tuple: Any) -> list[Any]:
        return self.gathered([tuple])

    def combine(self, a: Any, b: Any) -> Any:
        return self._first([*a, *b])

    def zero(self) -> list[Any]:
        return []

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> list[Any]:
        one_field = len(tuples[0]) == 1
        values = [row[0] if one_field else tuple(row) for row in tuples if row[0] is not None]
        return self._first(values)

    def _first(self, values: list[Any]) -> list[Any]:
        """Return the first `k` of these values or tuples, in order."""
        if not self.ascending:
            return nlargest(self.k, values, key=rank_of)
        several = bool(values) and isinstance(values[0], tuple)
        directions = self._directions(len(values[0]) if several else 1)
        # sorts are stable, so later ones keep the order of equal values
        for at, ascends in reversed(list(enumerate(directions))):
            ranks = [rank_of(value[at] if several else value) for value in values]
            rows = sorted(range(len(values)), key=ranks.__getitem__, reverse=not ascends)
            values = [values[row] for row in rows]
        return values[: self.k]

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        first, *others = columns.columns
        values = pa.StructArray.from_arrays(columns.columns, names=columns.schema.names) if others else first
        return self._best(Elements.valid(values, groups, first), count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        return self._best(Elements.of(a, b), len(a), a.type)

    def _best(self, elements: Elements, count: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the first `k` elements of each of `count` lists, as one column."""
        values = elements.values
        fields = values.flatten() if kinds.is_struct(values.type) else [values]
        ascends = self._directions(len(fields))
        keys: list[Key] = [(f, "ascending" if up else "descending") for f, up in zip(fields, ascends, strict=True)]
        return elements.ranked(*keys, nulls_least=True).first(self.k).column(count, kind)

    def problem(self, inputs: spark.StructType) -> str:
        if not inputs.fields:
            return "TopK compares values; name the field before the aggregator"
        if not isinstance(self.ascending, bool) and len(self.ascending) != len(inputs.fields):
            given = f"ascending={list(self.ascending)} has {len(self.ascending)}"
            return f"TopK orders by {len(inputs.fields)} fields ({ddl(inputs)}), but {given}; give one for each field"
        for field in inputs.fields:
            if not isinstance(field.dataType, ORDERED):
                return f"TopK compares values, but {field.name!r} is {type_ddl(field.dataType)}: remove this field"
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        if len(inputs.fields) == 1:
            return spark.ArrayType(inputs.fields[0].dataType)
        return spark.ArrayType(spark.StructType([spark.StructField(f.name, f.dataType) for f in inputs.fields]))
