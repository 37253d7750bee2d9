"""Values of nested types as bytes, one object for each value, and back: with a few NumPy calls for a whole column.

The bytes of a value hold its parts column by column: a flag for each element of a part (1: not null), then the lengths
of its texts or lists, then the bytes of its numbers and texts. So a list takes as many calls as a number, however long
it is. The bytes never leave the process: `trident_state.encoding` makes those that are stored.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.binary_arrays import Bytes, Offsets, binary_of, buffers_of, gather_slices, join_columns, valid_rows

_FEW = 64
"""The most rows that a Python loop reads faster than NumPy."""

_NO_BYTES = np.zeros(0, np.uint8)


def can_pack(kind: pa.DataType) -> bool:
    """Return whether values of this type can be packed.

    >>> can_pack(pa.list_(pa.struct({"n": pa.int64()}))), can_pack(pa.list_(pa.large_string()))
    (True, False)
    """
    if kinds.is_struct(kind):
        return kind.num_fields > 0 and all(can_pack(field.type) for field in kind)
    if kinds.is_map(kind):
        return can_pack(kind.key_type) and can_pack(kind.item_type)
    if kinds.is_list(kind):
        return can_pack(kind.value_type)
    return kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_boolean(kind) or bool(_width(kind))


def packed(values: pa.Array) -> pa.Array:
    """Return the bytes of each value, also of a null."""
    parts = list[pa.Array]()
    _pack(values, np.arange(len(values) + 1, dtype=np.int64), parts)
    return join_columns(*parts)


def unpacked(rows: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of type `kind` whose bytes are `rows`, which has no null.

    >>> kind = pa.list_(pa.string())
    >>> unpacked(packed(pa.array([["a", None], [], None], kind)), kind).to_pylist()
    [['a', None], [], None]
    """
    return _Unpacking(rows).read(kind, np.ones(len(rows), np.int64))


def _pack(values: pa.Array, cuts: Offsets, parts: list[pa.Array]) -> None:
    """Add the parts of the values. Row i has the values from ``cuts[i]`` to ``cuts[i + 1]``."""
    kind = values.type
    parts.append(binary_of(valid_rows(values).view(np.uint8), cuts))
    if kinds.is_struct(kind):
        for field in values.flatten():
            _pack(field, cuts, parts)
    elif kinds.is_list(kind) or kinds.is_map(kind):
        if kinds.is_map(kind):
            values = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        _pack(values.flatten(), _add_lengths(pc.list_value_length(values), cuts, parts), parts)
    elif kinds.is_string(kind) or kinds.is_binary(kind):
        values = values.view(pa.binary())
        values = values.fill_null(b"") if values.null_count else values
        bytes_cuts = _add_lengths(pc.binary_length(values), cuts, parts)
        parts.append(binary_of(buffers_of(values)[0], bytes_cuts))
    else:
        values = values.cast(pa.uint8()) if kinds.is_boolean(kind) else values
        width = _width(values.type)
        data = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, values.offset * width)
        parts.append(binary_of(data, cuts * width))


def _add_lengths(lengths: pa.Array, cuts: Offsets, parts: list[pa.Array]) -> Offsets:
    """Add the lengths of texts or lists, and return the cuts of their content."""
    numbers = lengths.fill_null(0).to_numpy()
    parts.append(binary_of(np.ascontiguousarray(numbers, np.int32).view(np.uint8), cuts * 4))
    return _ends(numbers)[cuts]


def _ends(lengths: npt.NDArray[np.integer]) -> Offsets:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _width(kind: pa.DataType) -> int:
    """Return the bytes of a value; 0 if they differ, or are not whole."""
    fixed = (kinds.is_primitive(kind) and not kinds.is_boolean(kind)) or kinds.is_decimal128(kind)
    return kind.bit_width // 8 if fixed else 0


class _Unpacking:
    """The bytes of a column, and how far each row was read."""

    def __init__(self, rows: pa.Array) -> None:
        self._data, offsets = buffers_of(rows)
        self._at = offsets[:-1]

    def read(self, kind: pa.DataType, counts: Offsets) -> pa.Array:
        """Return the next values of each row: ``counts[i]`` of row i."""
        flags = self._bytes(counts)
        size = len(flags)
        buffers = [pa.py_buffer(np.packbits(flags, bitorder="little")) if size - np.count_nonzero(flags) else None]
        if kinds.is_struct(kind):
            children = [self.read(field.type, counts) for field in kind]
            return pa.Array.from_buffers(kind, size, buffers, children=children)
        if kinds.is_list(kind) or kinds.is_map(kind):
            ends, inner = self._lengths(counts)
            entry = kind.value_type if kinds.is_list(kind) else pa.struct([kind.key_field, kind.item_field])
            return pa.Array.from_buffers(kind, size, [*buffers, pa.py_buffer(ends)], children=[self.read(entry, inner)])
        if kinds.is_string(kind) or kinds.is_binary(kind):
            ends, inner = self._lengths(counts)
            buffers += [pa.py_buffer(ends), pa.py_buffer(self._bytes(inner))]
            return pa.Array.from_buffers(kind, size, buffers)
        plain = pa.uint8() if kinds.is_boolean(kind) else kind
        buffers.append(pa.py_buffer(self._bytes(counts * _width(plain))))
        values = pa.Array.from_buffers(plain, size, buffers)
        return values.cast(kind) if kinds.is_boolean(kind) else values

    def _lengths(self, counts: Offsets) -> tuple[npt.NDArray[np.int32], Offsets]:
        """Return the ends of the next texts or lists, the first of which begins at 0, and the size of each row."""
        lengths = self._bytes(counts * 4).view(np.int32)
        ends = _ends(lengths)
        if len(lengths) == len(counts) and np.all(counts == 1):
            return ends.astype(np.int32), lengths.astype(np.int64)
        cuts = _ends(counts)
        return ends.astype(np.int32), ends[cuts[1:]] - ends[cuts[:-1]]

    def _bytes(self, sizes: Offsets) -> Bytes:
        """Return the next bytes of each row, all in one array."""
        at = self._at
        self._at = ends = at + sizes
        if len(at) <= _FEW:
            found = [self._data[start:end] for start, end in zip(at.tolist(), ends.tolist(), strict=True)]
            return found[0].copy() if len(found) == 1 else np.concatenate([_NO_BYTES, *found])
        return np.ascontiguousarray(buffers_of(gather_slices(self._data, at, sizes))[0])
