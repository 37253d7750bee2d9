"""The entries of a memory store, by slot: the key, and the triple (txid, prev, value)."""

import numpy as np
import pyarrow as pa

from trident_state.keys import hash_keys
from trident_state.memory.key_index import Hashes, KeyIndex
from trident_state.memory.key_storage import HEAD_BYTES, heap_bytes_of
from trident_state.memory.triples import Rows, Triples
from trident_state.memory.value_columns import Column, Slots
from trident_state.state_shape import StateKind

NOTHING = -1
"""The txid of a key that has no slot. (A slot that was assigned and not yet written has txid 0, and nulls.)"""

_FIRST_CAPACITY = 1024
_COPY_ENTRIES = 262_144
"""Entries that are copied at once."""
_TABLE_BYTES = 24
"""Bytes that a key takes in the hash table on average: 8 per entry, and a quarter to a half of the entries are used."""
_OBJECT_BYTES = 64
"""Bytes that a value kept as a Python object takes beside its own."""


class Entries:
    """The entries of one store. One thread writes; a reader of triples needs a lock that the writer holds too."""

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
        """The estimated bytes of the entries, which grow evenly with them and not in the leaps of the arrays."""
        return len(self) * self._slot_bytes + self.index.keys.stored.heap_bytes + self._object_bytes

    def growth(self, encoded: pa.Array, before: Triples, after: Triples) -> int:
        """Return by how much `bytes` grows when the triples of these keys go from `before` to `after`."""
        keys = encoded.filter(pa.array(before.txids == NOTHING))
        return len(keys) * self._slot_bytes + heap_bytes_of(keys) + self._object_growth(before, after)

    def reserve(self, count: int) -> None:
        """Make room for `count` slots; room that is too small is at least doubled."""
        if count > len(self._rows):
            self._rows.reserve(max(count, 2 * len(self._rows)))

    def take(self, slots: Slots | slice) -> Triples:
        """Return the triples of these slots; slot -1 has txid NOTHING and nulls."""
        triples = self._rows.take(slots)  # -1 takes the last row, whichever that is: it is overwritten below
        if not isinstance(slots, slice) and len(absent := (slots < 0).nonzero()[0]):
            triples.txids[absent] = NOTHING
            triples.values.valid[absent] = False
            if triples.prevs is not None:
                triples.prevs.valid[absent] = False
        return triples

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples of these slots."""
        self._rows.put(slots, triples)

    def account(self, before: Triples, after: Triples) -> None:
        """Add to `bytes` what the objects of these triples take more or less now."""
        self._object_bytes += self._object_growth(before, after)

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Return slots for new keys, which come once each; the slots hold nothing yet."""
        self.reserve(len(self) + len(encoded))
        return self.index.insert(encoded, hashes)

    def changed(self, since: int) -> Slots:
        """Return the slots whose triple is of a later txid than `since`."""
        return np.flatnonzero(self._rows.txids(len(self)) > since)

    def live(self, expired: int, removed: int) -> Slots:
        """Return the slots of entries that are neither expired nor removed.

        An entry has expired if its txid is at or before `expired`; it is removed if it holds no value and its txid is
        at or before `removed`.
        """
        txids = self._rows.txids(len(self))
        present = self._rows.has_value(len(self)) | (txids > removed)
        return np.flatnonzero(present & (txids > expired) if expired > 0 else present)

    def copy_of(self, live: Slots) -> "Entries":
        """Return a copy of the entries in these slots; the original stays as it is for its readers."""
        fresh = Entries(self.value.kind, StateKind.OPAQUE if self.versioned else StateKind.NON_TRANSACTIONAL)
        fresh.reserve(len(live))
        for at in range(0, len(live), _COPY_ENTRIES):
            slots = live[at : at + _COPY_ENTRIES]
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
