"""Conversion of values of text and JSON files to the declared types: strict, or lenient for numbers."""

import base64
import binascii
import datetime
import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.json_values import read_time
from trident.base.value_conversion import NotAccepted, to_arrow
from trident.base.years import OUTSIDE_YEARS

Numbers = Literal["strict", "lenient"]

WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = 1 << 53
"""The number from which some whole numbers have no exact double."""


_OF_JSON = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON lacks, as the texts that this library and Spark write."""


class JsonNumber(float):
    """A JSON number with a point or an exponent, which keeps its text, so that a decimal can be read exactly."""

    def __new__(cls, text: str) -> "JsonNumber":
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


class EqualKeysError(ValueError):
    """A map has two keys that are written differently and mean the same value, so that one item would be lost."""


@dataclass(frozen=True, slots=True)
class ValueReader:
    """The conversion of values to declared types.

    With `lenient`, 517.0 and "517" are also read as whole numbers, and "5.5" as a number; some programs write columns
    with missing values in this way. A fraction is never dropped. `zone` is the time zone of times that name no zone.
    """

    lenient: bool = False
    zone: str | None = None

    def from_json(self, value: Any, kind: pa.DataType) -> Any:
        """Return a JSON value as a Python value of type `kind`.

        A value that is not of this type is returned unchanged: `to_arrow` refuses it. Raises ValueError or
        decimal.InvalidOperation for a text that is not such a value, EqualKeysError for a map in which two keys are
        equal.

        >>> ValueReader(lenient=True).from_json(517.0, pa.int64()), ValueReader().from_json("2024-02-29", pa.date32())
        (517, datetime.date(2024, 2, 29))
        """
        if value is None:
            return None
        if kinds.is_list(kind) and isinstance(value, list):
            return [self.from_json(item, kind.value_type) for item in value]
        if kinds.is_struct(kind) and isinstance(value, dict):
            fields = [kind.field(at) for at in range(kind.num_fields)]
            return {field.name: self.from_json(value.get(field.name), field.type) for field in fields}
        if kinds.is_map(kind) and isinstance(value, dict):
            return self._map(value, kind)
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            return self._number(value, kind)
        if kinds.is_decimal(kind) and isinstance(value, str | JsonNumber):
            return decimal.Decimal(value.text if isinstance(value, JsonNumber) else value)
        return self._of_text(value, kind) if isinstance(value, str) else value

    def from_text(self, text: str, kind: pa.DataType) -> Any:
        """Return a text as a value of type `kind`.

        Raises ValueError or decimal.InvalidOperation if that is not possible.

        >>> ValueReader().from_text("-7", pa.int64()), ValueReader().from_text("TRUE", pa.bool_())
        (-7, True)
        """
        if kinds.is_integer(kind):
            if WHOLE.fullmatch(text):
                return int(text)
            return _whole(float(text)) if self.lenient and _NUMBER.fullmatch(text) else _refuse(text)
        if kinds.is_floating(kind):
            if _NO_NUMBER.fullmatch(text):
                return float(text)
            value = float(text) if _NUMBER.fullmatch(text) else _refuse(text)
            return value if _is_within(value, kind) else _refuse(text)
        if kinds.is_decimal(kind):
            return decimal.Decimal(text) if _NUMBER.fullmatch(text) else _refuse(text)
        if kinds.is_boolean(kind):
            return _BOOLEANS[text.lower()] if text.lower() in _BOOLEANS else _refuse(text)
        return self._of_text(text, kind)

    def column_from_texts(self, texts: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
        """Return a column of texts as values of type `kind`, which must not be a string type.

        Raises ValueError, decimal.InvalidOperation or an ArrowException if a text cannot be such a value.

        >>> ValueReader().column_from_texts(pa.array(["7", None]), pa.int64()).to_pylist()
        [7, None]
        """
        for test, pattern, cast in _CASTS:
            if test(kind) and pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
                return pc.cast(pc.cast(texts, cast), kind)
        return to_arrow([None if text is None else self.from_text(text, kind) for text in texts.to_pylist()], kind)

    def hint(self, value: Any, kind: pa.DataType) -> str:
        """Return a hint for an error about a value that is not of type `kind`: the option that would read it, or ""."""
        if not self.lenient and ValueReader(True, self.zone).reads(value, kind):
            return ' (numbers="lenient" reads it)'
        if self.zone is None and ValueReader(self.lenient, "UTC").reads(value, kind):
            return " (it has no time zone: declare timestamp_ntz, or set timeZone=)"
        if kinds.is_timestamp(kind) and self._why(value, kind) == OUTSIDE_YEARS:
            return f" ({OUTSIDE_YEARS})"
        if isinstance(value, str) and (kinds.is_timestamp(kind) or kinds.is_date(kind)) and not _ISO.match(value):
            return (
                " (expected ISO 8601, such as 2024-02-29; for another form declare a string, and convert it with "
                "each(...))"
            )
        return ""

    def _why(self, value: Any, kind: pa.DataType) -> str:
        """Return why a value of JSON, or a text of CSV, is not accepted as type `kind`."""
        try:
            to_arrow([self.from_json(value, kind)], kind)
        except NotAccepted as error:
            return error.why
        except (ValueError, decimal.InvalidOperation):
            pass
        return ""

    def reads(self, value: Any, kind: pa.DataType) -> bool:
        """Return whether a value of JSON, or a text of CSV, is read as type `kind`."""
        try:
            to_arrow([self.from_json(value, kind)], kind)
        except (ValueError, decimal.InvalidOperation):
            return False
        return True

    def _map(self, value: dict[str, Any], kind: pa.DataType) -> dict[Any, Any]:
        read = self.from_json
        keys = {written: read(written, kind.key_type) for written in value}
        if len(set(keys.values())) < len(keys):
            raise EqualKeysError("two keys of a map are equal")
        return {keys[written]: read(item, kind.item_type) for written, item in value.items()}

    def _number(self, value: Any, kind: pa.DataType) -> Any:
        if value in _OF_JSON and kinds.is_floating(kind):
            return float(value)
        if self.lenient and isinstance(value, str) and _NUMBER.fullmatch(value):
            return self.from_text(value, kind)
        if self.lenient and isinstance(value, float) and kinds.is_integer(kind):
            return _whole(value)
        if isinstance(value, float) and not _is_within(value, kind):  # JSON has no infinity: the number is too large
            return _refuse(str(value))
        return float(value) if isinstance(value, JsonNumber) and kinds.is_floating(kind) else value

    def _of_text(self, text: str, kind: pa.DataType) -> Any:
        for test, read in _TEXTS:
            if test(kind):
                value = read(text)
                if kinds.is_timestamp(kind) and kind.tz and value.tzinfo is None:
                    return value.replace(tzinfo=_zone(self.zone)) if self.zone is not None else _refuse(text)
                return value
        return text


@lru_cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _refuse(text: str) -> Any:
    raise ValueError(f"not accepted: {text!r}")


def _is_within(number: float, kind: pa.DataType) -> bool:
    """Return whether a number is finite, and stays finite in a field of type `kind`."""
    return abs(number) < _BEYOND_FLOATS if kinds.is_float32(kind) else math.isfinite(number)


def _whole(number: float) -> int | float:
    """Return a double without a fraction as an int; unchanged if it has a fraction, or may have lost digits."""
    return int(number) if abs(number) < _EXACT and number.is_integer() else number


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


_BEYOND_FLOATS = 2.0**128 - 2.0**103
"""The least number that becomes infinity in a field of type float."""
_BOOLEANS = {"true": True, "false": False}
_CASTS: list[tuple[Callable[[pa.DataType], bool], str, pa.DataType]] = [
    (kinds.is_integer, r"^-?[0-9]{1,18}$", pa.int64()),
    (kinds.is_float64, r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$", pa.float64()),
    (kinds.is_date32, r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$", pa.date32()),
]
"""Texts that Arrow casts to the same values as `ValueReader.from_text`, but faster."""
_TEXTS: list[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]]] = [
    (kinds.is_timestamp, read_time),
    (kinds.is_date, datetime.date.fromisoformat),
    (kinds.is_binary, _binary),
]
