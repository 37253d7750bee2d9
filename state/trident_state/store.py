"""The contract between a run and every store: in memory, in Redis, or a user's own.

A store keeps one state, divided into groups (in Redis one for each hash tag, elsewhere only one). Each group commits by
itself, and keeps a fence (the lease of the driver that may write), a marker (the last txid that the group committed),
an open record and, for each key, the triple (txid, prev, value). ``docs/guide/state.md`` states the rule by which
values change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from trident.base.attempt import Lease
from trident.files.store import FileStore
from trident_state.binary_arrays import concatenate, in_halves
from trident_state.few_keys import Key
from trident_state.incarnation import Incarnation
from trident_state.keys import encode_keys
from trident_state.state_parts import Part
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store_messages import Applied, FewFound, Found, GroupStatus, Put, StoreReport, Update
from trident_state.tags import StateTag


class Home(Protocol):
    """The services that a run offers for a memory state's snapshots: a file store, and an entry in the log."""

    @property
    def files(self) -> FileStore | None:
        """The store of this memory state's files; None if nothing survives the run."""
        ...

    def manifest(self) -> bytes | None:
        """Return the manifest that was last published for this state; None if there is none."""
        ...

    def publish(self, manifest: bytes, lease: Lease) -> None:
        """Make this manifest the valid one, durably and in one step. Raises FencedError if `lease` is not in force."""
        ...


class Store(Protocol):
    """A store: the object that keeps one state. One thread writes, in txid order; any thread may read."""

    def report(self) -> StoreReport:
        """Return the stored facts, without any change. Raises StateOwnedError if something foreign is stored there.

        Foreign means not written by this library, or written for another state.
        """
        ...

    def create(self, lease: Lease, birth: int) -> None:
        """Create an empty state in which the marker of every group is `birth`.

        A run calls `report` first. Another call with the same lease changes nothing.
        """
        ...

    def acquire(self, lease: Lease) -> None:
        """Set the fence of every group to `lease`, and erase the group's open record.

        From then on no driver with an older lease can write. A run calls `report` first. Raises FencedError if the
        fence of a group has a higher epoch than `lease`, or the same epoch with another token.
        """
        ...

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        """Apply a batch group by group: record `update.txid` as open, write every key, move the marker.

        When the marker of a group moves, everything that was written into the group becomes visible in one step. A
        group whose marker is at or past the txid is not written; its values are read if `values` asks for them. A batch
        without keys moves the markers, too. An `apply` may be repeated after any failure: nothing is applied twice.

        Raises
        ------
        StateBehindError
            A marker is below txid - 1. Or a fence is missing or has a lower epoch, which means that the store was
            rewound; then the `marker` of the error is the least marker of all groups, -1 if a group has none.
        FencedError
            The fence of a group has a higher epoch, or the same epoch with another token.
        StateUnavailableError
            It is not known whether anything was written. Call `apply` again.
        StateFullError, StateValueError, StateCorruptError
            The batch cannot be applied, for the reason that the message gives.
        """
        ...

    def groups_of(self) -> tuple[GroupStatus, ...]:
        """Return the fence, marker and open record of every group, in one cheap round trip.

        A run calls this once a second.
        """
        ...

    def durable(self) -> int:
        """Return the txid of the last batch whose changes survive a restart of the store.

        The log keeps all later batches.
        """
        ...

    def snapshot(self) -> int:
        """Make all committed batches durable now, if the store takes snapshots itself; return `durable()`."""
        ...

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        """Return the values of the keys as of batch `asOf`. None: as last written, committed or not.

        A key with a txid of at most `asOf` has its value; a key with the txid `asOf` + 1 has its prev. Raises
        SnapshotMovedError if a key has a later txid, or if the markers and fences, which are read after the values,
        show a marker beyond `asOf` + 1 or another driver. Raises StateRecoveringError if a marker is below `asOf`.
        """
        ...

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield all entries as tables of about `pageRows` rows. Columns: the key fields, then ``value``.

        Each table shows its entries as of `asOf`, like a `read` of its keys, and raises the same errors.
        Every entry is in one table, also if connections break or another server answers meanwhile; otherwise the scan
        raises StateUnavailableError.
        """
        ...

    def drop(self, lease: Lease | None = None) -> None:
        """Delete all data of this state, and nothing else.

        If it is interrupted after it has deleted a part, a group of the rest has no marker, and a second `drop` deletes
        the rest.

        With a lease, delete only data that the driver with `lease` or an earlier driver of the same log holds. Raises
        FencedError if a later driver holds the state, LogMismatchError if a driver of another log does.
        """
        ...

    def close(self) -> None:
        """Close connections and files; the state stays stored."""
        ...


@runtime_checkable
class FewReadable(Protocol):
    """A store that can read a few keys as Python values. Arrow columns would cost more than such a read itself."""

    isPrompt: bool
    """True if a read of a few keys waits for nothing outside this process, so that any thread may make it."""

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        """Return the values that `Store.read` would return for the keys, as Python values.

        Return None, without a read, if keys of these types can be read only by `read`.
        """
        ...


def read_few(store: object, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
    """Return the values of a few keys in a store; None, without a read, if only `Store.read` can read them."""
    # Not by `isinstance`, which takes longer than the read.
    few: Callable[[Sequence[Key], int | None], FewFound | None] | None = getattr(store, "read_few", None)
    return None if few is None else few(keys, asOf)


@runtime_checkable
class Paged(Protocol):
    """A store that can scan page by page, each page as of a separate txid."""

    def scan_by_page(self, least: int, pageRows: int = 10_000) -> Iterator[tuple[int, pa.Table]]:
        """Yield all entries in tables of at most `pageRows` rows, each with the txid as of which it was read.

        A table may have no rows: the part that was read had no entries as of its txid. Raises StateRecoveringError if
        the store has fallen back before batch `least`.
        """
        ...


class Scannable(Protocol):
    """A store that can be scanned."""

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield all entries; see `Store.scan`."""
        ...


