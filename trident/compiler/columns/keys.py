"""Equal keys as Spark means it, in a Python dict: 0.0 is -0.0, every NaN is one, null is a value like any other."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.compiler.columns.columns import Column

_NAN = float("nan")
"""The one NaN: a dict finds it because it is the same object."""

Normal = Callable[[Any], Any]


def normal(kind: pa.DataType) -> Normal | None:
    """How a value becomes a dict's key; None where it is one already. What it gives may enter a column again."""
    if kinds.is_floating(kind):
        return _float
    if kinds.is_list(kind):
        item = normal(kind.value_type) or _same
        return lambda value: None if value is None else tuple(item(each) for each in value)
    if kinds.is_struct(kind):
        parts = [normal(kind.field(at).type) or _same for at in range(kind.num_fields)]
        return lambda value: None if value is None else tuple(p(each) for p, each in zip(parts, value, strict=True))
    return None


def _float(value: float | None) -> float | None:
    if value is None or value == value:
        return value if value else (0.0 if value is not None else None)
    return _NAN


def _same(value: Any) -> Any:
    return value


def key_values(columns: Sequence[Column]) -> list[list[Any]]:
    """The key columns as dict keys."""
    found = []
    for column in columns:
        change = normal(column.kind)
        values = column.values()
        found.append(values if change is None else [change(value) for value in values])
    return found


class KeyIndex:
    """Numbers keys 0, 1, 2 ... in the order in which they first come."""

    __slots__ = ("_kinds", "_places")

    def __init__(self, key_kinds: Sequence[pa.DataType]) -> None:
        self._kinds = list(key_kinds)
        self._places: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def places(self, columns: Sequence[Column], rows: int) -> list[int]:
        """The number of each row's key."""
        if not self._kinds:
            if rows:
                self._places.setdefault((), 0)
            return [0] * rows
        values = key_values(columns)
        keys = values[0] if len(values) == 1 else zip(*values, strict=True)
        places, number = self._places, self._places.setdefault
        return [number(key, len(places)) for key in keys]

    def columns(self) -> list[Column]:
        """The keys, in their order, as columns again."""
        if len(self._kinds) == 1:
            return [Column.made(list(self._places), self._kinds[0])]
        keys = list(zip(*self._places, strict=True)) or [() for _ in self._kinds]
        return [Column.made(list(values), kind) for values, kind in zip(keys, self._kinds, strict=True)]
