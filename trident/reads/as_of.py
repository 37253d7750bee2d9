"""A state as one batch left it, read in the commit turn of the next batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from trident_state.store import Forgetful, Store

_ROWS = 10_000
"""The number of keys in one request to a store, so that a server can answer other clients in between."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A state as of one txid, read in the commit turn, so that no other thread writes meanwhile.

    `time`: when the next batch was planned, where reads are to leave out what expires with it; else None. Reads raise
    StateRecoveringError where the store is behind.
    """

    store: Store
    txid: int
    time: float | None = None

    def scan(self) -> Iterator[pa.Table]:
        """Return all entries: the key fields, then the value."""
        # Without the values that expire with the batch under way: an update must not go on from them (guard "expiry, an
        # update that reads").
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.scan_for(self.txid + 1, self.time)
        return self.store.scan(self.txid)

    def read(self, keys: pa.Table) -> pa.Array:
        """Return one stored value a row, null where there is none."""
        if keys.num_rows <= _ROWS:
            return self._part(keys)
        return pa.concat_arrays([self._part(keys.slice(at, _ROWS)) for at in range(0, keys.num_rows, _ROWS)])

    def _part(self, keys: pa.Table) -> pa.Array:
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.read_for(keys, self.txid + 1, self.time)
        # Never the latest values: a server that lost its last writes must be healed first, and says so only to a read
        # as of a txid (guard "update, as of the batch before").
        return self.store.read(keys, self.txid).values
