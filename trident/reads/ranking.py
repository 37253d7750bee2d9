"""The entries of a state with the greatest values."""

import heapq
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateError
from trident.base.names import did_you_mean
from trident.base.value_conversion import type_name


def top_of_columns(table: pa.Table, n: int, by: str | None, where: str) -> pa.Table:
    """Return the `n` rows with the greatest values: the greatest first, equal values in the order of the keys.

    The values are the last column. `by` names the field that ranks values that are structs. Null and NaN come last.
    Raises StateError, which begins with `where`, if the values have no such field, or no order.
    """
    rank = table.column(table.num_columns - 1)
    if by is not None:
        rank = _field(rank, by, where)
    if pa.types.is_nested(rank.type):
        raise StateError(f"{where}: values of type {type_name(rank.type)} have no order; {_way_out(rank.type)}")
    ranked = _with_plain_keys(table).append_column("", rank)
    names = [str(at) for at in range(ranked.num_columns)]
    order = [(names[-1], "descending"), *((name, "ascending") for name in names[:-1])]
    return table.take(pc.sort_indices(ranked.rename_columns(names), order)[:n])


def top_of_values(table: pa.Table, values: list[Any], n: int, rank: Callable[[Any], Any], where: str) -> list[int]:
    """Return the numbers of the `n` rows with the highest ranks, in the order of `top_of_columns`.

    `values` are the values of the rows as readers see them. Raises StateError, which begins with `where`, if two ranks
    have no order.
    """
    keys = _with_plain_keys(table)
    names = [str(at) for at in range(keys.num_columns)]
    rows = range(table.num_rows)
    if names:
        rows = pc.sort_indices(keys.rename_columns(names), [(name, "ascending") for name in names]).to_pylist()
    ranks = {row: rank(values[row]) for row in rows}
    ordered = [row for row in rows if ranks[row] is not None and ranks[row] == ranks[row]]  # NaN differs from itself
    try:
        best = heapq.nlargest(n, ordered, key=ranks.__getitem__)
    except TypeError as error:
        raise StateError(f"{where}: {error}; give by=, a function that returns one number, text or time") from None
    known = set(ordered)
    return [*best, *(row for row in rows if row not in known)][:n]


def field_of(value: Any, by: str, where: str) -> Any:
    """Return the field `by` of a value, which is a Row or a dict. Raises StateError if the value has no such field."""
    try:
        return value[by]
    except (KeyError, ValueError, TypeError, IndexError):
        raise StateError(f"{where}: the value {value!r:.80} has no field {by!r}") from None


def _field(values: pa.ChunkedArray, by: str, where: str) -> pa.ChunkedArray:
    kind = values.type
    names = [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    if by not in names:
        known = f"it has {', '.join(names)}" if names else f"it is a {type_name(kind)}"
        raise StateError(f"{where}: the value has no field {by!r}{did_you_mean(by, names)} ({known})")
    return pc.struct_field(values, [names.index(by)])


def _way_out(kind: pa.DataType) -> str:
    if not pa.types.is_struct(kind):
        return "give by=, a function of the value that returns one number, text or time"
    names = ", ".join(repr(kind.field(at).name) for at in range(kind.num_fields))
    return f"name the field that ranks them with by=, one of {names}"


def _with_plain_keys(table: pa.Table) -> pa.Table:
    """Return the key columns of values with an order."""
    plain = [at for at in range(table.num_columns - 1) if not pa.types.is_nested(table.column(at).type)]
    return table.select(plain)
