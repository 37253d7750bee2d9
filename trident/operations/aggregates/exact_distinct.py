"""The exact form of CountDistinct: the sorted distinct values, or tuples of several fields."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql import types as spark

from trident.base.spark_order import Key, rank_of
from trident.base.spark_types import type_ddl
from trident.operations.aggregates.base import ORDERED
from trident.operations.aggregates.element_lists import Elements, one_of_equals
from trident_state.keys import encode_keys

_NAN = float("nan")
"""A single object for all NaN, so that they are one element of a set."""


class ExactDistinct:
    """The accumulators that hold all distinct values. A tuple with a null is skipped."""

    def combine(self, a: Any, b: Any) -> list[Any]:
        return _distinct([*a, *b])

    def present(self, acc: Any) -> int:
        return len(acc)

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> list[Any]:
        return _distinct(row[0] if len(row) == 1 else tuple(row) for row in tuples if None not in row)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        first, *others = columns.columns
        values = pa.StructArray.from_arrays(columns.columns, names=columns.schema.names) if others else first
        valid = np.logical_and.reduce([each.is_valid().to_numpy(zero_copy_only=False) for each in columns.columns])
        return _sets(Elements(values.filter(pa.array(valid)), groups[valid]), count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        return _sets(Elements.of(a, b), len(a), a.type)

    def problem(self, inputs: spark.StructType) -> str:
        for field in inputs.fields:
            if not isinstance(field.dataType, ORDERED):
                kind = type_ddl(field.dataType)
                return f"CountDistinct(exact=True) sorts the values, but {field.name!r} is {kind}; remove exact"
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        if len(inputs.fields) == 1:
            return spark.ArrayType(inputs.fields[0].dataType)
        return spark.ArrayType(spark.StructType([spark.StructField(f.name, f.dataType) for f in inputs.fields]))


def _sets(elements: Elements, count: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return the sorted distinct elements of each of `count` lists, as one column."""
    values, several = elements.values, kinds.is_struct(elements.values.type)
    fields = [one_of_equals(field) for field in (values.flatten() if several else [values])]
    whole = pa.StructArray.from_arrays(fields, fields=list(values.type)) if several else fields[0]
    keys: list[Key] = [(field, "ascending") for field in fields]
    ranked = Elements(whole, elements.lists).ranked(*keys)
    sorted_fields = ranked.values.flatten() if several else [ranked.values]
    table = pa.table(sorted_fields, names=[str(at) for at in range(len(sorted_fields))])
    codes = pc.dictionary_encode(pa.concat_arrays([encode_keys(table)])).indices.to_numpy()
    begins = np.ones(len(codes), np.bool_)
    begins[1:] = (np.diff(codes) != 0) | (np.diff(ranked.lists) != 0)
    return ranked.take(np.flatnonzero(begins)).column(count, kind)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return sorted({_one_of_equals(value) for value in values}, key=rank_of)


def _one_of_equals(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_one_of_equals, value))
    if isinstance(value, float):
        return _NAN if value != value else value or 0.0
    return value
