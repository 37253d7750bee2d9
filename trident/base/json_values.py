"""Values of states and DRPC functions as JSON, and back.

JSON has no binary, decimals, dates and times, so they are texts: base64, digits, ISO 8601. NaN and the infinities are
the texts "NaN", "Infinity" and "-Infinity", as in Protocol Buffers' JSON. A struct is an object; so is a map, with
texts as keys (a key of another type becomes its JSON). A struct is read from a list of its values too.
"""

import base64
import datetime
import decimal
import json
import math
import re
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.short_texts import short_repr
from trident_client.json_values import jsonable as jsonable
from trident_client.json_values import to_json as to_json

_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FINER = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text from outside, with each number that has a point or an exponent as a Decimal.

    Raises ValueError if the text is not JSON, is nested too deeply to be read, or has a whole number of more than 4,300
    digits.

    >>> read_json('["dog", 1.50]')
    ['dog', Decimal('1.50')]
    """
    try:
        return json.loads(text, parse_float=decimal.Decimal)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:
        raise ValueError(str(error).partition(";")[0]) from None  # without advice about Python's settings


def from_json(value: Any, kind: pa.DataType) -> Any:
    r"""Return a JSON value as a value of a column of type `kind`.

    A value that JSON can express comes back unchanged, even if its type is wrong: the column then refuses it. Raises
    ValueError for a text that is not a valid binary, decimal, date or time, for a number beyond the range of a float,
    and for a map with two equal keys.

    >>> from_json("2024-02-29", pa.date32())
    datetime.date(2024, 2, 29)
    >>> from_json({"at": ["AQI="]}, pa.map_(pa.string(), pa.list_(pa.binary())))
    {'at': [b'\x01\x02']}
    """
    if value is None:
        return None
    if isinstance(value, list) and (kinds.is_list(kind) or kinds.is_large_list(kind)):
        return [from_json(item, kind.value_type) for item in value]
    if kinds.is_struct(kind):
        return _struct_from_json(value, kind)
    if isinstance(value, dict) and kinds.is_map(kind):
        return _map_from_json(value, kind)
    return _scalar(value, kind)


def _struct_from_json(value: Any, kind: pa.DataType) -> Any:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    if isinstance(value, list) and len(value) == len(fields):
        return tuple(from_json(item, field.type) for field, item in zip(fields, value, strict=True))
    if not isinstance(value, dict):
        return value
    types = {field.name: field.type for field in fields}
    return {name: from_json(item, types[name]) if name in types else item for name, item in value.items()}


def _map_from_json(value: dict[str, Any], kind: pa.DataType) -> dict[Any, Any]:
    text = kinds.is_string(kind.key_type)
    entries: dict[Any, Any] = {}
    for written, item in value.items():
        key = from_json(written if text else read_json(written), kind.key_type)
        if isinstance(key, list | dict):
            raise ValueError(f"in JSON a key of a map is one plain value, not {short_repr(written)}")
        if key in entries:
            raise ValueError(f"two keys of a map are equal: {short_repr(key)}")
        entries[key] = from_json(item, kind.item_type)
    return entries


def _scalar(value: Any, kind: pa.DataType) -> Any:
    try:
        if kinds.is_binary(kind) or kinds.is_large_binary(kind):
            return base64.b64decode(value, validate=True)
        if kinds.is_decimal(kind):
            return decimal.Decimal(
                str(value) if isinstance(value, float) else value
            )  # a float's shortest text: the digits in the JSON
        if kinds.is_date(kind):
            return datetime.date.fromisoformat(value)
        if kinds.is_timestamp(kind):
            return read_time(value)
    except (TypeError, ArithmeticError) as error:
        raise ValueError(str(error)) from None
    return _number(value, kind) if kinds.is_floating(kind) else value


def _number(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str):
        return _NO_NUMBERS.get(value, value)
    if isinstance(value, bool) or not isinstance(value, decimal.Decimal | float | int):
        return value
    try:
        number = float(value)
    except OverflowError:  # an int beyond the range of a float
        number = math.inf
    with numpy.errstate(over="ignore"):
        nearest = numpy.float32(number) if kinds.is_float32(kind) else number
    if math.isinf(nearest) and (not isinstance(value, float) or math.isfinite(value)):
        raise ValueError(f"it is out of the range of {kind}")
    return number


def read_time(text: str) -> datetime.datetime:
    """Return a time in ISO 8601. Raises ValueError for another text, or for digits beyond the microsecond.

    >>> read_time("2024-02-29T12:00:00.123456Z").microsecond
    123456
    """
    if _FINER.search(text):  # Python would drop these digits
        raise ValueError(f"{text!r} is finer than a microsecond")
    return datetime.datetime.fromisoformat(text)


_PLAIN = {kind.id for kind in (pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64())}


def is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a column of type `kind` can be written as JSON unchanged."""
    return kind.id in _PLAIN
