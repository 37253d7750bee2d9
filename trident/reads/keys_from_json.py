"""Keys of states as users write them in JSON, on a command line or in the path of a URL."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateKeyError
from trident.base.json_values import from_json, read_json
from trident.base.names import quote
from trident.base.short_texts import short_repr
from trident.base.value_conversion import type_name


def key_of_text(text: str, fields: pa.Schema, state: str) -> Any:
    """Return the key that `text` means, for a state with these key fields.

    Keys that are text, dates, times or binary (base64) are written as they are, all others in JSON; a key of several
    fields is a JSON list. Raises StateKeyError if the text is not such a key.

    >>> key_of_text("dog", pa.schema({"word": pa.string()}), "counts")
    'dog'
    >>> key_of_text('["dog", 7]', pa.schema({"word": pa.string(), "n": pa.int64()}), "counts")
    ('dog', 7)
    """
    return _of_text(text, fields, state, key_of_json)


def key_of_json(value: Any, fields: pa.Schema, state: str) -> Any:
    """Return the key that a JSON value means, for a state with these key fields.

    Raises StateKeyError if it is not such a key. A value of a wrong type that JSON can express is returned unchanged;
    the state then refuses it.

    >>> key_of_json(["dog", "2024-02-29"], pa.schema({"word": pa.string(), "day": pa.date32()}), "counts")
    ('dog', datetime.date(2024, 2, 29))
    """
    parts = [value] if len(fields) == 1 else value
    if not isinstance(parts, list) or len(parts) != len(fields):
        raise _invalid(value, fields, state)
    try:
        key = tuple(from_json(part, field.type) for part, field in zip(parts, fields, strict=True))
    except ValueError:
        raise _invalid(value, fields, state) from None
    return key[0] if len(fields) == 1 else key


def beginning_of_text(text: str, fields: pa.Schema, state: str) -> Any:
    """Return the beginning of a key that `text` means: written as for `key_of_text`, or as for `beginning_of_json`.

    Raises StateKeyError if the text is not the beginning of a key.

    >>> beginning_of_text("do", pa.schema({"word": pa.string()}), "counts")
    'do'
    """
    return _of_text(text, fields, state, beginning_of_json)


def beginning_of_json(value: Any, fields: pa.Schema, state: str) -> Any:
    """Return the beginning of a key that a JSON value represents: a list gives a tuple of the first fields' values.

    Any other value is that of the first field. Raises StateKeyError if it is not the beginning of a key.

    >>> fields = pa.schema({"word": pa.string(), "n": pa.int64()})
    >>> beginning_of_json(["dog"], fields, "counts"), beginning_of_json("do", fields, "counts")
    (('dog',), 'do')
    """
    parts = value if isinstance(value, list) else [value]
    if not len(parts) <= len(fields):
        raise _invalid(value, fields, state)
    given = pa.schema(list(fields)[: len(parts)])
    values = tuple(key_of_json(part, pa.schema([field]), state) for part, field in zip(parts, given, strict=True))
    return values if isinstance(value, list) else values[0]


def is_written_plainly(kind: pa.DataType) -> bool:
    """Return whether values of this type are texts in JSON, and so are written on a command line without quotes."""
    return bool(kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_date(kind) or kinds.is_timestamp(kind))


def _of_text(text: str, fields: pa.Schema, state: str, of_json: Callable[[Any, pa.Schema, str], Any]) -> Any:
    if len(fields) == 1 and is_written_plainly(fields.field(0).type):
        return key_of_json(text, fields, state)
    try:
        value = read_json(text)
    except ValueError:
        raise _invalid(text, fields, state) from None
    return of_json(value, fields, state)


def _invalid(value: object, fields: pa.Schema, state: str) -> StateKeyError:
    declared = ", ".join(
        f"{quote(field.name)} {type_name(field.type)}{' (base64)' if kinds.is_binary(field.type) else ''}"
        for field in fields
    )
    expected = declared if len(fields) == 1 else f"a JSON list of ({declared})"
    return StateKeyError(f"state {state!r}: invalid key {short_repr(value)}: expected {expected}")
