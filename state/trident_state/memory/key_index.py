"""Which slot a key has: a hash table in NumPy arrays, so that a batch of keys costs a few array passes.

A dict would do the same with a Python object for every key, the GIL held all the while, and a third of the speed.
Keys get slots 0, 1, 2, ... in the order of their coming and keep them.
One thread inserts. Any thread may look up in the meantime: it sees each key entirely or not yet.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident_state.memory.key_storage import KeyHeap, StoredKeys, heads_of, picked
from trident_state.memory.value_columns import Slots

Hashes = npt.NDArray[np.uint64]

_FIRST_BITS = 10
_LOAD = 0.5


class Keys(msgspec.Struct, frozen=True):
    """What a reader holds on to: the table, and the first `count` keys.

    A table of 2**b places has entries of 64 bits: 0, or the leading 64 - b bits of the key's hash and, below them, its
    slot + 1. An entry lies at the place that the hash's leading b bits name, or in the next free one. The table is
    shared with the inserting thread; slots of `count` and above are its business and not seen here.
    """

    table: Hashes
    stored: StoredKeys

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self.stored.heads)

    def find(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """The slot of each key, -1 where it has none."""
        # a slot in `found` is that of a candidate, until its bytes have been compared
        found = np.full(len(encoded), -1, np.int64)
        if not self.count:
            return found
        heads, rows, places = heads_of(encoded), np.arange(len(encoded)), _home(hashes, self.table)
        while len(rows):
            self._candidates(hashes, rows, places, found)
            rows = rows[found[rows] >= 0]
            rows = rows[~self.stored.same(picked(encoded, rows), heads[rows], found[rows])]
            found[rows], places[rows] = -1, _next(places[rows], self.table)
        return found

    def _candidates(self, hashes: Hashes, rows: Slots, places: Slots, found: Slots) -> None:
        """Moves the place of each of these rows on to the next entry that may be its key's, and notes the slot there;
        rows that meet a gap have none."""
        number = _number(self.table)
        while len(rows):
            entries = self.table.take(places[rows])
            slots = (entries & number).astype(np.int64) - 1
            alike = entries ^ hashes[rows] <= number  # equal in all bits above those
            hit = alike & (slots >= 0) & (slots < self.count)
            found[rows[hit]] = slots[hit]
            rows = rows[~hit & (slots >= 0)]
            places[rows] = _next(places[rows], self.table)


class KeyIndex:
    """The keys of a store and their slots."""

    def __init__(self) -> None:
        self._heap = KeyHeap()
        self._keys = Keys(np.zeros(2**_FIRST_BITS, np.uint64), self._heap.view(0, 0, 0))

    def __len__(self) -> int:
        return self._keys.count

    @property
    def keys(self) -> Keys:
        """The keys as they stand; later ones do not show in it."""
        return self._keys

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Slots for keys that have none yet, each given once.

        One that failed may be repeated, with other keys too: what it left in the table has slots of keys that are not
        there, or of others by now, as any two keys with like hashes have.
        """
        slots = np.arange(len(self), len(self) + len(encoded), dtype=np.int64)
        if not len(slots):
            return slots
        stored = self._heap.append(self._keys.stored, encoded)
        table, numbers = self._keys.table, (slots + 1).astype(np.uint64)
        if len(stored.heads) > _LOAD * len(table):
            there = table[table != 0]  # their leading bits are enough for a larger table
            table = _built(np.concatenate([there, hashes]), np.concatenate([there & _number(table), numbers]))
        else:
            entries = hashes & ~_number(table) | numbers
            _place(table, entries, _home(entries, table))
        self._keys = Keys(table, stored)
        return slots


def _number(table: Hashes) -> np.uint64:
    """The bits of an entry that are its slot + 1."""
    return np.uint64(len(table) - 1)


def _home(hashes: Hashes, table: Hashes) -> Slots:
    """Where the entries of these hashes (or entries) lie if they can."""
    return (hashes >> np.uint64(65 - len(table).bit_length())).astype(np.int64)


def _next(places: Slots, table: Hashes) -> Slots:
    return (places + 1) & (len(table) - 1)


def _place(table: Hashes, entries: Hashes, places: Slots) -> None:
    """Write each entry into the first free place from its own one on; where several want it, one gets it."""
    while len(entries):
        free = table[places] == 0
        table[places[free]] = entries[free]
        left = table[places] != entries
        entries, places = entries[left], _next(places[left], table)


def _built(hashes: Hashes, numbers: Hashes) -> Hashes:
    """A new table with room, from the leading bits of hashes. Laid out in one pass over the sorted entries: each lies
    at its home, or right after the one before."""
    bits = _FIRST_BITS
    while len(hashes) > _LOAD * 2**bits:
        bits += 1
    table = np.zeros(2**bits, np.uint64)
    entries = np.sort(hashes & ~_number(table) | numbers)
    order = np.arange(len(entries))
    places = order + np.maximum.accumulate(_home(entries, table) - order)
    inside = places < len(table)
    table[places[inside]] = entries[inside]
    _place(table, entries[~inside], np.zeros(np.count_nonzero(~inside), np.int64))
    return table
