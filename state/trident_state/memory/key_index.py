"""The index from keys to slots: a hash table in NumPy arrays, so that a batch of keys costs a few array passes.

A dict would do the same with a Python object for every key, the GIL held all the while, and a third of the speed.
Keys get slots 0, 1, 2, ... in the order in which they come, and keep them.
One thread inserts. Any thread may look up meanwhile: it sees each key entirely or not yet.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident_state.memory.key_storage import KeyHeap, StoredKeys, heads_of, take_rows
from trident_state.memory.value_columns import Slots

Hashes = npt.NDArray[np.uint64]

_FIRST_BITS = 10
_LOAD = 0.5


class Keys(msgspec.Struct, frozen=True):
    """The keys as a reader sees them: the table, and the first `count` keys.

    A table of 2**b positions has entries of 64 bits: 0, or the leading 64 - b bits of the key's hash and, below them,
    its slot + 1. An entry lies at the position that the hash's leading b bits name, or at the next free one. The
    inserting thread shares the table: entries with a slot of `count` or above are its own, and are skipped here.
    """

    table: Hashes
    stored: StoredKeys

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.stored.heads)

    def find(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Return the slot of each key, -1 where it has none."""
        # a slot is that of a candidate until the bytes of the two keys have been compared
        slots = np.full(len(encoded), -1, np.int64)
        if not self.count:
            return slots
        heads, rows, positions = heads_of(encoded), np.arange(len(encoded)), _first_position(hashes, self.table)
        while len(rows):
            self._find_candidates(hashes, rows, positions, slots)
            rows = rows[slots[rows] >= 0]
            rows = rows[~self.stored.equal(take_rows(encoded, rows), heads[rows], slots[rows])]
            slots[rows], positions[rows] = -1, _next_position(positions[rows], self.table)
        return slots

    def _find_candidates(self, hashes: Hashes, rows: Slots, positions: Slots, candidates: Slots) -> None:
        """Move each of these rows on to the next entry that may be its key's, and write down the slot there.

        A row whose search ends at a gap has no candidate.
        """
        mask = _slot_mask(self.table)
        while len(rows):
            entries = self.table.take(positions[rows])
            slots = (entries & mask).astype(np.int64) - 1
            alike = entries ^ hashes[rows] <= mask  # equal in all bits above the mask
            hit = alike & (slots >= 0) & (slots < self.count)
            candidates[rows[hit]] = slots[hit]
            rows = rows[~hit & (slots >= 0)]
            positions[rows] = _next_position(positions[rows], self.table)


class KeyIndex:
    """The keys of a store and their slots."""

    def __init__(self) -> None:
        self._heap = KeyHeap()
        self._keys = Keys(np.zeros(2**_FIRST_BITS, np.uint64), self._heap.view(0, 0, 0))

    def __len__(self) -> int:
        return self._keys.count

    @property
    def keys(self) -> Keys:
        """The keys as they are now; keys that are inserted later do not show in it."""
        return self._keys

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Return slots for keys that have none yet; each key comes once.

        An insert that failed may be repeated, with other keys too. The entries that it left in the table name slots
        without a key, or with another one by now; a look-up rejects them as it does any two keys with like hashes.
        """
        slots = np.arange(len(self), len(self) + len(encoded), dtype=np.int64)
        if not len(slots):
            return slots
        stored = self._heap.append(self._keys.stored, encoded)
        table, numbers = self._keys.table, (slots + 1).astype(np.uint64)
        if len(stored.heads) > _LOAD * len(table):
            used = table[table != 0]  # their leading bits are enough for a larger table
            table = _build_table(np.concatenate([used, hashes]), np.concatenate([used & _slot_mask(table), numbers]))
        else:
            entries = hashes & ~_slot_mask(table) | numbers
            _put_entries(table, entries, _first_position(entries, table))
        self._keys = Keys(table, stored)
        return slots


def _slot_mask(table: Hashes) -> np.uint64:
    """Return the mask of the bits of an entry that are its slot + 1."""
    return np.uint64(len(table) - 1)


def _first_position(hashes: Hashes, table: Hashes) -> Slots:
    """Return the position at which the search for each of these hashes (or entries) begins."""
    return (hashes >> np.uint64(65 - len(table).bit_length())).astype(np.int64)


def _next_position(positions: Slots, table: Hashes) -> Slots:
    return (positions + 1) & (len(table) - 1)


def _put_entries(table: Hashes, entries: Hashes, positions: Slots) -> None:
    """Write each entry at the first free position from its own on; where several want one position, one gets it."""
    while len(entries):
        free = table[positions] == 0
        table[positions[free]] = entries[free]
        left = table[positions] != entries
        entries, positions = entries[left], _next_position(positions[left], table)


def _build_table(hashes: Hashes, numbers: Hashes) -> Hashes:
    """Return a new table with room, from the leading bits of hashes and from slots + 1.

    One pass over the sorted entries lays it out: each lies at its first position, or right after the entry before.
    """
    bits = _FIRST_BITS
    while len(hashes) > _LOAD * 2**bits:
        bits += 1
    table = np.zeros(2**bits, np.uint64)
    entries = np.sort(hashes & ~_slot_mask(table) | numbers)
    order = np.arange(len(entries))
    positions = order + np.maximum.accumulate(_first_position(entries, table) - order)
    inside = positions < len(table)
    table[positions[inside]] = entries[inside]
    _put_entries(table, entries[~inside], np.zeros(np.count_nonzero(~inside), np.int64))
    return table
