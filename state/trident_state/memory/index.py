"""Which slot a key has: a hash table in NumPy arrays, so that a batch of keys costs a few array passes.

A dict would do the same with a Python object for every key, the GIL held all the while, and a third of the speed.
Keys get slots 0, 1, 2, ... in the order of their coming and keep them; their bytes lie in one heap in that order.
One thread inserts. Any thread may look up in the meantime: it sees each key entirely or not yet.
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

_HALF = np.uint64(32)
_SLOT = np.uint64(0xFFFFFFFF)
_FIRST_BITS = 10
_LOAD = 0.5

T = TypeVar("T", bound=np.generic)


class Keys(msgspec.Struct, frozen=True):
    """What a reader holds on to: the table, and the bytes of the first `count` keys.

    A table's entry is 0, or the upper half of the key's hash and, in the lower half, its slot + 1. It lies at the
    place that the hash's leading bits name, or in the next free one. The table is shared with the inserting thread;
    slots of `count` and above are its business and not seen here.
    """

    table: Hashes
    stored: pa.LargeBinaryArray
    count: int

    def find(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """The slot of each key, -1 where it has none."""
        found = np.full(len(encoded), -1, np.int64)
        if not self.count:
            return found
        tags = hashes >> _HALF
        rows = np.arange(len(encoded))
        places = _home(tags, self.table)
        while len(rows):
            rows, places, slots = self._candidates(rows, places, tags)
            if not len(rows):
                break
            same = self._same(encoded, rows, slots)
            found[rows[same]] = slots[same]
            others = (~same).nonzero()[0]
            if not len(others):
                break
            rows, places = rows[others], _next(places[others], self.table)
        return found

    def _candidates(self, rows: Slots, places: Slots, tags: Hashes) -> tuple[Slots, Slots, Slots]:
        """Each row's next entry that carries its tag, as (rows, places, slots); rows that meet a gap are left out."""
        candidates = []
        while len(rows):
            entries = self.table[places]
            slots = (entries & _SLOT).astype(np.int64) - 1
            hit = (entries >> _HALF == tags[rows]) & (slots >= 0) & (slots < self.count)
            candidates.append((rows[hit], places[hit], slots[hit]))
            on = (~hit & (slots >= 0)).nonzero()[0]
            if not len(on):
                break
            rows, places = rows[on], _next(places[on], self.table)
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            return rows, places, rows
        return tuple(np.concatenate(parts) for parts in zip(*candidates, strict=True))  # type: ignore[return-value]

    def _same(self, encoded: pa.Array, rows: Slots, slots: Slots) -> npt.NDArray[np.bool_]:
        """Whether the bytes are equal too."""
        every = np.array_equal(rows, np.arange(len(encoded)))
        asked = encoded if every else encoded.take(pa.array(rows))
        data, offsets = buffers_of(asked)
        equal = pc.equal(_large(data, offsets), self.stored.take(pa.array(slots)))
        return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)


class KeyIndex:
    """The keys of a store and their slots."""

    def __init__(self) -> None:
        self._offsets = np.zeros(1024, np.int64)
        self._heap = np.zeros(16 * 1024, np.uint8)
        self._keys = self._view(np.zeros(2**_FIRST_BITS, np.uint64), 0)

    def __len__(self) -> int:
        return self._keys.count

    @property
    def keys(self) -> Keys:
        """The keys as they stand; later ones do not show in it."""
        return self._keys

    @property
    def heap_bytes(self) -> int:
        """The bytes of all keys together."""
        return int(self._offsets[len(self)])

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Slots for keys that have none yet, each given once."""
        count = len(self)
        slots = np.arange(count, count + len(encoded), dtype=np.int64)
        if not len(slots):
            return slots
        self._append(encoded)
        entries = (hashes >> _HALF) << _HALF | (slots + 1).astype(np.uint64)
        table = self._keys.table
        if count + len(slots) > _LOAD * len(table):
            table = _built(np.concatenate([table[table != 0], entries]))
        else:
            _place(table, entries, _home(entries >> _HALF, table))
        self._keys = self._view(table, count + len(slots))
        return slots

    def _append(self, encoded: pa.Array) -> None:
        data, offsets = buffers_of(encoded)
        count, end = len(self), self.heap_bytes
        self._heap = _roomier(self._heap, end, len(data))
        self._offsets = _roomier(self._offsets, count + 1, len(encoded))
        self._heap[end : end + len(data)] = data
        self._offsets[count + 1 : count + 1 + len(encoded)] = offsets[1:] + end

    def _view(self, table: Hashes, count: int) -> Keys:
        return Keys(table, _large(self._heap, self._offsets[: count + 1]), count)


def _large(data: Bytes, offsets: Offsets) -> pa.LargeBinaryArray:
    """The values that are cut out of these bytes at these offsets; nothing is copied."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _home(tags: Hashes, table: Hashes) -> Slots:
    bits = len(table).bit_length() - 1
    return (tags >> np.uint64(32 - bits)).astype(np.int64)


def _next(places: Slots, table: Hashes) -> Slots:
    return (places + 1) & (len(table) - 1)


def _place(table: Hashes, entries: Hashes, places: Slots) -> None:
    """Write each entry into the first free place from its own one on; where several want it, one gets it."""
    while len(entries):
        free = table[places] == 0
        table[places[free]] = entries[free]
        left = table[places] != entries
        entries, places = entries[left], _next(places[left], table)


def _built(entries: Hashes) -> Hashes:
    """A new table of at most half the load. Laid out in one pass over the sorted entries: each lies at its home, or
    right after the one before."""
    bits = _FIRST_BITS
    while len(entries) > _LOAD / 2 * 2**bits:
        bits += 1
    table = np.zeros(2**bits, np.uint64)
    entries = np.sort(entries)
    order = np.arange(len(entries))
    places = order + np.maximum.accumulate(_home(entries >> _HALF, table) - order)
    inside = places < len(table)
    table[places[inside]] = entries[inside]
    _place(table, entries[~inside], np.zeros(np.count_nonzero(~inside), np.int64))
    return table


def _roomier(array: npt.NDArray[T], used: int, more: int) -> npt.NDArray[T]:
    """The array, or a copy at least twice as large, with room for `more` after the `used` ones."""
    if used + more <= len(array):
        return array
    larger = np.zeros(max(2 * len(array), used + more), array.dtype)
    larger[:used] = array[:used]
    return larger
