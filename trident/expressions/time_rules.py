"""The rules of dates and times. The parts of a timestamp are those in UTC, whatever the time zone of a session is."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl
from trident.base.value_conversion import to_python
from trident.expressions.expression_types import DATE, INT, LONG, STRING, TIMESTAMP, Mismatch, is_integral
from trident.expressions.repeated import repeated
from trident.expressions.rules import ANOTHER_FORM, Datum, ExpressionError, Typed, as_is, quoted_text, rule, takes

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_OF_SECOND, _OF_MINUTE, _OF_HOUR, _OF_DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, spark.DateType | spark.TimestampType | spark.TimestampNTZType)


def _is_instant(kind: DataType) -> bool:
    return isinstance(kind, spark.TimestampType | spark.TimestampNTZType)


TIME = (_is_time, "a date or timestamp")
INSTANT = (_is_instant, "a timestamp")
DAY = (lambda kind: isinstance(kind, spark.DateType), "a date")
WHOLE = (lambda kind: is_integral(kind) and not isinstance(kind, spark.LongType), "an int")


def micros_sql(kind: DataType, text: str) -> str:
    """Return the SQL of a timestamp's microseconds since 1970 in UTC, which no session's zone changes."""
    if isinstance(kind, spark.TimestampType):
        return f"unix_micros({text})"
    return f"timestampdiff(MICROSECOND, {_ZERO}, {text})"


def time_sql(kind: DataType, micros: str) -> str:
    """Return the SQL of a timestamp from its microseconds."""
    if isinstance(kind, spark.TimestampType):
        return f"timestamp_micros({micros})"
    return f"timestampadd(MICROSECOND, {micros}, {_ZERO})"


def day_sql(kind: DataType, text: str) -> str:
    """Return the SQL of the day in UTC of a date or timestamp."""
    if isinstance(kind, spark.DateType):
        return text
    micros = micros_sql(kind, text)
    return f"date_from_unix_date(CAST(({micros} - pmod({micros}, {_OF_DAY}L)) div {_OF_DAY}L AS INT))"


_ZERO = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def _local(column: Datum) -> Datum:
    """Return timestamps without their zone, which is UTC."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return pc.cast(column, pa.timestamp("us"))
    return column


def _whole_number(function: Callable[..., Datum]) -> Callable[..., Datum]:
    return lambda call, column: pc.cast(function(_local(column)), pa.int32())


def _part(
    name: str, of: tuple[Any, str], sql: Callable[..., str], value: Any, arrow: Callable[..., Datum] | None
) -> None:
    columns = None if arrow is None else _whole_number(arrow)
    rule(name, takes(of, gives=INT), as_is(value), lambda call, text: sql(call.kinds[0], text), columns)


def _of_date(name: str, value: Callable[[datetime.date], int], arrow: Callable[..., Datum] | None) -> None:
    _part(name, TIME, lambda kind, text: f"{name}({day_sql(kind, text)})", value, arrow)


def _of_clock(name: str, whole: int, unit: int, value: Any, arrow: Callable[..., Datum]) -> None:
    def sql(kind: DataType, text: str) -> str:
        return f"CAST(pmod({micros_sql(kind, text)}, {whole}L) div {unit}L AS INT)"

    _part(name, INSTANT, sql, value, arrow)


