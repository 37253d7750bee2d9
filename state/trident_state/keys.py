"""Keys as bytes: injective by type, equal exactly where Spark's ``groupBy`` calls two keys equal.

A key is the sequence of its fields' encodings; each begins with a tag, so that 1, 1.0, "1", True and null never meet:

========================= ===== ======================================================================
type                      tag   payload (numbers little endian)
========================= ===== ======================================================================
null of any type          ``N`` none
boolean                   ``b`` 1 byte
byte, short, int, long    ``i`` 8 bytes
float, double             ``f`` 8 bytes, -0.0 as 0.0 and every NaN as one (Spark groups them so)
decimal(p, s)             ``d`` 1 byte s, 16 bytes unscaled
date                      ``D`` 4 bytes, days since 1970
timestamp                 ``t`` 8 bytes, microseconds since 1970 UTC
timestamp_ntz             ``T`` 8 bytes
string, the only field    ``s`` UTF-8 up to the end
string                    ``S`` 4 bytes length, UTF-8
binary, the only field    ``x`` bytes up to the end
binary                    ``X`` 4 bytes length, bytes
struct                    ``{`` its fields' encodings
array                     ``[`` 4 bytes count, its elements' encodings
========================= ===== ======================================================================

A key of no field (one global value) is ``*``. Stored states hold these bytes: a change here is a new store format.
"""

import decimal
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateCorruptError, StateValueError, TypeDeclarationError

GLOBAL = b"*"
_NULL = b"N"
_U8 = npt.NDArray[np.uint8]
_I64 = npt.NDArray[np.int64]
_MAX_BYTES = 2**31 - 1


def encode_keys(keys: pa.Table) -> pa.Array:
    """One binary value a row (never null) that is equal for two rows exactly where Spark groups them together.

    Raises TypeDeclarationError for a type that cannot be a key (map), StateValueError for more than 2 GB of keys.

    >>> encode_keys(pa.table({"word": ["dog", None]})).to_pylist()
    [b'sdog', b'N']
    >>> encode_keys(pa.table({"word": ["dog"], "n": pa.array([1], pa.int32())})).to_pylist()
    [b'S\\x03\\x00\\x00\\x00dogi\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00']
    """
    check_key_types(keys.schema)
    if keys.num_columns == 0:
        return pa.array([GLOBAL] * keys.num_rows, pa.binary())
    alone = keys.num_columns == 1
    return _joined([_encode(_one_chunk(column), alone) for column in keys.columns])


def decode_keys(encoded: pa.Array, schema: pa.Schema) -> pa.Table:
    """The rows that `encode_keys` made these bytes from, with the types of `schema`.

    The bytes are not trusted: StateCorruptError where they are not keys of this schema.

    >>> decode_keys(pa.array([b"sdog", b"N"], pa.binary()), pa.schema({"word": pa.string()})).to_pylist()
    [{'word': 'dog'}, {'word': None}]
    """
    check_key_types(schema)
    encoded = _one_chunk(encoded)
    if len(schema) == 0:
        if not pc.all(pc.equal(encoded, GLOBAL), min_count=0).as_py():
            raise _corrupt("a key of no field")
        return pa.table({"": pa.nulls(len(encoded))}).select([])
    if len(schema) == 1 and (found := _decode_alone(encoded, schema.field(0).type)) is not None:
        return pa.table([found], schema=schema)
    data, offsets = buffers_of(encoded)
    at, ends = offsets[:-1].copy(), offsets[1:]
    columns = []
    for field in schema:
        column, at = _decode(field.type, data, at, ends, alone=len(schema) == 1)
        columns.append(column)
    if not np.array_equal(at, ends):
        raise _corrupt("bytes after the last field")
    return pa.table(columns, schema=schema)


