"""The entries of a memory store, by slot (the number of a key): the key, and the triple (txid, prev, value).

The triples are kept in NumPy rows, one row per slot. The keys of a batch are scattered over a large state, and the
processor fetches memory that is not in its cache line by line. A row takes one or two cache lines; separate columns for
txid, value, prev and the two flags would take five.

Values of fixed width (numbers, dates, timestamps, decimals) are kept as their bits. All others are kept as Python
objects: texts as Arrow made them, structs and lists as bytes (`packed_values`). No other code holds these objects: a
caller gets values as an Arrow array.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.value_conversion import to_python
from trident_state.binary_arrays import one_chunk, spread_rows, valid_rows
from trident_state.keys import hash_keys
from trident_state.memory.key_index import HEAD_BYTES, Hashes, KeyIndex, Slots, heap_bytes_of
from trident_state.memory.key_order_index import KeyOrderIndex
from trident_state.memory.packed_values import can_pack, packed, unpacked
from trident_state.state_shape import StateKind

NOTHING = -1
"""The txid in the triple of a key that has no slot. (A new slot has txid 0 and nulls.)"""

_FIRST_CAPACITY = 1024
_COPY_ENTRIES = 262_144
"""The number of entries that `Entries.copy_of` copies at once."""
_TABLE_BYTES = 24
"""The average bytes of the hash table for each key: a table entry has 8, and a quarter to a half of the entries are
used."""
_OBJECT_BYTES = 64
"""The bytes of a Python object in addition to the bytes of its value."""

_Txids = npt.NDArray[np.int64]
_Bits = npt.NDArray[Any]

_UINTS: dict[int, np.dtype[Any]] = {
    8: np.dtype("u1"),
    16: np.dtype("u2"),
    32: np.dtype("u4"),
    64: np.dtype("u8"),
    128: np.dtype("c16"),
}
"""For each width in bits, the NumPy type as which values are copied.

Nothing is computed in it. NumPy copies complex numbers fast.
"""


class Cells(msgspec.Struct, frozen=True):
    """The values of some slots as bits or Python objects (`data`), and for each whether it is not null (`valid`)."""

    data: _Bits
    valid: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: slice | Slots | npt.NDArray[np.bool_]) -> "Cells":
        return Cells(self.data[rows], self.valid[rows])


class Column:
    """The conversion of values of one Arrow type to the form in which a memory store holds them, and back.

    A struct is kept as a NumPy struct of its fields, each with a flag that says whether the field is not null.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._fields = _columns_of(kind)
        self.dtype = _dtype(kind) if self._fields is None else _struct_dtype(self._fields)
        self._boolean = kinds.is_boolean(kind)
        self._number = np.dtype(kind.to_pandas_dtype()) if _is_number(kind) else None
        """The NumPy type of the values if they are numbers; their bits are kept as unsigned integers."""
        self.fixed = not self.dtype.hasobject
        """True if all values have the same number of bytes."""
        self._packed = not self.fixed and kinds.is_nested(kind) and can_pack(kind)

    def pack(self, array: pa.Array) -> Cells:
        """Return an Arrow array of the column's type in the form of cells."""
        valid = valid_rows(array)
        if self._fields is not None:
            return Cells(self._pack_struct(array, self._fields), valid)
        if self._packed:
            array = packed(array)
            array = array if valid.all() else pc.if_else(pa.array(valid), array, None)
        if self.dtype == np.object_:
            return Cells(np.fromiter(array.to_pylist(), np.object_, len(array)), valid)
        if self._boolean:
            array = array.cast(pa.uint8())
        if len(array) == 0:
            return Cells(np.zeros(0, self.dtype), valid)
        width = self.dtype.itemsize
        return Cells(np.frombuffer(array.buffers()[1], self.dtype, len(array), array.offset * width), valid)

    def unpack(self, cells: Cells) -> pa.Array:
        """Return cells as an Arrow array of the column's type."""
        if self._fields is not None:
            return self._unpack_struct(cells, self._fields)
        if self._packed:
            return spread_rows(cells.valid, unpacked(self._objects(cells[cells.valid]), self.kind))
        if self.dtype == np.object_:
            return self._objects(cells)
        count = len(cells)
        whole = np.count_nonzero(cells.valid) == count
        mask = None if whole else pa.py_buffer(np.packbits(cells.valid, bitorder="little"))
        data = pa.py_buffer(np.ascontiguousarray(cells.data))
        if self._boolean:
            return pa.Array.from_buffers(pa.uint8(), count, [mask, data]).cast(self.kind)
        return pa.Array.from_buffers(self.kind, count, [mask, data])

    def object_bytes(self, cells: Cells) -> int:
        """Return the bytes of the Python objects of cells."""
        if self._packed:
            return sum(map(len, cells.data[cells.valid].tolist()))
        return int(self._objects(cells).nbytes)

    def _objects(self, cells: Cells) -> pa.Array:
        kind = pa.binary() if self._packed else self.kind
        return one_chunk(pa.array(cells.data, kind, mask=~cells.valid, from_pandas=False))

    def values(self, cells: Cells) -> list[Any]:
        """Return cells as Python values, as `to_python` returns them of the column's type."""
        if self._number is None:
            return to_python(self.unpack(cells))
        values: list[Any] = cells.data.view(self._number).tolist()
        if cells.valid.all():
            return values
        return [value if valid else None for value, valid in zip(values, cells.valid.tolist(), strict=True)]

    def _pack_struct(self, array: pa.StructArray, fields: "list[Column]") -> _Bits:
        rows = np.empty(len(array), self.dtype)
        for at, (column, values) in enumerate(zip(fields, array.flatten(), strict=True)):
            cells = column.pack(values)
            rows[f"{at}"], rows[f"{at} there"] = cells.data, cells.valid
        return rows

    def _unpack_struct(self, cells: Cells, fields: "list[Column]") -> pa.Array:
        rows = cells.data
        arrays = [
            column.unpack(Cells(rows[f"{at}"], cells.valid & rows[f"{at} there"])) for at, column in enumerate(fields)
        ]
        mask = None if cells.valid.all() else pa.array(~cells.valid)
        return pa.StructArray.from_arrays(arrays, fields=list(self.kind), mask=mask)


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind))


