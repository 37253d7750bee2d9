"""The keys of a memory store: the bytes of the key in each slot, and the index from keys to slots.

Keys get slots 0, 1, 2, ... in the order in which they come, and keep them. One thread inserts keys. Any thread may look
up keys meanwhile: it finds a key that is being inserted either entirely or not at all.

The index is a hash table in NumPy arrays, so that a few passes over arrays serve a whole batch of keys. A dict would
need a Python object for every key, hold the GIL all the time, and be three times slower.

Each key has a head of 16 bytes, laid out like Arrow's binary view: the key's length (4 bytes), then the key itself if
it has at most 12 bytes. The head of a longer key holds the length, the key's first 4 bytes and the key's number (8
bytes) among the long keys. The bytes of long keys are stored one after the other in one heap, in the order in which the
keys came. So most keys (a number, a date, a word) are compared with a single access to uncached memory.
"""

from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident_state.binary_arrays import Bytes, Offsets, buffers_of

Slots = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Heads = npt.NDArray[np.complex128]
"""The heads of keys. Complex is the 16-byte type that NumPy copies fast."""
HEAD_BYTES = 16

_INLINE_BYTES = 12
_INLINE = np.uint64(_INLINE_BYTES)
_LENGTH = np.uint64(0xFFFFFFFF)

_FIRST_BITS = 10
_LOAD = 0.5

T = TypeVar("T", bound=np.generic)


