"""Values of states and DRPC functions as JSON, and back.

JSON has no binary, decimals, dates and times, so they are texts: base64, digits, ISO 8601. NaN and the infinities are
the texts "NaN", "Infinity" and "-Infinity", as in Protocol Buffers' JSON. A struct is an object; so is a map, whose
keys are texts (a key of another type becomes its JSON).
"""

import base64
import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row

_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(value: Any, kind: pa.DataType) -> Any:
    r"""Return a JSON value as a value of a column of type `kind`.

    What JSON can express comes back unchanged, even if its type is wrong: the column then refuses it. Raises ValueError
    for a text that is no binary, decimal, date or time.

    >>> from_json("2024-02-29", pa.date32())
    datetime.date(2024, 2, 29)
    >>> from_json({"at": ["AQI="]}, pa.map_(pa.string(), pa.list_(pa.binary())))
    {'at': [b'\x01\x02']}
    """
    if value is None:
        return None
    if isinstance(value, list) and (kinds.is_list(kind) or kinds.is_large_list(kind)):
        return [from_json(item, kind.value_type) for item in value]
    if isinstance(value, dict) and kinds.is_struct(kind):
        types = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        return {name: from_json(item, types[name]) if name in types else item for name, item in value.items()}
    if isinstance(value, dict) and kinds.is_map(kind):
        text = kinds.is_string(kind.key_type)
        return {
            from_json(key if text else json.loads(key), kind.key_type): from_json(item, kind.item_type)
            for key, item in value.items()
        }
    return _scalar(value, kind)


def _scalar(value: Any, kind: pa.DataType) -> Any:
    try:
        if kinds.is_binary(kind) or kinds.is_large_binary(kind):
            return base64.b64decode(value, validate=True)
        if kinds.is_decimal(kind):
            return decimal.Decimal(
                str(value) if isinstance(value, float) else value
            )  # as it was written, up to 15 digits
        if kinds.is_date(kind):
            return datetime.date.fromisoformat(value)
        if kinds.is_timestamp(kind):
            return datetime.datetime.fromisoformat(value)
    except (TypeError, ArithmeticError) as error:
        raise ValueError(str(error)) from None
    if kinds.is_floating(kind):
        return float(value) if isinstance(value, decimal.Decimal) else _NO_NUMBERS.get(value, value)
    return value


def to_json(value: Any) -> str:
    """Return any value of a state as one line of JSON.

    >>> to_json(Row(day=datetime.date(2024, 2, 29), share=math.inf, raw=b"..."))
    '{"day": "2024-02-29", "share": "Infinity", "raw": "Li4u"}'
    """
    return json.dumps(jsonable(value), default=str, ensure_ascii=False)


def jsonable(value: Any) -> Any:
    """Return a value of a state as dicts, lists, texts, numbers, bools and None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else _signed_infinity(value)
    if isinstance(value, Row):  # a tuple to JSON
        return {name: jsonable(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else to_json(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _signed_infinity(value: float) -> str:
    return "Infinity" if value > 0 else "-Infinity"


_PLAIN = {pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()}


def is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a column of type `kind` can be written as JSON unchanged."""
    return kind in _PLAIN
