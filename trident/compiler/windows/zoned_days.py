"""Days of a time zone, of 23, 24 or 25 hours: the positions of windows that begin at local midnights.

A day begins at the first moment that the zone's clocks show midnight; if they skip midnight, when they skip it.
"""

import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from trident.base.years import FIRST, LAST
from trident.compiler.windows.tuple_lists import Ids

DAY = 86_400_000_000
"""A day of 24 hours, in microseconds."""

_MOST_DAYS_APART = 2
"""A time's date in any zone is at most so many days from its date in UTC."""


def starts(zone: str, days: int, times: Ids) -> Ids:
    """Return the start of the window of `days` days that contains each time, in microseconds since 1970."""
    begins, _ = _near(zone, days, times)
    return begins[np.searchsorted(begins, times, side="right") - 1]


def ends(zone: str, days: int, starts: Ids) -> Ids:
    """Return the end of the window that begins at each start."""
    begins, _ = _near(zone, days, starts)
    return begins[np.searchsorted(begins, starts, side="right")]


def number(zone: str, days: int, start: int) -> int:
    """Return the number of the window that begins at `start`; the window with 1970-01-01 has the number 0."""
    begins, numbers = _near(zone, days, np.asarray([start], np.int64))
    return int(numbers[np.searchsorted(begins, start, side="right") - 1])


def _near(zone: str, days: int, times: Ids) -> tuple[Ids, Ids]:
    """Return the starts of all windows around these times, in order and each once, and the numbers of the windows.

    If several windows have the same start, all but the last are empty, and only the last is returned.
    """
    if not len(times):
        return times, times
    dates = np.unique(times // DAY)
    around = dates[:, None] + np.asarray([-_MOST_DAYS_APART, 0, _MOST_DAYS_APART])[None, :]
    first = np.unique(around // days)
    numbers = np.unique(first[:, None] + np.arange(-_MOST_DAYS_APART, _MOST_DAYS_APART + 2)[None, :])
    begins = np.asarray([_midnight(zone, number * days) for number in numbers.tolist()], np.int64)
    last = np.append(begins[1:] > begins[:-1], True)
    return begins[last], numbers[last]


@lru_cache(maxsize=100_000)
def _midnight(zone: str, day: int) -> int:
    """Return when a day begins. `day` counts from 1970-01-01; before year 1 and after 9999 the offset is constant."""
    wall = day * DAY
    shown = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=min(max(wall, FIRST), LAST))
    offset = ZoneInfo(zone).utcoffset(shown)
    assert offset is not None
    return wall - offset // datetime.timedelta(microseconds=1)