def hash_keys(encoded: pa.Array) -> npt.NDArray[np.uint64]:
    """A stable 64-bit hash of each binary value; stored states rely on it (the bucket of a key).

    h = sum of byte[j] * P**(j+1) mod 2**64 with P = 0x9E3779B97F4A7C15, plus the length times
    0xD6E8FEB86659FD93, then MurmurHash3's finaliser fmix64.

    >>> hash_keys(pa.array([b"sdog", b""], pa.binary())).tolist()
    [18268296219862475452, 0]
    """
    data, offsets = buffers_of(_one_chunk(encoded))
    starts, lengths = offsets[:-1], np.diff(offsets)
    if len(lengths) == 0:
        return np.zeros(0, np.uint64)
    position = np.arange(len(data)) - np.repeat(starts, lengths)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(data * _powers(int(lengths.max()).bit_length())[position], out=sums[1:])
    hashed = sums[offsets[1:]] - sums[starts] + lengths.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(factor)
    return np.asarray(hashed ^ (hashed >> np.uint64(33)))


def check_key_types(schema: pa.Schema) -> None:
    """Refuse, early, fields that cannot be keys: TypeDeclarationError names the first of them."""
    for field in schema:
        if (wrong := _unfit(field.type)) is not None:
            raise TypeDeclarationError(
                f"field {field.name!r} of type {field.type} cannot be a key of a state: {wrong} has no encoding; "
                f"accepted are string, binary, boolean, integers, float, double, decimal, date, timestamp, "
                f"timestamp_ntz, and arrays and structs of them"
            )


def buffers_of(array: pa.Array) -> tuple[_U8, _I64]:
    """The bytes of a binary array without nulls, and its n + 1 offsets into them, the first of which is 0."""
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def binary_of(data: _U8, offsets: _I64) -> pa.Array:
    """A binary array of these bytes, cut at these n + 1 offsets."""
    if len(data) > _MAX_BYTES:
        raise _too_long(len(data))
    cuts = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, cuts, pa.py_buffer(np.ascontiguousarray(data))])


# --- encoding ----------------------------------------------------------------------------------------------------


def _encode(column: pa.Array, alone: bool = False) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode(column.dictionary_decode(), alone)
    if pa.types.is_null(kind):
        return pa.array([_NULL] * len(column), pa.binary())
    if _is_text(kind) or _is_bytes(kind):
        body = _encode_bytes(column, b"s" if _is_text(kind) else b"x", alone)
    elif pa.types.is_struct(kind):
        body = _joined([_repeated(b"{", len(column)), *map(_encode, column.flatten())])
    elif _is_list(kind):
        body = _encode_list(column)
    else:
        body = _fixed(_encode_fixed(column))
    return pc.if_else(column.is_valid(), body, pa.scalar(_NULL, pa.binary())) if column.null_count else body


def _encode_bytes(column: pa.Array, tag: bytes, alone: bool) -> pa.Array:
    values = column.cast(pa.binary()).fill_null(b"")
    if alone:
        return _joined([pa.scalar(tag, pa.binary()), values])
    return _joined([_counted(tag.upper(), pc.binary_length(values)), values])


def _encode_list(column: pa.Array) -> pa.Array:
    counts = pc.list_value_length(column).fill_null(0)
    data, cuts = buffers_of(_encode(column.flatten()))
    ends = np.concatenate([[0], np.cumsum(counts.to_numpy(zero_copy_only=False))])
    return _joined([_counted(b"[", counts), binary_of(data, cuts[ends])])


