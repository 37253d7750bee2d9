"""Conversion of values between Arrow arrays and the NumPy arrays that a store's rows are made of.

Types of fixed width (numbers, dates, timestamps, decimals) keep their bits. All others are kept as Python objects that
Arrow made and no other code holds: they become an Arrow array again before a caller gets them.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from trident_state.binary import one_chunk, valid_rows

Slots = npt.NDArray[np.int64]
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
