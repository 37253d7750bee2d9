"""Columns of any type as bytes, and back. A value's bytes contain its type and length, which are checked when read.

Each value begins with a tag, so that 1, 1.0, "1", True and null differ (numbers are little endian):

========================= ===== ======================================================================
type                      tag   payload
========================= ===== ======================================================================
null of any type          ``N`` none
boolean                   ``b`` 1 byte
byte, short, int, long    ``i`` 8 bytes
float, double             ``f`` 8 bytes
decimal(p, s)             ``d`` 1 byte s, 16 bytes unscaled
date                      ``D`` 4 bytes, days since 1970
timestamp                 ``t`` 8 bytes, microseconds since 1970 UTC
timestamp_ntz             ``T`` 8 bytes
day-time interval         ``I`` 8 bytes, microseconds
string, where it is alone ``s`` UTF-8 up to the end
string                    ``S`` 4 bytes length, UTF-8
binary, where it is alone ``x`` bytes up to the end
binary                    ``X`` 4 bytes length, bytes
struct                    ``{`` its fields' encodings
array                     ``[`` 4 bytes count, its elements' encodings
map                       ``<`` 4 bytes count, then the encodings of key, value, key, value ...
========================= ===== ======================================================================

A value is alone if nothing follows it. Stored states hold these bytes, so a change here is a new store format.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import as_strided
from pyarrow import types as kinds

from trident.base.errors import StateCorruptError
from trident_state.binary_arrays import (
    Bytes,
    Offsets,
    binary_of,
    buffers_of,
    columns_of,
    even_step,
    gather_slices,
    join_columns,
    repeat_value,
    rows_of,
    spread_rows,
)

_NULL = b"N"

_LONG = 8
"""The length from which a list is decoded at once if possible, instead of element by element."""


def encode_column(column: pa.Array, alone: bool = False, grouped: bool = False) -> pa.Array:
    """Return a column's values as bytes: one binary value per row, never null.

    `alone`: nothing will follow a value, so that a string needs no length. `grouped`: -0.0 is written as 0.0, and every
    NaN as the same NaN, because Spark's ``groupBy`` puts them into one group.
    """
    kind = column.type
    if kinds.is_dictionary(kind):
        return encode_column(column.dictionary_decode(), alone, grouped)
    if kinds.is_null(kind):
        return repeat_value(_NULL, len(column))
    if is_text(kind) or is_bytes(kind):
        body = _encode_bytes(column, b"s" if is_text(kind) else b"x", alone)
    elif kinds.is_struct(kind):
        body = _encode_struct(column, grouped)
    elif is_list(kind) or kinds.is_map(kind):
        body = _encode_list(column, grouped)
    else:
        body = rows_of(_encode_fixed(column, grouped))
    return pc.if_else(column.is_valid(), body, pa.scalar(_NULL, pa.binary())) if column.null_count else body


def decode_column(encoded: pa.Array, kind: pa.DataType, alone: bool = False) -> pa.Array:
    """Return the column that `encode_column` encoded. Raises StateCorruptError if the bytes have another type."""
    if alone and (plain := _decode_alone(encoded, kind)) is not None:
        return plain
    (column,) = decode_row(encoded, [kind], alone)
    return column


def decode_row(encoded: pa.Array, types: list[pa.DataType], alone: bool = False) -> list[pa.Array]:
    """Return one column per type. Each row of `encoded` holds one value of every type, one after the other.

    Raises StateCorruptError if the bytes of a row are not values of the types, or continue after the last value.
    """
    data, offsets = buffers_of(encoded)
    columns, at = _decode_each(types, data, offsets[:-1].copy(), offsets[1:], alone)
    if not np.array_equal(at, offsets[1:]):
        raise _corrupt("an end")
    return columns


def unencodable(kind: pa.DataType, maps: bool = True) -> pa.DataType | None:
    """Return the first type in `kind` (or `kind` itself) that cannot be encoded; None if `kind` can be encoded.

    With `maps` False, a map counts as a type that cannot be encoded.
    """
    if kinds.is_dictionary(kind) or is_list(kind):
        return unencodable(kind.value_type, maps)
    if kinds.is_struct(kind):
        parts = [kind.field(i).type for i in range(kind.num_fields)]
    elif kinds.is_map(kind) and maps:
        parts = [kind.key_type, kind.item_type]
    elif kinds.is_null(kind) or is_text(kind) or is_bytes(kind) or (is_fixed(kind) and kind != pa.uint64()):
        return None
    else:
        return kind
    return next((wrong for part in parts if (wrong := unencodable(part, maps)) is not None), None)


def is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kind == pa.string_view())


def is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kind == pa.binary_view())


def is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def is_fixed(kind: pa.DataType) -> bool:
    return any(fits(kind) for fits, _, _ in _FIXED)


# --- encoding ----------------------------------------------------------------------------------------------------


def _encode_bytes(column: pa.Array, tag: bytes, alone: bool) -> pa.Array:
    values = column.view(pa.binary()) if kinds.is_string(column.type) else column.cast(pa.binary())
    values = values.fill_null(b"") if values.null_count else values
    return (
        join_columns(tag, values) if alone else join_columns(_with_count(tag.upper(), pc.binary_length(values)), values)
    )


def _encode_struct(column: pa.Array, grouped: bool) -> pa.Array:
    parts = column.flatten()
    if all(is_fixed(part.type) and not part.null_count for part in parts):  # for several aggregates: 10 times as fast
        tag = np.full((len(column), 1), ord("{"), np.uint8)
        return rows_of(np.hstack([tag, *[_encode_fixed(part, grouped) for part in parts]]))
    return join_columns(repeat_value(b"{", len(column)), *[encode_column(part, grouped=grouped) for part in parts])


def _encode_list(column: pa.Array, grouped: bool) -> pa.Array:
    tag = b"["
    if kinds.is_map(column.type):
        entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        tag, column = b"<", column.cast(pa.list_(entry))
    counts = pc.list_value_length(column).fill_null(0)
    flat = column.flatten()
    if tag == b"<":
        items = join_columns(*[encode_column(part, grouped=grouped) for part in flat.flatten()])
    else:
        items = encode_column(flat, grouped=grouped)
    data, cuts = buffers_of(items)
    ends = np.concatenate([[0], np.cumsum(counts.to_numpy(zero_copy_only=False))])
    return join_columns(_with_count(tag, counts), binary_of(data, cuts[ends]))


def _encode_fixed(column: pa.Array, grouped: bool) -> Bytes:
    """Return a matrix with a row for each value: its tag, then its bytes. The row of a null holds arbitrary bytes."""
    kind = column.type
    tag = np.full(len(column), _tag_of(kind, alone=False), np.uint8)
    if kinds.is_decimal(kind):
        wide = column.cast(pa.decimal128(38, kind.scale))
        unscaled = np.frombuffer(wide.buffers()[1], np.uint8, 16 * len(wide), 16 * wide.offset).reshape(-1, 16)
        return np.hstack([columns_of(tag, np.full(len(wide), kind.scale, np.uint8)), unscaled])
    if kinds.is_floating(kind):
        numbers = to_numbers(column.cast(pa.float64()), np.float64)
        return columns_of(tag, np.where(np.isnan(numbers), np.nan, numbers + 0.0) if grouped else numbers)
    return columns_of(tag, to_integers(column).astype(f"<i{_width_of(kind)}", copy=False))


def to_integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return integers, booleans, dates (days), timestamps and intervals (microseconds) as 64-bit numbers, null as 0."""
    kind = column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif kinds.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    else:
        column = _in_microseconds(column, kind)
    return to_numbers(column if kinds.is_int64(kind) else column.cast(pa.int64()), np.int64)