@runtime_checkable
class Divisible(Scannable, Protocol):
    """A store that can scan one part without reading the values of the others."""

    def parts(self) -> int:
        """Return the number of parts into which a scan is best divided; 1 if it is best not divided."""
        ...

    def scan_part(self, asOf: int | None, part: Part, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield the entries of a part, as `scan` yields all entries. Raises the errors of `scan`."""
        ...


def scan_part(store: Scannable, asOf: int | None, part: Part) -> Iterator[pa.Table]:
    """Yield the entries of a part of a store, as `Store.scan` yields all entries."""
    if isinstance(store, Divisible):
        yield from store.scan_part(asOf, part)
        return
    for page in store.scan(asOf):
        keys = page.select(list(range(page.num_columns - 1)))
        yield page.filter(part.has(encode_keys(keys)))


@runtime_checkable
class Historic(Protocol):
    """A store that can be read as of more txids than the last two."""

    def kept_since(self) -> int:
        """Return the first txid as of which the state can be read, and from which every later one can be, too."""
        ...

    def at(self, txid: int) -> Any:
        """Return a store (this one, or another) that answers reads as of `txid`, which is in the kept range."""
        ...


@runtime_checkable
class Dated(Protocol):
    """A store that knows when the batches that it keeps were written."""

    def last_written(self, time: float) -> int | None:
        """Return the last txid that was written at or before a time (seconds since 1970).

        Return -1 if every txid that is kept was written later, and None if the times are not known.
        """
        ...


@runtime_checkable
class Tagging(Protocol):
    """A store that keeps named txids until they are dropped, whatever else it deletes.

    Any process may add and drop them.
    """

    def tags(self) -> tuple[StateTag, ...] | None:
        """Return the tags, as of whose txids the state can be read; None if this store keeps none."""
        ...

    def tag(self, tag: StateTag) -> None:
        """Keep the tag's txid under its name, durably. An existing tag with the same txids is left unchanged.

        Raises SnapshotMovedError if the txid is not kept, TagExistsError if the name has another txid.
        """
        ...

    def untag(self, name: str) -> None:
        """Drop the tag of this name. A missing tag is not an error."""
        ...


def tags_of(store: object) -> tuple[StateTag, ...] | None:
    """Return the tags of a state; None if its store keeps none."""
    return store.tags() if isinstance(store, Tagging) else None


@runtime_checkable
class Bindable(Protocol):
    """A store whose reads can be bound to one incarnation of its state."""

    def bind(self, incarnation: Incarnation) -> None:
        """From now on read only this incarnation.

        `groups_of`, `read` and `scan` raise the errors of `Incarnation.check`.

        The store of a reader is bound to the state that the reader opened. The lease binds the store of a driver.
        """
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A store with values that may expire.

    User code that reads the state to update it must not see the values that expire with the batch being applied.
    """

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        """Return the values that batch `txid`, planned at `time` (seconds since 1970), sees under the given keys.

        These are the values as of txid - 1, with null for each value that expires with batch `txid`.
        """
        ...

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        """Yield all entries that are visible to batch `txid`, planned at `time`, page by page like `Store.scan`."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A store that can keep an index of its keys by the time at which each is due (`StateShape.due`)."""

    def due(self, asOf: int, until: int, most: int | None = None) -> pa.Table | None:
        """Return the keys that are due at or before `until` (microseconds since 1970), as of the last batch `asOf`.

        With `most`, return only the first `most` keys, in the order of their times. Return None if the
        store keeps no due times, or if the batch after `asOf` has been opened: then the index no longer shows the due
        times as of `asOf`. (This also happens if the log was restored from a copy that lacks that batch.) Raises the
        errors of `Store.read`. Without `most` a key may be returned some microseconds before its time, after the year
        2255.
        """
        ...

    def first_due(self, asOf: int, until: int) -> int | None:
        """Return the time at which the first key is due (microseconds since 1970), as of the last batch `asOf`.

        Return None if no key is due at any time. The time may be a little too early (some microseconds, after the year
        2255), but it is at or before `until` only if a key is due at or before `until`. Raises the errors of `due`,
        and SnapshotMovedError if `due` would return None.
        """
        ...


class SharedBatch(Protocol):
    """A batch that the driver has opened, so that other processes can put its keys. It can be pickled."""

    @property
    def where(self) -> str:
        """The state, as errors name it."""
        ...

    def put(self, parts: Iterable[tuple[pa.Table, pa.Array | pa.ChunkedArray]]) -> Put:
        """Put keys and their deltas, part by part. A key that has the txid already is not changed.

        Nothing is committed. Raises the errors of `Store.apply`, and StateUnavailableError if the batch is not open.
        """
        ...

    def check_reached(self) -> None:
        """Raise StateError or StateUnavailableError if this process does not reach the store that the driver uses."""
        ...


class SharedSnapshot(Protocol):
    """A state as of one txid, for other processes that read it. It can be pickled."""

    @property
    def where(self) -> str:
        """The state, as errors name it."""
        ...

    def read(self, keys: pa.Table) -> pa.Array:
        """Return the value of each key; null if the key has no value.

        Raises the errors of `Store.read`; in particular SnapshotMovedError once two further batches were written.
        """
        ...

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries as tables. Columns: the key fields, then ``value``. Raises the errors of `read`."""
        ...

    @property
    def groups(self) -> int:
        """The number of groups into which the state's keys are divided."""
        ...

    def due_in(self, group: int, until: int) -> Iterator[pa.Table]:
        """Yield the keys of a group that are due at or before `until`.

        Raises SnapshotMovedError if the batch after the snapshot's batch has been opened.
        """
        ...

    def count_due(self, until: int) -> int | None:
        """Return how many keys of all groups are due at or before `until`; None if `Timed.due` would return None."""
        ...

    def check_reached(self) -> None:
        """Raise StateError or StateUnavailableError if this process does not reach the store that the driver uses."""
        ...


@runtime_checkable
class Readable(Protocol):
    """A store that processes other than its driver can read."""

    def open_snapshot(self, asOf: int, time: float | None = None) -> SharedSnapshot:
        """Return the state as of a txid, for other processes to read.

        With the `time` of the next batch, reads leave out values that expire with that batch (see `Forgetful`).
        """
        ...


@runtime_checkable
class Shared(Readable, Protocol):
    """A store that processes other than its driver can write and read.

    The driver opens a batch in every group, other processes put its keys, and the driver commits. A put that is
    repeated, doubled or late changes nothing, because it is checked against the group's fence, its open record and each
    key's txid.
    """

    def open_batch(self, lease: Lease, update: Update) -> SharedBatch:
        """Record `update.txid` as open in every group that does not hold it. The keys of `update` are not used."""
        ...

    def commit_batch(self, batch: Any, update: Update, puts: Sequence[Put]) -> Applied:
        """Move the markers if, in each group, exactly the keys of `puts` have moved to the txid.

        Raises StateUnavailableError if some keys have not arrived; then the batch is opened and put again.
        """
        ...


@runtime_checkable
class Counted(Protocol):
    """A store that can count its keys cheaply."""

    def count(self) -> int | None:
        """Return the number of keys, including those of removed values; None before the state exists."""
        ...


@runtime_checkable
class EntriesCounted(Protocol):
    """A store that can count the entries of a state for less than a scan."""

    def count_entries(self, asOf: int | None) -> int | None:
        """Return the number of keys with a value as of `asOf`; None, without a read, if only a scan can count them.

        Raises the errors of `Store.read`.
        """
        ...


def count_entries(store: object, asOf: int | None) -> int | None:
    """Return the number of keys with a value; None, without a read, if only a scan can count them."""
    return store.count_entries(asOf) if isinstance(store, EntriesCounted) else None


class StateFactory(Protocol):
    """A frozen, picklable description of a state's store, created by a user's program.

    It connects to nothing before the topology starts, and its repr shows no password.
    """

    @property
    def kind(self) -> StateKind:
        """The kind of the state."""
        ...

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that must survive for the state to survive: "process", "checkpoint" or "server"."""
        ...

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        """Return the store of the state, without creating anything."""
        ...


@runtime_checkable
class Expiring(Protocol):
    """A factory of states whose values may expire."""

    @property
    def ttlSecs(self) -> float | None:
        """The seconds after which a value expires; None if no value expires."""
        ...


@runtime_checkable
class Placed(Protocol):
    """A factory of states in tables that readers find by location."""

    @property
    def tablePlace(self) -> Mapping[str, Any] | None:
        """The location of the tables, as the factory's arguments, without secrets; None if it contains one."""
        ...


@runtime_checkable
class Sharing(Protocol):
    """A factory of states that Spark's executors can read and write."""

    @property
    def writers(self) -> Literal["driver", "executors", "auto"]:
        """The processes that read and write the state in a commit turn; "auto": those that hold the tuples."""
        ...

    @property
    def sendable(self) -> bool:
        """True if the factory may be sent to other processes."""
        ...


@runtime_checkable
class Fencing(Protocol):
    """A factory that declares whether its states refuse the writes of earlier drivers.

    States of other factories always refuse them.
    """

    @property
    def fenced(self) -> bool:
        """True if the writes of an earlier driver are refused."""
        ...


@runtime_checkable
class MapMaking(Protocol):
    """A factory of states in maps that the user provides."""

    @property
    def makeMap(self) -> Callable[[StateIdentity], Any]:
        """The user's function that makes the map of a state."""
        ...


def ttl_of_factory(factory: object) -> float | None:
    """Return the seconds after which the values of a factory's states expire; None if they never do."""
    return factory.ttlSecs if isinstance(factory, Expiring) else None


def place_of_factory(factory: object) -> Mapping[str, Any] | None:
    """Return where readers find the states of a factory; None if they cannot, or if the place has secrets."""
    return factory.tablePlace if isinstance(factory, Placed) else None


def bind_reads(store: "Store", incarnation: Incarnation | None) -> None:
    """Bind the reads of a store to the incarnation that a reader opened, if the store can do that."""
    if incarnation is not None and isinstance(store, Bindable):
        store.bind(incarnation)


def read_again(store: "Store", update: Update) -> pa.Array | pa.ChunkedArray:
    """Return the values after an update that the store has already applied, read back in the keys' order."""

    def read(rows: slice) -> pa.Array:
        return store.read(update.part(rows)[0], update.txid).values

    return concatenate(list(in_halves(read, 0, len(update.deltas))))
