"""Durations as users write them."""

import datetime
import re

Duration = str | float | datetime.timedelta
"""``"5 seconds"``, a number of seconds, or a timedelta."""

_UNITS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_LONG_NAMES = ("week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def to_microseconds(duration: object) -> int | None:
    """Return a duration in microseconds; None if `duration` is no duration.

    >>> to_microseconds("1.5 seconds"), to_microseconds(2), to_microseconds("soon")
    (1500000, 2000000, None)
    """
    if isinstance(duration, datetime.timedelta):
        return duration // datetime.timedelta(microseconds=1)
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return round(duration * 1_000_000)
    if not isinstance(duration, str):
        return None
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*", duration.lower())
    if match is None:
        return None
    unit = _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s"))
    return None if unit is None else round(float(match[1]) * unit)


def duration_text(microseconds: int) -> str:
    """Return a duration in microseconds as a user would write it.

    >>> duration_text(5_000_000), duration_text(3_600_000_000), duration_text(90_000_000)
    ('5 seconds', '1 hour', '90 seconds')
    """
    fitting = [unit for unit in _LONG_NAMES if microseconds % _UNITS[unit] == 0]
    unit = fitting[0] if microseconds else "second"
    number = microseconds // _UNITS[unit]
    return f"{number} {unit}{'' if number == 1 else 's'}"
