"""The contract between the runtime and every store, in memory, in Redis or of a user's own.

A store keeps one state. It is divided into groups (Redis: hash tags; memory: one) that commit by themselves; each
group keeps a fence (the lease of the driver that may write), a marker (the last txid it committed), an open record
and, per key, the triple (txid, prev, value). The rule of values stands in ``docs/guide/state.md``.
"""

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary import concatenate, in_halves, one_chunk
from trident_state.fingerprint import write_fingerprint


class StateKind(enum.Enum):
    """Trident's three kinds of states, by what they keep beside the value."""

    NON_TRANSACTIONAL = "nonTransactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """The owner of a state: a name inside a topology, and the UUID of the log that records it.

    `batchGroup` names the batch group whose txids the state counts in ("" where that is not known). It is stored for
    readers from outside and identifies nothing.
    """

    topology: str
    name: str
    log: str
    batchGroup: str = field(default="", compare=False)


@dataclass(frozen=True)
class Combine:
    """The function that combines a batch's value (the delta) with the stored one.

    `native` names an operation that a store can do by itself on numbers ("put": on any type). `function` does the same
    in Python: it is associative and called as ``function(stored, delta)``, but only where something is stored; else
    the delta becomes the value. "put" replaces the stored value, and a null delta under it removes the key.
    """

    name: str
    function: Callable[[Any, Any], Any]
    native: Literal["sum", "min", "max", "put"] | None = None


def replacing(name: str = "put") -> Combine:
    """Return a Combine under which a batch's value replaces the stored one.

    >>> replacing().function(3, None) is None
    True
    """
    return Combine(name, _second, "put")


def _second(stored: Any, delta: Any) -> Any:
    return delta


@dataclass(frozen=True)
class StateShape:
    """The key fields of a state (none for one global value), the type of its values, and how they combine."""

    keys: pa.Schema
    value: pa.DataType
    combine: Combine

    @cached_property
    def fingerprint(self) -> str:
        """Key types, value type and aggregator as text: what must not change between restarts."""
        return write_fingerprint(self.keys, self.value, self.combine.name)


class GroupStatus(msgspec.Struct, frozen=True):
    """The fence, marker and open record of one group of a store; None where there is none (yet, or any more)."""

    lease: Lease | None
    marker: int | None
    opened: int | None


class StoreReport(msgspec.Struct, frozen=True):
    """What a store found where its state is kept, before it touched anything."""

    identity: StateIdentity | None
    fingerprint: str | None
    kind: StateKind | None
    groups: tuple[GroupStatus, ...]

    @property
    def absent(self) -> bool:
        """Whether nothing of ours is there."""
        return self.identity is None and all(g.marker is None and g.lease is None for g in self.groups)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases under which its groups are held."""
        return tuple(group.lease for group in self.groups if group.lease is not None)

    @property
    def reached(self) -> int:
        """The last batch that the state holds or has begun; 0 for none."""
        return max((txid for g in self.groups for txid in (g.marker, g.opened) if txid is not None), default=0)


@dataclass(frozen=True, slots=True)
class Update:
    """The update of one state by one batch: each key once, with the batch's own combined value. Frozen content.

    keys: a table of the state's key fields, one row per key (one row and no column for a global value).
    deltas: one value per row, of the state's value type; a ChunkedArray where one array cannot hold them (2 GB).
    time: when the batch was planned (seconds since 1970), the same at every replay; None where no value expires.
    ttl: the time to live (seconds) under which the batch was frozen, infinity for ever; None: the store's own applies.
    """

    txid: int
    keys: pa.Table
    deltas: pa.Array | pa.ChunkedArray
    time: float | None = None
    ttl: float | None = None

    def part(self, rows: slice) -> tuple[pa.Table, pa.Array]:
        """Return the keys and deltas of some rows; raises TooLong where one array cannot hold these deltas."""
        start, count = rows.start, rows.stop - rows.start
        if count == len(self.deltas):
            return self.keys, one_chunk(self.deltas)
        return self.keys.slice(start, count), one_chunk(self.deltas.slice(start, count))

    def life(self, own: float | None) -> float | None:
        """Return the time to live in force for this batch, None for ever; `own` is that of the store."""
        return own if self.ttl is None else None if math.isinf(self.ttl) else self.ttl