class StoredKeys(msgspec.Struct, frozen=True):
    """The keys of a store at one moment: their heads by slot, and the bytes of the long keys."""

    heads: Heads
    long: pa.LargeBinaryArray
    end: int
    """The offset at which the bytes of the long keys end."""

    @property
    def heap_bytes(self) -> int:
        """The number of bytes of the long keys, in addition to their heads."""
        return self.end + 8 * len(self.long)

    def equal(self, encoded: pa.Array, heads: Heads, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return for each key, given with its head, whether it equals the key in the slot given for it."""
        wanted, stored = _words(heads), _words(self.heads.take(slots))
        alike = np.equal(wanted[:, 0], stored[:, 0])
        equal = alike & np.equal(wanted[:, 1], stored[:, 1])
        rows = (alike & _is_long(wanted)).nonzero()[0]
        if len(rows):
            data, offsets = buffers_of(take_rows(encoded, rows))
            same = pc.equal(_large(data, offsets), self.long.take(pa.array(stored[rows, 1])))
            equal[rows] = same.to_numpy(zero_copy_only=False)
        return equal

    def has(self, slot: int, encoded: bytes, head: bytes) -> bool:
        """Return whether the key in the given slot is `encoded`, which has the head `head_of(encoded)`."""
        stored = self.heads[slot : slot + 1].tobytes()
        if len(encoded) <= _INLINE_BYTES:
            return stored == head
        return stored[:8] == head and self.long[int.from_bytes(stored[8:], "little")].as_py() == encoded

    def take(self, slots: Slots | slice) -> pa.Array:
        """Return the keys in the given slots, in the order of `slots`."""
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
    """The growing arrays of heads and bytes. Each `StoredKeys` shows a part of them. Only one thread appends."""

    def __init__(self) -> None:
        self._heads = np.zeros(1024, np.complex128)
        self._data = np.zeros(0, np.uint8)
        self._offsets = np.zeros(1, np.int64)

    def view(self, count: int, long: int, end: int) -> StoredKeys:
        """Return the first `count` keys, of which `long` are long, with heap bytes up to offset `end`."""
        return StoredKeys(self._heads[:count], _large(self._data, self._offsets[: long + 1]), end)

    def append(self, stored: StoredKeys, encoded: pa.Array) -> StoredKeys:
        """Append the `encoded` keys to the `stored` keys, and return all of them.

        Anything after the `stored` keys is overwritten, because only a failed append can have left it there.
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
    """Return the number of heap bytes for the given keys, in addition to their heads."""
    words = _words(heads_of(encoded))
    lengths = words[_is_long(words), 0] & _LENGTH
    return int(lengths.sum()) + 8 * len(lengths)


def heads_of(encoded: pa.Array) -> Heads:
    """Return the heads of the given keys, without the numbers of long keys."""
    if not len(encoded):
        return np.zeros(0, np.complex128)
    views = encoded.cast(pa.binary_view())
    return np.frombuffer(views.buffers()[1], np.complex128, len(views), 16 * views.offset)


def head_of(encoded: bytes) -> bytes:
    """Return the head of one key, without the number of a long key."""
    length = len(encoded).to_bytes(4, "little")
    return length + (encoded.ljust(_INLINE_BYTES, b"\0") if len(encoded) <= _INLINE_BYTES else encoded[:4])


def _words(heads: Heads) -> npt.NDArray[np.uint64]:
    return heads.view(np.uint64).reshape(-1, 2)


def _is_long(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    return np.asarray(words[:, 0] & _LENGTH > _INLINE)


def _short(heads: Heads) -> pa.Array:
    views = [None, pa.py_buffer(np.ascontiguousarray(heads))]
    return pa.Array.from_buffers(pa.binary_view(), len(heads), views).cast(pa.binary())


def _large(data: Bytes, offsets: Offsets) -> pa.LargeBinaryArray:
    """Return a large binary array of `data` cut at the `offsets`, without a copy."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def take_rows(encoded: pa.Array, rows: Slots) -> pa.Array:
    """Return the keys of the given rows, which must ascend; `encoded` itself if they are all of its rows."""
    return encoded if len(rows) == len(encoded) else encoded.take(pa.array(rows))


def _with_room(array: npt.NDArray[T], used: int, more: int) -> npt.NDArray[T]:
    """Return `array` if it has room for `more` elements after the first `used`.

    Otherwise a copy at least twice as large.
    """
    if used + more <= len(array):
        return array
    larger = np.zeros(max(2 * len(array), used + more), array.dtype)
    larger[:used] = array[:used]
    return larger


# --- the index ---------------------------------------------------------------------------------------------------


class Keys(msgspec.Struct, frozen=True):
    """The index of a store's keys at one moment: the hash table, and the first `count` keys.

    A table of 2**b positions has an entry of 64 bits at each: 0 if the position is free, otherwise the leading 64 - b
    bits of a key's hash and, below them in b bits, the key's slot + 1. The entry of a key is at the position that the
    leading b bits of the hash name, or at the next free position. The thread that inserts keys writes into the same
    table, so a reader skips entries with a slot of `count` or above, which were added later.
    """

    table: Hashes
    stored: StoredKeys

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.stored.heads)

    def find(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Return the slot of each key; -1 for a key without a slot."""
        # until the bytes of the two keys have been compared, `slots` holds the slot of a key that may be the same
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

    def find_one(self, encoded: bytes, hashed: int) -> int:
        """Return the slot of one key; -1 if it has none. For a few keys, this is faster than `find`."""
        mask, count, head = len(self.table) - 1, self.count, head_of(encoded)
        position = hashed >> (64 - mask.bit_length())
        while (slot := ((entry := self.table.item(position)) & mask) - 1) >= 0:
            # the entry and the hash are equal in all bits above the mask; a slot of `count` or above was added later
            if entry ^ hashed <= mask and slot < count and self.stored.has(slot, encoded, head):
                return slot
            position = (position + 1) & mask
        return -1

    def _find_candidates(self, hashes: Hashes, rows: Slots, positions: Slots, candidates: Slots) -> None:
        """Advance each row's position to the next entry that may be its key; put that entry's slot into `candidates`.

        If the search for a row ends at a free position, its entry in `candidates` does not change.
        """
        mask = _slot_bits(self.table)
        while len(rows):
            entries = self.table.take(positions[rows])
            slots = (entries & mask).astype(np.int64) - 1
            alike = entries ^ hashes[rows] <= mask  # the entry and the hash are equal in all bits above the mask
            hit = alike & (slots >= 0) & (slots < self.count)
            candidates[rows[hit]] = slots[hit]
            rows = rows[~hit & (slots >= 0)]
            positions[rows] = _next_position(positions[rows], self.table)


class KeyIndex:
    """The index of a memory store's keys, to which keys can be added."""

    def __init__(self) -> None:
        self._heap = KeyHeap()
        self._keys = Keys(np.zeros(2**_FIRST_BITS, np.uint64), self._heap.view(0, 0, 0))

    def __len__(self) -> int:
        return self._keys.count

    @property
    def keys(self) -> Keys:
        """The keys at present. Keys that are inserted later are not part of the result."""
        return self._keys

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Assign slots to keys that have none yet, and return the slots. No key may occur twice.

        After a failed insert, the next insert may have the same keys or others. The table entries that the failed
        insert left behind name slots that hold no key, or another key by now. A look-up rejects such an entry because
        the bytes of the keys differ, as it rejects any key with a similar hash.
        """
        slots = np.arange(len(self), len(self) + len(encoded), dtype=np.int64)
        if not len(slots):
            return slots
        stored = self._heap.append(self._keys.stored, encoded)
        table, numbers = self._keys.table, (slots + 1).astype(np.uint64)
        if len(stored.heads) > _LOAD * len(table):
            used = table[table != 0]  # an entry keeps enough leading bits of its hash for a larger table
            table = _build_table(np.concatenate([used, hashes]), np.concatenate([used & _slot_bits(table), numbers]))
        else:
            entries = hashes & ~_slot_bits(table) | numbers
            _put_entries(table, entries, _first_position(entries, table))
        self._keys = Keys(table, stored)
        return slots


def _slot_bits(table: Hashes) -> np.uint64:
    """Return the mask of the low bits of an entry, which hold slot + 1."""
    return np.uint64(len(table) - 1)


def _first_position(hashes: Hashes, table: Hashes) -> Slots:
    """Return the position at which a search begins for each hash. Table entries may be given as hashes."""
    return (hashes >> np.uint64(65 - len(table).bit_length())).astype(np.int64)


def _next_position(positions: Slots, table: Hashes) -> Slots:
    return (positions + 1) & (len(table) - 1)


def _put_entries(table: Hashes, entries: Hashes, positions: Slots) -> None:
    """Write each entry at the first free position from its position in `positions` on.

    If several entries want the same free position, one of them gets it and the others continue.
    """
    while len(entries):
        free = table[positions] == 0
        table[positions[free]] = entries[free]
        left = table[positions] != entries
        entries, positions = entries[left], _next_position(positions[left], table)


def _build_table(hashes: Hashes, numbers: Hashes) -> Hashes:
    """Return a new table, with spare room, for keys given by the leading bits of their hashes and by slot + 1.

    One pass over the sorted entries lays out the table: each entry is at the position at which the search for it
    begins, or right after the previous entry.
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
