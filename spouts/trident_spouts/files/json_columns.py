"""Members of many JSON objects as columns, with the same values as when each object is read separately.

The objects come from the decoder of `decoder_for`: if a field needs all digits of a number, numbers with a point or an
exponent are decoded as bytes, a type that no other JSON value has.
"""

import datetime
import math
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.accepted_values import accept
from trident.base.exact_types import exact_type
from trident.base.nested_columns import REFUSALS, WholeColumns, array_of, is_whole, only
from trident_spouts.files.value_conversion import JsonNumber, ValueReader

_PLAIN = msgspec.json.Decoder()
_WITH_DIGITS = msgspec.json.Decoder(float_hook=str.encode)


def decoder_for(fields: pa.Schema) -> "msgspec.json.Decoder[Any]":
    """Return the JSON decoder that keeps all digits that the fields need."""
    return _WITH_DIGITS if any(holds_decimals(field.type) for field in fields) else _PLAIN


def holds_decimals(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a decimal, which needs all digits of a number."""
    return kinds.is_decimal(kind) or any(holds_decimals(kind.field(at).type) for at in range(kind.num_fields))


class JsonColumns(WholeColumns):
    """The fields of JSON objects as columns.

    Rows with a value that may need the exact reader are recorded as doubtful.
    """

    lists = frozenset([list])

    def __init__(self, fields: pa.Schema, reader: ValueReader) -> None:
        self._fields = [(field.name, field.type, field.nullable, is_whole(field.type)) for field in fields]
        self._reader = reader

    def read(self, objects: list[Any], doubts: set[int]) -> list[pa.Array]:
        """Return the columns of these JSON objects. Doubtful values are null."""
        doubts.update(at for at, value in enumerate(objects) if type(value) is not dict)
        dicts = [value if type(value) is dict else {} for value in objects]
        columns = []
        for name, kind, nullable, whole in self._fields:
            values = [each.get(name) for each in dicts]
            if not nullable and None in values:
                doubts.update(at for at, value in enumerate(values) if value is None)
            columns.append((self.column if whole else self.one_by_one)(values, kind, doubts))
        return columns

    def members(self, values: list[Any], names: list[str], doubts: set[int]) -> list[Any]:
        return only(values, frozenset([dict]), doubts)

    def plain(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        types = set(map(type, values)) - {type(None)}
        if types <= {exact_type(kind)} and exact_type(kind) in (str, int, bool, float):
            return array_of(values, kind, doubts)
        try:
            column = self._in_usual_forms(values, types, kind, doubts)
        except REFUSALS:  # the next line finds the doubtful value
            column = None
        return self.one_by_one(values, kind, doubts) if column is None else column

    def _in_usual_forms(
        self, values: list[Any], types: set[type], kind: pa.DataType, doubts: set[int]
    ) -> pa.Array | None:
        """Return values of these Python types as a column; None if one is not in the column's usual form."""
        if kinds.is_decimal(kind) and types <= {bytes, str, int}:
            return self._decimals(values, kind, doubts)
        if kinds.is_floating(kind) and types <= {bytes, float, int}:
            return _floats(values, kind)
        if kinds.is_timestamp(kind) and types <= {str}:
            return _times(values, kind)
        if kinds.is_date(kind) and types <= {str}:
            return pa.array([None if text is None else datetime.date.fromisoformat(text) for text in values], kind)
        return None

    def keys_are_plain(self, kind: pa.DataType) -> bool:
        return bool(kinds.is_string(kind))

    def value(self, value: Any, kind: pa.DataType) -> Any:
        return self._reader.from_json(_with_numbers(value), kind)

    def _decimals(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        """Return decimals from the texts of numbers.

        Arrow reads only plain ones, because it mishandles large exponents.
        """
        texts = pa.array([_text_of(value) for value in values], pa.string())
        odd = pc.fill_null(pc.invert(pc.match_substring_regex(texts, _digits(kind))), False)
        if odd.true_count:
            written = texts.to_pylist()
            for at, is_odd in enumerate(odd.to_pylist()):
                if is_odd:
                    written[at] = self._digits_of(values[at], kind)
                    if written[at] is None:
                        doubts.add(at)
            texts = pa.array(written, pa.string())
        return texts.cast(kind)

    def _digits_of(self, value: Any, kind: pa.DataType) -> str | None:
        """Return the digits of a number in an unusual form; None if it may be invalid."""
        try:
            return format(accept(self.value(value, kind), kind), "f")
        except REFUSALS:
            return None


def _text_of(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _digits(kind: pa.DataType) -> str:
    """Return the pattern of numbers that fit a decimal type as they are written."""
    before = kind.precision - kind.scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return f"^-?{whole}(?:\\.[0-9]{{1,{kind.scale}}})?$" if kind.scale else f"^-?{whole}$"


def _floats(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Return numbers as floats; None if one is out of range."""
    beyond = _BEYOND_FLOATS if kinds.is_float32(kind) else math.inf
    numbers = [None if value is None else float(value) for value in values]
    return pa.array(numbers, kind) if all([n is None or abs(n) < beyond for n in numbers]) else None


def _times(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Return times, which Arrow parses in their usual form; None if one has another form."""
    texts = pa.array(values, pa.string())
    usual = pc.match_substring_regex(texts, f"{_TIME}{_OFFSET if kind.tz else ''}$")
    return texts.cast(kind) if pc.all(usual, min_count=0).as_py() else None


def _with_numbers(value: Any) -> Any:
    """Return a JSON value with bytes replaced by numbers that keep their text."""
    if type(value) is bytes:
        return JsonNumber(value.decode())
    if type(value) is list:
        return [_with_numbers(item) for item in value]
    return {name: _with_numbers(item) for name, item in value.items()} if type(value) is dict else value


_BEYOND_FLOATS = 2.0**128 - 2.0**103
"""The least number that becomes infinity in a float field."""

# Years 1000 to 9899. Values near the limits of datetime are checked one by one.
_TIME = r"^(?:[1-8][0-9]|9[0-8])[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_OFFSET = "(?:Z|[+-][01][0-9]:[0-5][0-9])"
