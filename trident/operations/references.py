"""Functions for the join of two tables by a foreign key: rows of the left table refer to rows of the right table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, StructType

from trident.base.types import arrow_schema
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.column_functions import ColumnFunction
from trident_state.keys import encode_keys, hash_keys

PARTS = 16
"""The parts of the index of referring rows, for each row that they refer to. A change writes one part, and a change of
the right table reads all of them."""


@dataclass(frozen=True)
class PartOf(ColumnFunction):
    """The part of the index that has a row of the left table, by its key."""

    keys: StructType

    def __call__(self, *key: Any) -> int:
        (part,) = self._parts([pa.array([value], field.type) for value, field in zip(key, self._fields, strict=True)])
        return int(part)

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return [pa.array(self._parts(inputs), pa.int64())]

    def _parts(self, inputs: Sequence[pa.Array]) -> Any:
        return (hash_keys(encode_keys(pa.table(list(inputs), schema=self._fields))) % PARTS).astype(np.int64)

    @property
    def _fields(self) -> pa.Schema:
        return arrow_schema(self.keys)


@dataclass(frozen=True)
class Keys(BuiltinAggregator):
    """The keys of the rows, as an array of structs. It does not depend on the order of the rows."""

    def init(self, tuple: Any) -> Any:
        return [tuple]

    def combine(self, a: Any, b: Any) -> Any:
        return [*a, *b]

    def zero(self) -> Any:
        return []

    def problem(self, inputs: StructType) -> str:
        return ""

    def type_of(self, inputs: StructType) -> DataType:
        return ArrayType(inputs)


def in_all_parts(keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the keys of the index for rows of the right table, by their keys: each key in each part."""
    rows = len(keys[0])
    every = pa.array(np.repeat(np.arange(rows), PARTS))
    return [*(key.take(every) for key in keys), pa.array(np.tile(np.arange(PARTS, dtype=np.int64), rows))]


def keys_in(stored: pa.Array) -> list[pa.Array]:
    """Return the key fields of all rows in stored values of the index, which are those of `Keys` over changes."""
    entries: pa.StructArray = pc.list_flatten(pc.struct_field(stored, "value"))
    keys: list[pa.Array] = entries.flatten()[:-1]  # the last field is the number of the row, which is 1
    return keys
