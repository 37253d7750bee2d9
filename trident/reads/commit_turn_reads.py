"""A state as of one batch, for reads in the commit turn of the next batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from trident_state.store import Forgetful, Store, Timed

_ROWS = 10_000
"""The most keys in one request to a store. A server can answer other clients between two requests."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A state as of batch `txid`.

    It is read in the commit turn of the next batch, so no other thread writes it meanwhile.

    `time`: when the next batch was planned, if reads are to leave out values that have expired by then; otherwise None.
    Reads raise StateRecoveringError if the store lacks batches.
    """

    store: Store
    txid: int
    time: float | None = None

    def scan(self) -> Iterator[pa.Table]:
        """Return all entries, page by page: the key fields, then the value."""
        # Values that expire with the batch in progress are left out, because an update must not use them (guard
        # "expiry, an update that reads").
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.scan_for(self.txid + 1, self.time)
        return self.store.scan(self.txid)

    def read(self, keys: pa.Table) -> pa.Array:
        """Return one stored value for each key; null if nothing is stored."""
        if keys.num_rows <= _ROWS:
            return self._part(keys)
        return pa.concat_arrays([self._part(keys.slice(at, _ROWS)) for at in range(0, keys.num_rows, _ROWS)])

    def due(self, until: int, most: int | None = None) -> pa.Table | None:
        """Return the keys that are due at or before `until`; None if the store keeps no due times."""
        return self.store.due(self.txid, until, most) if isinstance(self.store, Timed) else None

    def _part(self, keys: pa.Table) -> pa.Array:
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.read_for(keys, self.txid + 1, self.time)
        # Read as of a txid, never the latest values: only then does the read fail if the server lost its last writes
        # and must be healed first (guard "update, as of the batch before").
        return self.store.read(keys, self.txid).values
