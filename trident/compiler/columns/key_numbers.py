"""Numbers for keys. Keys are equal if they are equal in Spark: 0.0 and -0.0, NaN and NaN, null and null."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.value_conversion import exact_type
from trident.compiler.columns.columns import Column, Columns

_NAN = float("nan")
"""The object that replaces every NaN in a key: a dict finds a NaN only if it is the same object."""

Normal = Callable[[Any], Any]


def normal(kind: pa.DataType) -> Normal | None:
    """Return a function from values of this type to dict keys; None if the values themselves can be dict keys.

    A column of this type can hold the keys that the function returns.
    """
    if exact_type(kind) not in (None, float):
        return None
    if kinds.is_floating(kind):
        return _float
    if kinds.is_list(kind):
        item = normal(kind.value_type) or _same
        return lambda value: None if value is None else tuple(item(inner) for inner in value)
    if kinds.is_struct(kind):
        parts = [normal(kind.field(at).type) or _same for at in range(kind.num_fields)]
        return lambda value: None if value is None else tuple(p(inner) for p, inner in zip(parts, value, strict=True))
    return None


def _float(value: float | None) -> float | None:
    if value is None or value == value:
        return value if value else (0.0 if value is not None else None)
    return _NAN


def _same(value: Any) -> Any:
    return value


def key_values(columns: Sequence[Column]) -> list[list[Any]]:
    """Return the values of each key column, in a form that can be the key of a dict."""
    keys = []
    for column in columns:
        change = normal(column.kind)
        values = column.values()
        keys.append(values if change is None else [change(value) for value in values])
    return keys


class KeyNumbers:
    """Numbers for keys: 0, 1, 2 ... in the order of the keys' first occurrences."""

    __slots__ = ("_kinds", "_numbers")

    def __init__(self, key_kinds: Sequence[pa.DataType]) -> None:
        self._kinds = list(key_kinds)
        self._numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, columns: Sequence[Column], rows: int) -> list[int]:
        """Return the number of each row's key. A new key gets the next number."""
        if not self._kinds:
            if rows:
                self._numbers.setdefault((), 0)
            return [0] * rows
        values = key_values(columns)
        keys = values[0] if len(values) == 1 else zip(*values, strict=True)
        numbers, number = self._numbers, self._numbers.setdefault
        return [number(key, len(numbers)) for key in keys]

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return the keys as tuples, in the order of their numbers."""
        return [(key,) for key in self._numbers] if len(self._kinds) == 1 else list(self._numbers)

    def columns(self) -> list[Column]:
        """Return the keys as columns, in the order of their numbers."""
        if len(self._kinds) == 1:
            return [Column.made(list(self._numbers), self._kinds[0])]
        keys = list(zip(*self._numbers, strict=True)) or [() for _ in self._kinds]
        return [Column.made(list(values), kind) for values, kind in zip(keys, self._kinds, strict=True)]

    def named(self, names: Sequence[str]) -> Columns:
        """Return the keys as columns with these names, in the order of their numbers."""
        return Columns(dict(zip(names, self.columns(), strict=True)), len(self))


def alike(columns: Columns, names: Sequence[str]) -> list[Columns]:
    """Split the tuples into parts with equal values of these fields, in the order of the parts' first tuples.

    If there are no tuples, return one empty part.
    """
    index = KeyNumbers([columns[name].kind for name in names])
    rows: list[list[int]] = []
    for row, number in enumerate(index.numbers([columns[name] for name in names], columns.rows)):
        if number == len(rows):
            rows.append([])
        rows[number].append(row)
    return [columns.take(own) for own in rows] if len(rows) > 1 else [columns]
