"""Debezium's encodings of values: days, numbers since 1970, decimals as bytes, omitted values."""

import base64
import binascii
import datetime
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.argument_checks import check_choice
from trident.base.value_conversion import type_name
from trident.operations.avro_values import plain_value
from trident.operations.json_values import accepted_types
from trident_spouts.files.json_lines import read_field
from trident_spouts.files.value_conversion import JsonNumber, ValueReader

Decimals = Literal["precise", "string", "double"]
Timestamps = Literal["millis", "micros", "nanos"]

_T = TypeVar("_T")
_UNAVAILABLE = frozenset(
    {
        "__debezium_unavailable_value",
        b"__debezium_unavailable_value",
        base64.b64encode(b"__debezium_unavailable_value").decode(),
    }
)
"""The value that Debezium sends for a large column that an update did not change, as text, and as binary in Avro and
JSON."""
_NUMBERS = list(b"__debezium_unavailable_value")
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_1970 = datetime.date(1970, 1, 1).toordinal()


def is_unavailable(value: Any) -> bool:
    """Return whether a value is Debezium's placeholder for a large value that the database did not send.

    For an array the placeholder is an array with this one element or, for whole numbers, its bytes as numbers; for a
    map it is one entry.
    """
    if isinstance(value, list):
        return value == _NUMBERS or (len(value) == 1 and is_unavailable(value[0]))
    if isinstance(value, Mapping):
        return len(value) == 1 and all(map(is_unavailable, (*value.keys(), *value.values())))
    return isinstance(value, str | bytes) and value in _UNAVAILABLE


class RowReader:
    """A reader of envelope rows: it returns the values of `fields`, encoded as its two options say."""

    def __init__(self, fields: pa.Schema, decimals: Decimals | None, timestamps: Timestamps | None) -> None:
        if decimals is not None:
            check_choice("Debezium: decimals", decimals, get_args(Decimals))
        if timestamps is not None:
            check_choice("Debezium: timestamps", timestamps, get_args(Timestamps))
        self._members = [(field.name, field, accepted_types(field.type)) for field in fields]
        self._decimals = decimals
        self._timestamps = timestamps

    def read(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of the fields in a row; a missing one is null. Raises ValueError for the first invalid one.

        >>> reader = RowReader(pa.schema([("id", pa.int64()), ("day", pa.date32())]), None, None)
        >>> reader.read({"id": 7, "day": 19782, "more": 1})
        (7, datetime.date(2024, 2, 29))
        """
        return tuple([self._value(row.get(name), field, accepted) for name, field, accepted in self._members])

    def _value(self, value: Any, field: pa.Field, accepted: tuple[type, ...]) -> Any:
        if value is None and field.nullable:
            return None
        read = value if type(value) in accepted else self._read(value, field, accepted)
        if is_unavailable(read):
            raise ValueError(
                f"field {field.name!r}: the database did not send the value, because the update did not change it. In "
                "PostgreSQL, set ALTER TABLE ... REPLICA IDENTITY FULL, so that later updates contain all values"
            )
        return read

    def _read(self, value: Any, field: pa.Field, accepted: tuple[type, ...]) -> Any:
        try:
            decoded = self._decoded(value, field.type)
        except _UnreadError as error:
            raise ValueError(f"field {field.name!r}: {error}") from None
        if type(decoded) in accepted or (decoded is not value and isinstance(decoded, datetime.date)):
            return decoded
        return read_field(plain_value(decoded, field.type), field, _VALUES)

    def _decoded(self, value: Any, kind: pa.DataType) -> Any:
        """Return a value without Debezium's encoding: as a date, a time, a decimal.

        Other values are returned unchanged.
        """
        if kinds.is_list(kind) and isinstance(value, list):
            return [self._decoded(item, kind.value_type) for item in value]
        if type(value) is int and kinds.is_date(kind):
            return _within_years(lambda: datetime.date.fromordinal(_DAY_1970 + value))
        if type(value) is int and kinds.is_timestamp(kind):
            return self._time(value, kind)
        if type(value) is JsonNumber and kinds.is_floating(kind) and math.isfinite(value):
            return float(value)
        if kinds.is_decimal(kind) and not isinstance(value, decimal.Decimal | None):
            return self._decimal(value, kind)
        return value

    def _time(self, value: int, kind: pa.DataType) -> datetime.datetime:
        if self._timestamps is None:
            raise _UnreadError(
                f"expected {type_name(kind)}, got {value}: set timestamps='millis', 'micros' or 'nanos', the unit of "
                "the connector's time.precision.mode, or declare bigint"
            )
        micros, rest = divmod(value * 10**6, _PER_SECOND[self._timestamps])
        if rest:
            raise _UnreadError(f"{value} has a finer resolution than microseconds: declare bigint")
        time = _within_years(lambda: _EPOCH + datetime.timedelta(microseconds=micros))
        return time if kind.tz else time.replace(tzinfo=None)

    def _decimal(self, value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, Mapping) and {"scale", "value"} <= value.keys():  # it may have any scale
            return _unscaled(value["value"], int(value["scale"]))
        if isinstance(value, bytes):
            return _unscaled(value, kind.scale)
        if isinstance(value, str) and self._decimals in (None, "double"):
            raise _UnreadError(
                f"expected {type_name(kind)}, got {value!r}: set decimals='precise' or 'string', as in the "
                "connector's decimal.handling.mode"
            )
        return _unscaled(value, kind.scale) if isinstance(value, str) and self._decimals == "precise" else value


class _UnreadError(ValueError):
    """A value is not encoded as the options say."""


def _unscaled(value: str | bytes, scale: int) -> decimal.Decimal:
    """Return the decimal of an unscaled number in two's complement, which JSON has as base64."""
    try:
        digits = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError) as error:
        raise _UnreadError(
            f"got {value!r}, which is not base64 ({error}); if the connector has decimal.handling.mode=string, write "
            f"decimals='string'"
        ) from None
    return decimal.Decimal(int.from_bytes(digits, "big", signed=True)).scaleb(-scale, _EXACT)


def _within_years(make: Callable[[], _T]) -> _T:
    try:
        return make()
    except (ValueError, OverflowError):
        raise _UnreadError("outside the years 1 to 9999: declare a number instead") from None


_EXACT = decimal.Context(prec=1000, Emin=-10000, Emax=10000)
_VALUES = ValueReader()
