"""Values as JSON, and JSON as the values of declared types, without a package beyond Python's own.

JSON has no binary, decimals, dates and times, so they are texts: base64, digits, ISO 8601. NaN and the infinities are
the texts "NaN", "Infinity" and "-Infinity", as in Protocol Buffers' JSON. A struct is an object; so is a map, with
texts as keys (a key of another type becomes its JSON).
"""

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from trident_client.names import split_top, unquote
from trident_client.rows import Row

Decoder = Callable[[Any], Any]
"""A function from a JSON value to the value that it stands for; null is none of its arguments."""


_PLAIN = (str, int, bool, type(None))


def jsonable(value: Any) -> Any:
    """Return a value of a state as dicts, lists, texts, numbers, bools and None.

    NumPy's numbers and texts become Python's: a key often comes from a DataFrame.

    >>> jsonable([b"dog", Decimal("1.50"), {7: float("nan")}])
    ['ZG9n', '1.50', {'7': 'NaN'}]
    """
    if type(value) in _PLAIN:
        return value
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return _of_numpy(value)
    if isinstance(value, tuple) and hasattr(value, "asDict"):  # a Row is a tuple, which JSON would write as a list
        return {name: jsonable(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else to_json(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Return a value that has no parts."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _no_number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def to_json(value: Any) -> str:
    """Return a value as the text of its JSON."""
    return json.dumps(jsonable(value), default=str, ensure_ascii=False)


def _of_numpy(value: Any) -> Any:
    # A NumPy time may be finer than Python's. Its text is then refused, but a conversion would truncate it.
    return str(value) if value.dtype.kind in "mM" else jsonable(value.item())


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# --- from JSON ----------------------------------------------------------------------------------------------------


def decoder(kind: str) -> Decoder | None:
    """Return the function for values of a declared type; None if JSON has the values themselves.

    >>> decoder("array<decimal(4,2)>")(["1.50", None])
    [Decimal('1.50'), None]
    >>> decoder("struct<at:date,`a b`:map<bigint,string>>")({"at": "2026-02-28", "a b": {"7": "x"}})
    Row(at=datetime.date(2026, 2, 28), a b={7: 'x'})
    """
    name, _, inner = kind.partition("<")
    if not inner:
        return _SIMPLE.get(name.partition("(")[0])
    parts = split_top(inner.removesuffix(">"))
    if name == "struct":
        return _struct(parts)
    return _array(parts[0]) if name == "array" else _map(parts[0], parts[1])


def decoded(rows: Sequence[Sequence[Any]], kinds: Sequence[str]) -> list[list[Any]]:
    """Return rows of JSON values as rows of the values that they stand for."""
    decoders = [decoder(kind) for kind in kinds]
    if not any(decoders):
        return [list(row) for row in rows]
    return [[_decode(each, value) for each, value in zip(decoders, row, strict=True)] for row in rows]


def _decode(decode: Decoder | None, value: Any) -> Any:
    return value if decode is None or value is None else decode(value)


def _decimal(value: Any) -> Decimal:
    return Decimal(str(value))


def _array(kind: str) -> Decoder | None:
    item = decoder(kind)
    return item and (lambda values: [_decode(item, value) for value in values])


def _map(key: str, value: str) -> Decoder:
    decode_key, decode_value = decoder(key), decoder(value)
    text = key == "string"

    def decode(entries: Any) -> dict[Any, Any]:
        keys = (name if text else _decode(decode_key, json.loads(name)) for name in entries)
        return {name: _decode(decode_value, each) for name, each in zip(keys, entries.values(), strict=True)}

    return decode


def _struct(parts: Sequence[str]) -> Decoder:
    fields = [_field(part) for part in parts]
    names = [name for name, _ in fields]
    return lambda value: Row.of(names, [_decode(decode, value[name]) for name, decode in fields])


def _field(part: str) -> tuple[str, Decoder | None]:
    """Return the name and the decoder of a struct's field, of ``a:bigint`` or `` `a b`:date NOT NULL``."""
    end = _end_of_quoted(part) if part.startswith("`") else part.index(":")
    return unquote(part[:end]), decoder(part[end + 1 :].strip().removesuffix(" NOT NULL"))


def _end_of_quoted(part: str) -> int:
    """Return the position after the backtick that ends a name. A doubled backtick within it stands for one."""
    at = 1
    while part[at] != "`" or part[at : at + 2] == "``":
        at += 2 if part[at] == "`" else 1
    return at + 1


_SIMPLE: dict[str, Decoder] = {
    "binary": base64.b64decode,
    "date": date.fromisoformat,
    "decimal": _decimal,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "double": float,
    "float": float,
}
