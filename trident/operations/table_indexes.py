"""The index of a table by fields of its rows: it maps the fields' values to the keys of the rows that have them.

An index is an ordinary state, an aggregate of the table's changes. Joins by a foreign key and queries by a field read
it.

The keys under a value are divided into parts by hash. A change of a row writes the part of its key, and the directory
that lists the part. So a change costs the same whether ten or a hundred thousand rows have the value.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, LongType, StructField, StructType

from trident.base.names import free_name
from trident.base.spark_types import arrow_schema
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.column_functions import ColumnFunction
from trident.operations.retractions import KeepingTuples, RetractingKept
from trident_state.keys import encode_keys, hash_keys

DIRECTORIES = 16
"""The directories of each value of an index, its parts 0 to 15. A lookup reads all of them."""

PARTS = 4096
"""The parts of each value of an index that have keys. They follow the directories; directory p modulo 16 lists part
p with the number of its rows. A lookup reads the listed parts."""

Lookup = Callable[[list[pa.Array]], pa.Array]
"""A function that returns the stored values of an index for some of its keys, which are columns."""


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
    """Return the names of fields as a part of a state's name, in its smaller character set."""
    if all(re.fullmatch("[A-Za-z0-9_-]+", name) for name in fields):
        return ".".join(fields)
    shown = ".".join(re.sub("[^A-Za-z0-9_-]", "-", name) for name in fields)
    return f"{shown}.{zlib.crc32(repr(tuple(fields)).encode()):08x}"


@dataclass(frozen=True)
class PartOf(ColumnFunction):
    """The number of the index part that holds a row's key, and null for the part that it lists."""

    keys: StructType

    def __call__(self, *key: Any) -> Any:
        columns = self.columns([pa.array([value], field.type) for value, field in zip(key, self._fields, strict=True)])
        return tuple(column[0].as_py() for column in columns)

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array]:
        return [self._parts(inputs), pa.nulls(len(inputs[0]), pa.int64())]

    def _parts(self, inputs: Sequence[pa.Array]) -> pa.Array:
        hashes = hash_keys(encode_keys(pa.table(list(inputs), schema=self._fields)))
        return pa.array((hashes % PARTS).astype(np.int64) + DIRECTORIES)

    @property
    def _fields(self) -> pa.Schema:
        return arrow_schema(self.keys)


@dataclass(frozen=True)
class DirectoryOf(PartOf):
    """The index directory that lists a row's part, the part, and null for each of the key fields `blank`."""

    blank: tuple[str, ...]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array]:
        parts = self._parts(inputs)
        directories = pa.array(parts.to_numpy() % DIRECTORIES)
        return [directories, parts, *(pa.nulls(len(parts), self._fields.field(name).type) for name in self.blank)]


@dataclass(frozen=True)
class Keys(BuiltinAggregator):
    """The distinct entries of a part, as an array of structs. A directory lists a part once for all of its rows.

    The result does not depend on the order of the rows.
    """

    idempotent = True

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


def listed_fields(keys: StructType, taken: Sequence[str]) -> StructType:
    """Return the fields of an index entry: a row's key, or the part that a directory lists."""
    return StructType([*keys.fields, StructField(free_name("listed", [*keys.names, *taken]), LongType())])


def keys_over_changes(keys: StructType, fields: Sequence[str]) -> RetractingKept:
    """Return the aggregator of an index over some fields of a table with these key fields."""
    listed = listed_fields(keys, fields)
    keeping = KeepingTuples(Keys(), listed)
    return RetractingKept(keeping, tuple(listed.names), keeping.type_of(listed), ArrayType(listed))


def every_directory(*value: Any) -> Iterator[int]:
    """Yield the directories that may exist for an index value."""
    yield from range(DIRECTORIES)


def each_part(entries: Sequence[Any] | None) -> Iterator[int]:
    """Yield the parts that a directory lists; none if the directory does not exist."""
    for entry in entries or ():
        yield entry[-1]


def each_key(entries: Sequence[Any] | None) -> Iterator[Any]:
    """Yield the row keys in a part of an index; none if the part does not exist."""
    for entry in entries or ():
        yield entry[0] if len(entry) == 2 else tuple(entry[:-1])


class Listed(NamedTuple):
    """The non-empty parts of some index values: the position of the value, the part number and the number of rows."""

    owners: pa.Array
    parts: pa.Array
    rows: pa.Array

    def take(self, places: Any) -> "Listed":
        """Return the parts at these positions."""
        places = pa.array(places)
        return Listed(*(column.take(places) for column in self))


def list_parts(values: Sequence[pa.Array], lookup: Lookup) -> Listed:
    """Return the parts that the directories of some index values list."""
    rows = len(values[0])
    every = pa.array(np.repeat(np.arange(rows), DIRECTORIES))
    directories = pa.array(np.tile(np.arange(DIRECTORIES, dtype=np.int64), rows))
    at, entries = _entries(lookup([*(value.take(every) for value in values), directories]))
    *_, parts, counts = entries.flatten()
    return Listed(every.take(at), parts, counts)


def read_parts(values: Sequence[pa.Array], listed: Listed, lookup: Lookup) -> tuple[pa.Array, list[pa.Array]]:
    """Return the part number and the key fields of each row key in the parts."""
    at, entries = _entries(lookup([*(value.take(listed.owners) for value in values), listed.parts]))
    keys: list[pa.Array] = entries.flatten()[:-2]
    return listed.parts.take(at), keys


def find_keys(values: Sequence[pa.Array], lookup: Lookup) -> list[pa.Array]:
    """Return the key fields of the rows with one of these values. `lookup` reads the index twice."""
    return read_parts(values, list_parts(values, lookup), lookup)[1]


def _entries(stored: pa.Array) -> tuple[pa.Array, pa.StructArray]:
    """Return all entries of stored index values, and for each the position of its value.

    The last field of an entry is its number of rows, 1 for a key.
    """
    lists = pc.struct_field(stored, "value")
    return pc.list_parent_indices(lists), pc.list_flatten(lists)
