"""What the runtime asks of every state's home: one protocol for memory, Redis and whoever brings a store.

A store holds one state. It is divided into groups (Redis: hash tags; memory: one) that commit by themselves; each
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
from trident_state.binary import in_halves, one_chunk, together
from trident_state.fingerprint import write_fingerprint


class StateKind(enum.Enum):
    """What a state keeps beside the value (Trident's three kinds)."""

    NON_TRANSACTIONAL = "nonTransactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """Whose state this is: a name inside a topology, and the UUID of the log that remembers it. `batchGroup` says which
    txids its own are ("" where nobody knows); it is told to readers from outside and identifies nothing."""

    topology: str
    name: str
    log: str
    batchGroup: str = field(default="", compare=False)


@dataclass(frozen=True)
class Combine:
    """How a batch's value meets the stored one.

    `native` names what a store can do by itself on numbers ("put": on any type); `function` is the same in Python
    (associative, called as ``function(stored, delta)`` and only where something is stored: nothing stored takes the
    delta as it is). "put" replaces what is stored, and a null delta under it is a removal.
    """

    name: str
    function: Callable[[Any, Any], Any]
    native: Literal["sum", "min", "max", "put"] | None = None


def replacing(name: str = "put") -> Combine:
    """A Combine under which a batch's value takes the stored one's place.

    >>> replacing().function(3, None) is None
    True
    """
    return Combine(name, _second, "put")


def _second(stored: Any, delta: Any) -> Any:
    return delta


@dataclass(frozen=True)
class StateShape:
    """What a state holds: the key's fields (none for one global value), the accumulator's type and how it combines."""

    keys: pa.Schema
    value: pa.DataType
    combine: Combine

    @cached_property
    def fingerprint(self) -> str:
        """What must not change between restarts, readable: key types, value type, aggregator."""
        return write_fingerprint(self.keys, self.value, self.combine.name)


class GroupStatus(msgspec.Struct, frozen=True):
    """One group of a store as it stands. None where it holds nothing (yet, or no longer)."""

    lease: Lease | None
    marker: int | None
    opened: int | None


class StoreReport(msgspec.Struct, frozen=True):
    """What was found in a state's place, before anything was touched."""

    identity: StateIdentity | None
    fingerprint: str | None
    kind: StateKind | None
    groups: tuple[GroupStatus, ...]

    @property
    def absent(self) -> bool:
        """Nothing of ours is there."""
        return self.identity is None and all(g.marker is None and g.lease is None for g in self.groups)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """Those under which its groups are held."""
        return tuple(group.lease for group in self.groups if group.lease is not None)

    @property
    def reached(self) -> int:
        """The last batch that is in it, or was begun; 0 for none."""
        return max((txid for g in self.groups for txid in (g.marker, g.opened) if txid is not None), default=0)


@dataclass(frozen=True, slots=True)
class Update:
    """What one batch does to one state: each key once, with the batch's own combined value. Frozen content.

    keys: a table of the state's key fields, one row a key (one row and no column for a global value).
    deltas: one value a row, of the state's value type; a ChunkedArray where one array cannot hold them (2 GB).
    time: when the batch was planned (seconds since 1970), the same at every replay; None where nobody needs it.
    ttl: how long values live (seconds) by the rule that the batch was frozen under, infinity for ever; None: by the
    store's own.
    """

    txid: int
    keys: pa.Table
    deltas: pa.Array | pa.ChunkedArray
    time: float | None = None
    ttl: float | None = None

    def part(self, rows: slice) -> tuple[pa.Table, pa.Array]:
        """Keys and deltas of some rows. Raises TooLong where one array cannot hold these deltas."""
        start, count = rows.start, rows.stop - rows.start
        if count == len(self.deltas):
            return self.keys, one_chunk(self.deltas)
        return self.keys.slice(start, count), one_chunk(self.deltas.slice(start, count))

    def life(self, own: float | None) -> float | None:
        """How long values live as of this batch; None: for ever. `own`: by the rule of the store."""
        return own if self.ttl is None else None if math.isinf(self.ttl) else self.ttl


class Applied(msgspec.Struct, frozen=True):
    """What an `apply` came to. `values` are the values after the update, in the order of the keys, if asked for."""

    values: pa.Array | pa.ChunkedArray | None
    written: int
    skipped: int


def read_again(store: "Store", update: Update) -> pa.Array | pa.ChunkedArray:
    """The values after an update that a store holds already."""

    def read(rows: slice) -> pa.Array:
        return store.read(update.part(rows)[0], update.txid).values

    return together(list(in_halves(read, 0, len(update.deltas))))


class Found(msgspec.Struct, frozen=True):
    """What a read saw: one value a key (null where nothing is stored), as of which txid."""

    values: pa.Array
    asOf: int


class Home(Protocol):
    """What a run lends to a state that lives inside the driver: a folder, and a line of the log to publish it by."""

    @property
    def folder(self) -> Path | None:
        """A folder of this state's own under the checkpoint; None where the run has none: nothing survives it."""
        ...

    def manifest(self) -> bytes | None:
        """The last manifest published for this state."""
        ...

    def publish(self, manifest: bytes, lease: Lease) -> None:
        """Make a manifest the valid one, durably and in one step (refused under another lease)."""
        ...


class Store(Protocol):
    """One state's home, seen from the driver. Writes come from one thread in txid order; reads from any thread."""

    def report(self) -> StoreReport:
        """What is there now. Touches nothing. Raises StateOwnedError where something foreign lies in our place."""
        ...

    def create(self, lease: Lease, birth: int) -> None:
        """Found an empty state whose groups all stand at marker `birth`, after a `report`. Idempotent under one
        lease."""
        ...

    def acquire(self, lease: Lease) -> None:
        """After a `report`, set the fence of every group and erase its open record; FencedError at a higher epoch, or
        an equal one with another token. From here on nobody with an older lease can write."""
        ...

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        """Open `update.txid`, put every key, commit: group by group, each group atomically visible by its marker.

        A group already at or past the txid is not written (its values are read back if asked for). A batch without
        keys moves the markers all the same. May be repeated after any failure: nothing is applied twice.
        Raises StateBehindError (marker below txid - 1; also where the fence is missing or of a lower epoch, which means
        that the store was rewound: its `marker` is then the least one found, -1 where there is none), FencedError (a
        higher epoch, or an equal one with another token), StateUnavailableError (unknown outcome: repeat),
        StateFullError, StateValueError, StateCorruptError.
        """
        ...

    def groups_of(self) -> tuple[GroupStatus, ...]:
        """Fence, marker and open record of every group: one cheap round trip, asked once a second."""
        ...

    def durable(self) -> int:
        """The txid up to which this store survives a restart by itself; the log keeps everything newer."""
        ...

    def snapshot(self) -> int:
        """Move `durable` up to what is committed, now, if that is this store's own doing; returns `durable()`."""
        ...

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        """Values as of txid `asOf` (None: the latest written, committed or not).

        The value where its txid is at most asOf, else prev where its txid is asOf + 1, else SnapshotMovedError;
        that too where marker or fence, read after the values, are beyond asOf + 1 or another driver's.
        StateRecoveringError where a marker is below asOf.
        """
        ...

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """All entries, page by page: the key fields, then ``value``. Each page is as of asOf like a `read`."""
        ...

    def drop(self, lease: Lease | None = None) -> None:
        """Delete everything of this state, and nothing else. With a lease: only what it or an earlier driver of the
        same log holds. Raises FencedError or LogMismatchError for anything newer."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Forgetful(Protocol):
    """A store whose values may pass away: an update that reads before it writes must not find what its own batch is to
    find gone."""

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        """What batch `txid`, planned at `time`, finds of these keys: values as of the batch before it, without those
        that pass away with it."""
        ...

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        """The same of all entries, as `Store.scan` gives them."""
        ...


class StateFactory(Protocol):
    """A frozen, picklable description of a state's home, as users write it. Nothing connects before `start`.

    Its repr shows no password.
    """

    @property
    def kind(self) -> StateKind: ...

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        ...

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        """Connect to this state's home. Creates nothing."""
        ...