def _columns_of(kind: pa.DataType) -> list[Column] | None:
    """Return the columns of a struct's fields; None if the values are not structs, or cannot be kept field by field.

    NumPy copies rows that refer to objects one by one, so a struct with such a field is kept as one object. A struct
    with a field that is not nullable is kept as one object, too, because the field would have to be null if the struct
    is null.
    """
    if not kinds.is_struct(kind) or not kind.num_fields or not all(field.nullable for field in kind):
        return None
    columns = [Column(field.type) for field in kind]
    return columns if all(column.fixed for column in columns) else None


def _struct_dtype(fields: list[Column]) -> np.dtype[Any]:
    return np.dtype(
        [
            *((f"{at}", column.dtype) for at, column in enumerate(fields)),
            *((f"{at} there", np.bool_) for at in range(len(fields))),
        ],
        align=True,
    )


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    if kinds.is_boolean(kind):
        return np.dtype("u1")
    if kinds.is_primitive(kind) or kinds.is_decimal128(kind):
        return _UINTS[kind.bit_width]
    return np.dtype("O")


class Triples(msgspec.Struct, frozen=True):
    """A copy of the triples of some slots. `prevs` is None in a non-transactional state."""

    txids: _Txids
    values: Cells
    prevs: Cells | None

    def __len__(self) -> int:
        return len(self.txids)

    def __getitem__(self, rows: slice | Slots) -> "Triples":
        return Triples(self.txids[rows], self.values[rows], None if self.prevs is None else self.prevs[rows])


