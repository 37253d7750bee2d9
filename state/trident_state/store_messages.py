"""The messages between a run and a store: the update of a batch, and the results of the store's methods."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary_arrays import one_chunk
from trident_state.incarnation import Incarnation
from trident_state.state_shape import StateIdentity, StateKind


class GroupStatus(msgspec.Struct, frozen=True):
    """The lease, marker and open record (`opened`) of one group of a store.

    Each is None if the group does not have it.
    """

    lease: Lease | None
    marker: int | None
    opened: int | None


class StoreReport(msgspec.Struct, frozen=True):
    """The facts that a store finds about its state before it changes anything."""

    identity: StateIdentity | None
    fingerprint: str | None
    kind: StateKind | None
    groups: tuple[GroupStatus, ...]
    birth: int | None = None
    """The txid after which the state began; None if it is not known."""

    @property
    def absent(self) -> bool:
        """Return whether no store of this library has written anything under the state's name."""
        return self.identity is None and all(g.marker is None and g.lease is None for g in self.groups)

    @property
    def incarnation(self) -> Incarnation | None:
        """The incarnation of the state that is stored; None if there is no state."""
        if self.identity is None or self.fingerprint is None or self.kind is None or not self.leases:
            return None
        epoch = max(lease.epoch for lease in self.leases)
        return Incarnation(self.identity, self.birth, self.fingerprint, self.kind, epoch)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases under which the store's groups are held."""
        return tuple(group.lease for group in self.groups if group.lease is not None)

    @property
    def reached(self) -> int:
        """The last txid that a group of the store holds or has started to write; 0 if there is no such txid."""
        return max((txid for g in self.groups for txid in (g.marker, g.opened) if txid is not None), default=0)


@dataclass(frozen=True, slots=True)
class Update:
    """The changes that one batch makes to one state: each key once, with the combined value of the batch's own tuples.

    An update is frozen content: every replay of the batch has an equal update.

    keys: a table of the state's key fields, one row per key (one row and no column for a global value).
    deltas: one value per row of `keys`, of the state's value type; a ChunkedArray if one array (2 GB) is too small.
    time: when the batch was planned (seconds since 1970), the same at every replay; None if no value expires.
    ttl: the time to live (seconds) when the batch was frozen, infinity if values never expire; None: that of the store.
    """

    txid: int
    keys: pa.Table
    deltas: pa.Array | pa.ChunkedArray
    time: float | None = None
    ttl: float | None = None

    def part(self, rows: slice) -> tuple[pa.Table, pa.Array]:
        """Return the keys and deltas of the given rows. Raises TooLong if one array cannot hold the deltas."""
        start, count = rows.start, rows.stop - rows.start
        if count == len(self.deltas):
            return self.keys, one_chunk(self.deltas)
        return self.keys.slice(start, count), one_chunk(self.deltas.slice(start, count))

    def life(self, own: float | None) -> float | None:
        """Return the time to live (seconds) that applies to this batch; None: no value expires.

        `own` is the store's time to live.
        """
        return own if self.ttl is None else None if math.isinf(self.ttl) else self.ttl


class Applied(msgspec.Struct, frozen=True):
    """The result of an `apply`: how many keys it wrote, and how many it skipped because they were written before.

    `values` are the values after the update, in the order of its keys; None if the caller did not ask for them.
    """

    values: pa.Array | pa.ChunkedArray | None
    written: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Put:
    """The outcome of a put of some keys of a shared batch.

    counts: for each group of the state the number of these keys that belong to it, regardless of the store's answer.
    The commit compares the sum of these numbers over all puts with the number of keys that moved. moved: how many of
    the keys this put moved to the txid; the other keys already had that txid. removed: the encoded keys that have no
    value after the put, as far as the put knows them. files: the files that the put has written, in the form in which
    the store's commit names them; none if the put has changed the store itself.
    """

    counts: list[int]
    moved: int
    removed: pa.Array
    files: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """The result of a read: one value per key (null if nothing is stored), as of batch `asOf`."""

    values: pa.Array
    asOf: int


class FewFound(msgspec.Struct, frozen=True):
    """The result of a read of a few keys: one Python value per key (None if nothing is stored), as of batch `asOf`."""

    values: list[Any]
    asOf: int
