"""The messages between the runtime and a store: updates, and the results of its methods."""

import math
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary import one_chunk
from trident_state.state_shape import StateIdentity, StateKind


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


class Found(msgspec.Struct, frozen=True):
    """The result of a read: one value per key (null where nothing is stored), and the txid that it is as of."""

    values: pa.Array
    asOf: int
