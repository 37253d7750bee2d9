"""Range reads in key order (`trident_state.key_order`), and stores that support them without a scan."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from trident_state.key_order import KeyRange, collect_ranges, possible_keys
from trident_state.store_messages import Found

_MOST_KEYS = 10_000
"""The most possible keys of ranges that are read one by one instead of by a scan."""


@runtime_checkable
class Ranged(Protocol):
    """A store that can read ranges of keys for less than a scan."""

    def has_order(self) -> bool:
        """Return whether `read_ranges` reads few entries outside the ranges."""
        ...

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
        """Return the entries of each range in the order of their keys: the first `most` of them, or all.

        Columns: the key fields, then ``value``. Keys without a value are left out. Each entry is as of `asOf`, like a
        `read` of its key. Return None, without a read, if the store can only be scanned. Raises the errors of `read`.
        """
        ...


class _Readable(Protocol):
    def read(self, keys: pa.Table, asOf: int | None) -> Found: ...


def is_quick(store: object, keys: pa.Schema, ranges: Sequence[KeyRange]) -> bool:
    """Return whether `ranges_of` reads few entries outside the ranges. `keys` has the key fields."""
    return has_order(store) or _possible_keys(keys, ranges) is not None


def has_order(store: object) -> bool:
    """Return whether a store's range reads touch few other entries; see `Ranged.has_order`."""
    return isinstance(store, Ranged) and store.has_order()


def read_ranges(store: object, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
    """Return the entries of each range; None, without a read, if the store can only be scanned; see `Ranged`."""
    return store.read_ranges(ranges, most, asOf) if isinstance(store, Ranged) else None


def ranges_of(
    store: _Readable,
    scan: Callable[[], Iterable[pa.Table]],
    entries: pa.Schema,
    ranges: Sequence[KeyRange],
    most: int | None,
    asOf: int | None,
) -> list[pa.Table]:
    """Return the entries of each range, from a store of any kind.

    They are read with the store's index; otherwise key by key if the ranges have few possible keys, or with one
    `scan`. `entries` has the names and types of the key fields and of the value.
    """
    if not has_order(store):
        possible = _possible_keys(pa.schema(list(entries)[:-1]), ranges)
        if possible is not None:
            return _by_keys(store, possible, entries, most, asOf)
    found = read_ranges(store, ranges, most, asOf)
    if found is None:
        return collect_ranges(scan(), entries, ranges, most)
    return [table.rename_columns(entries.names) for table in found]


def _possible_keys(keys: pa.Schema, ranges: Sequence[KeyRange]) -> list[pa.Table] | None:
    """Return all keys that each range can have; None if they are too many for one read."""
    left, tables = _MOST_KEYS, list[pa.Table]()
    for between in ranges:
        table = possible_keys(between, keys, left)
        if table is None:
            return None
        left -= table.num_rows
        tables.append(table)
    return tables


def _by_keys(
    store: _Readable, possible: list[pa.Table], entries: pa.Schema, most: int | None, asOf: int | None
) -> list[pa.Table]:
    keys = pa.concat_tables([entries.empty_table().select(range(len(entries) - 1)), *possible])
    values, at, found = store.read(keys, asOf).values, 0, list[pa.Table]()
    for table in possible:
        answers = values.slice(at, table.num_rows)
        at += table.num_rows
        read = pa.table([*table.columns, answers], schema=entries)
        found.append(read.filter(answers.is_valid()).slice(0, most))
    return found