_of_date("year", lambda a: a.year, pc.year)
_of_date("quarter", lambda a: (a.month + 2) // 3, pc.quarter)
_of_date("month", lambda a: a.month, pc.month)
_of_date("dayofmonth", lambda a: a.day, pc.day)
_of_date("dayofyear", lambda a: a.timetuple().tm_yday, pc.day_of_year)
_of_date("dayofweek", lambda a: a.isoweekday() % 7 + 1, None)
_of_date("weekofyear", lambda a: a.isocalendar()[1], pc.iso_week)
_of_clock("hour", _OF_DAY, _OF_HOUR, lambda a: a.hour, pc.hour)
_of_clock("minute", _OF_HOUR, _OF_MINUTE, lambda a: a.minute, pc.minute)
_of_clock("second", _OF_MINUTE, _OF_SECOND, lambda a: a.second, pc.second)


def _day_of(value: Any) -> datetime.date:
    return value.date() if isinstance(value, datetime.datetime) else value


rule(
    "to_date",
    takes(TIME, gives=DATE),
    as_is(_day_of),
    lambda call, text: day_sql(call.kinds[0], text),
    lambda call, column: (
        pc.cast(pc.floor_temporal(_local(column), unit="day"), pa.date32())
        if pa.types.is_timestamp(column.type)
        else column
    ),
)


def _moved(sign: int) -> Callable[[datetime.date, int], datetime.date]:
    def value(day: datetime.date, days: int) -> datetime.date:
        try:
            return day + datetime.timedelta(days=sign * days)
        except OverflowError:
            raise ExpressionError(f"{day} and {days} days: the date is outside the years 1 to 9999") from None

    return value


def _in_years(text: str) -> str:
    """Return the SQL of a date, which fails outside the years that Python knows."""
    outside = f"CAST(raise_error('{ANOTHER_FORM}') AS DATE)"
    return f"CASE WHEN year({text}) NOT BETWEEN 1 AND 9999 THEN {outside} ELSE {text} END"


rule("date_add", takes(DAY, WHOLE), as_is(_moved(1)), lambda call, a, b: _in_years(f"date_add({a}, {b})"))
rule("date_sub", takes(DAY, WHOLE), as_is(_moved(-1)), lambda call, a, b: _in_years(f"date_sub({a}, {b})"))
rule("datediff", takes(DAY, DAY, gives=INT), as_is(lambda a, b: (a - b).days), "datediff({}, {})")


def micros_of(value: datetime.datetime) -> int:
    """Return the microseconds since 1970 in UTC.

    >>> micros_of(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC))
    1000000
    """
    return (value - EPOCH) // _MICROSECOND


_UNITS = {"unix_seconds": 1_000_000, "unix_millis": 1_000, "unix_micros": 1}
ZONED = (lambda kind: isinstance(kind, spark.TimestampType), "a timestamp")


def _unix(name: str, unit: int) -> None:
    rule(
        name,
        takes(ZONED, gives=LONG),
        as_is(lambda a: micros_of(a) // unit),
        f"{name}({{}})",
        (lambda call, a: pc.cast(a, pa.int64())) if unit == 1 else None,
    )


for _name, _unit in _UNITS.items():
    _unix(_name, _unit)


def _from_unix(unit: int) -> Callable[[int], datetime.datetime]:
    def value(number: int) -> datetime.datetime:
        try:
            return EPOCH + datetime.timedelta(microseconds=number * unit)
        except OverflowError:
            raise ExpressionError(f"{number}: the time is outside the years 1 to 9999") from None

    return value


def _within_years(name: str) -> Callable[..., str]:
    def sql(call: Typed, text: str) -> str:
        made = f"{name}({text})"
        outside = f"CAST(raise_error('{ANOTHER_FORM}') AS TIMESTAMP)"
        return (
            f"CASE WHEN unix_micros({made}) NOT BETWEEN {FIRST_MICROS} AND {LAST_MICROS} THEN {outside} ELSE {made} END"
        )

    return sql


FIRST_MICROS = micros_of(datetime.datetime(1, 1, 1, tzinfo=datetime.UTC))
LAST_MICROS = micros_of(datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC))


def _whole(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if len(kinds) != 1 or not is_integral(kinds[0]):
        raise Mismatch(f"expected a whole number, not {', '.join(map(type_ddl, kinds))}")
    return Typed((LONG,), TIMESTAMP)


for _name, _unit in (("timestamp_seconds", 1_000_000), ("timestamp_millis", 1_000), ("timestamp_micros", 1)):
    rule(_name, _whole, as_is(_from_unix(_unit)), _within_years(_name))


TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""The units of `date_trunc`."""


def truncated(unit: str, value: datetime.datetime) -> datetime.datetime:
    """Return the beginning of the unit that holds a time.

    >>> truncated("hour", datetime.datetime(2026, 5, 17, 10, 59))
    datetime.datetime(2026, 5, 17, 10, 0)
    """
    if unit == "second":
        return value.replace(microsecond=0)
    if unit == "minute":
        return value.replace(second=0, microsecond=0)
    if unit == "hour":
        return value.replace(minute=0, second=0, microsecond=0)
    value = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        try:
            return value - datetime.timedelta(days=value.weekday())
        except OverflowError:
            raise ExpressionError(f"{value}: the week begins before the year 1") from None
    if unit == "day":
        return value
    month = 1 if unit == "year" else value.month if unit == "month" else (value.month - 1) // 3 * 3 + 1
    return value.replace(month=month, day=1)


def _truncated_sql(call: Typed, text: str) -> str:
    (unit,), kind = call.params, call.kinds[0]
    micros = micros_sql(kind, text)
    if unit in _SHORT:
        return time_sql(kind, f"({micros} - pmod({micros}, {_SHORT[unit]}L))")
    return time_sql(kind, f"(CAST(unix_date(trunc({day_sql(kind, text)}, '{unit}')) AS BIGINT) * {_OF_DAY}L)")


_SHORT = {"day": _OF_DAY, "hour": _OF_HOUR, "minute": _OF_MINUTE, "second": _OF_SECOND}

rule("date_trunc", takes(INSTANT), lambda call: lambda value: truncated(call.params[0], value), _truncated_sql)

LETTERS = {
    "yyyy": (4, "year"),
    "MM": (2, "month"),
    "dd": (2, "day"),
    "HH": (2, "hour"),
    "mm": (2, "minute"),
    "ss": (2, "second"),
}
"""The letters in a pattern of `date_format`: the number of digits, and the part of the time."""


def parts_of(pattern: str) -> list[str]:
    """Return the parts of a pattern of `date_format`. Raises ValueError for an unknown letter.

    >>> parts_of("yyyy-MM")
    ['yyyy', '-', 'MM']
    """
    parts: list[str] = []
    rest = pattern
    while rest:
        known = next((letters for letters in LETTERS if rest.startswith(letters)), None)
        length = 1 if known is None else len(known)
        if known is None and (rest[0].isalpha() or rest[0] in "'[]{}#"):
            raise ValueError(rest[0])
        if known is not None and rest[length : length + 1] == known[0]:
            raise ValueError(rest[: length + 1])
        parts.append(rest[:length])
        rest = rest[length:]
    return parts


def _format(call: Typed) -> Callable[[Any], str]:
    parts = parts_of(call.params[0])

    def value(time: Any) -> str:
        if not isinstance(time, datetime.datetime):
            time = datetime.datetime.combine(time, datetime.time())
        return "".join(f"{getattr(time, LETTERS[p][1]):0{LETTERS[p][0]}d}" if p in LETTERS else p for p in parts)

    return value


def _format_sql(call: Typed, text: str) -> str:
    (kind,) = call.kinds
    micros = "0L" if isinstance(kind, spark.DateType) else micros_sql(kind, text)
    day = day_sql(kind, text)
    of_parts = {
        "yyyy": f"year({day})",
        "MM": f"month({day})",
        "dd": f"dayofmonth({day})",
        "HH": f"pmod({micros}, {_OF_DAY}L) div {_OF_HOUR}L",
        "mm": f"pmod({micros}, {_OF_HOUR}L) div {_OF_MINUTE}L",
        "ss": f"pmod({micros}, {_OF_MINUTE}L) div {_OF_SECOND}L",
    }
    texts = [
        f"lpad(CAST({of_parts[part]} AS STRING), {LETTERS[part][0]}, '0')" if part in LETTERS else quoted_text(part)
        for part in parts_of(call.params[0])
    ]
    return f"concat({', '.join(texts)})"


def _format_columns(call: Typed, times: Datum) -> Datum | None:
    """Format a text once for each distinct value of the pattern's finest unit, such as a day or a minute."""
    units = [unit for letters, (_, unit) in LETTERS.items() if letters in parts_of(call.params[0])]
    few = repeated(pc.floor_temporal(times, unit=units[-1])) if units else None
    if few is None:
        return None
    value = _format(call)
    texts = [None if time is None else value(time) for time in to_python(few.dictionary)]
    return pa.array(texts, pa.string()).take(few.indices)


rule("date_format", takes(TIME, gives=STRING), _format, _format_sql, _format_columns)
