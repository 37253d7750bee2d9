"""The contract between the runtime and every store, in memory, in Redis or of a user's own.

A store keeps one state. It is divided into groups (Redis: hash tags; memory: one) that commit by themselves; each
group keeps a fence (the lease of the driver that may write), a marker (the last txid it committed), an open record
and, per key, the triple (txid, prev, value). The rule of values stands in ``docs/guide/state.md``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary import concatenate, in_halves
from trident_state.messages import Applied, Found, GroupStatus, StoreReport, Update
from trident_state.state_shape import StateIdentity, StateKind, StateShape


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
        """Make this manifest the valid one, durably and in one step. Raises FencedError if `lease` is not in force."""
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


def read_again(store: "Store", update: Update) -> pa.Array | pa.ChunkedArray:
    """Return the values after an update that the store has applied already."""

    def read(rows: slice) -> pa.Array:
        return store.read(update.part(rows)[0], update.txid).values

    return concatenate(list(in_halves(read, 0, len(update.deltas))))
