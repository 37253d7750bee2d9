"""Copies of values that a user's function or spout emits, because it may reuse the same list for its next tuple.

The values of a batch are converted to Arrow together, after all calls. If a list, dict or buffer were reused by then,
all tuples would have its last content. The metadata that a user's spout gets is copied too: it may change them.
"""

import copy
import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds

_NEVER_FILLED = frozenset(
    {str, int, float, bool, bytes, type(None), datetime.date, datetime.datetime, datetime.timedelta, decimal.Decimal}
)
"""The types of most values, which cannot be changed."""


def may_be_filled(fields: pa.Schema) -> bool:
    """Return whether a value of these fields may be a list, a dict or a buffer that the function reuses."""
    return any(kinds.is_nested(field.type) or kinds.is_binary(field.type) for field in fields)


def own_values(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of one tuple, with copies of those that the user's function may change.

    >>> buffer = [1]
    >>> kept = own_values(["a", buffer])
    >>> buffer.append(2)
    >>> kept
    ('a', [1])
    """
    return tuple(values) if _NEVER_FILLED.issuperset(map(type, values)) else tuple(map(own_value, values))


def own_value(value: Any) -> Any:
    """Return a value; a copy if the user's code may change it. Iterators and all other objects stay as they are.

    >>> buffer = bytearray(b"a")
    >>> row = own_value((1, {"tags": [buffer]}))
    >>> buffer[0] = 98
    >>> row
    (1, {'tags': [b'a']})
    """
    kind = type(value)
    if kind in _NEVER_FILLED:
        return value
    if kind is list:
        return list(map(own_value, value))
    if kind is tuple:
        return own_values(value)
    if kind is dict:
        return {key: own_value(item) for key, item in value.items()}
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return copy.deepcopy(value) if isinstance(value, list | tuple | dict | numpy.ndarray) else value
