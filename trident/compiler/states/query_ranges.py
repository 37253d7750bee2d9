"""Ranges of a state's keys as query functions write them."""

from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa

from trident.base.errors import StateKeyError
from trident.base.short_texts import brief
from trident.base.value_conversion import type_name
from trident.compiler.columns.user_keys import key_columns
from trident.operations.query_functions import Inclusive, ends_of
from trident_state.key_order import KeyRange, order_of, range_of_ends, unordered_field


def key_range(given: Sequence[Any], fields: pa.Schema, where: str) -> KeyRange:
    """Return the range that a query function wrote as (low, high) or (low, high, inclusive).

    `where` begins every error's message. Raises StateKeyError if an end has another type, or the keys have no order.
    """
    if (field := unordered_field(fields)) is not None or not len(fields):
        why = "one value has no key" if field is None else f"{field.name!r} is {type_name(field.type)}"
        raise StateKeyError(f"{where} has no ranges, because its keys have no order ({why})")
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise StateKeyError(f"{where}: invalid range {brief(given)}: expected (low, high) or (low, high, inclusive)")
    low, high, *words = given
    inclusive = words[0] if words else "left"
    if inclusive not in get_args(Inclusive):
        raise StateKeyError(f"{where}: inclusive={brief(inclusive)}: expected {', '.join(get_args(Inclusive))}")
    first, last = _end(low, fields, where), _end(high, fields, where)
    isWhole = tuple(end is not None and len(end) == len(fields) for end in (low, high))
    return range_of_ends(first, last, (isWhole[0], isWhole[1]), ends_of(inclusive))


def _end(end: Any, fields: pa.Schema, where: str) -> bytes | None:
    """Return an end of a range as bytes in order; None for no end."""
    if end is None:
        return None
    if not isinstance(end, tuple) or not 0 < len(end) <= len(fields):
        raise StateKeyError(
            f"{where}: invalid end of a range {brief(end)}: expected None or a tuple of 1 to {len(fields)} values"
        )
    given = pa.schema(list(fields)[: len(end)])
    order: bytes = order_of(key_columns([end], given, where).table(given), len(fields))[0].as_py()
    return order