def _encode_fixed(column: pa.Array) -> _U8:
    """One row of bytes a value, tag first; what stands for a null is not looked at."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _tagged(b"b", _numbers(column.cast(pa.uint8()), np.uint8))
    if pa.types.is_integer(kind):
        return _tagged(b"i", _numbers(column.cast(pa.int64()), np.int64))
    if pa.types.is_floating(kind):
        numbers = _numbers(column.cast(pa.float64()), np.float64) + 0.0
        return _tagged(b"f", np.where(np.isnan(numbers), np.nan, numbers))
    if pa.types.is_date(kind):
        return _tagged(b"D", _numbers(column.cast(pa.date32()).cast(pa.int32()), np.int32))
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return _tagged(b"t" if kind.tz else b"T", _numbers(micros, np.int64))
    wide = column.cast(pa.decimal128(38, kind.scale))
    unscaled = np.frombuffer(wide.buffers()[1], np.uint8, 16 * len(wide), 16 * wide.offset).reshape(-1, 16)
    return np.hstack([np.full((len(wide), 2), [ord("d"), kind.scale], np.uint8), unscaled])


def _numbers(column: pa.Array, kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(column.fill_null(0).to_numpy(zero_copy_only=False), kind)


def _tagged(tag: bytes, numbers: npt.NDArray[Any]) -> _U8:
    rows = numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize)
    return np.hstack([np.full((len(numbers), 1), tag[0], np.uint8), rows])


def _counted(tag: bytes, counts: pa.Array) -> pa.Array:
    return _fixed(_tagged(tag, _numbers(counts, np.uint32)))


def _fixed(rows: _U8) -> pa.Array:
    return binary_of(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])


def _repeated(value: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.binary()), count)


def _joined(parts: list[Any]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    size = sum(part.nbytes for part in parts if isinstance(part, pa.Array))
    try:
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    except pa.ArrowInvalid as error:
        raise _too_long(size) from error


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        raise _too_long(column.nbytes)
    return joined


# --- decoding: one cursor a row, all rows at once ------------------------------------------------------------------


def _decode_alone(encoded: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The common case at once: one string or binary field, no null."""
    if not (_is_text(kind) or _is_bytes(kind)):
        return None
    if not pc.all(pc.starts_with(encoded, b"s" if _is_text(kind) else b"x"), min_count=0).as_py():
        return None
    return _text(pc.binary_slice(encoded, 1, _MAX_BYTES), kind)


def _decode(kind: pa.DataType, data: _U8, at: _I64, ends: _I64, alone: bool = False) -> tuple[pa.Array, _I64]:
    """The values that begin at `at`, and where they end."""
    tags = _gather(data, at, ends, 1)[:, 0]
    full = tags != _NULL[0]
    at = at + 1
    if pa.types.is_null(kind):
        if full.any():
            raise _corrupt(str(kind))
        return pa.nulls(len(at)), at
    if not np.all(tags[full] == _tag_of(kind, alone)):
        raise _corrupt(str(kind))
    values, after = _decode_body(kind, data, at[full], ends[full], alone)
    if full.all():
        return values, after
    at[full] = after
    place = np.cumsum(full) - 1
    return values.take(pa.array(place, mask=~full)), at


def _decode_body(kind: pa.DataType, data: _U8, at: _I64, ends: _I64, alone: bool) -> tuple[pa.Array, _I64]:
    if pa.types.is_struct(kind):
        return _decode_struct(kind, data, at, ends)
    if _is_list(kind):
        return _decode_list(kind, data, at, ends)
    if _is_text(kind) or _is_bytes(kind):
        if alone:
            lengths = ends - at
        else:
            lengths, at = _read_count(data, at, ends)
        return _text(_slices(data, at, lengths, ends), kind), at + lengths
    width = _width_of(kind)
    return _decode_fixed(kind, _gather(data, at, ends, width)), at + width


def _decode_struct(kind: pa.DataType, data: _U8, at: _I64, ends: _I64) -> tuple[pa.Array, _I64]:
    fields, columns = [kind.field(i) for i in range(kind.num_fields)], []
    for field in fields:
        column, at = _decode(field.type, data, at, ends)
        columns.append(column)
    if not columns:
        return pa.array([{}] * len(at), kind), at
    return pa.StructArray.from_arrays(columns, fields=fields), at


def _decode_list(kind: pa.DataType, data: _U8, at: _I64, ends: _I64) -> tuple[pa.Array, _I64]:
    counts, at = _read_count(data, at, ends)
    if np.any(counts > ends - at):  # an element takes a byte at least
        raise _corrupt(str(kind))
    rows, ranks, parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [pa.nulls(0, kind.value_type)]
    for rank in range(int(counts.max(initial=0))):
        left = np.flatnonzero(counts > rank)
        values, at[left] = _decode(kind.value_type, data, at[left], ends[left])
        rows.append(left)
        ranks.append(np.full(len(left), rank))
        parts.append(values)
    order = np.lexsort((np.concatenate(ranks), np.concatenate(rows)))
    values = pa.concat_arrays(parts).take(pa.array(order))
    large = pa.types.is_large_list(kind)
    cuts = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64() if large else pa.int32())
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(cuts, values, type=kind), at


