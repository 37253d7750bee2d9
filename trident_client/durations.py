"""Durations as users write them. All options, windows and timeouts accept the same forms."""

import datetime
import math
import re
from collections.abc import Callable

from trident_client.errors import TopologyError
from trident_client.short_texts import brief

Duration = str | float | datetime.timedelta
"""``"5 minutes"``, ``"5m"``, a number of seconds, or a timedelta."""

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
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}
_LONG_NAMES = ("week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def to_microseconds(duration: object) -> int | None:
    """Return a duration in microseconds; None if `duration` is not a duration.

    >>> to_microseconds("1.5 seconds"), to_microseconds("2m"), to_microseconds(2), to_microseconds("soon")
    (1500000, 120000000, 2000000, None)
    """
    if isinstance(duration, datetime.timedelta):
        return duration // datetime.timedelta(microseconds=1)
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return _rounded(duration * 1_000_000)
    if not isinstance(duration, str):
        return None
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", duration)
    if match is None or match[2] == "M":  # pandas and ISO 8601 have M for months too
        return None
    name = match[2].lower()
    unit = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
    return None if unit is None else _rounded(float(match[1]) * unit)


def _rounded(microseconds: float) -> int | None:
    return round(microseconds) if math.isfinite(microseconds) else None


def read_microseconds(
    name: str, duration: object, *, zero: bool = False, error: Callable[[str], Exception] = TopologyError
) -> int:
    """Return a duration in microseconds. If it is not one, raise ``error(message)``; `name` is the argument's name.

    The duration must be positive; if `zero` is true, it may also be 0.

    >>> read_microseconds("timeout", "5 parsecs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    trident_client.errors.TopologyError: timeout='5 parsecs' is not a duration; write '5 minutes', ...
    """
    number = to_microseconds(duration)
    if number is None:
        raise error(
            f"{name}={brief(duration)} is not a duration; write '5 minutes', '5m', a number of seconds or a timedelta "
            f"(units: us, ms, s, m, h, d, w, and their names; no months or years)"
        )
    if number < 0 or (number == 0 and not zero):
        raise error(f"{name}={brief(duration)}: expected a {'non-negative' if zero else 'positive'} duration")
    return number


def read_seconds(
    name: str, duration: object, *, zero: bool = False, error: Callable[[str], Exception] = TopologyError
) -> float:
    """Return a duration in seconds; see `read_microseconds`.

    >>> read_seconds("timeout", "500 ms"), read_seconds("timeout", "1 hour"), read_seconds("timeout", 2.5)
    (0.5, 3600, 2.5)
    """
    number = read_microseconds(name, duration, zero=zero, error=error)
    if isinstance(duration, int | float):
        return duration
    return number / 1_000_000 if number % 1_000_000 else number // 1_000_000


def read_limit(
    name: str, duration: object, *, zero: bool = False, error: Callable[[str], Exception] = TopologyError
) -> float | None:
    """Return a duration in seconds, or None (no limit) if it is None; see `read_microseconds`."""
    return None if duration is None else read_seconds(name, duration, zero=zero, error=error)


def duration_text(microseconds: int) -> str:
    """Return a duration in microseconds in the form in which a user writes it.

    >>> duration_text(5_000_000), duration_text(3_600_000_000), duration_text(90_000_000)
    ('5 seconds', '1 hour', '90 seconds')
    """
    fitting = [unit for unit in _LONG_NAMES if microseconds % _UNITS[unit] == 0]
    unit = fitting[0] if microseconds else "second"
    number = microseconds // _UNITS[unit]
    return f"{number} {unit}{'' if number == 1 else 's'}"
