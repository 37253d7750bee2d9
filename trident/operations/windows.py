"""Windows as users write them: how long, how often, and by which clock.

By count: the last `length` tuples, every `slide` tuples. By duration: the tuples of the last `length` of batch time.
By event time: by a field of the tuples, with a watermark. Times begin at 1970-01-01 UTC: windows of an hour are whole
hours.
"""

import datetime
import re
from dataclasses import dataclass
from math import gcd
from typing import Any

from trident.base.errors import TopologyError
from trident.base.step import Step, caller
from trident.base.text import brief

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
_SHOWN = ("week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_MOST = 10_000
"""Windows that one tuple may be in: beyond that a slide is a slip of the pen."""


class _Window:
    """What all windows have in common: they are data, equal where they say the same."""

    __slots__ = ()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


# --- by count -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class CountWindow(_Window):
    """The last `length` tuples, every `slide` tuples."""

    length: int
    slide: int

    @property
    def meaning(self) -> str:
        """What of it must not change between restarts."""
        return repr(self)


class TumblingCountWindow(CountWindow):
    """Every `length` tuples once, each tuple in one window. Windows span batches.

    Meaning: ``org.apache.storm.trident.windowing.config.TumblingCountWindow``, whose length may be 0.

    >>> TumblingCountWindow(3)
    TumblingCountWindow(3)
    """

    def __init__(self, length: int) -> None:
        step = _step(self)
        self._set(length=_count(length, "length", step), slide=length)

    def __repr__(self) -> str:
        return f"TumblingCountWindow({self.length})"


class SlidingCountWindow(CountWindow):
    """The last `length` tuples, every `slide` tuples from the very start: the first windows have fewer.

    Meaning: ``org.apache.storm.trident.windowing.config.SlidingCountWindow``.

    >>> SlidingCountWindow(5, 2)
    SlidingCountWindow(5, 2)
    """

    def __init__(self, length: int, slide: int) -> None:
        step = _step(self)
        self._set(length=_count(length, "length", step), slide=_count(slide, "slide", step))
        if slide > length:
            raise step.error(
                TopologyError, f"slide {slide} is more than length {length}: the tuples between would be in no window"
            )

    def __repr__(self) -> str:
        return f"SlidingCountWindow({self.length}, {self.slide})"


# --- by time ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow(_Window):
    """Windows of `length` microseconds, one beginning every `slide`; `timestampField` None: by batch time."""

    length: int
    slide: int
    timestampField: str | None
    lateness: int

    @property
    def pane(self) -> int:
        """The longest stretch of time that lies in every window wholly or not at all, in microseconds."""
        return gcd(self.length, self.slide)

    @property
    def meaning(self) -> str:
        """What of it must not change between restarts: the lateness may."""
        by = "" if self.timestampField is None else f" by {self.timestampField}"
        return f"{type(self).__name__}({', '.join(map(shown, self._sizes()))}{by})"

    def _sizes(self) -> tuple[int, ...]:
        return (self.length,) if self.length == self.slide else (self.length, self.slide)

    def _begin(self, length: Duration, slide: Duration, field: str | None, lateness: Duration, step: Step) -> None:
        long, often = microseconds(length, "length", step), microseconds(slide, "slide", step)
        self._set(length=long, slide=often, timestampField=_field(field, step) if field is not None else None)
        self._set(lateness=microseconds(lateness, "lateness", step, zero=True))
        if often > long:
            raise step.error(
                TopologyError,
                f"slide {shown(often)} is more than length {shown(long)}: the tuples between would be in no window",
            )
        if long // self.pane > _MOST:
            raise step.error(
                TopologyError,
                f"a length of {shown(long)} with a slide of {shown(often)} is made of {long // self.pane:,} pieces of "
                f"{shown(self.pane)}, accepted are {_MOST:,}: take a slide that goes into the length evenly",
            )

    def __repr__(self) -> str:
        parts = [repr(shown(size)) for size in self._sizes()]
        parts += [] if self.timestampField is None else [repr(self.timestampField)]
        parts += [f"lateness={shown(self.lateness)!r}"] if self.lateness else []
        return f"{type(self).__name__}({', '.join(parts)})"


class TumblingDurationWindow(TimeWindow):
    """The tuples of every `length` of batch time, each tuple in one window.

    A batch's time is when it was planned: logged, hence the same at every replay. A window leaves with the first batch
    after its end; one without tuples does not.
    Meaning: ``org.apache.storm.trident.windowing.config.TumblingDurationWindow``, which goes by arrival.

    >>> TumblingDurationWindow("5 seconds")
    TumblingDurationWindow('5 seconds')
    """

    def __init__(self, length: Duration) -> None:
        self._begin(length, length, None, 0, _step(self))


class SlidingDurationWindow(TimeWindow):
    """The tuples of the last `length` of batch time, every `slide`.

    Meaning: ``org.apache.storm.trident.windowing.config.SlidingDurationWindow``; see `TumblingDurationWindow`.

    >>> SlidingDurationWindow("1 minute", "10 seconds")
    SlidingDurationWindow('1 minute', '10 seconds')
    """

    def __init__(self, length: Duration, slide: Duration) -> None:
        self._begin(length, slide, None, 0, _step(self))


class EventTimeWindow(TimeWindow):
    """What goes by a field of the tuples."""


class TumblingEventTimeWindow(EventTimeWindow):
    """The tuples whose time lies in the same stretch of `length`, each tuple in one window. Beyond Trident.

    The watermark is the latest time seen up to a batch, less `lateness`. A window whose end it has reached leaves with
    that batch; a tuple that comes for it in a later batch is late.

    >>> TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
    TumblingEventTimeWindow('1 hour', 'at', lateness='5 minutes')
    """

    def __init__(self, length: Duration, timestampField: str, lateness: Duration = 0) -> None:
        self._begin(length, length, timestampField, lateness, _step(self))


class SlidingEventTimeWindow(EventTimeWindow):
    """The tuples of the last `length` of event time, every `slide`. Beyond Trident; see `TumblingEventTimeWindow`.

    >>> SlidingEventTimeWindow("1 hour", "15 minutes", "at")
    SlidingEventTimeWindow('1 hour', '15 minutes', 'at')
    """

    def __init__(self, length: Duration, slide: Duration, timestampField: str, lateness: Duration = 0) -> None:
        self._begin(length, slide, timestampField, lateness, _step(self))


@dataclass(frozen=True, init=False, repr=False)
class SessionWindow(_Window):
    """Tuples that follow one another by less than `gap` of event time; a session ends `gap` after its last tuple.
    Beyond Trident. The watermark is that of `TumblingEventTimeWindow`; a tuple is late where the watermark has reached
    its own time and the gap.

    >>> SessionWindow("10 minutes", "at", lateness="1 minute")
    SessionWindow('10 minutes', 'at', lateness='1 minute')
    """

    gap: int
    timestampField: str
    lateness: int

    def __init__(self, gap: Duration, timestampField: str, lateness: Duration = 0) -> None:
        step = _step(self)
        self._set(gap=microseconds(gap, "gap", step), timestampField=_field(timestampField, step))
        self._set(lateness=microseconds(lateness, "lateness", step, zero=True))

    @property
    def meaning(self) -> str:
        """What of it must not change between restarts: the lateness may."""
        return f"SessionWindow({shown(self.gap)} by {self.timestampField})"

    def __repr__(self) -> str:
        late = f", lateness={shown(self.lateness)!r}" if self.lateness else ""
        return f"SessionWindow({shown(self.gap)!r}, {self.timestampField!r}{late})"


WindowConfig = CountWindow | TimeWindow | SessionWindow
"""Any window."""


def timestamp_field(config: WindowConfig) -> str | None:
    """The field that a window goes by; None where it goes by none."""
    return None if isinstance(config, CountWindow) else config.timestampField


# --- small things -------------------------------------------------------------------------------------------------


def microseconds(given: object, what: str, step: Step, zero: bool = False) -> int:
    """A duration in microseconds; positive, or 0 where that has a meaning.

    >>> microseconds("1.5 seconds", "length", Step("s", caller("s")))
    1500000
    """
    found = _microseconds(given)
    if found is None:
        raise step.error(
            TopologyError,
            f"{what}={brief(given)} is no duration; write '5 seconds', '1 hour', a number of seconds or a timedelta",
        )
    if found < 0 or (found == 0 and not zero):
        raise step.error(TopologyError, f"{what}={given!r}: a duration of more than nothing is accepted")
    return found


def _microseconds(given: object) -> int | None:
    if isinstance(given, datetime.timedelta):
        return given // datetime.timedelta(microseconds=1)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return round(given * 1_000_000)
    parts = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*", given.lower()) if isinstance(given, str) else None
    if parts is None:
        return None
    unit = _UNITS.get(parts[2]) or _UNITS.get(parts[2].removesuffix("s"))
    return None if unit is None else round(float(parts[1]) * unit)


def shown(duration: int) -> str:
    """A duration in microseconds as a user would write it.

    >>> shown(5_000_000), shown(3_600_000_000), shown(90_000_000)
    ('5 seconds', '1 hour', '90 seconds')
    """
    unit = next(unit for unit in _SHOWN if duration % _UNITS[unit] == 0 and (duration or unit == "second"))
    number = duration // _UNITS[unit]
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _count(given: object, what: str, step: Step) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise step.error(TopologyError, f"{what}={brief(given)}: a whole number of at least 1 is accepted")
    return given


def _field(given: object, step: Step) -> str:
    if not isinstance(given, str) or not given:
        raise step.error(TopologyError, f"timestampField={brief(given)}: the name of a timestamp field is accepted")
    return given


def _step(window: _Window) -> Step:
    name = type(window).__name__
    return Step(name, caller(name))
