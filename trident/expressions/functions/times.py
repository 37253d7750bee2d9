"""Dates and times, in UTC."""

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.base.time_zones import is_zone
from trident.expressions.functions.calls import of_field, of_fields
from trident.expressions.time_rules import TRUNCATED, parts_of
from trident.expressions.tree import ColumnExpression


def date_add(day: object, days: object) -> ColumnExpression:
    """Return the date `days` days after `day`. A date outside the years 1 to 9999 is an error.

    >>> date_add("day", 1)
    date_add(col('day'), 1)
    """
    return of_fields("date_add", day, days)


def date_format(time: object, pattern: str) -> ColumnExpression:
    """Return a date or timestamp as text, in UTC: ``yyyy``, ``MM``, ``dd``, ``HH``, ``mm``, ``ss`` and signs.

    >>> date_format("at", "yyyy-MM-dd")
    date_format(col('at'), 'yyyy-MM-dd')
    """
    try:
        parts_of(pattern)
    except (ValueError, TypeError, AttributeError) as error:
        known = "yyyy, MM, dd, HH, mm, ss and signs between them"
        raise TopologyError(f"date_format: pattern={brief(pattern)}: expected {known}, not {error}") from None
    return of_field("date_format", time, params=(pattern,))


def date_sub(day: object, days: object) -> ColumnExpression:
    """Return the date `days` days before `day`. A date outside the years 1 to 9999 is an error.

    >>> date_sub("day", 1)
    date_sub(col('day'), 1)
    """
    return of_fields("date_sub", day, days)


def date_trunc(unit: str, time: object) -> ColumnExpression:
    """Return the beginning of the unit that contains a timestamp, in UTC: year, quarter, month, week, day, hour ...

    >>> date_trunc("hour", "at")
    date_trunc(col('at'), 'hour')
    """
    if unit not in TRUNCATED:
        raise TopologyError(f"date_trunc: unit={brief(unit)}: expected one of {', '.join(TRUNCATED)}")
    return of_field("date_trunc", time, params=(unit,))


def datediff(end: object, start: object) -> ColumnExpression:
    """Return the number of days from the date `start` to the date `end`.

    >>> from trident import col; datediff("end", col("start"))
    datediff(col('end'), col('start'))
    """
    return of_fields("datediff", end, start)


def dayofmonth(time: object) -> ColumnExpression:
    """Return the day of the month, 1 to 31, of a date or timestamp, in UTC.

    >>> dayofmonth("t")
    dayofmonth(col('t'))
    """
    return of_field("dayofmonth", time)


def dayofweek(time: object) -> ColumnExpression:
    """Return the day of the week, 1 for Sunday to 7, of a date or timestamp, in UTC.

    >>> dayofweek("t")
    dayofweek(col('t'))
    """
    return of_field("dayofweek", time)


def dayofyear(time: object) -> ColumnExpression:
    """Return the day of the year, 1 to 366, of a date or timestamp, in UTC.

    >>> dayofyear("t")
    dayofyear(col('t'))
    """
    return of_field("dayofyear", time)


def from_utc_timestamp(time: object, tz: str) -> ColumnExpression:
    """Return a timestamp whose parts in UTC are those that clocks in a zone show at the given moment.

    `tz` is an IANA name. Each engine uses the time zones of its machine.

    >>> hour(from_utc_timestamp("at", "Europe/Berlin"))
    hour(from_utc_timestamp(col('at'), 'Europe/Berlin'))
    """
    return of_field("from_utc_timestamp", time, params=(_zone("from_utc_timestamp", tz),))


def hour(time: object) -> ColumnExpression:
    """Return the hour of a timestamp, 0 to 23, in UTC.

    >>> hour("t")
    hour(col('t'))
    """
    return of_field("hour", time)


def minute(time: object) -> ColumnExpression:
    """Return the minute of a timestamp, 0 to 59, in UTC.

    >>> minute("t")
    minute(col('t'))
    """
    return of_field("minute", time)


def month(time: object) -> ColumnExpression:
    """Return the month of a date or timestamp, 1 to 12, in UTC.

    >>> month("t")
    month(col('t'))
    """
    return of_field("month", time)


def quarter(time: object) -> ColumnExpression:
    """Return the quarter of a date or timestamp, 1 to 4, in UTC.

    >>> quarter("t")
    quarter(col('t'))
    """
    return of_field("quarter", time)


def second(time: object) -> ColumnExpression:
    """Return the second of a timestamp, 0 to 59, in UTC.

    >>> second("t")
    second(col('t'))
    """
    return of_field("second", time)


def timestamp_micros(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` microseconds after the beginning of 1970 in UTC.

    >>> timestamp_micros("n")
    timestamp_micros(col('n'))
    """
    return of_field("timestamp_micros", number)


def timestamp_millis(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` milliseconds after the beginning of 1970 in UTC.

    >>> timestamp_millis("n")
    timestamp_millis(col('n'))
    """
    return of_field("timestamp_millis", number)


def timestamp_seconds(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` seconds after the beginning of 1970 in UTC.

    >>> timestamp_seconds("n")
    timestamp_seconds(col('n'))
    """
    return of_field("timestamp_seconds", number)


def to_date(time: object) -> ColumnExpression:
    """Return the day of a timestamp, in UTC, as a date.

    >>> to_date("t")
    to_date(col('t'))
    """
    return of_field("to_date", time)


def to_utc_timestamp(time: object, tz: str) -> ColumnExpression:
    """Return the moment at which clocks in a zone show the parts of a timestamp: the inverse of `from_utc_timestamp`.

    If the clocks show a time twice, the first moment is returned; for a skipped time the offset before the change
    applies.

    >>> to_utc_timestamp("local", "Europe/Berlin")
    to_utc_timestamp(col('local'), 'Europe/Berlin')
    """
    return of_field("to_utc_timestamp", time, params=(_zone("to_utc_timestamp", tz),))


def unix_micros(time: object) -> ColumnExpression:
    """Return the microseconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_micros("t")
    unix_micros(col('t'))
    """
    return of_field("unix_micros", time)


def unix_millis(time: object) -> ColumnExpression:
    """Return the whole milliseconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_millis("t")
    unix_millis(col('t'))
    """
    return of_field("unix_millis", time)


def unix_seconds(time: object) -> ColumnExpression:
    """Return the whole seconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_seconds("t")
    unix_seconds(col('t'))
    """
    return of_field("unix_seconds", time)


def weekofyear(time: object) -> ColumnExpression:
    """Return the ISO week of the year, 1 to 53, of a date or timestamp, in UTC.

    >>> weekofyear("t")
    weekofyear(col('t'))
    """
    return of_field("weekofyear", time)


def year(time: object) -> ColumnExpression:
    """Return the year of a date or timestamp, in UTC.

    >>> year("t")
    year(col('t'))
    """
    return of_field("year", time)


def _zone(name: str, tz: object) -> str:
    if not isinstance(tz, str) or not is_zone(tz):
        raise TopologyError(f"{name}: tz={brief(tz)}: expected a zone's name, such as 'Europe/Berlin'")
    return tz
