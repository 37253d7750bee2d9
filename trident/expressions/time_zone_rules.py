"""The rules of time zones: timestamps moved by the offset of a zone."""

import datetime
from collections.abc import Callable
from zoneinfo import ZoneInfo

from trident.expressions.rules import ANOTHER_FORM, ExpressionError, Typed, quoted_text, rule, takes
from trident.expressions.time_rules import LAST_MICROS, ZONED, micros_sql


def _shown(zone: ZoneInfo, value: datetime.datetime) -> datetime.datetime:
    return value.astimezone(zone).replace(tzinfo=datetime.UTC)


def _meant(zone: ZoneInfo, value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=zone).astimezone(datetime.UTC)


def _moved(
    move: Callable[[ZoneInfo, datetime.datetime], datetime.datetime],
) -> Callable[[Typed], Callable[..., datetime.datetime]]:
    def value(call: Typed) -> Callable[[datetime.datetime], datetime.datetime]:
        zone = ZoneInfo(call.params[0])

        def moved(time: datetime.datetime) -> datetime.datetime:
            try:
                return move(zone, time)
            except OverflowError:
                raise ExpressionError(f"{time} in {zone.key}: the time is outside the years 1 to 9999") from None

        return moved

    return value


def _sql(name: str) -> Callable[..., str]:
    """Return the SQL. Before 1970 zones differ between copies of the database, so only Python computes those times."""

    def sql(call: Typed, text: str) -> str:
        known = f"{micros_sql(call.kinds[0], text)} NOT BETWEEN 0 AND {LAST_MICROS - _DAY}"
        other = f"CAST(raise_error('{ANOTHER_FORM}') AS TIMESTAMP)"
        return f"CASE WHEN {known} THEN {other} ELSE {name}({text}, {quoted_text(call.params[0])}) END"

    return sql


_DAY = 86_400_000_000

rule("from_utc_timestamp", takes(ZONED), _moved(_shown), _sql("from_utc_timestamp"))
rule("to_utc_timestamp", takes(ZONED), _moved(_meant), _sql("to_utc_timestamp"))
