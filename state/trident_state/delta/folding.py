"""The values of keys, computed from the rows of files.

In a table of whole values the last row of a key has its value, null if the key was removed. In a table of deltas the
value is the combination of all rows of the key, in the order of their txids.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from trident_state.binary_arrays import replace_rows
from trident_state.delta.columns import Numbers, Rows, buckets_of
from trident_state.state_shape import Combine
from trident_state.value_rules import combined

WHOLE = "values"
"""The kind of a table whose rows are whole values."""

_LIMIT = 2**47
"""The range of a type, in the unit that measures the used share of the range."""


class Folded(NamedTuple):
    """The value of each key, null if there is none, and the txid of its last row, -1 if there is none."""

    values: pa.Array
    txids: Numbers


class _Recipe(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule by which deltas are added to a value, as the table stores it for readers without the program."""

    native: str | None = None
    parts: tuple["_Recipe", ...] | None = None
    zeros_leave: bool = False


def rows_kind(combine: Combine, value: pa.DataType, expires: bool) -> str:
    """Return the kind of the rows of a state's table, as the table's properties record it.

    Rows are deltas if every reader can combine them, and if the order does not matter, because a merge combines some
    of them first. A sum of floating-point numbers depends on the order, because it rounds. Values that may expire are
    always whole: a batch starts over from an expired value, which the sum of all rows would not show.
    """
    recipe = None if expires else _recipe(combine, value)
    return WHOLE if recipe is None else msgspec.json.encode(recipe).decode()


def combine_of(rows: str) -> Combine | None:
    """Return how the rows of a table combine; None for whole values."""
    return None if rows == WHOLE else _combine(msgspec.json.decode(rows, type=_Recipe))


def _recipe(combine: Combine, value: pa.DataType) -> _Recipe | None:
    if combine.parts is not None:
        parts = [_recipe(part, value.field(at).type) for at, part in enumerate(combine.parts)]
        if None in parts:
            return None
        return _Recipe(parts=tuple(part for part in parts if part is not None), zeros_leave=combine.zeros_leave)
    exact = kinds.is_integer(value) or kinds.is_decimal(value) or kinds.is_duration(value)
    if combine.native == "sum" and exact:
        return _Recipe(combine.native)
    if combine.native in ("min", "max") and not kinds.is_nested(value) and not kinds.is_null(value):
        return _Recipe(combine.native)
    return None


def _combine(recipe: _Recipe) -> Combine:
    native: Any = recipe.native
    parts = None if recipe.parts is None else tuple(map(_combine, recipe.parts))
    return Combine(native or "parts", _never, native, parts=parts, zeros_leave=recipe.zeros_leave)


def _never(stored: Any, delta: Any) -> Any:
    raise AssertionError("deltas are combined in Arrow, never one by one")


Found = tuple[pa.Array, Numbers, Numbers]
"""The values of some rows, their txids, and the index of each row's key."""


def found_among(keys: pa.Array, parts: Iterable[Rows]) -> Iterator[Found]:
    """Yield the rows of the given distinct, encoded keys among the rows of files.

    Each part is sorted by bucket, and its rows are looked up only among the keys of its buckets: building a hash table
    of all keys for each part of a large file would take most of the time.
    """
    buckets = buckets_of(keys)
    order = np.argsort(buckets, kind="stable")
    buckets, keys = buckets[order], keys.take(pa.array(order))
    for rows in parts:
        if not len(rows.txids):
            continue
        first, end = np.searchsorted(buckets, [rows.buckets[0], rows.buckets[-1] + 1])
        at = pa.compute.index_in(rows.keys, value_set=keys[first:end])
        values, txids = rows.values, rows.txids
        if at.null_count:
            hits = at.is_valid()
            at, values, txids = at.filter(hits), values.filter(hits), txids[hits.to_numpy(zero_copy_only=False)]
        if len(at):
            yield values, txids, order[first + at.to_numpy().astype(np.int64)]


def with_all_keys(parts: Sequence[Rows]) -> tuple[pa.Array, Iterator[Found]]:
    """Return all distinct encoded keys of the rows of files, and the rows."""
    coded = pa.concat_arrays([rows.keys for rows in parts]).dictionary_encode()
    numbers = np.split(coded.indices.to_numpy().astype(np.int64), np.cumsum([len(rows.txids) for rows in parts])[:-1])
    return coded.dictionary, ((rows.values, rows.txids, at) for rows, at in zip(parts, numbers, strict=True))


def fold(found: Iterable[Found], count: int, kind: pa.DataType, combine: Combine | None, where: str) -> Folded:
    """Return the values of `count` keys from their rows, which come in the order of their batches."""
    values, txids = pa.nulls(count, kind), np.full(count, -1, np.int64)
    for new, last, at in found:
        if combine is not None:
            new = combined(combine, values.take(pa.array(at)), new, where)
        values = replace_rows(values, at, new)
        txids[at] = last
    return Folded(values, txids)


def used_range(combine: Combine | None, values: pa.Array) -> int:
    """Return the share of its type's range that the largest value takes, in units of 2**-47, rounded up.

    While the sum of these numbers over all files is at most 2**47, no sum of a key's rows can overflow. Values that
    are not added count as 0.
    """
    if combine is None or not len(values):
        return 0
    if combine.parts is not None:
        columns = zip(combine.parts, values.flatten(), strict=True)
        return max((used_range(part, column) for part, column in columns), default=0)
    kind = values.type
    if combine.native != "sum":
        return 0
    if kinds.is_duration(kind):
        values, kind = values.cast(pa.int64()), pa.int64()
    ends = pa.compute.min_max(values).as_py()
    if ends["max"] is None:
        return 0
    largest = max(_magnitude(ends["min"]), _magnitude(ends["max"]))
    limit = int(10**kind.precision if kinds.is_decimal(kind) else 2 ** (kind.bit_width - 1))
    return -(-(largest * _LIMIT) // limit)


def _magnitude(number: int | Decimal) -> int:
    """Return the absolute value of a number; for a decimal all its digits as one integer."""
    return abs(number) if isinstance(number, int) else int("".join(map(str, number.as_tuple().digits)))


def in_range(used: int) -> bool:
    """Return whether rows with this share of their type's range can be added without an overflow.

    >>> in_range(2**47), in_range(2**47 + 1)
    (False, False)
    """
    return used < _LIMIT
