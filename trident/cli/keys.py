"""Keys of states as users write them on a command line."""

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateKeyError
from trident.base.names import quote
from trident.base.values import type_name


def read_key(text: str, fields: pa.Schema, state: str) -> Any:
    """Return the key that `text`, an argument of the command line, means for these key fields of a state.

    Raises StateKeyError if the text is no such key.

    >>> read_key("dog", pa.schema({"word": pa.string()}), "counts")
    'dog'
    >>> read_key('["dog", 7]', pa.schema({"word": pa.string(), "n": pa.int64()}), "counts")
    ('dog', 7)
    """
    if len(fields) == 1:
        return _single(text, fields.field(0), state)
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != len(fields):
        declared = ", ".join(f"{quote(field.name)} {type_name(field.type)}" for field in fields)
        raise StateKeyError(f"state {state!r}: invalid key {text!r}: expected a JSON list of ({declared})")
    return tuple(_typed(part, field, state) for part, field in zip(parts, fields, strict=True))


def _single(text: str, field: pa.Field, state: str) -> Any:
    if kinds.is_string(field.type) or kinds.is_binary(field.type) or _is_time(field.type):
        return _typed(text, field, state)
    try:
        return _typed(json.loads(text, parse_float=str if kinds.is_decimal(field.type) else None), field, state)
    except json.JSONDecodeError:
        raise _invalid(text, field, state) from None


def _typed(value: Any, field: pa.Field, state: str) -> Any:
    """Return a value from JSON as a value of the key field: bytes, a decimal, a date, a time, or unchanged.

    Raises StateKeyError if it cannot be converted. The state itself refuses an unchanged value of another type.
    """
    kind = field.type
    if value is None:
        return None
    try:
        if kinds.is_binary(kind):
            return base64.b64decode(value, validate=True)
        if kinds.is_decimal(kind):
            return decimal.Decimal(value)
        if kinds.is_date(kind):
            return datetime.date.fromisoformat(value)
        if kinds.is_timestamp(kind):
            return datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError, ArithmeticError):
        raise _invalid(value, field, state) from None
    return value


def _is_time(kind: pa.DataType) -> bool:
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind))


def _invalid(value: object, field: pa.Field, state: str) -> StateKeyError:
    encoding = " (base64)" if kinds.is_binary(field.type) else ""
    declared = f"{quote(field.name)} {type_name(field.type)}{encoding}"
    return StateKeyError(f"state {state!r}: invalid key {value!r}: expected {declared}")
