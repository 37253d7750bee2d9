"""Tuples in the driver's or a worker's memory, column by column: an Arrow array, a Python list, or both.

A step that calls Python reads and returns lists; a step that passes a field on leaves its form as it is. Each form is
created once, when it is first needed. A list or a map is created again for each reader, because a user's function may
change it.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.value_conversion import are_exact, are_within, exact_type, to_arrow, to_python

T = TypeVar("T")
Stretches = Sequence[tuple[int, int]]
"""Ranges of rows in ascending order, each from its first row up to, but not including, its end."""

FEW = 64
"""The most rows for which a Python loop is faster than a call into Arrow.

A column of few rows stays a list of Python values as long as no step needs the array. So a query of a few keys makes
hardly any array (decision 61). `tests/compiler/test_few_rows.py` sets this to -1 and compares.
"""


def are_few(rows: int) -> bool:
    """Return whether a Python loop over this number of rows is faster than a call into Arrow."""
    return rows <= FEW


class Column:
    """One field of several tuples, as an array, a list, or both. Immutable.

    A form that is created later is kept, except Python values that a user's function could change.
    """

    __slots__ = ("kind", "_array", "_values")

    def __init__(self, kind: pa.DataType, array: pa.Array | None, values: list[Any] | None) -> None:
        self.kind = kind
        self._array = array
        self._values = values

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray) -> "Column":
        """Return a column of an Arrow array."""
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        return cls(array.type, array, None)

    @classmethod
    def made(cls, values: list[Any], kind: pa.DataType, exact: bool | None = None) -> "Column":
        """Return a column of values that a user's function returned.

        `exact` is the result of `are_exact` for these values; None: it was not called yet. Raises NotAccepted if a
        value is of another type.
        """
        exact = are_exact(values, kind) if exact is None else exact
        if exact and len(values) <= FEW and are_within(values, kind):
            return cls(kind, None, values)
        return cls(kind, to_arrow(values, kind, exact), values if exact and not is_mutable(kind) else None)

    @property
    def has_array(self) -> bool:
        """Return whether the Arrow form exists already."""
        return self._array is not None

    def array(self) -> pa.Array:
        """Return the column as an Arrow array."""
        if self._array is None:
            self._array = to_arrow(self._values or [], self.kind)
        return self._array

    def values(self) -> list[Any]:
        """Return the column as a list of Python values. The list must not be changed; lists and dicts in it may be."""
        if self._values is not None:
            return self._values
        values = to_python(self._array)
        if not is_mutable(self.kind):
            self._values = values
        return values

    def __len__(self) -> int:
        form = self._array if self._values is None else self._values
        return 0 if form is None else len(form)

    def cast(self, kind: pa.DataType) -> "Column":
        """Return the column cast to a related type (an int as a long)."""
        return self if self.kind.equals(kind) else Column(kind, self.array().cast(kind), None)

    def take(self, rows: Sequence[int]) -> "Column":
        """Return the values of these rows, in this order. A row may occur several times."""
        if self._values is not None and (self._array is None or len(rows) <= FEW):
            values = self._values
            return Column(self.kind, None, [values[row] for row in rows])
        return Column(self.kind, self.array().take(pa.array(rows, pa.int64())), None)

    def keep(self, mask: list[bool]) -> "Column":
        """Return the values at the rows with a true mask."""
        values = None if self._values is None else list(compress(self._values, mask))
        if self._array is None or (values is not None and len(mask) <= FEW):
            return Column(self.kind, None, values)
        return Column(self.kind, self._array.filter(pa.array(mask, pa.bool_())), values)

    def within(self, stretches: Stretches, mask: pa.Array) -> "Column":
        """Return the values in these ranges of rows. `mask` is true for the same rows."""
        values = None if self._values is None else joined(self._values, stretches)
        if self._array is None or (values is not None and len(values) <= FEW):
            return Column(self.kind, None, values)
        return Column(self.kind, self._array.filter(mask), values)


def is_mutable(kind: pa.DataType) -> bool:
    """Return whether a Python value of this type holds a list or a dict."""
    return exact_type(kind) is None and _holds_mutable(kind)


@cache
def _holds_mutable(kind: pa.DataType) -> bool:
    if kinds.is_struct(kind):
        return any(_holds_mutable(kind.field(at).type) for at in range(kind.num_fields))
    return bool(kinds.is_nested(kind))


class Columns:
    """Equally long columns by name, in order."""

    __slots__ = ("rows", "_by_name")

    def __init__(self, by_name: dict[str, Column], rows: int) -> None:
        self._by_name = by_name
        self.rows = rows

    @classmethod
    def of(cls, data: pa.RecordBatch | pa.Table, schema: pa.Schema) -> "Columns":
        """Return the columns of a batch or table under the names of `schema`. Columns correspond by position.

        A column of a related type is cast to the type in `schema`.
        """
        by_name = {}
        for field, array in zip(schema, data.columns, strict=True):
            if not array.type.equals(field.type):
                array = array.cast(field.type)
            by_name[field.name] = Column.of(array)
        return cls(by_name, data.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def lists(self, names: Iterable[str]) -> list[list[Any]]:
        """Return the values of each of these columns as a Python list."""
        return [self._by_name[name].values() for name in names]

    def lists_on_demand(self, names: Sequence[str]) -> Sequence[list[Any]]:
        """Return the same as `lists`, as a sequence that converts a column when it is accessed."""
        return _ListsOnDemand([self._by_name[name] for name in names])

    def select(self, names: Iterable[str]) -> "Columns":
        """Return these columns, in this order."""
        return Columns({name: self._by_name[name] for name in names}, self.rows)

    def rename(self, names: Iterable[str]) -> "Columns":
        """Return the same columns, by position, under other names."""
        return Columns(dict(zip(names, self._by_name.values(), strict=True)), self.rows)

    def take(self, rows: Sequence[int]) -> "Columns":
        """Return these rows, in this order."""
        return Columns({name: column.take(rows) for name, column in self._by_name.items()}, len(rows))

    def only(self, names: Container[str]) -> "Columns":
        """Return the columns with names in `names`, in their present order."""
        return Columns({name: column for name, column in self._by_name.items() if name in names}, self.rows)

    def keep(self, mask: list[bool]) -> "Columns":
        """Return the rows with a true mask."""
        if all(mask):
            return self
        return Columns({name: column.keep(mask) for name, column in self._by_name.items()}, sum(mask))

    def where(self, mask: pa.Array) -> "Columns":
        """Return the rows with a true mask, an array without nulls."""
        if mask.false_count == 0:
            return self
        kept = {name: Column(column.kind, column.array().filter(mask), None) for name, column in self._by_name.items()}
        return Columns(kept, mask.true_count)

    def within(self, stretches: Stretches) -> "Columns":
        """Return the rows in these ranges. A few long ranges cost less than a mask of Python objects for `keep`."""
        mask = np.zeros(self.rows, np.bool_)
        for start, stop in stretches:
            mask[start:stop] = True
        rows, kept = sum(stop - start for start, stop in stretches), pa.array(mask)
        return Columns({name: column.within(stretches, kept) for name, column in self._by_name.items()}, rows)

    def plus(self, more: Mapping[str, Column]) -> "Columns":
        """Return these columns and `more`. A column of `more` replaces a column of the same name."""
        return Columns({**self._by_name, **more}, self.rows)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns that `schema` names as one record batch."""
        if not len(schema):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * self.rows, pa.struct([])))
        return pa.RecordBatch.from_arrays([self._by_name[field.name].array() for field in schema], schema=schema)

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the columns that `schema` names as a table."""
        if not len(schema):
            return pa.Table.from_batches([self.batch(schema)])
        return pa.Table.from_arrays([self._by_name[field.name].array() for field in schema], schema=schema)


class _ListsOnDemand(Sequence[list[Any]]):
    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, at: Any) -> Any:
        return self._columns[at].values()


Kernel = Callable[[Columns], Columns]
"""A function from the input tuples of a step to its output tuples."""


def concat(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts, one after the other, with the names of the first part.

    Columns correspond by position.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    merged = {}
    for at, name in enumerate(first.names):
        pieces = [part[part.names[at]] for part in parts]
        kind = pieces[0].kind
        if all(piece.has_array for piece in pieces):
            merged[name] = Column(kind, pa.concat_arrays([piece.array().cast(kind) for piece in pieces]), None)
        else:
            merged[name] = Column(kind, None, list(chain.from_iterable(piece.values() for piece in pieces)))
    return Columns(merged, sum(part.rows for part in parts))


def stretches_without(rows: Sequence[int], count: int) -> Stretches:
    """Return the ranges of the rows, out of `count`, that are not in `rows`. `rows` must ascend.

    >>> stretches_without([0, 3], 6)
    [(1, 3), (4, 6)]
    """
    starts, stops = [0, *(row + 1 for row in rows)], [*rows, count]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]


def joined(values: Sequence[T], stretches: Stretches) -> list[T]:
    """Return the values in these ranges of rows, one range after the other."""
    return list(chain.from_iterable(values[start:stop] for start, stop in stretches))


def made_tuples(make: Callable[[Iterable[Any]], Any], lists: Sequence[list[Any]], rows: int) -> Iterator[Any]:
    """Yield the tuples that operations see. `make` makes a tuple from each row of `lists`.

    If `lists` is empty, yield `rows` tuples without values.
    """
    return map(make, zip(*lists, strict=True)) if lists else (make(()) for _ in range(rows))