class Rows:
    """The triples of all slots. A slot without a triple has txid 0 and nulls."""

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
        """The number of bytes of one slot's row, without the Python objects to which it refers."""
        return self._rows.itemsize

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots in a new array. A reader that has the old array sees no change."""
        larger = np.zeros(capacity, self._rows.dtype)
        larger[: len(self)] = self._rows
        self._rows = larger

    def txids(self, count: int) -> _Txids:
        """Return the txids of the first `count` slots, not copied."""
        return self._rows["txid"][:count]

    def has_value(self, count: int) -> npt.NDArray[np.bool_]:
        """Return for each of the first `count` slots whether it holds a value. The array is not a copy."""
        return self._rows["value there"][:count]

    def take(self, slots: Slots | slice) -> Triples:
        """Return a copy of the triples in the given slots."""
        rows = self._rows[slots].copy() if isinstance(slots, slice) else self._rows.take(slots)
        prevs = Cells(rows["prev"], rows["prev there"]) if self._versioned else None
        return Triples(rows["txid"], Cells(rows["value"], rows["value there"]), prevs)

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples in the given slots, each as a whole."""
        rows = np.empty(len(slots), self._rows.dtype)
        rows["txid"] = triples.txids
        rows["value"], rows["value there"] = triples.values.data, triples.values.valid
        if triples.prevs is not None:
            rows["prev"], rows["prev there"] = triples.prevs.data, triples.prevs.valid
        _as_bytes(self._rows)[slots] = _as_bytes(rows)


def _as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return rows as plain bytes, which NumPy copies faster than fields; unchanged if rows refer to Python objects."""
    return rows if rows.dtype.hasobject else rows.view(f"V{rows.itemsize}")


class Entries:
    """The entries of one store. Only one thread writes them. Writer and readers hold a lock while they use triples."""

    def __init__(self, value: pa.DataType, kind: StateKind) -> None:
        self.index = KeyIndex()
        self.value = Column(value)
        self.versioned = kind is not StateKind.NON_TRANSACTIONAL
        """True if the entries keep previous values."""
        self._rows = Rows(self.value, self.versioned)
        self._object_bytes = 0
        self._order: KeyOrderIndex | None = None
        self.reserve(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def bytes(self) -> int:
        """The estimated bytes of all entries. They grow with each entry, while the arrays grow in large steps."""
        return len(self) * self._slot_bytes + self.index.keys.stored.heap_bytes + self._object_bytes

    @property
    def entry_bytes(self) -> int:
        """The mean of the estimated bytes of an entry."""
        return self.bytes // max(1, len(self))

    def growth(self, encoded: pa.Array, before: Triples, after: Triples) -> int:
        """Return by how much `bytes` grows if the triples of the keys `encoded` change from `before` to `after`."""
        keys = encoded.filter(pa.array(before.txids == NOTHING))
        return len(keys) * self._slot_bytes + heap_bytes_of(keys) + self._object_growth(before, after)

    def reserve(self, count: int) -> None:
        """Make room for `count` slots. If there is too little room, at least double it."""
        if count > len(self._rows):
            self._rows.reserve(max(count, 2 * len(self._rows)))

    def take(self, slots: Slots | slice) -> Triples:
        """Return a copy of the triples in the given slots. Slot -1 means no slot: txid NOTHING and nulls."""
        triples = self._rows.take(slots)  # for slot -1 this takes the last row, which is overwritten below
        if not isinstance(slots, slice) and len(absent := (slots < 0).nonzero()[0]):
            triples.txids[absent] = NOTHING
            triples.values.valid[absent] = False
            if triples.prevs is not None:
                triples.prevs.valid[absent] = False
        return triples

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples in the given slots."""
        self._rows.put(slots, triples)

    def account(self, before: Triples, after: Triples) -> None:
        """Add to `bytes` the size of the Python objects of the triples `after`, minus that of the triples `before`."""
        self._object_bytes += self._object_growth(before, after)

    def insert(self, encoded: pa.Array, hashes: Hashes) -> Slots:
        """Assign slots to new keys, and return the slots, which hold no triples yet. No key may occur twice."""
        self.reserve(len(self) + len(encoded))
        return self.index.insert(encoded, hashes)

    def in_order(self, schema: pa.Schema) -> KeyOrderIndex:
        """Return the index of the keys in order, created at the first call. `schema` holds the key fields."""
        if self._order is None:  # if two threads create one at the same time, one of the two is used only once
            self._order = KeyOrderIndex(self.index, schema)
        return self._order

    def changed(self, since: int) -> Slots:
        """Return the slots whose triple has a later txid than `since`."""
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
        """Return a copy of the entries in the slots `live`. A reader that has the old entries sees no change."""
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
        return sum(map(self.value.object_bytes, cells))
