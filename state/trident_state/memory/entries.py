"""All entries of a store, by slot: the key, and the triple (txid, prev, value)."""

import numpy as np
import pyarrow as pa

from trident_state.keys import hash_keys
from trident_state.memory.key_index import Hashes, KeyIndex
from trident_state.memory.key_storage import HEAD_BYTES, heap_bytes_of
from trident_state.memory.triples import Rows, Triples
from trident_state.memory.value_columns import Column, Slots
from trident_state.store import StateKind

NOTHING = -1
"""The txid of a key that has no slot. (A slot that was given and not yet written has txid 0, and nulls.)"""

_FIRST_CAPACITY = 1024
_COPIED = 262_144
"""Entries that are copied at once."""
_TABLE_BYTES = 24
"""What a key takes in the table on the average: 8 bytes an entry, between a quarter and a half of them taken."""
_OBJECT_BYTES = 64
"""What a value kept as a Python object takes beside its own bytes."""


class Entries:
    """The entries of one store. One thread writes; who reads what it may be writing brings a lock."""

    def __init__(self, value: pa.DataType, kind: StateKind) -> None:
        self.index = KeyIndex()
        self.value = Column(value)
        self.versioned = kind is not StateKind.NON_TRANSACTIONAL
        """Whether there are previous values."""
        self._rows = Rows(self.value, self.versioned)
        self._object_bytes = 0
        self.reserve(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def bytes(self) -> int:
        """What the entries take, by a reckoning that grows with them evenly (not in the arrays' leaps)."""
        return len(self) * self._slot_bytes + self.index.keys.stored.heap_bytes + self._object_bytes

    def growth(self, encoded: pa.Array, before: Triples, after: Triples) -> int:
        """By how much `bytes` grows when the triples of these keys go from `before` to `after`."""
        keys = encoded.filter(pa.array(before.txids == NOTHING))
        return len(keys) * self._slot_bytes + heap_bytes_of(keys) + self._object_growth(before, after)

    def reserve(self, count: int) -> None:
        """Room for so many slots, at least doubled when there is not enough."""
        if count > len(self._rows):
            self._rows.reserve(max(count, 2 * len(self._rows)))

    def take(self, slots: Slots | slice) -> Triples:
        """The triples of these slots; of slot -1: nothing."""
        triples = self._rows.take(slots)  # -1 takes the last one, whichever that is
        if not isinstance(slots, slice) and len(gone := (slots < 0).nonzero()[0]):
            triples.txids[gone] = NOTHING
            triples.values.valid[gone] = False
            if triples.prevs is not None:
                triples.prevs.valid[gone] = False
        return triples

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples of these slots."""
        self._rows.put(slots, triples)

    def account(self, before: Triples, after: Triples) -> None:
        """Note what the objects of these triples take more or less now."""
        self._object_bytes += self._object_growth(before, after)

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Slots for new keys, each given once; they hold nothing yet."""
        self.reserve(len(self) + len(encoded))
        return self.index.insert(encoded, hashes)

    def changed(self, since: int) -> Slots:
        """The slots whose triple is of a later txid."""
        return np.flatnonzero(self._rows.txids(len(self)) > since)

    def living(self, forgotten: int, removed: int) -> Slots:
        """The slots whose triple is of a later txid than `forgotten`, and holds something or is of a later one than
        `removed`."""
        txids = self._rows.txids(len(self))
        there = self._rows.there(len(self)) | (txids > removed)
        return np.flatnonzero(there & (txids > forgotten) if forgotten > 0 else there)

    def only(self, live: Slots) -> "Entries":
        """A copy of the entries in these slots. These here stay as they are for who reads them."""
        fresh = Entries(self.value.kind, StateKind.OPAQUE if self.versioned else StateKind.NON_TRANSACTIONAL)
        fresh.reserve(len(live))
        for at in range(0, len(live), _COPIED):
            slots = live[at : at + _COPIED]
            keys = self.index.keys.stored.take(slots)
            triples = self.take(slots)
            new = fresh.insert(keys, hash_keys(keys))
            fresh.account(fresh.take(new), triples)
            fresh.put(new, triples)
        return fresh

    @property
    def _slot_bytes(self) -> int:
        objects = 0 if self.value.fixed else _OBJECT_BYTES * (2 if self.versioned else 1)
        return HEAD_BYTES + _TABLE_BYTES + self._rows.width + objects

    def _object_growth(self, before: Triples, after: Triples) -> int:
        return 0 if self.value.fixed else self._object_size(after) - self._object_size(before)

    def _object_size(self, triples: Triples) -> int:
        cells = [triples.values] if triples.prevs is None else [triples.values, triples.prevs]
        return sum(int(self.value.unpack(column).nbytes) for column in cells)
