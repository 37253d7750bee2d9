"""A state as one batch left it, for the code that makes the next batch's values of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from trident_state.store import Forgetful, Store

_ROWS = 10_000
"""Keys in one question to a store: a server answers others in between."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """Reads in the commit turn, in which nobody else writes. They raise StateRecoveringError where the store is behind.
    `time`: when the next batch was planned, where what passes away with it is to be gone; else None."""

    store: Store
    txid: int
    time: float | None = None

    def scan(self) -> Iterator[pa.Table]:
        """All entries: the key fields, then the value."""
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.scan_for(self.txid + 1, self.time)
        return self.store.scan(self.txid)

    def read(self, keys: pa.Table) -> pa.Array:
        """One stored value a row, null where there is none."""
        if keys.num_rows <= _ROWS:
            return self._part(keys)
        return pa.concat_arrays([self._part(keys.slice(at, _ROWS)) for at in range(0, keys.num_rows, _ROWS)])

    def _part(self, keys: pa.Table) -> pa.Array:
        if self.time is not None and isinstance(self.store, Forgetful):
            return self.store.read_for(keys, self.txid + 1, self.time)
        return self.store.read(keys, self.txid).values
