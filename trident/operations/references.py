"""The index of a table by fields of its rows: for each value of the fields, the keys of the rows that have it.

It is a state like any other, an aggregate of the table's changes. A join by a foreign key reads it, and so do readers
who look for rows by a field.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, StructType

from trident.base.types import arrow_schema
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.column_functions import ColumnFunction
from trident.operations.retractions import KeepingTuples, RetractingKept
from trident_state.keys import encode_keys, hash_keys

PARTS = 16
"""The parts of an index, for each value of its fields. A change of a row writes one part, and a read of a value reads
all of them."""


def index_name(state: str, fields: Sequence[str]) -> str:
    """Return the name of the index of a state by some fields.

    >>> index_name("users", ["city"])
    'users.by.city'
    """
    return f"{state}.by.{_plain(fields)}"


def has_index_name(name: str, state: str) -> bool:
    """Return whether a state's name is that of an index of `state`."""
    return name.startswith(f"{state}.by.")


def _plain(fields: Sequence[str]) -> str:
    """Return the names of fields as a part of a state's name, which has fewer characters."""
    if all(re.fullmatch("[A-Za-z0-9_-]+", name) for name in fields):
        return ".".join(fields)
    shown = ".".join(re.sub("[^A-Za-z0-9_-]", "-", name) for name in fields)
    return f"{shown}.{zlib.crc32(repr(tuple(fields)).encode()):08x}"


@dataclass(frozen=True)
class PartOf(ColumnFunction):
    """The part of an index that has a row, by the row's key."""

    keys: StructType

    def __call__(self, *key: Any) -> int:
        (part,) = self._parts([pa.array([value], field.type) for value, field in zip(key, self._fields, strict=True)])
        return int(part)

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array]:
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


def keys_over_changes(keys: StructType) -> RetractingKept:
    """Return the aggregator of an index of a table with these key fields."""
    keeping = KeepingTuples(Keys(), keys)
    return RetractingKept(keeping, tuple(keys.names), keeping.type_of(keys), ArrayType(keys))


def every_part(*value: Any) -> Iterator[int]:
    """Yield the parts in which an index has a value of its fields."""
    yield from range(PARTS)


def each_key(keys: Sequence[Any] | None) -> Iterator[Any]:
    """Yield the keys of the rows in a part of an index; no key for a part that does not exist."""
    for key in keys or ():
        yield key[0] if len(key) == 1 else tuple(key)


def in_all_parts(values: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the keys of an index for values of its fields: each value in each part."""
    rows = len(values[0])
    every = pa.array(np.repeat(np.arange(rows), PARTS))
    return [*(value.take(every) for value in values), pa.array(np.tile(np.arange(PARTS, dtype=np.int64), rows))]


def keys_in(stored: pa.Array) -> list[pa.Array]:
    """Return the key fields of all rows in stored values of the index, which are those of `Keys` over changes."""
    entries: pa.StructArray = pc.list_flatten(pc.struct_field(stored, "value"))
    keys: list[pa.Array] = entries.flatten()[:-1]  # the last field is the number of the row, which is 1
    return keys
