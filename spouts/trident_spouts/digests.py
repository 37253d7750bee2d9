"""Digests of Arrow tables: equal for equal tuples, however they are cut into chunks and wherever they lie in memory."""

import zlib

import numpy
import pyarrow as pa
from pyarrow import types as kinds


def digest_of(table: pa.Table) -> str:
    """Return the number of rows and a checksum of the table's types and values.

    >>> digest_of(pa.table({"n": pa.chunked_array([[1, 2], [3]])})) == digest_of(pa.table({"n": [0, 1, 2, 3]}).slice(1))
    True
    """
    checksum = zlib.crc32(str(table.schema.types).encode())
    for column in table.combine_chunks().columns:
        for chunk in column.chunks:
            checksum = _add(checksum, chunk)
    return f"{table.num_rows}:{checksum:08x}"


def _add(checksum: int, array: pa.Array) -> int:
    """Add an array's values to a checksum, without what lies in memory in the place of nulls."""
    kind = array.type
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):  # which most functions do not take
        return _add(checksum, array.cast(pa.large_binary()))
    if array.null_count:
        checksum = _add(checksum, array.is_valid())
        array = array.drop_null()
    if not len(array):
        return checksum
    if kinds.is_dictionary(kind):
        return _add(checksum, array.dictionary_decode())
    if kinds.is_boolean(kind):
        return _add(checksum, array.cast(pa.uint8()))
    if kinds.is_struct(kind) or kinds.is_fixed_size_list(kind):
        inner = array.flatten()
        for values in inner if kinds.is_struct(kind) else [inner]:
            checksum = _add(checksum, values)
        return checksum
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_map(kind):
        offsets = array.offsets.to_numpy()
        checksum = zlib.crc32(numpy.diff(offsets).data, checksum)
        for values in (array.keys, array.items) if kinds.is_map(kind) else [array.values]:
            checksum = _add(checksum, values[offsets[0] : offsets[-1]])
        return checksum
    if kinds.is_primitive(kind) or kinds.is_decimal(kind) or kinds.is_fixed_size_binary(kind):
        width = kind.bit_width // 8
        return zlib.crc32(memoryview(array.buffers()[1])[array.offset * width :][: len(array) * width], checksum)
    array = array.cast(pa.large_binary())
    _, ends, data = array.buffers()
    offsets = numpy.frombuffer(ends, numpy.int64)[array.offset :][: len(array) + 1]
    checksum = zlib.crc32(numpy.diff(offsets).data, checksum)
    return checksum if data is None else zlib.crc32(memoryview(data)[offsets[0] : offsets[-1]], checksum)
