"""A state that was opened by its name, outside a run. It has the same reads as the states of a running topology."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from trident.access.replica import MemoryReplica
from trident.base.context_manager import Ending
from trident.base.errors import (
    SnapshotMovedError,
    StateClosedError,
    StateError,
    StateRecoveringError,
    StateUnavailableError,
    TopologyError,
)
from trident.base.forked_child import free_in_child
from trident.base.spark_types import spark_schema
from trident.operations.table_indexes import index_name, keys_over_changes
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.commit_times import CommitTimes
from trident.reads.committed_reads import ReadSource, Snapshot
from trident.reads.indexes import Index, index_of_shape, no_index
from trident.reads.previous_reads import txid_before
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.reads.static_states import ReadableStore
from trident_state.few_keys import Key
from trident_state.incarnation import Incarnation
from trident_state.key_order import KeyRange
from trident_state.range_reads import has_order, read_ranges
from trident_state.state_parts import Part
from trident_state.state_shape import StateKind
from trident_state.store import (
    Dated,
    Divisible,
    Historic,
    Paged,
    Scannable,
    Store,
    Tagging,
    bind_reads,
    count_entries,
    read_few,
    scan_part,
    tags_of,
)
from trident_state.store_messages import FewFound
from trident_state.tags import StateTag

_T = TypeVar("_T")


class Followed(ReadableStore, Protocol):
    """The store of a state that a driver in another process may write while this process reads it."""

    @property
    def incarnation(self) -> object:
        """The identity of the state that is read, which every process sees as equal; None if it is not known."""
        ...

    @property
    def first(self) -> int:
        """The first txid as of which the state has values, if it has initial content and that is known; otherwise 0."""
        ...

    def committed(self) -> int:
        """Return the txid of the last batch that all groups of the state hold. Later calls never return less."""
        ...

    def newest(self) -> int:
        """Return the same as `committed`, without preparing a read."""
        ...

    def reach(self, txid: int) -> int:
        """Prepare reads as of `txid`, which was committed, and return the txid as of which to read.

        It is less if the state has not changed since, because the program no longer has it.
        """
        ...

    def parts(self) -> int:
        """Return the number of parts into which a read of all entries is best divided among processes."""
        ...

    def scan_part(self, asOf: int | None, part: Part) -> Iterator[pa.Table]:
        """Yield the entries of a part, as `scan` yields all entries."""
        ...


_LOOK_SECS = 1.0
"""The seconds after which an open reader looks into the log again: reading the log takes longer than reading a key."""


class FollowedStore:
    """A store on a server, or a store that a user wrote. The markers of its groups show which txid was committed.

    If `incarnation` is given, no other incarnation of the state is read. `first_in_log` returns the txid of the state's
    initial content, according to the log; 0 if the state began empty, or there is no log. Until the store has the
    content, every read raises StateRecoveringError: the store is empty, or has the values of an earlier incarnation of
    the state.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        incarnation: Incarnation | None = None,
        first_in_log: Callable[[], int] = lambda: 0,
    ) -> None:
        bind_reads(store, incarnation)
        self._store, self._name, self._last = store, name, -1
        self.first_in_log = first_in_log
        self._first, self._look_again = 0, 0.0
        self.incarnation = incarnation
        self._lock = free_in_child(threading.Lock())
        self.read, self.close = store.read, store.close

    @property
    def first(self) -> int:
        """The first txid as of which the state has values, at most `_LOOK_SECS` old: a restore changes it."""
        now = monotonic()
        if now >= self._look_again:
            # The greater one, because a log that cannot be read now gives 0.
            self._first, self._look_again = max(self._first, self.first_in_log()), now + _LOOK_SECS
        return self._first

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        return self._scannable(asOf).scan(asOf, pageRows)

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        return read_few(self._store, keys, asOf)

    def count_entries(self, asOf: int | None) -> int | None:
        return count_entries(self._store, asOf)

    def has_order(self) -> bool:
        return has_order(self._store)

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
        return read_ranges(self._store, ranges, most, asOf)

    def committed(self) -> int:
        earlier = self._last  # not after the read: another thread may see a newer batch in between
        all_markers = [group.marker for group in self._store.groups_of()]
        markers = [marker for marker in all_markers if marker is not None]
        incomplete = len(markers) < len(all_markers)
        first = max(self.first, 0)
        if not incomplete and min(markers) < first:
            raise StateRecoveringError(
                f"state {self._name!r} was restored, or its shape was changed, as of txid {first}, but "
                f"its store is at txid {min(markers)}: its driver writes the new values when the topology next runs"
            )
        if incomplete or min(markers) < earlier:
            problem = "a part of it is missing" if incomplete else f"it is at txid {min(markers)}"
            unless = ", unless it was dropped" if incomplete else ""
            raise StateRecoveringError(
                f"state {self._name!r}: {problem}, and an earlier read saw txid {earlier}: the server lost its last "
                f"commits; the driver writes them again when the topology next runs{unless}"
                if earlier >= 0
                else (
                    f"state {self._name!r}: {problem}: its driver restores it from the log when the topology next "
                    f"runs{unless}"
                )
            )
        with self._lock:
            self._last = max(self._last, min(markers))
            return self._last

    def newest(self) -> int:
        return self.committed()

    def reach(self, txid: int) -> int:
        """Return `txid`: the read itself finds out whether the store has these values."""
        return txid

    def parts(self) -> int:
        return self._store.parts() if isinstance(self._store, Divisible) else 1

    def scan_part(self, asOf: int | None, part: Part) -> Iterator[pa.Table]:
        return scan_part(self._scannable(asOf), asOf, part)

    def _scannable(self, asOf: int | None) -> Scannable:
        """Return the store for a scan as of `asOf`. If it keeps earlier txids, later batches do not end the scan."""
        if asOf is None or not isinstance(self._store, Historic):
            return self._store
        past: Scannable = self._store.at(asOf)
        return past

    def kept_since(self) -> int:
        """Return the first txid as of which the state can be read."""
        return self._store.kept_since() if isinstance(self._store, Historic) else txid_before(self.committed())

    def at(self, txid: int) -> ReadableStore:
        """Return the store for reads as of `txid`."""
        return self._store.at(txid) if isinstance(self._store, Historic) else self

    def tags(self) -> tuple[StateTag, ...] | None:
        """Return the tags of the state; None if the store keeps none."""
        return tags_of(self._store)

    def tag(self, tag: StateTag) -> None:
        """Keep a txid under a name."""
        if isinstance(self._store, Tagging):
            self._store.tag(tag)

    def untag(self, name: str) -> None:
        """Drop a tag."""
        if isinstance(self._store, Tagging):
            self._store.untag(name)

    def last_written(self, time: float) -> int | None:
        """Return the last txid written at or before a time; None if the store does not know it."""
        return self._store.last_written(time) if isinstance(self._store, Dated) else None

    @property
    def paged(self) -> Paged | None:
        """The store, if it can scan page by page with a txid for each page; otherwise None."""
        return self._store if isinstance(self._store, Paged) else None


