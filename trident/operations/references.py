"""Functions for the join of two tables by a foreign key: rows of the left table refer to rows of the right table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
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
class AllParts:
    """All parts of the index for the key of a row of the right table."""

    def __call__(self, *key: Any) -> Iterator[tuple[Any, ...]]:
        return ((*key, part) for part in range(PARTS))


@dataclass(frozen=True)
class Listed:
    """The keys that a part of the index has."""

    def __call__(self, keys: Any) -> Iterator[tuple[Any, ...]]:
        return (tuple(key) for key in keys or ())


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


@dataclass(frozen=True)
class References:
    """The keys of the right table to which a row of the left table refers, after the batch and before it.

    Called with the key of the row, its values after the batch and before it. `at` has the positions of the fields that
    refer, in the key and the values. A row that is not there refers to nulls.
    """

    keys: int
    spread: bool
    at: tuple[int, ...]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        key, (after, before) = values[: self.keys], values[self.keys :]
        return (*self._of(key, after), *self._of(key, before))

    def _of(self, key: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        if value is None:
            return (None,) * len(self.at)
        row = (*key, *value) if self.spread else (*key, value)
        return tuple(row[at] for at in self.at)
