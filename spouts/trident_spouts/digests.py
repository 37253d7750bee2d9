"""Digests of Arrow tables. Equal tables have equal digests, even if their chunks and their layout in memory differ."""

import hashlib
import zlib

import numpy
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as kinds


def digest_of(table: pa.Table) -> str:
    """Return the digest of a table: its number of rows, and a checksum of its types and values.

    >>> digest_of(pa.table({"n": pa.chunked_array([[1, 2], [3]])})) == digest_of(pa.table({"n": [0, 1, 2, 3]}).slice(1))
    True
    """
    checksum = zlib.crc32(str(table.schema.types).encode())
    for column in table.combine_chunks().columns:
        for chunk in column.chunks:
            checksum = _add_array(checksum, chunk)
    return f"{table.num_rows}:{checksum:08x}"


def row_digest_of(table: pa.Table) -> str:
    """Return a digest of the rows of a table in any order: their number, and the sum of their hashes.

    >>> first = row_digest_of(pa.table({"n": [1, 2], "w": ["a", "b"]}))
    >>> first == row_digest_of(pa.table({"n": [2, 1], "w": ["b", "a"]}))
    True
    >>> first == row_digest_of(pa.table({"n": [1, 2], "w": ["b", "a"]}))
    False
    """
    hashes = numpy.full(table.num_rows, 1, numpy.uint64)
    with numpy.errstate(over="ignore"):
        for number, name in enumerate(sorted(table.column_names)):
            hashes = (hashes ^ _hashes(table.column(name).combine_chunks())) * numpy.uint64(0x9E3779B97F4A7C15)
            hashes ^= (hashes >> numpy.uint64(29)) + numpy.uint64(number)
        return f"{table.num_rows}:{int(hashes.sum(dtype=numpy.uint64)):016x}"


def _hashes(column: pa.Array | pa.ChunkedArray) -> NDArray[numpy.uint64]:
    """Return a hash of each value.

    Each distinct value is hashed only once, because most values of a batch are repeated.
    """
    if isinstance(column, pa.ChunkedArray):  # a column without rows, or a column that is too long for one array
        parts = [_hashes(chunk) for chunk in column.chunks]
        return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.uint64)
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
        values, places = encoded.dictionary, encoded.indices.to_numpy()
    except pa.ArrowNotImplementedError:  # nested values
        values, places = column, numpy.arange(len(column))
    texts = (repr(value.as_py()).encode() for value in values)
    own = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    hashes: NDArray[numpy.uint64] = numpy.array(own, numpy.uint64)[places]
    return hashes


def _add_array(checksum: int, array: pa.Array) -> int:
    """Return the checksum with an array added: which rows are null, then all other values.

    Nulls are left out, because Arrow keeps arbitrary bytes for them.
    """
    if kinds.is_string_view(array.type) or kinds.is_binary_view(array.type):  # drop_null does not accept string views
        array = array.cast(pa.large_binary())
    if array.null_count:
        checksum = _add_array(checksum, array.is_valid())
        array = array.drop_null()
    return _add_values(checksum, array) if len(array) else checksum


def _add_values(checksum: int, array: pa.Array) -> int:
    """Return the checksum with the values of an array added. The array must not be empty, nor hold a null."""
    kind = array.type
    if kinds.is_dictionary(kind):
        return _add_array(checksum, array.dictionary_decode())
    if kinds.is_boolean(kind):
        return _add_array(checksum, array.cast(pa.uint8()))
    if kinds.is_nested(kind):
        return _add_nested(checksum, array)
    if kinds.is_primitive(kind) or kinds.is_decimal(kind) or kinds.is_fixed_size_binary(kind):
        width = kind.bit_width // 8
        return zlib.crc32(memoryview(array.buffers()[1])[array.offset * width :][: len(array) * width], checksum)
    array = array.cast(pa.large_binary())
    _, ends, data = array.buffers()
    offsets = numpy.frombuffer(ends, numpy.int64)[array.offset :][: len(array) + 1]
    checksum = zlib.crc32(numpy.diff(offsets).data, checksum)
    return checksum if data is None else zlib.crc32(memoryview(data)[offsets[0] : offsets[-1]], checksum)


def _add_nested(checksum: int, array: pa.Array) -> int:
    """Return the checksum with a nested array added: the lengths of its lists or maps, then the arrays inside.

    Without the lengths, [[1], [2]] would have the same checksum as [[1, 2]].
    """
    kind = array.type
    if kinds.is_struct(kind):
        children = array.flatten()
    elif kinds.is_fixed_size_list(kind):
        children = [array.flatten()]
    else:
        offsets = array.offsets.to_numpy()
        checksum = zlib.crc32(numpy.diff(offsets).data, checksum)
        whole = (array.keys, array.items) if kinds.is_map(kind) else (array.values,)
        children = [values[offsets[0] : offsets[-1]] for values in whole]
    for child in children:
        checksum = _add_array(checksum, child)
    return checksum