class _FollowedSource:
    """The `ReadSource` of states of one batch group with their driver in another process."""

    def __init__(self, followed: Mapping[str, Followed], kind: StateKind, name: str) -> None:
        self._followed, self._kind, self._name = followed, kind, name
        self.closed = False

    def group_of(self, state: str) -> str:
        return self._name

    def committed(self, group: str) -> int:
        return min(each.committed() for each in self._followed.values())

    @contextmanager
    def between(self, group: str) -> Iterator[int]:
        """Yield the committed txid. Commits are not held back in the block, because the driver is another process."""
        yield self.committed(group)

    def store(self, state: str) -> ReadableStore:
        return self._followed[state]

    def kind(self, state: str) -> StateKind:
        return self._kind

    def first_txid(self, state: str) -> int:
        """Return the first txid as of which a state has values."""
        return self._followed[state].first

    def times(self, group: str) -> CommitTimes:
        """Return when batches were committed; no times without the topology's log."""
        followed = next(iter(self._followed.values()))
        return CommitTimes(followed.commit_time if isinstance(followed, MemoryReplica) else lambda txid: None)

    def isPrompt(self, state: str) -> bool:
        """Return False: the state's driver is another process, and a read may have to request its newest batch."""
        return False

    def check(self) -> None:
        if self.closed:
            raise StateClosedError(f"state {self._name!r} was closed; open it again")


class OpenOther(Protocol):
    """A function that opens another state of the same topology, at the same place."""

    def __call__(self, state: str, aggregator: Any) -> "OpenedState": ...


