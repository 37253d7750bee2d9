"""Ranges of keys as users give them to a view, and the cursors between their pages."""

import base64
import binascii
import zlib
from typing import Any, get_args

import pyarrow as pa

from trident.base.errors import StateKeyError
from trident.base.short_texts import brief, typed_brief
from trident.base.value_conversion import type_name
from trident.operations.query_functions import Inclusive, ends_of
from trident.reads.key_tables import fields_text, key_table
from trident_state.encoding import is_bytes, is_text
from trident_state.key_order import KeyRange, end_of, order_of, order_of_beginning, range_of_ends, unordered_field


def range_between(state: str, fields: pa.Schema, low: Any, high: Any, inclusive: str) -> KeyRange:
    """Return the range of the keys from `low` to `high`; None: no end.

    Each is the value of the only key field, or a tuple of the values of the first fields. Raises StateKeyError if a
    value has another type, or the keys have no order, and ValueError for another word in `inclusive`.
    """
    check_ordered(state, fields)
    if inclusive not in get_args(Inclusive):
        raise ValueError(f"inclusive={brief(inclusive)}: expected {', '.join(map(repr, get_args(Inclusive)))}")
    first, isWholeFirst = _end(state, fields, low)
    last, isWholeLast = _end(state, fields, high)
    return range_of_ends(first, last, (isWholeFirst, isWholeLast), ends_of(inclusive))


def range_of_prefix(state: str, fields: pa.Schema, start: Any) -> KeyRange:
    """Return the range of the keys that begin with `start`.

    `start` is the beginning of the first key field, a text or bytes; or a tuple of the values of the first fields. If a
    tuple has a value for each field, its last value is the beginning of a text or binary field. Raises StateKeyError as
    `range_between` does.
    """
    check_ordered(state, fields)
    values = start if isinstance(start, tuple) else (start,)
    isBeginning = not isinstance(start, tuple) or len(values) == len(fields)
    if not isBeginning:
        beginning = _order(state, fields, values)
        return KeyRange(beginning, end_of(beginning))
    *before, text = values or (None,)
    field = fields.field(len(before)) if len(before) < len(fields) else None
    if field is None or not isinstance(text, bytes if is_bytes(field.type) else str) or not _has_beginnings(field.type):
        raise StateKeyError(
            f"state {state!r}: prefix({brief(start)}): expected the beginning of a text or binary field, or a tuple of "
            f"values of the first key fields ({fields_text(fields)}); for other keys use range(low, high)"
        )
    whole = _order(state, fields, tuple(before)) if before else b""
    beginning = whole + order_of_beginning(text, isLast=len(values) == len(fields))
    return KeyRange(beginning, end_of(beginning))


def check_ordered(state: str, fields: pa.Schema) -> None:
    """Raise StateKeyError if keys with these fields have no order."""
    if not len(fields):
        raise StateKeyError(f"state {state!r} is one global value without a key, so it has no ranges: read view.value")
    if (field := unordered_field(fields)) is not None:
        raise StateKeyError(
            f"state {state!r}: keys with the field {field.name!r} of type {type_name(field.type)} have no order, so "
            f"there are no ranges of them; expected numbers, text, binary values, booleans, dates, times and "
            f"intervals. Read all entries instead, by items() or toArrow(), or group by separate fields"
        )


def cursor_of(state: str, key: pa.Table) -> str:
    """Return the cursor of a page that ends with this key, a table of one row."""
    return cursor_at(state, order_of(key, key.num_columns)[0].as_py())


def cursor_at(state: str, order: bytes) -> str:
    """Return the cursor of a page that ends with the key that has these bytes."""
    return f"{_check(state, order)}.{base64.urlsafe_b64encode(order).decode()}"


def place_of(state: str, cursor: str) -> bytes:
    """Return the bytes from which `cursor_at` made a cursor. Raises ValueError if it is not one of the state."""
    try:
        check, encoded = cursor.split(".")
        order = base64.b64decode(encoded, altchars=b"-_", validate=True)
        if check != _check(state, order):
            raise ValueError(cursor)
    except (AttributeError, binascii.Error, ValueError):
        raise ValueError(f"after={brief(cursor)} is not the cursor of a page of state {state!r}") from None
    return order


def _check(state: str, order: bytes) -> str:
    """Return the checksum by which a reader notices a truncated cursor, or a cursor of another state."""
    return f"{zlib.crc32(order, zlib.crc32(state.encode())):08x}"


def _has_beginnings(kind: pa.DataType) -> bool:
    return is_text(kind) or is_bytes(kind)


def _end(state: str, fields: pa.Schema, bound: Any) -> tuple[bytes | None, bool]:
    """Return the end of a range as bytes in order (None: no end), and whether it has all fields of a key."""
    if bound is None:
        return None, False
    if len(fields) > 1 and not isinstance(bound, tuple):
        raise StateKeyError(
            f"state {state!r}: invalid end of a range {typed_brief(bound)}: expected a tuple of values of the first "
            f"key fields ({fields_text(fields)})"
        )
    values = bound if isinstance(bound, tuple) else (bound,)
    return _order(state, fields, values), len(values) == len(fields)


def _order(state: str, fields: pa.Schema, values: tuple[Any, ...]) -> bytes:
    """Return the order-preserving bytes of values of the first key fields."""
    if not 0 < len(values) <= len(fields):
        raise StateKeyError(
            f"state {state!r}: invalid beginning of a key {typed_brief(values)}: expected 1 to {len(fields)} values "
            f"({fields_text(fields)})"
        )
    given = pa.schema(list(fields)[: len(values)])
    keys = key_table(state, given, [values if len(values) > 1 else values[0]])
    order: bytes = order_of(keys, len(fields))[0].as_py()
    return order
