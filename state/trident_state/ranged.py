"""Reads of ranges of keys, in the order of the keys (`trident_state.key_order`), from stores that need no scan."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from trident_state.key_order import KeyRange, collect_ranges


@runtime_checkable
class Ranged(Protocol):
    """A store that can read ranges of keys for less than a scan."""

    def has_order(self) -> bool:
        """Return whether `read_ranges` reads few other entries than those of the ranges."""
        ...

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
        """Return the entries of each range in the order of their keys: the first `most` of them, or all.

        Columns: the key fields, then ``value``. Keys without a value are left out. Each entry is as of `asOf`, like a
        `read` of its key. Return None, without a read, if the store can only be scanned. Raises the errors of `read`.
        """
        ...


def has_order(store: object) -> bool:
    """Return whether a store reads few other entries than those of a range; see `Ranged.has_order`."""
    return isinstance(store, Ranged) and store.has_order()


def read_ranges(store: object, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
    """Return the entries of each range; None, without a read, if the store can only be scanned; see `Ranged`."""
    return store.read_ranges(ranges, most, asOf) if isinstance(store, Ranged) else None


def ranges_of(
    store: object,
    scan: Callable[[], Iterable[pa.Table]],
    entries: pa.Schema,
    ranges: Sequence[KeyRange],
    most: int | None,
    asOf: int | None,
) -> list[pa.Table]:
    """Return the entries of each range, from a store of any kind: by `read_ranges`, or otherwise by one `scan`.

    `entries` has the names and types of the key fields and of the value.
    """
    found = read_ranges(store, ranges, most, asOf)
    if found is None:
        return collect_ranges(scan(), entries, ranges, most)
    return [table.rename_columns(entries.names) for table in found]