class OpenedState(Ending, StateView):
    """A state opened by `openState`, while its topology is stopped or runs elsewhere.

    Every read is committed, as of the newest txid that the state has at the time of the read. To read the value of a
    key takes two round trips to a server. While a state in Redis is written, loops, `dict`, `top`, `toArrow` and
    `toPandas` read page by page: each page is as of one txid, ``asOfTxid`` is the first of these txids and ``toTxid``
    the last. All other reads are as of one txid. Reads write nothing, and hold back no driver. The object is a context
    manager, and thread-safe except for `close`.
    """

    def __init__(
        self,
        topology: str,
        followed: Followed,
        state: StateDescription,
        isolation: str = "committed",
        asOf: AsOfBatch | None = None,
        beside: "OpenOther | None" = None,
    ) -> None:
        self.topology = topology
        """The name of the topology that writes the state."""
        self._followed = followed
        self.description = state
        """The properties of the state that its readers need."""
        self._outside = _FollowedSource({state.name: followed}, state.kind, state.name)
        self._beside = beside
        self._opened: dict[str, tuple[Index, OpenedState]] = {}
        self._opening = free_in_child(threading.Lock())
        super().__init__(self._outside, state, isolation, asOf)

    @property
    def followed(self) -> Followed:
        """The store of the state, for readers that divide its entries. Raises StateClosedError after `close`."""
        self._outside.check()
        return self._followed

    def allAtOnce(self) -> tuple[pa.Table, int | None]:
        """Return all entries like `toArrow`, but never page by page, and the txid of all of them.

        The txid is None for a nonTransactional state, and with ``isolation="latest"``.
        """
        table, as_of = super()._table(None)
        return self._shown(table, {}), as_of.get("asOfTxid")

    def entriesOf(self, keys: pa.Table) -> tuple[pa.Table, int | None]:
        """Return the entries of some keys in the form of `allAtOnce`. Keys without a value are omitted."""

        def read(snapshot: Snapshot) -> tuple[pa.Array, int | None]:
            return snapshot.read(self.name, keys).values, snapshot.txid(self.name)

        values, txid = self._at_one_txid(read)
        present = values.is_valid()
        return self.shown(keys.filter(present), values.filter(present)), txid

    def close(self) -> None:
        """Close connections and files. Results of earlier reads stay valid."""
        if not self._outside.closed:
            self._outside.closed = True
            self._followed.close()
            for _, opened in self._opened.values():
                opened.close()

    _end = close

    def __repr__(self) -> str:
        if self._outside.closed:
            return f"OpenedState({self.topology + '/' + self.name!r}, closed)"
        try:
            as_of = self._as_of()
        except StateError as error:
            as_of = f", {error}"
        return f"OpenedState({self.topology + '/' + self.name!r}, {self.kind.value}, {self._shown_shape()}{as_of})"

    def index(self, fields: Sequence[str]) -> Index:
        """Return the index of the state by some fields, opened too. Raises StateKeyError if there is none."""
        self._outside.check()
        name = index_name(self.name, fields)
        with self._opening:
            if name not in self._opened:
                self._opened[name] = self._open_index(name, fields)
            return self._opened[name][0]

    def _open_index(self, name: str, fields: Sequence[str]) -> "tuple[Index, OpenedState]":
        try:
            if self._beside is None:
                raise no_index(self.name, fields, ())
            opened = self._beside(name, keys_over_changes(spark_schema(self._shape.keys), fields))
        except StateUnavailableError:
            raise
        except (StateError, TopologyError) as error:
            raise no_index(self.name, fields, ()) from error
        index = index_of_shape(self.name, self._shape.keys, name, opened.description.shape)
        if index is None:
            opened.close()
            raise no_index(self.name, fields, ())
        return index, opened

    def _source_with(self, index: Index) -> ReadSource:
        followed = {self.name: self._followed, index.name: self._opened[index.name][1].followed}
        return _FollowedSource(followed, self.kind, self.name)

    def _at_one_txid(
        self,
        read: Callable[[Snapshot], _T],
        *,
        large: bool = False,
        mayWait: bool = True,
        beside: Index | None = None,
    ) -> _T:
        """Return the result of `read`.

        Raises SnapshotMovedError, with advice, if the driver commits too fast for it.
        """
        try:
            return super()._at_one_txid(read, large=large, mayWait=mayWait, beside=beside)
        except SnapshotMovedError as error:
            raise self._too_fast() from error

    def _table(self, limit: int | None) -> tuple[pa.Table, dict[str, int]]:
        self._check_limit(limit)
        paged = self._followed.paged if isinstance(self._followed, FollowedStore) else None
        if paged is None or self.isolation == "latest" or self.isPast:
            return super()._table(limit)
        self._outside.check()
        committed, txids = self._followed.committed(), list[int]()

        def pages() -> Iterator[pa.Table]:
            for txid, page in paged.scan_by_page(committed):
                txids.append(txid)
                yield page

        try:
            table = self._collect(pages(), limit)
        except SnapshotMovedError as error:
            raise self._too_fast() from error
        first, last = min(txids, default=committed), max(txids, default=committed)
        return table, {"asOfTxid": first} if first == last else {"asOfTxid": first, "toTxid": last}

    def _too_fast(self) -> SnapshotMovedError:
        return SnapshotMovedError(
            f"state {self.name!r} of topology {self.topology!r}: the driver committed faster than the state could "
            f"be read as of one txid, and a read from outside cannot hold commits back. Read fewer keys at once, "
            f"ask the running topology, or read with isolation='latest'"
        )
