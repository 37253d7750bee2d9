"""A state as one batch left it, for the code that makes the next batch's values of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from trident.base.errors import StateRecoveringError
from trident_state.store import Store

_ROWS = 10_000
"""Keys in one question to a store: a server answers others in between."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """Reads in the commit turn, in which nobody else writes. `heal` brings a store up that turns out to be behind."""

    store: Store
    txid: int
    heal: Callable[[], None]

    def read(self, keys: pa.Table) -> pa.Array:
        """One stored value a row, null where there is none."""
        try:
            return self._read(keys)
        except StateRecoveringError:
            self.heal()
            return self._read(keys)

    def scan(self) -> Iterator[pa.Table]:
        """All entries: the key fields, then the value."""
        try:
            return iter(list(self.store.scan(self.txid)))
        except StateRecoveringError:
            self.heal()
            return self.store.scan(self.txid)

    def _read(self, keys: pa.Table) -> pa.Array:
        if keys.num_rows <= _ROWS:
            return self.store.read(keys, self.txid).values
        parts = (self.store.read(keys.slice(at, _ROWS), self.txid) for at in range(0, keys.num_rows, _ROWS))
        return pa.concat_arrays([part.values for part in parts])
