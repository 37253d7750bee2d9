"""A state as a mapping: its keys, values and items. Each loop over them is one read, as of one txid."""

from abc import abstractmethod
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import FrameType
from typing import Any

import pyarrow as pa

from trident.base.value_conversion import OutsideYears, to_python
from trident.reads.expression_listing import ExpressionListing, calling_frame

_PAGE_ROWS = 10_000


class StateMapping(Mapping[Any, Any]):
    """A mapping that reads a state. Each loop over it is one read.

    Two such mappings are equal only if they are the same object, because their contents change.
    """

    def __init__(self) -> None:
        self._listings = Listings(self._entries, self._count, self._presented, self._unreadable)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @abstractmethod
    def _entries(self, limit: int | None) -> pa.Table:
        """Return all entries that have a value, or `limit` of them: the key columns, then the stored values."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of entries that have a value, as of one txid."""

    @abstractmethod
    def _presented(self, values: list[Any], entries: pa.Table | pa.RecordBatch) -> list[Any]:
        """Return stored `values`, which belong to `entries`, in the form in which readers see them."""

    @abstractmethod
    def _unreadable(self, entries: pa.Table | pa.RecordBatch, error: OutsideYears) -> Exception:
        """Return the error for a read, if one of these entries contains a time that no datetime can hold."""

    def keys(self) -> "StateKeys":
        """Return the keys, in no order. Each loop over the result is one read, as of one txid; so is ``dict(view)``."""
        return StateKeys(self, self._listings)

    def values(self) -> "StateValues":
        """Return the values, in no order. Each loop over the result is one read, as of one txid."""
        return StateValues(self, self._listings)

    def items(self, limit: int | None = None) -> "StateItems":
        """Return all (key, value) pairs, or `limit` of them, in no order. Each loop over the result is as of one txid.

        A loop first fetches all pairs as Arrow data, while commits are held back; a slow loop holds no commits back.
        """
        return StateItems(self, self._listings, limit)

    def __iter__(self) -> Iterator[Any]:
        """Return all keys."""
        return self._listings.keys(calling_frame())

    def __len__(self) -> int:
        """Return the number of keys that have a value, as of one txid. This reads all entries of the store."""
        return self._listings.length(calling_frame())

    def __bool__(self) -> bool:
        """Return whether any key has a value."""
        return bool(self._entries(1).num_rows)


class StateKeys(KeysView[Any]):
    """The keys of a state, in no order."""

    def __init__(self, state: StateMapping, listings: "Listings") -> None:
        super().__init__(state)
        self._listings = listings

    def __iter__(self) -> Iterator[Any]:
        return self._listings.keys_before_values(calling_frame())

    def __len__(self) -> int:
        return self._listings.length(calling_frame())


class StateValues(ValuesView[Any]):
    """The values of a state, in no order."""

    def __init__(self, state: StateMapping, listings: "Listings") -> None:
        super().__init__(state)
        self._listings = listings

    def __iter__(self) -> Iterator[Any]:
        return self._listings.values(calling_frame())

    def __len__(self) -> int:
        return self._listings.length(calling_frame())

    def __contains__(self, value: object) -> bool:
        return any(stored is value or stored == value for stored in self)


class StateItems(ItemsView[Any, Any]):
    """The (key, value) pairs of a state, or `limit` of them, in no order."""

    def __init__(self, state: StateMapping, listings: "Listings", limit: int | None) -> None:
        super().__init__(state)
        self._listings, self._limit = listings, limit

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._listings.items(calling_frame(), self._limit)

    def __len__(self) -> int:
        if self._limit is None:
            return self._listings.length(calling_frame())
        return int(self._listings.entries(self._limit).num_rows)


class Listings:
    """The listings that loops over a state create.

    Each is one read. A caller is identified by the frame of the loop.
    """

    def __init__(
        self,
        entries: Callable[[int | None], pa.Table],
        count: Callable[[], int],
        present: Callable[[list[Any], pa.RecordBatch], list[Any]],
        unreadable: Callable[[pa.RecordBatch, OutsideYears], Exception],
    ) -> None:
        self.entries, self._count, self._present, self._unreadable = entries, count, present, unreadable
        self.of_expression = ExpressionListing()

    def keys(self, caller: FrameType) -> Iterator[Any]:
        """Return all keys."""
        table = self._listed(caller)
        return (key for page in _pages(table) for key in self._keys(page))

    def keys_before_values(self, caller: FrameType) -> Iterator[Any]:
        """Return all keys, and keep their values, because ``dict(view)`` requests these next, in the same order."""
        return self._keeping(self._listed(caller))

    def _keeping(self, table: pa.Table) -> Iterator[Any]:
        listed = list[Any]()
        for page in _pages(table):
            keys = self._keys(page)
            listed += keys
            yield from keys
        self.of_expression.keep(calling_frame(), len(listed), zip(listed, self.values_of(table), strict=True))

    def values(self, caller: FrameType) -> Iterator[Any]:
        """Return all values."""
        return self.values_of(self._listed(caller))

    def items(self, caller: FrameType, limit: int | None) -> Iterator[tuple[Any, Any]]:
        """Return all (key, value) pairs, or `limit` of them."""
        return self.pairs_of(self._listed(caller) if limit is None else self.entries(limit))

    def length(self, caller: FrameType) -> int:
        """Return the number of keys: of the listing in `caller`'s loop, otherwise the current number."""
        rows = self.of_expression.rows(caller)
        return self._count() if rows is None else rows

    def values_of(self, table: pa.Table) -> Iterator[Any]:
        """Yield the values of a table of entries, as readers see them, page by page."""
        for page in _pages(table):
            yield from self._present(self._values(page), page)

    def pairs_of(self, table: pa.Table) -> Iterator[tuple[Any, Any]]:
        """Yield the (key, value) pairs of a table of entries, page by page."""
        for page in _pages(table):
            yield from zip(self._keys(page), self._present(self._values(page), page), strict=True)

    def _keys(self, page: pa.RecordBatch) -> list[Any]:
        try:
            return _keys_of(page)
        except OutsideYears as error:
            raise self._unreadable(page, error) from None

    def _values(self, page: pa.RecordBatch) -> list[Any]:
        try:
            return to_python(page.columns[-1])
        except OutsideYears as error:
            raise self._unreadable(page, error) from None

    def _listed(self, caller: FrameType) -> pa.Table:
        table = self.entries(None)
        self.of_expression.keep(caller, table.num_rows)  # ``list(view)`` requests the number next
        return table


def _pages(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table page by page, because rows need much more memory as Python objects than as columns."""
    return iter(table.to_batches(max_chunksize=_PAGE_ROWS))


def _keys_of(page: pa.RecordBatch) -> list[Any]:
    """Return the keys of a page, whose last column holds the values."""
    columns = [to_python(column) for column in page.columns[:-1]]
    # A global state has no key column, and a zip of no columns would be empty. Its key is the empty tuple.
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) if columns else [()] * page.num_rows