class Applied(msgspec.Struct, frozen=True):
    """The result of an `apply`; `values` are those after the update, in the order of the keys, if asked for."""

    values: pa.Array | pa.ChunkedArray | None
    written: int
    skipped: int


def read_again(store: "Store", update: Update) -> pa.Array | pa.ChunkedArray:
    """Return the values after an update that the store has applied already."""

    def read(rows: slice) -> pa.Array:
        return store.read(update.part(rows)[0], update.txid).values

    return concatenate(list(in_halves(read, 0, len(update.deltas))))


class Found(msgspec.Struct, frozen=True):
    """The result of a read: one value per key (null where nothing is stored), and the txid that it is as of."""

    values: pa.Array
    asOf: int


class Home(Protocol):
    """What a run lends to a state in the driver's memory: a folder, and an entry of the log for its manifest."""

    @property
    def folder(self) -> Path | None:
        """A folder of this state's own under the checkpoint; None without a checkpoint: nothing survives the run."""
        ...

    def manifest(self) -> bytes | None:
        """Return the last manifest that was published for this state."""
        ...

    def publish(self, manifest: bytes, lease: Lease) -> None:
        """Make a manifest the valid one, durably and in one step; refused under another lease."""
        ...


class Store(Protocol):
    """The keeper of one state, as the driver sees it. One thread writes, in txid order; any thread reads."""

    def report(self) -> StoreReport:
        """Return what is there now; touch nothing. Raises StateOwnedError where something is not ours."""
        ...

    def create(self, lease: Lease, birth: int) -> None:
        """Create an empty state whose groups all stand at marker `birth`.

        Called after a `report`. Idempotent under one lease.
        """
        ...

    def acquire(self, lease: Lease) -> None:
        """Set the fence of every group and erase its open record.

        Called after a `report`. Raises FencedError where a group has a higher epoch, or an equal one with another
        token. From here on no driver with an older lease can write.
        """
        ...

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        """Open `update.txid`, put every key and commit, group by group.

        The marker of a group makes all that was put into it visible in one step.
        A group already at or past the txid is not written (its values are read back if asked for). A batch without
        keys moves the markers all the same. May be repeated after any failure: nothing is applied twice.
        Raises StateBehindError (marker below txid - 1; also where the fence is missing or of a lower epoch, which means
        that the store was rewound: the `marker` of the error is then the least one, -1 where there is none),
        FencedError (a higher epoch, or an equal one with another token), StateUnavailableError (unknown outcome:
        repeat), StateFullError, StateValueError, StateCorruptError.
        """
        ...

    def groups_of(self) -> tuple[GroupStatus, ...]:
        """Return fence, marker and open record of every group: one cheap round trip, made once a second."""
        ...

    def durable(self) -> int:
        """Return the txid up to which this store survives a restart by itself; the log keeps everything newer."""
        ...

    def snapshot(self) -> int:
        """Make durable what is committed, now, if this store takes snapshots of its own; return `durable()`."""
        ...

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        """Return the values as of txid `asOf` (None: the latest written, committed or not).

        The value where its txid is at most asOf, else prev where its txid is asOf + 1, else SnapshotMovedError;
        that too where marker or fence, read after the values, are beyond asOf + 1 or another driver's.
        StateRecoveringError where a marker is below asOf.
        """
        ...

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Return all entries, page by page: the key fields, then ``value``. Each page is as of asOf like a `read`."""
        ...

    def drop(self, lease: Lease | None = None) -> None:
        """Delete everything of this state, and nothing else.

        With a lease: only what this driver or an earlier one of the same log holds. Raises FencedError or
        LogMismatchError for anything newer.
        """
        ...

    def close(self) -> None:
        """Let go of connections and files; the state stays."""
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A store whose values may expire.

    An update that reads before it writes must not see values that expire with its own batch.
    """

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        """Return the values that batch `txid`, planned at `time`, sees of these keys.

        They are those as of the batch before it, without the values that expire with it.
        """
        ...

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        """Return all entries that batch `txid`, planned at `time`, sees, page by page like `Store.scan`."""
        ...


class StateFactory(Protocol):
    """A frozen, picklable description of where a state is kept, as users write it. Nothing connects before `start`.

    Its repr shows no password.
    """

    @property
    def kind(self) -> StateKind:
        """The kind of the state."""
        ...

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        ...

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        """Return the store of this state; creates nothing."""
        ...
