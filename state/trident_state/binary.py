"""Binary Arrow arrays as bytes and offsets: the small tools from which encodings are built."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateValueError

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
T = TypeVar("T")

MAX_BYTES = 2**31 - 1
"""The most bytes that one binary array can hold: its offsets are 32 bits wide."""


def buffers_of(array: pa.Array) -> tuple[Bytes, Offsets]:
    """Return the bytes of a binary array and its n + 1 offsets into them; the first is 0, and a null has no bytes."""
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def binary_of(data: Bytes, offsets: Offsets) -> pa.Array:
    """Return a binary array of these bytes, cut at these n + 1 offsets."""
    if len(data) > MAX_BYTES:
        raise TooLong(len(data))
    cuts = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, cuts, pa.py_buffer(np.ascontiguousarray(data))])


def rows_of(rows: Bytes) -> pa.Array:
    """Return the rows of a matrix as a binary array."""
    return binary_of(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])


def columns_of(*numbers: npt.NDArray[Any]) -> Bytes:
    """Return a matrix with the bytes of several columns of numbers side by side, one row per number."""
    parts = [np.ascontiguousarray(n).view(np.uint8).reshape(len(n), n.itemsize) for n in numbers]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def repeat_value(value: bytes, count: int) -> pa.Array:
    """Return a binary array that holds `value` `count` times."""
    return pa.repeat(pa.scalar(value, pa.binary()), count)


def join_columns(*parts: pa.Array | bytes) -> pa.Array:
    """Concatenate the parts of each row; a part that is given as bytes stands in every row."""
    as_arrow = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    if (size := sum(part.nbytes for part in parts if isinstance(part, pa.Array))) > MAX_BYTES:
        raise TooLong(size)
    return pc.binary_join_element_wise(*as_arrow, pa.scalar(b"", pa.binary()))


def with_lengths(values: pa.Array) -> pa.Array:
    """Put its length before each value, as 4 bytes, little endian."""
    return join_columns(rows_of(columns_of(lengths_of(values).astype(np.uint32))), values)


def lengths_of(values: pa.Array) -> Offsets:
    """Return the length of each value in bytes."""
    offsets = buffers_of(values)[1]
    return offsets[1:] - offsets[:-1]


def gather_slices(data: Bytes, at: Offsets, lengths: Offsets) -> pa.Array:
    """Return the `lengths` bytes that begin at each `at`, as a binary array."""
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    return binary_of(data[np.arange(cuts[-1]) + np.repeat(at - cuts[:-1], lengths)], cuts)


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; raises TooLong where one array cannot hold it."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    try:
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    except pa.ArrowInvalid as error:  # offsets of 32 bits
        raise TooLong(column.nbytes) from error
    if isinstance(whole, pa.ChunkedArray):
        raise TooLong(column.nbytes)
    return whole


class TooLong(StateValueError):
    """A column has more bytes than one array can hold."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a column of {size} bytes: at most {MAX_BYTES} can be encoded at once")


def in_halves(work: Callable[[slice], T], start: int, stop: int) -> Iterator[T]:
    """Do `work` for all of these rows, or for half of them at a time where one array cannot hold the result.

    The size of a result is known only after the work: what is stored for a row counts too.

    >>> def work(rows):
    ...     if rows.stop - rows.start > 2:
    ...         raise TooLong(3)
    ...     return rows.stop - rows.start
    >>> list(in_halves(work, 0, 7))
    [1, 2, 2, 2]
    """
    try:
        done = work(slice(start, stop))
    except (TooLong, pa.ArrowInvalid, pa.ArrowCapacityError):
        if stop - start < 2:
            raise
    else:
        yield done
        return
    middle = (start + stop) // 2
    yield from in_halves(work, start, middle)
    yield from in_halves(work, middle, stop)


def valid_rows(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which rows are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def spread_rows(rows: npt.NDArray[np.bool_], values: pa.Array) -> pa.Array:
    """Return the values at the marked rows, with nulls in between."""
    return values if rows.all() else values.take(pa.array(np.cumsum(rows) - 1, mask=~rows))


def replace_rows(values: pa.Array, rows: Offsets, others: pa.Array) -> pa.Array:
    """Return the values, with others in these rows.

    Arrow's `replace_with_mask` takes no lists, maps and structs.

    >>> replace_rows(pa.array(["a", "b", "c"]), np.array([2, 0]), pa.array(["z", "x"])).to_pylist()
    ['x', 'b', 'z']
    """
    sources = np.arange(len(values))
    sources[rows] = len(values) + np.arange(len(others))
    return pa.concat_arrays([values, others]).take(pa.array(sources))


def concatenate(arrays: list[pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Return arrays of one type one after the other; nothing is copied."""
    return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays)
