"""Keys as bytes, one at a time. For a few keys this takes a tenth of the time that `trident_state.keys` needs.

The bytes and hashes must equal those of `trident_state.keys` (checked by `tests/state/test_few_keys.py`).
"""

import struct
from collections.abc import Callable
from operator import mul
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from trident_state.keys import GLOBAL, hash_keys

Key = tuple[Any, ...]
"""The values of the key fields, each None or of the Python type that a column of its field's type returns."""

KeyEncoder = Callable[[Key], bytes]

_Encode = Callable[[Any], bytes]

_NULL = b"N"
_NAN = float(np.nan)
_BITS = 0xFFFFFFFFFFFFFFFF
_P = 0x9E3779B97F4A7C15
_POWERS = [pow(_P, exponent, 2**64) for exponent in range(1, 65)]
_FIRST_DAY = 719163
"""The ordinal of 1970-01-01."""


def key_encoder(schema: pa.Schema) -> KeyEncoder | None:
    """Return a function from a key to the bytes of `encode_keys`; None if a field's type has no encoder here.

    >>> key_encoder(pa.schema({"word": pa.string()}))(("dog",))
    b'sdog'
    """
    fields = list(schema)
    if not fields:
        return lambda key: GLOBAL
    encoders = [_encoder(field.type, alone=len(fields) == 1) for field in fields]
    if None in encoders:
        return None
    if len(encoders) == 1:
        (only,) = encoders
        return lambda key: only(key[0])  # type: ignore[misc]
    return lambda key: b"".join([encode(value) for encode, value in zip(encoders, key, strict=True)])  # type: ignore[misc]


def hash_key(encoded: bytes) -> int:
    """Return the hash of `hash_keys` for one key.

    >>> hash_key(b"sdog"), hash_key(b"")
    (18268296219862475452, 0)
    """
    if len(encoded) > len(_POWERS):
        return int(hash_keys(pa.array([encoded], pa.binary()))[0])
    hashed: int = (sum(map(mul, encoded, _POWERS)) + len(encoded) * 0xD6E8FEB86659FD93) & _BITS
    hashed = ((hashed ^ (hashed >> 33)) * 0xFF51AFD7ED558CCD) & _BITS
    hashed = ((hashed ^ (hashed >> 33)) * 0xC4CEB9FE1A85EC53) & _BITS
    return hashed ^ (hashed >> 33)


def _encoder(kind: pa.DataType, alone: bool) -> _Encode | None:
    """Return the encoder of one field's values; None if there is none for its type."""
    if kinds.is_string(kind):
        return _text if alone else _text_with_length
    if kinds.is_binary(kind):
        return _bytes if alone else _bytes_with_length
    if kinds.is_boolean(kind):
        return lambda value: _NULL if value is None else b"b\1" if value else b"b\0"
    if kinds.is_integer(kind) and kind != pa.uint64():
        pack = struct.Struct("<cq").pack
        return lambda value: _NULL if value is None else pack(b"i", value)
    if kinds.is_floating(kind):
        return _float
    if kinds.is_date32(kind):
        days = struct.Struct("<ci").pack
        return lambda value: _NULL if value is None else days(b"D", value.toordinal() - _FIRST_DAY)
    return None


def _text(value: str | None) -> bytes:
    return _NULL if value is None else b"s" + value.encode()


def _bytes(value: bytes | None) -> bytes:
    return _NULL if value is None else b"x" + value


def _text_with_length(value: str | None) -> bytes:
    return _NULL if value is None else _with_length(b"S", value.encode())


def _bytes_with_length(value: bytes | None) -> bytes:
    return _NULL if value is None else _with_length(b"X", value)


def _with_length(tag: bytes, content: bytes) -> bytes:
    return b"%b%b%b" % (tag, len(content).to_bytes(4, "little"), content)


def _float(value: float | None) -> bytes:
    if value is None:
        return _NULL
    return struct.pack("<cd", b"f", value + 0.0 if value == value else _NAN)