def _decode_fixed(kind: pa.DataType, raw: _U8) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(raw[:, 0]).cast(pa.bool_())
    if pa.types.is_integer(kind):
        return _cast(pa.array(raw.view("<i8")[:, 0]), kind)
    if pa.types.is_floating(kind):
        return pa.array(raw.view("<f8")[:, 0]).cast(kind)
    if pa.types.is_date(kind):
        return pa.array(raw.view("<i4")[:, 0]).cast(pa.date32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return _cast(pa.array(raw.view("<i8")[:, 0]).cast(pa.timestamp("us", kind.tz)), kind)
    if np.any(raw[:, 0] != kind.scale):
        raise _corrupt(str(kind))
    unscaled = pa.py_buffer(np.ascontiguousarray(raw[:, 1:]))
    return _cast(pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(raw), [None, unscaled]), kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, decimal.DecimalException) as error:
        raise _corrupt(str(kind)) from error


def _text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:  # not UTF-8
        raise _corrupt(str(kind)) from error


def _read_count(data: _U8, at: _I64, ends: _I64) -> tuple[_I64, _I64]:
    return _gather(data, at, ends, 4).view("<u4")[:, 0].astype(np.int64), at + 4


def _gather(data: _U8, at: _I64, ends: _I64, width: int) -> _U8:
    """The `width` bytes that begin at each `at`, as rows."""
    if np.any(at + width > ends):
        raise _corrupt("a key")
    return np.ascontiguousarray(data[at[:, None] + np.arange(width)])


def _slices(data: _U8, at: _I64, lengths: _I64, ends: _I64) -> pa.Array:
    """The `lengths` bytes that begin at each `at`, as a binary array."""
    if np.any(at + lengths > ends):
        raise _corrupt("a key")
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    return binary_of(data[np.arange(cuts[-1]) + np.repeat(at - cuts[:-1], lengths)], cuts)


# --- types -------------------------------------------------------------------------------------------------------


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or kind == pa.binary_view())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _unfit(kind: pa.DataType) -> pa.DataType | None:
    """The part of a type that has no encoding."""
    if pa.types.is_dictionary(kind):
        return _unfit(kind.value_type)
    if _is_list(kind):
        return _unfit(kind.value_type)
    if pa.types.is_struct(kind):
        return next((wrong for i in range(kind.num_fields) if (wrong := _unfit(kind.field(i).type)) is not None), None)
    simple = (pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_date)
    if any(fits(kind) for fits in simple) and kind != pa.uint64():
        return None
    if pa.types.is_timestamp(kind) or (pa.types.is_decimal128(kind) and kind.scale >= 0):
        return None
    return None if _is_text(kind) or _is_bytes(kind) else kind


def _tag_of(kind: pa.DataType, alone: bool) -> int:
    if _is_text(kind):
        return ord("s" if alone else "S")
    if _is_bytes(kind):
        return ord("x" if alone else "X")
    if pa.types.is_timestamp(kind):
        return ord("t" if kind.tz else "T")
    for fits, tag in _TAGS:
        if fits(kind):
            return ord(tag)
    return ord("[")


_TAGS = (
    (pa.types.is_boolean, "b"),
    (pa.types.is_integer, "i"),
    (pa.types.is_floating, "f"),
    (pa.types.is_date, "D"),
    (pa.types.is_decimal, "d"),
    (pa.types.is_struct, "{"),
)


def _width_of(kind: pa.DataType) -> int:
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_decimal(kind):
        return 17
    return 4 if pa.types.is_date(kind) else 8


@functools.lru_cache(maxsize=8)
def _powers(bits: int) -> npt.NDArray[np.uint64]:
    """P**1, P**2, ... for values of up to 2**bits - 1 bytes."""
    return np.cumprod(np.full(2**bits, 0x9E3779B97F4A7C15, np.uint64), dtype=np.uint64)


def _corrupt(what: str) -> StateCorruptError:
    return StateCorruptError(f"stored key bytes cannot be {what} of this state's key")


def _too_long(size: int) -> StateValueError:
    return StateValueError(f"{size} bytes of keys in one batch; at most {_MAX_BYTES} can be encoded at once")
