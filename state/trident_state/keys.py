"""Keys as bytes: two keys of the same types have equal bytes if and only if Spark's ``groupBy`` groups them together.

The bytes of a key are the encodings of its fields (`trident_state.encoding`) one after the other, with -0.0 written as
0.0 and every NaN as the same NaN. A key without fields (that of one global value) is ``*``. Stored states hold these
bytes and rely on their hashes, so a change here is a new store format.
"""

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateCorruptError, StateValueError, TypeDeclarationError
from trident_state.binary_arrays import Bytes, Offsets, buffers_of, join_columns, one_chunk
from trident_state.encoding import decode_column, decode_row, encode_column, unencodable

GLOBAL = b"*"

_MANY, _SHORT = 2048, 64
"""If at least `_MANY` keys are hashed, keys of at most `_SHORT` bytes are hashed by `_sums_side_by_side`."""


def encode_keys(keys: pa.Table) -> pa.Array:
    r"""Return each row as a binary value, never null. Two values are equal exactly if Spark groups their rows together.

    Raises TypeDeclarationError if a type cannot be a key (a map), StateValueError for more than 2 GB of keys.

    >>> encode_keys(pa.table({"word": ["dog", None]})).to_pylist()
    [b'sdog', b'N']
    >>> encode_keys(pa.table({"word": ["dog"], "n": pa.array([1], pa.int32())})).to_pylist()
    [b'S\x03\x00\x00\x00dogi\x01\x00\x00\x00\x00\x00\x00\x00']
    """
    check_key_types(keys.schema)
    return _encode(keys)


def encode_checked_keys(where: str, schema: pa.Schema, keys: pa.Table) -> pa.Array:
    """Return keys of a state as bytes, like `encode_keys`; `schema` holds the state's key fields.

    Raises StateValueError if the types of the keys are not those of `schema`; their names do not matter. The types in
    `schema` are not checked: they passed `check_key_types` before.
    """
    if not keys.schema.equals(schema) and keys.schema.types != schema.types:
        raise StateValueError(f"{where}: expected keys ({_shown(schema)}), got ({_shown(keys.schema)})")
    return _encode(keys)


def encode_and_hash(where: str, schema: pa.Schema, keys: pa.Table) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    """Return keys of a state as bytes, like `encode_checked_keys`, and the hash of each key's bytes."""
    encoded = encode_checked_keys(where, schema, keys)
    return encoded, hash_keys(encoded)


def _encode(keys: pa.Table) -> pa.Array:
    if keys.num_columns == 0:
        return pa.array([GLOBAL] * keys.num_rows, pa.binary())
    alone = keys.num_columns == 1
    columns = [encode_column(one_chunk(column), alone, grouped=True) for column in keys.columns]
    return columns[0] if alone else join_columns(*columns)


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def decode_keys(encoded: pa.Array, schema: pa.Schema) -> pa.Table:
    """Return the rows that `encode_keys` encoded, with the fields of `schema`.

    The bytes are not trusted. Raises StateCorruptError if they are not keys with the types of `schema`.

    >>> decode_keys(pa.array([b"sdog", b"N"], pa.binary()), pa.schema({"word": pa.string()})).to_pylist()
    [{'word': 'dog'}, {'word': None}]
    """
    check_key_types(schema)
    encoded = one_chunk(encoded)
    try:
        if len(schema) == 0:
            return _rows_without_fields(encoded)
        if len(schema) == 1:
            return pa.table([decode_column(encoded, schema.field(0).type, alone=True)], schema=schema)
        return pa.table(decode_row(encoded, schema.types), schema=schema)
    except StateCorruptError as error:
        raise StateCorruptError(
            f"a stored key does not have the types ({', '.join(f'{f.name} {f.type}' for f in schema)}): {error}"
        ) from error


def hash_keys(encoded: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each binary value. The hash decides the bucket of a stored key, so it must never change.

    The hash is the sum of byte[j] * P**(j+1) mod 2**64 with P = 0x9E3779B97F4A7C15, plus the length times
    0xD6E8FEB86659FD93, put through MurmurHash3's finaliser fmix64.

    >>> hash_keys(pa.array([b"sdog", b""], pa.binary())).tolist()
    [18268296219862475452, 0]
    """
    encoded = one_chunk(encoded)
    data, offsets = buffers_of(encoded)
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    if len(lengths) == 0:
        return np.zeros(0, np.uint64)
    if len(lengths) < _MANY or (long := lengths > _SHORT).all():
        hashed = _sums_of_runs(data, starts, lengths)
    elif not long.any():
        hashed = _sums_side_by_side(data, starts, lengths)
    else:
        hashed = np.zeros(len(lengths), np.uint64)
        for rows in (long, ~long):
            hashed[rows] = hash_keys(encoded.filter(pa.array(rows)))
        return hashed
    hashed += lengths.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(factor)
    return np.asarray(hashed ^ (hashed >> np.uint64(33)))


def _sums_side_by_side(data: Bytes, starts: Offsets, lengths: Offsets) -> npt.NDArray[np.uint64]:
    """Return the sum of byte[j] * P**(j+1) for each of many short keys, by one pass over all keys for each j.

    The arrays of a pass are small enough for the processor's cache.
    """
    most, least = int(lengths.max()), int(lengths.min())
    data, powers = np.concatenate([data, np.zeros(most, np.uint8)]), _powers(most.bit_length())
    sums = np.zeros(len(lengths), np.uint64)
    for at in range(most):
        column = data.take(starts + at)
        if at >= least:
            column[lengths <= at] = 0
        sums += column * powers[at]
    return sums


def _sums_of_runs(data: Bytes, starts: Offsets, lengths: Offsets) -> npt.NDArray[np.uint64]:
    """Return the sum of byte[j] * P**(j+1) for each key, of any length, from a running sum over all bytes."""
    position = np.arange(len(data)) - np.repeat(starts, lengths)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(data * _powers(int(lengths.max()).bit_length())[position], out=sums[1:])
    return np.asarray(sums[starts + lengths] - sums[starts])


def check_key_types(schema: pa.Schema) -> None:
    """Raise TypeDeclarationError if a field cannot be a key. The error names the first such field."""
    for field in schema:
        if (wrong := unencodable(field.type, maps=False)) is not None:
            raise TypeDeclarationError(
                f"field {field.name!r} of type {field.type} cannot be a key of a state: {wrong} has no encoding; "
                f"expected string, binary, boolean, integers, float, double, decimal, date, timestamp, "
                f"timestamp_ntz, day-time intervals, and arrays and structs of them"
            )


def _rows_without_fields(encoded: pa.Array) -> pa.Table:
    if not pc.all(pc.equal(encoded, GLOBAL), min_count=0).as_py():
        raise StateCorruptError("stored key bytes cannot be decoded as a key without fields")
    return pa.table({"": pa.nulls(len(encoded))}).select([])


@functools.lru_cache(maxsize=8)
def _powers(bits: int) -> npt.NDArray[np.uint64]:
    """Return the powers P**1, P**2, ... for keys of up to 2**bits - 1 bytes, as `hash_keys` needs them."""
    return np.cumprod(np.full(2**bits, 0x9E3779B97F4A7C15, np.uint64), dtype=np.uint64)
