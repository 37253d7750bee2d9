"""The bytes of a store's keys, by slot.

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
from trident_state.memory.value_columns import Slots

Heads = npt.NDArray[np.complex128]
"""Complex is the 16-byte type that NumPy copies fast."""
HEAD_BYTES = 16

_INLINE = np.uint64(12)
_LENGTH = np.uint64(0xFFFFFFFF)

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
