"""Reads of ranges of keys, in the order of the keys (`trident_state.key_order`), from stores that need no scan."""

from typing import Protocol, runtime_checkable

import pyarrow as pa

from trident_state.key_order import KeyRange


@runtime_checkable
class Ranged(Protocol):
    """A store that can read a range of keys for less than a scan."""

    def has_order(self, between: KeyRange) -> bool:
        """Return whether `read_range` reads few other entries than those of this range."""
        ...

    def read_range(self, between: KeyRange, most: int | None, asOf: int | None) -> pa.Table | None:
        """Return the entries of a range in the order of their keys: the first `most` of them, or all.

        Columns: the key fields, then ``value``. Keys without a value are left out. Each entry is as of `asOf`, like a
        `read` of its key. Return None, without a read, if the store can only be scanned. Raises the errors of `read`.
        """
        ...


def has_order(store: object, between: KeyRange) -> bool:
    """Return whether a store reads few other entries than those of a range; see `Ranged.has_order`."""
    return isinstance(store, Ranged) and store.has_order(between)


def read_range(store: object, between: KeyRange, most: int | None, asOf: int | None) -> pa.Table | None:
    """Return the entries of a range; None, without a read, if the store can only be scanned; see `Ranged`."""
    return store.read_range(between, most, asOf) if isinstance(store, Ranged) else None
