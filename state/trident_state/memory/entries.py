"""The entries of a memory store, by slot: the key, and the triple (txid, prev, value).

The triples lie in NumPy rows, one for each slot. The keys of a batch lie anywhere in a large state, and whatever is not
in the processor's cache is fetched line by line. A row takes one line or two; columns for txid, value, prev and their
validity would take five.

Values of fixed width (numbers, dates, timestamps, decimals) keep their bits. All others are kept as Python objects that
Arrow made and no other code holds: they become an Arrow array again before a caller gets them.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from trident_state.binary import one_chunk, valid_rows
from trident_state.keys import hash_keys
from trident_state.memory.key_index import HEAD_BYTES, Hashes, KeyIndex, Slots, heap_bytes_of
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

_Txids = npt.NDArray[np.int64]
_Bits = npt.NDArray[Any]

_UINTS: dict[int, np.dtype[Any]] = {
    8: np.dtype("u1"),
    16: np.dtype("u2"),
    32: np.dtype("u4"),
    64: np.dtype("u8"),
    128: np.dtype("c16"),
}
"""The types that bits are copied as; nothing computes with them. Complex is the 16-byte type that NumPy copies fast."""


class Cells(msgspec.Struct, frozen=True):
    """Values of a store's rows, and which of them are not null."""

    data: _Bits
    valid: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: slice | Slots | npt.NDArray[np.bool_]) -> "Cells":
        return Cells(self.data[rows], self.valid[rows])


class Column:
    """The form in which values of one type are kept."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.dtype = _dtype(kind)
        self._boolean = kinds.is_boolean(kind)
        self.fixed = self.dtype != np.object_
        """Whether every value takes the same number of bytes."""

    def pack(self, array: pa.Array) -> Cells:
        """Return an Arrow array of this type as cells."""
        valid = valid_rows(array)
        if not self.fixed:
            return Cells(np.fromiter(array.to_pylist(), np.object_, len(array)), valid)
        if self._boolean:
            array = array.cast(pa.uint8())
        if len(array) == 0:
            return Cells(np.zeros(0, self.dtype), valid)
        width = self.dtype.itemsize
        return Cells(np.frombuffer(array.buffers()[1], self.dtype, len(array), array.offset * width), valid)

    def unpack(self, cells: Cells) -> pa.Array:
        """Return cells as an Arrow array of this type."""
        if not self.fixed:
            return one_chunk(pa.array(cells.data, self.kind, mask=~cells.valid, from_pandas=False))
        count = len(cells)
        whole = np.count_nonzero(cells.valid) == count
        mask = None if whole else pa.py_buffer(np.packbits(cells.valid, bitorder="little"))
        data = pa.py_buffer(np.ascontiguousarray(cells.data))
        if self._boolean:
            return pa.Array.from_buffers(pa.uint8(), count, [mask, data]).cast(self.kind)
        return pa.Array.from_buffers(self.kind, count, [mask, data])


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    if kinds.is_boolean(kind):
        return np.dtype("u1")
    if kinds.is_primitive(kind) or kinds.is_decimal128(kind):
        return _UINTS[kind.bit_width]
    return np.dtype("O")


class Triples(msgspec.Struct, frozen=True):
    """The triples of some slots, copied. `prevs` is None in a non-transactional state."""

    txids: _Txids
    values: Cells
    prevs: Cells | None

    def __len__(self) -> int:
        return len(self.txids)

    def __getitem__(self, rows: slice | Slots) -> "Triples":
        return Triples(self.txids[rows], self.values[rows], None if self.prevs is None else self.prevs[rows])


class Rows:
    """Triples by slot; txid 0 and nulls where none was put."""

    def __init__(self, column: Column, versioned: bool) -> None:
        fields: list[tuple[str, npt.DTypeLike]] = [("txid", np.int64), ("value", column.dtype)]
        flags: list[tuple[str, npt.DTypeLike]] = [("value there", np.bool_)]
        if versioned:
            fields.append(("prev", column.dtype))
            flags.append(("prev there", np.bool_))
        self._versioned = versioned
        self._rows = np.zeros(0, np.dtype(fields + flags, align=True))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        """The bytes of a slot, objects not included."""
        return self._rows.itemsize

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots; the old rows stay as they are for their readers."""
        larger = np.zeros(capacity, self._rows.dtype)
        larger[: len(self)] = self._rows
        self._rows = larger

    def txids(self, count: int) -> _Txids:
        """Return the txids of the first `count` slots; not a copy."""
        return self._rows["txid"][:count]

    def has_value(self, count: int) -> npt.NDArray[np.bool_]:
        """Return which of the first `count` slots hold a value; not a copy."""
        return self._rows["value there"][:count]

    def take(self, slots: Slots | slice) -> Triples:
        """Return a copy of these slots' triples."""
        rows = self._rows[slots].copy() if isinstance(slots, slice) else self._rows.take(slots)
        prevs = Cells(rows["prev"], rows["prev there"]) if self._versioned else None
        return Triples(rows["txid"], Cells(rows["value"], rows["value there"]), prevs)

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples of these slots, each as a whole."""
        rows = np.empty(len(slots), self._rows.dtype)
        rows["txid"] = triples.txids
        rows["value"], rows["value there"] = triples.values.data, triples.values.valid
        if triples.prevs is not None:
            rows["prev"], rows["prev there"] = triples.prevs.data, triples.prevs.valid
        _as_bytes(self._rows)[slots] = _as_bytes(rows)


def _as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the rows as bytes, which NumPy copies faster than fields; unchanged where they hold object references."""
    return rows if rows.dtype.hasobject else rows.view(f"V{rows.itemsize}")


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