def to_numbers(column: pa.Array, kind: type[np.generic]) -> npt.NDArray[Any]:
    """Return a numeric column as NumPy numbers; nulls are 0."""
    full = column.fill_null(0) if column.null_count else column
    return np.ascontiguousarray(full.to_numpy(zero_copy_only=False), kind)


def _with_count(tag: bytes, counts: pa.Array) -> pa.Array:
    numbers = to_numbers(counts, np.uint32)
    return rows_of(columns_of(np.full(len(numbers), tag[0], np.uint8), numbers))


# --- decoding: `at` holds an offset for each row, which advances from value to value ----------------------------------


def _decode_alone(encoded: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the decoded column in the common case (strings or binaries without null); otherwise None."""
    if not (is_text(kind) or is_bytes(kind)):
        return None
    if not pc.all(pc.starts_with(encoded, b"s" if is_text(kind) else b"x"), min_count=0).as_py():
        return None
    return cast_or_corrupt(pc.binary_slice(encoded, 1, 2**31 - 1), kind)


def _decode(
    kind: pa.DataType, data: Bytes, at: Offsets, ends: Offsets, alone: bool = False
) -> tuple[pa.Array, Offsets]:
    """Return the values that begin at the offsets `at`, one per row, and the offsets at which they end."""
    tags = _read_bytes(data, at, ends, 1)[:, 0]
    full = tags != _NULL[0]
    at = at + 1
    if kinds.is_null(kind):
        if full.any():
            raise _corrupt(str(kind))
        return pa.nulls(len(at)), at
    if not np.all(tags[full] == _tag_of(kind, alone)):
        raise _corrupt(str(kind))
    values, after = _decode_body(kind, data, at[full], ends[full], alone)
    at[full] = after
    return spread_rows(full, values), at


def _decode_body(kind: pa.DataType, data: Bytes, at: Offsets, ends: Offsets, alone: bool) -> tuple[pa.Array, Offsets]:
    if kinds.is_struct(kind):
        return _decode_struct(kind, data, at, ends)
    if is_list(kind) or kinds.is_map(kind):
        return _decode_list(kind, data, at, ends)
    if is_text(kind) or is_bytes(kind):
        if alone:
            lengths = ends - at
        else:
            lengths, at = _read_count(data, at, ends)
        if np.any(at + lengths > ends):
            raise _corrupt(str(kind))
        return cast_or_corrupt(gather_slices(data, at, lengths), kind), at + lengths
    width = _width_of(kind)
    return _decode_fixed(kind, _read_bytes(data, at, ends, width)), at + width


def _decode_each(
    types: list[pa.DataType], data: Bytes, at: Offsets, ends: Offsets, alone: bool = False
) -> tuple[list[pa.Array], Offsets]:
    columns = []
    for kind in types:
        column, at = _decode(kind, data, at, ends, alone)
        columns.append(column)
    return columns, at


def _decode_struct(kind: pa.DataType, data: Bytes, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    columns, at = _decode_each([field.type for field in fields], data, at, ends)
    if not columns:
        return pa.array([{}] * len(at), kind), at
    return pa.StructArray.from_arrays(columns, fields=fields), at


def _decode_list(kind: pa.DataType, data: Bytes, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
    counts, at = _read_count(data, at, ends)
    if np.any(counts > ends - at):  # an element takes at least one byte
        raise _corrupt(str(kind))
    longest = int(counts.max(initial=0))
    if (
        is_list(kind)
        and longest > _LONG
        and (flat := _decode_even(kind.value_type, data, at, ends, counts)) is not None
    ):
        values, at = flat
        return _list_of(kind, np.concatenate([[0], np.cumsum(counts)]), [values]), at
    parts_of = [kind.key_type, kind.item_type] if kinds.is_map(kind) else [kind.value_type]
    rows, parts = [np.zeros(0, np.int64)], [[pa.nulls(0, part)] for part in parts_of]
    for rank in range(longest):
        left = np.flatnonzero(counts > rank)
        rows.append(left)
        for part, pieces in zip(parts_of, parts, strict=True):
            values, at[left] = _decode(part, data, at[left], ends[left])
            pieces.append(values)
    order = pa.array(np.argsort(np.concatenate(rows), kind="stable"))
    columns = [pa.concat_arrays(pieces).take(order) for pieces in parts]
    return _list_of(kind, np.concatenate([[0], np.cumsum(counts)]), columns), at


def _decode_even(
    kind: pa.DataType, data: Bytes, at: Offsets, ends: Offsets, counts: Offsets
) -> tuple[pa.Array, Offsets] | None:
    """Return the elements of lists, and the offsets where the lists end, if the elements of each list have one width.

    Return None otherwise. An element that ends where the width of the first one predicts is followed directly by the
    next, so checking the ends is enough.
    """
    begun = counts > 0
    widths = np.zeros(len(at), np.int64)
    widths[begun] = _decode(kind, data, at[begun], ends[begun])[1] - at[begun]
    if np.any(at + widths * counts > ends):
        return None
    ranks = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    width = np.repeat(widths, counts)
    starts = np.repeat(at, counts) + width * ranks
    try:
        values, after = _decode(kind, data, starts, np.repeat(ends, counts))
    except StateCorruptError:  # wrong bytes, if an earlier element has another width
        return None
    return (values, at + widths * counts) if np.array_equal(after, starts + width) else None


def _list_of(kind: pa.DataType, cuts: Offsets, columns: list[pa.Array]) -> pa.Array:
    if kinds.is_map(kind):
        if columns[0].null_count:
            raise _corrupt(str(kind))
        return pa.MapArray.from_arrays(pa.array(cuts, pa.int32()), *columns, type=kind)
    if kinds.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(cuts, pa.int64()), *columns, type=kind)
    return pa.ListArray.from_arrays(pa.array(cuts, pa.int32()), *columns, type=kind)


def _decode_fixed(kind: pa.DataType, raw: Bytes) -> pa.Array:
    if kinds.is_floating(kind):
        return pa.array(raw.view("<f8")[:, 0]).cast(kind)
    if not kinds.is_decimal(kind):
        return from_integers(raw.view(f"<i{raw.shape[1]}")[:, 0], kind)
    if np.any(raw[:, 0] != kind.scale):
        raise _corrupt(str(kind))
    unscaled = pa.py_buffer(np.ascontiguousarray(raw[:, 1:]))
    return cast_or_corrupt(pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(raw), [None, unscaled]), kind)


def from_integers(
    numbers: npt.NDArray[np.signedinteger[Any]], kind: pa.DataType, null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return the column of type `kind` from which `to_integers` made `numbers`. A row is null where `null` is True.

    Raises StateCorruptError if a number does not fit the type.
    """
    if kinds.is_boolean(kind):
        return pa.array(numbers != 0, mask=null)
    column = pa.array(numbers, mask=null)
    if kinds.is_date(kind):
        return cast_or_corrupt(column, pa.int32()).cast(pa.date32()).cast(kind)
    return cast_or_corrupt(_in_microseconds(column, kind), kind)


def _in_microseconds(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of timestamps or intervals in microseconds; return a column of another type unchanged.

    The column may hold timestamps, intervals, or the numbers that `to_integers` makes of them.
    """
    if kinds.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz))
    return column.cast(pa.duration("us")) if kinds.is_duration(kind) else column


def cast_or_corrupt(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return stored values as type `kind`. Raises StateCorruptError if a value is not UTF-8, or out of range."""
    try:
        if values.type != kind:
            return values.cast(kind)
        values.validate(full=True)  # a decimal's 16 bytes can hold more than 38 digits
    except pa.ArrowInvalid as error:
        raise _corrupt(str(kind)) from error
    return values


def _read_count(data: Bytes, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
    return _read_bytes(data, at, ends, 4).view("<u4")[:, 0].astype(np.int64), at + 4


def _read_bytes(data: Bytes, at: Offsets, ends: Offsets, width: int) -> Bytes:
    """Return a matrix with the `width` bytes that begin at `at[i]` as row i.

    Raises StateCorruptError if they would go beyond `ends[i]`.
    """
    if np.any(at + width > ends):
        raise _corrupt("a value")
    if (step := even_step(at)) is not None:  # avoids an index for each byte
        return np.ascontiguousarray(as_strided(data[at[0] :], (len(at), width), (step, 1)))
    return np.ascontiguousarray(data[at[:, None] + np.arange(width)])


def _corrupt(what: str) -> StateCorruptError:
    return StateCorruptError(f"stored bytes cannot be decoded as {what}")


# --- types of fixed width: a test for the type, its tag, and the number of bytes after the tag ---------------------

_FIXED = (
    (kinds.is_boolean, "b", 1),
    (kinds.is_integer, "i", 8),
    (kinds.is_floating, "f", 8),
    (kinds.is_date, "D", 4),
    (lambda kind: kinds.is_timestamp(kind) and kind.tz is not None, "t", 8),
    (lambda kind: kinds.is_timestamp(kind) and kind.tz is None, "T", 8),
    (kinds.is_duration, "I", 8),
    (lambda kind: kinds.is_decimal128(kind) and kind.scale >= 0, "d", 17),
)


def _width_of(kind: pa.DataType) -> int:
    return next(width for fits, _, width in _FIXED if fits(kind))


def _tag_of(kind: pa.DataType, alone: bool) -> int:
    if is_text(kind):
        return ord("s" if alone else "S")
    if is_bytes(kind):
        return ord("x" if alone else "X")
    if kinds.is_struct(kind):
        return ord("{")
    if kinds.is_map(kind):
        return ord("<")
    return next((ord(tag) for fits, tag, _ in _FIXED if fits(kind)), ord("["))
