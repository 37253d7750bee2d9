"""The keys of a memory store: their bytes by slot, and the index from keys to slots.

Keys get slots 0, 1, 2, ... in the order in which they come, and keep them. One thread inserts. Any thread may look up
meanwhile: it sees each key entirely or not yet.

The index is a hash table in NumPy arrays, so that a batch of keys costs a few array passes. A dict would do the same
with a Python object for every key, the GIL held all the while, and a third of the speed.

Each key has a head of 16 bytes, laid out like Arrow's binary view: its length, and up to 12 bytes of it. The head of a
longer key holds its first 4 bytes and its number among the long keys, whose bytes lie in one heap in the order in which
they came. So most keys (a number, a date, a word) are compared with one access to distant memory.
"""

from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident_state.binary import Bytes, Offsets, buffers_of

Slots = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Heads = npt.NDArray[np.complex128]
"""Complex is the 16-byte type that NumPy copies fast."""
HEAD_BYTES = 16

_INLINE = np.uint64(12)
_LENGTH = np.uint64(0xFFFFFFFF)

_FIRST_BITS = 10
_LOAD = 0.5

T = TypeVar("T", bound=np.generic)


class StoredKeys(msgspec.Struct, frozen=True):
    """The keys as a reader sees them; keys that are appended later do not show in it."""

    heads: Heads
    long: pa.LargeBinaryArray
    end: int
    """The offset at which the bytes of the long keys end."""

    @property
    def heap_bytes(self) -> int:
        """The bytes that the keys take beside their heads."""
        return self.end + 8 * len(self.long)

    def equal(self, encoded: pa.Array, heads: Heads, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return whether each of these keys, which have these heads, is the one in its slot."""
        wanted, stored = _words(heads), _words(self.heads.take(slots))
        alike = np.equal(wanted[:, 0], stored[:, 0])
        equal = alike & np.equal(wanted[:, 1], stored[:, 1])
        rows = (alike & _is_long(wanted)).nonzero()[0]
        if len(rows):
            data, offsets = buffers_of(take_rows(encoded, rows))
            same = pc.equal(_large(data, offsets), self.long.take(pa.array(stored[rows, 1])))
            equal[rows] = same.to_numpy(zero_copy_only=False)
        return equal

    def take(self, slots: Slots | slice) -> pa.Array:
        """Return the keys in these slots."""
        heads = self.heads[slots]
        long = _is_long(_words(heads))
        if not long.any():
            return _short(heads)
        longs = self.long.take(pa.array(_words(heads)[long, 1])).cast(pa.binary())
        if long.all():
            return longs
        order = np.where(long, np.cumsum(long) - 1, len(longs) + np.cumsum(~long) - 1)
        return pa.concat_arrays([longs, _short(heads[~long])]).take(pa.array(order))


class KeyHeap:
    """The arrays behind `StoredKeys`, in the order of the slots. One thread appends."""

    def __init__(self) -> None:
        self._heads = np.zeros(1024, np.complex128)
        self._data = np.zeros(0, np.uint8)
        self._offsets = np.zeros(1, np.int64)

    def view(self, count: int, long: int, end: int) -> StoredKeys:
        """Return the first `count` keys, of which `long` are long, with bytes up to `end`."""
        return StoredKeys(self._heads[:count], _large(self._data, self._offsets[: long + 1]), end)

    def append(self, stored: StoredKeys, encoded: pa.Array) -> StoredKeys:
        """Return the stored keys followed by these keys.

        Whatever lies after the stored keys is overwritten: an append that failed left it.
        """
        count, known, end = len(stored.heads), len(stored.long), stored.end
        heads = heads_of(encoded)
        rows = _is_long(_words(heads)).nonzero()[0]
        if len(rows):
            data, offsets = buffers_of(take_rows(encoded, rows))
            self._data = _with_room(self._data, end, len(data))
            self._offsets = _with_room(self._offsets, known + 1, len(rows))
            self._data[end : end + len(data)] = data
            self._offsets[known + 1 : known + 1 + len(rows)] = offsets[1:] + end
            heads = heads.copy()
            _words(heads)[rows, 1] = np.arange(known, known + len(rows))
            known, end = known + len(rows), end + len(data)
        self._heads = _with_room(self._heads, count, len(heads))
        self._heads[count : count + len(heads)] = heads
        return self.view(count + len(heads), known, end)


def heap_bytes_of(encoded: pa.Array) -> int:
    """Return the bytes that these keys take beside their heads."""
    words = _words(heads_of(encoded))
    lengths = words[_is_long(words), 0] & _LENGTH
    return int(lengths.sum()) + 8 * len(lengths)


def heads_of(encoded: pa.Array) -> Heads:
    """Return the heads of these keys; the heads of long keys have no number yet."""
    if not len(encoded):
        return np.zeros(0, np.complex128)
    views = encoded.cast(pa.binary_view())
    return np.frombuffer(views.buffers()[1], np.complex128, len(views), 16 * views.offset)


def _words(heads: Heads) -> npt.NDArray[np.uint64]:
    return heads.view(np.uint64).reshape(-1, 2)


def _is_long(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    return np.asarray(words[:, 0] & _LENGTH > _INLINE)


def _short(heads: Heads) -> pa.Array:
    views = [None, pa.py_buffer(np.ascontiguousarray(heads))]
    return pa.Array.from_buffers(pa.binary_view(), len(heads), views).cast(pa.binary())


def _large(data: Bytes, offsets: Offsets) -> pa.LargeBinaryArray:
    """Return the values that begin and end at these offsets of these bytes; nothing is copied."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def take_rows(encoded: pa.Array, rows: Slots) -> pa.Array:
    """Return the keys of these rows, which are in order; not a copy where these are all."""
    return encoded if len(rows) == len(encoded) else encoded.take(pa.array(rows))


def _with_room(array: npt.NDArray[T], used: int, more: int) -> npt.NDArray[T]:
    """Return the array, or a copy at least twice as large, with room for `more` elements after the `used` ones."""
    if used + more <= len(array):
        return array
    larger = np.zeros(max(2 * len(array), used + more), array.dtype)
    larger[:used] = array[:used]
    return larger


# --- the index ---------------------------------------------------------------------------------------------------


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
        mask = _slot_bits(self.table)
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
            table = _build_table(np.concatenate([used, hashes]), np.concatenate([used & _slot_bits(table), numbers]))
        else:
            entries = hashes & ~_slot_bits(table) | numbers
            _put_entries(table, entries, _first_position(entries, table))
        self._keys = Keys(table, stored)
        return slots


def _slot_bits(table: Hashes) -> np.uint64:
    """Return the mask that takes slot + 1 out of an entry: its low bits."""
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
    entries = np.sort(hashes & ~_slot_bits(table) | numbers)
    order = np.arange(len(entries))
    positions = order + np.maximum.accumulate(_first_position(entries, table) - order)
    inside = positions < len(table)
    table[positions[inside]] = entries[inside]
    _put_entries(table, entries[~inside], np.zeros(np.count_nonzero(~inside), np.int64))
    return table
