"""Small functions on binary Arrow arrays, as bytes and offsets, for the encodings."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import as_strided

from trident.base.errors import StateValueError

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
T = TypeVar("T")

MAX_BYTES = 2**31 - 1
"""The most bytes that one binary array can hold: its offsets are 32 bits wide."""

_FEW_BYTES = 8192
"""The most bytes that are gathered with an index of single bytes, which is faster for small arrays."""


def buffers_of(array: pa.Array) -> tuple[Bytes, Offsets]:
    """Return the bytes of a binary array with n values, and n + 1 offsets.

    Value i is from offsets[i] to offsets[i + 1].

    The first offset is 0. A null has no bytes.
    """
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def binary_of(data: Bytes, offsets: Offsets) -> pa.Array:
    """Return a binary array of n values: `data`, cut at the n + 1 `offsets`. Raises TooLong if `data` is too long."""
    if len(data) > MAX_BYTES:
        raise TooLong(len(data))
    cuts = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, cuts, pa.py_buffer(np.ascontiguousarray(data))])


def rows_of(rows: Bytes) -> pa.Array:
    """Return a binary array in which each row of a matrix of bytes is a value."""
    return binary_of(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])


def columns_of(*numbers: npt.NDArray[Any]) -> Bytes:
    """Return a matrix of bytes: row i holds the bytes of the i-th number of each column, one column after the other."""
    parts = [np.ascontiguousarray(n).view(np.uint8).reshape(len(n), n.itemsize) for n in numbers]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def repeat_value(value: bytes, count: int) -> pa.Array:
    """Return a binary array of `count` rows, each of which is `value`."""
    return pa.repeat(pa.scalar(value, pa.binary()), count)


def join_columns(*parts: pa.Array | bytes) -> pa.Array:
    """Return a binary array that joins the i-th values of all parts in row i. A part that is bytes occurs in every row.

    Raises TooLong if one array cannot hold the result.
    """
    as_arrow = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    if (size := sum(part.nbytes for part in parts if isinstance(part, pa.Array))) > MAX_BYTES:
        raise TooLong(size)
    return pc.binary_join_element_wise(*as_arrow, pa.scalar(b"", pa.binary()))


def with_lengths(values: pa.Array) -> pa.Array:
    """Return the values, each preceded by its length in bytes (4 bytes, little endian)."""
    return join_columns(*framed(values))


def framed(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the lengths of the values in bytes (4 bytes, little endian), and the values, for `join_columns`."""
    return rows_of(columns_of(lengths_of(values).astype(np.uint32))), values


def lengths_of(values: pa.Array) -> Offsets:
    """Return the length of each value in bytes."""
    offsets = buffers_of(values)[1]
    return offsets[1:] - offsets[:-1]


def even_step(at: Offsets) -> int | None:
    """Return the distance between consecutive offsets if it is constant and not negative; otherwise None.

    >>> even_step(np.array([2, 5, 8])), even_step(np.array([2, 5, 9])), even_step(np.array([2]))
    (3, None, None)
    """
    if len(at) < 2 or (step := int(at[1] - at[0])) < 0:
        return None
    return step if (at[1:] - at[:-1] == step).all() else None


def gather_slices(data: Bytes, at: Offsets, lengths: Offsets) -> pa.Array:
    """Return a binary array with the `lengths[i]` bytes of `data` that begin at `at[i]` as value i.

    The slices must be in the order of `data`, and must not overlap.

    >>> gather_slices(np.frombuffer(b"a-bcd--", np.uint8), np.array([0, 2, 6]), np.array([1, 3, 0])).to_pylist()
    [b'a', b'bcd', b'']
    """
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    if (step := even_step(at)) is not None and even_step(cuts) is not None:
        return rows_of(np.ascontiguousarray(as_strided(data[at[0] :], (len(at), int(lengths[0])), (step, 1))))
    if cuts[-1] <= _FEW_BYTES:
        return binary_of(data[np.arange(cuts[-1]) + np.repeat(at - cuts[:-1], lengths)], cuts)
    # Above this size, Arrow takes every second value of slices and gaps. An index of bytes would take 24 times their
    # memory.
    ends = np.stack([at, at + lengths], axis=1).reshape(-1)
    return binary_of(data, ends).take(pa.array(np.arange(0, len(ends), 2)))


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array. Raises TooLong if one array cannot hold the column."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    try:
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    except pa.ArrowInvalid as error:  # Arrow's offsets are 32 bits wide
        raise TooLong(column.nbytes) from error
    if isinstance(whole, pa.ChunkedArray):
        raise TooLong(column.nbytes)
    return whole


class TooLong(StateValueError):
    """The error for a column that has more bytes than one array can hold."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"a column of {size} bytes: at most {MAX_BYTES} can be read or written at once; take fewer keys at once"
        )


def in_halves(work: Callable[[slice], T], start: int, stop: int) -> Iterator[T]:
    """Yield the result of `work` for the rows `start` to `stop`, or for each half if one array cannot hold it.

    Whether a result is too large is known only when `work` has failed, because a result also holds the stored values of
    the rows. A half that is too large is halved again.

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
    """Return a mask of a column: True for each value, False for each null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def spread_rows(rows: npt.NDArray[np.bool_], values: pa.Array) -> pa.Array:
    """Return one row for each entry of `rows`: the next of `values` if it is True, otherwise null."""
    return values if rows.all() else values.take(pa.array(np.cumsum(rows) - 1, mask=~rows))


def replace_rows(values: pa.Array, rows: Offsets, others: pa.Array) -> pa.Array:
    """Return the values with row ``rows[i]`` replaced by ``others[i]``.

    Arrow's `replace_with_mask` does not accept lists, maps and structs.

    >>> replace_rows(pa.array(["a", "b", "c"]), np.array([2, 0]), pa.array(["z", "x"])).to_pylist()
    ['x', 'b', 'z']
    """
    sources = np.arange(len(values))
    sources[rows] = len(values) + np.arange(len(others))
    return pa.concat_arrays([values, others]).take(pa.array(sources))


def concatenate(arrays: list[pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Return one column with the given arrays of one type, in order. The values are not copied."""
    return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays)
