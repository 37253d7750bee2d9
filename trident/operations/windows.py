"""Windows as users write them: their length, their slide, and the clock that they follow.

A count window holds the last `length` tuples, and one closes every `slide` tuples. A duration window holds the tuples
of the last `length` of batch time. An event-time window uses a timestamp field and a watermark. Windows of time are
aligned to 1970-01-01 UTC: windows of an hour are whole hours.
"""

from copy import copy
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any, Protocol, Self

from trident.base.argument_checks import check_whole_number
from trident.base.callsite import CallSite
from trident.base.durations import Duration as Duration
from trident.base.durations import duration_text, read_microseconds
from trident.base.errors import TopologyError
from trident.base.option_names import known_options
from trident.base.short_texts import brief
from trident.base.time_zones import is_zone
from trident.base.verb_call import Step, caller
from trident.base.years import LONGEST

TOO_LONG = "expected at most 10,000 years ('3652425 days'); no two times are further apart"
"""The reason for refusing a duration. (Sums of times and much longer durations would overflow 64 bits.)"""

_MOST_PANES = 10_000
"""The most panes of a window. A slide that needs more panes is refused as a likely typing error."""


_LOCAL = (
    "windows begin at multiples of their length in UTC. TumblingEventTimeWindow('1 day', 'at', "
    "timeZone='Europe/Berlin') has days of local time; otherwise use a timestamp_ntz of local time as timestampField, "
    "or group by a date field"
)
_ELSEWHERE = {
    **dict.fromkeys(("timezone", "zone", "tz"), "timeZone"),
    **dict.fromkeys(("timeZone", "offset", "startTime"), _LOCAL),
    "lag": "lateness",
    "watermark": "lateness",
    "timeField": "timestampField",
    "timeColumn": "timestampField",
    "idleness": "idleAfter",
    "withIdleness": "idleAfter",
    "idleTimeout": "idleAfter",
}


class _Window:
    """The base class of all windows, which are plain data compared by value."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = known_options(_ELSEWHERE)(vars(cls)["__init__"])  # type: ignore[method-assign]

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


# --- by count -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class CountWindow(_Window):
    """Windows of the last `length` tuples, one for every `slide` tuples."""

    length: int
    slide: int

    @property
    def meaning(self) -> str:
        """The parts of the window that must not change between restarts, as text."""
        return repr(self)


class TumblingCountWindow(CountWindow):
    """Windows of `length` tuples, each tuple in one window. A window may span batches.

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
    """Windows of the last `length` tuples, one for every `slide` tuples; the first windows have fewer tuples.

    Meaning: ``org.apache.storm.trident.windowing.config.SlidingCountWindow``.

    >>> SlidingCountWindow(5, 2)
    SlidingCountWindow(5, 2)
    """

    def __init__(self, length: int, slide: int) -> None:
        step = _step(self)
        self._set(length=_count(length, "length", step), slide=_count(slide, "slide", step))
        if slide > length:
            raise step.error(
                TopologyError,
                f"slide {slide} is more than length {length}: the tuples between two windows would be in none",
            )

    def __repr__(self) -> str:
        return f"SlidingCountWindow({self.length}, {self.slide})"


# --- by time ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow(_Window):
    """Windows of `length` microseconds, one for every `slide`. They follow batch time if `timestampField` is None."""

    length: int
    slide: int
    timestampField: str | None
    lateness: int
    idleAfter: int | None
    timeZone: str | None

    @property
    def pane(self) -> int:
        """The longest period, in microseconds, that every window either contains wholly or not at all."""
        return gcd(self.length, self.slide)

    @property
    def meaning(self) -> str:
        """The parts of the window that must not change between restarts, as text: all but the lateness."""
        by = "" if self.timestampField is None else f" by {self.timestampField}"
        zone = "" if self.timeZone is None else f" in {self.timeZone}"
        return f"{type(self).__name__}({', '.join(map(duration_text, self._sizes()))}{by}{zone})"

    def _sizes(self) -> tuple[int, ...]:
        return (self.length,) if self.length == self.slide else (self.length, self.slide)

    def _fill(
        self,
        length: Duration,
        slide: Duration,
        field: str | None,
        lateness: Duration,
        step: Step,
        idleAfter: Duration | None = None,
        timeZone: object = None,
    ) -> None:
        self._set(length=microseconds(length, "length", step), slide=microseconds(slide, "slide", step))
        self._set(timeZone=_zone(timeZone, self.length, step))
        self._set(timestampField=_field(field, step) if field is not None else None)
        self._set(lateness=microseconds(lateness, "lateness", step, zero=True), idleAfter=_idle(idleAfter, step))
        length_text, slide_text = duration_text(self.length), duration_text(self.slide)
        if self.slide > self.length:
            raise step.error(
                TopologyError,
                f"slide {slide_text} is more than length {length_text}: the tuples between two windows would be in "
                "none",
            )
        if self.length // self.pane > _MOST_PANES:
            raise step.error(
                TopologyError,
                f"a length of {length_text} with a slide of {slide_text} has {self.length // self.pane:,} panes of "
                f"{duration_text(self.pane)}; the limit is {_MOST_PANES:,}: choose a slide that divides the length",
            )

    def __repr__(self) -> str:
        parts = [repr(duration_text(size)) for size in self._sizes()]
        parts += [] if self.timestampField is None else [repr(self.timestampField)]
        parts += [f"lateness={duration_text(self.lateness)!r}"] if self.lateness else []
        parts += _shown_idle(self.idleAfter)
        parts += [] if self.timeZone is None else [f"timeZone={self.timeZone!r}"]
        return f"{type(self).__name__}({', '.join(parts)})"


class TumblingDurationWindow(TimeWindow):
    """Windows of `length` of batch time, each tuple in one window.

    A batch's time is the time at which it was planned. The log records it, so that a replay uses the same time. The
    first batch after a window's end emits the window; a window without tuples is not emitted.
    Meaning: ``org.apache.storm.trident.windowing.config.TumblingDurationWindow``, which uses the time of arrival.

    >>> TumblingDurationWindow("5 seconds")
    TumblingDurationWindow('5 seconds')
    """

    def __init__(self, length: Duration) -> None:
        self._fill(length, length, None, 0, _step(self))


class SlidingDurationWindow(TimeWindow):
    """Windows of the last `length` of batch time, one for every `slide`.

    Meaning: ``org.apache.storm.trident.windowing.config.SlidingDurationWindow``; see `TumblingDurationWindow`.

    >>> SlidingDurationWindow("1 minute", "10 seconds")
    SlidingDurationWindow('1 minute', '10 seconds')
    """

    def __init__(self, length: Duration, slide: Duration) -> None:
        self._fill(length, slide, None, 0, _step(self))


class EventTimeWindow(TimeWindow):
    """Windows by a timestamp field of the tuples."""

    def by(self, timestampField: object, step: Step) -> Self:
        """Return the same windows over another field."""
        other = copy(self)
        object.__setattr__(other, "timestampField", _field(timestampField, step))
        return other


class TumblingEventTimeWindow(EventTimeWindow):
    """Windows of `length` of event time, each tuple in one window. Trident has no such windows.

    The watermark is the latest time seen up to a batch, less `lateness`. The batch whose watermark reaches a window's
    end emits the window; a tuple for this window in a later batch is late. After ``idleAfter`` without a tuple the
    watermark advances with the time of the batches, as if tuples kept arriving with the delay of the last ones.

    With ``timeZone`` the windows are whole days of that zone (IANA), from midnight to midnight. When the clocks change,
    a day has 23 or 25 hours. The field is then a ``timestamp``, and the length a number of days.

    >>> TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
    TumblingEventTimeWindow('1 hour', 'at', lateness='5 minutes')
    >>> TumblingEventTimeWindow("1 day", "at", timeZone="Europe/Berlin")
    TumblingEventTimeWindow('1 day', 'at', timeZone='Europe/Berlin')
    """

    def __init__(
        self,
        length: Duration,
        timestampField: str,
        lateness: Duration = 0,
        idleAfter: Duration | None = None,
        timeZone: str | None = None,
    ) -> None:
        self._fill(length, length, timestampField, lateness, _step(self), idleAfter, timeZone)


class SlidingEventTimeWindow(EventTimeWindow):
    """Windows of the last `length` of event time, one for every `slide`; see `TumblingEventTimeWindow`.

    >>> SlidingEventTimeWindow("1 hour", "15 minutes", "at")
    SlidingEventTimeWindow('1 hour', '15 minutes', 'at')
    """

    def __init__(
        self,
        length: Duration,
        slide: Duration,
        timestampField: str,
        lateness: Duration = 0,
        idleAfter: Duration | None = None,
    ) -> None:
        self._fill(length, slide, timestampField, lateness, _step(self), idleAfter)


@dataclass(frozen=True, init=False, repr=False)
class SessionWindow(_Window):
    """Windows of tuples that are less than `gap` of event time apart. Trident has no such windows.

    Two tuples exactly `gap` apart are in two sessions; in Spark and Flink they are in one.
    A session ends `gap` after its last tuple. The watermark is the same as for a `TumblingEventTimeWindow`; a tuple is
    late if the watermark has reached the tuple's time plus the gap.

    >>> SessionWindow("10 minutes", "at", lateness="1 minute")
    SessionWindow('10 minutes', 'at', lateness='1 minute')
    """

    gap: int
    timestampField: str
    lateness: int
    idleAfter: int | None

    def __init__(
        self, gap: Duration, timestampField: str, lateness: Duration = 0, idleAfter: Duration | None = None
    ) -> None:
        step = _step(self)
        self._set(gap=microseconds(gap, "gap", step), timestampField=_field(timestampField, step))
        self._set(lateness=microseconds(lateness, "lateness", step, zero=True), idleAfter=_idle(idleAfter, step))

    @property
    def meaning(self) -> str:
        """The parts of the window that must not change between restarts, as text: all but the lateness."""
        return f"SessionWindow({duration_text(self.gap)} by {self.timestampField})"

    def __repr__(self) -> str:
        late = [f"lateness={duration_text(self.lateness)!r}"] if self.lateness else []
        parts = [repr(duration_text(self.gap)), repr(self.timestampField), *late, *_shown_idle(self.idleAfter)]
        return f"SessionWindow({', '.join(parts)})"


@dataclass(frozen=True, init=False, repr=False)
class EventTime(_Window):
    """A timestamp field and its watermark, for steps with event time and no windows.

    The watermark is the same as for a `TumblingEventTimeWindow`; a tuple is late if the watermark is past its time.
    """

    timestampField: str
    lateness: int
    idleAfter: int | None

    def __init__(self, timestampField: object, lateness: object, step: Step, idleAfter: object = None) -> None:
        self._set(timestampField=_field(timestampField, step))
        self._set(lateness=microseconds(lateness, "lateness", step, zero=True), idleAfter=_idle(idleAfter, step))

    def __repr__(self) -> str:
        parts = [self.timestampField, f"lateness={duration_text(self.lateness)!r}", *_shown_idle(self.idleAfter)]
        return ", ".join(parts)


WindowConfig = CountWindow | TimeWindow | SessionWindow
"""Any window."""

Timing = TimeWindow | SessionWindow | EventTime
"""Any object with a watermark."""


class Clocked(Protocol):
    """A step that may have a watermark; it names the times from which the watermark is computed."""

    @property
    def config(self) -> WindowConfig | EventTime | None:
        """The window or the event time; None if there is no watermark."""
        ...

    @property
    def site(self) -> CallSite:
        """The location of the user's code, or of the call."""
        ...


def wakes(config: WindowConfig | EventTime | None) -> bool:
    """Return whether a deadline of this clock may pass while no tuple arrives.

    Batch time advances by itself; event time does so with `idleAfter`.
    """
    if config is None or isinstance(config, CountWindow):
        return False
    return config.timestampField is None or config.idleAfter is not None


def timestamp_field(config: WindowConfig | EventTime) -> str | None:
    """Return the window's timestamp field; None if the window has none."""
    return None if isinstance(config, CountWindow) else config.timestampField


# --- checks of arguments ------------------------------------------------------------------------------------------


def microseconds(duration: object, name: str, step: Step, zero: bool = False) -> int:
    """Return a duration in microseconds. It must be positive (or 0 if `zero` is true), and at most 10,000 years.

    >>> microseconds("1.5 seconds", "length", Step("s", caller("s")))
    1500000
    """
    number = read_microseconds(name, duration, zero=zero, error=partial(step.error, TopologyError))
    if number > LONGEST:
        raise step.error(TopologyError, f"{name}={brief(duration)}: {TOO_LONG}")
    return number


def _count(tuples: object, name: str, step: Step) -> int:
    return check_whole_number(name, tuples, error=partial(step.error, TopologyError))


def _field(timestampField: object, step: Step) -> str:
    if not isinstance(timestampField, str) or not timestampField:
        raise step.error(
            TopologyError, f"timestampField={brief(timestampField)}: expected the name of a timestamp field"
        )
    return timestampField


_DAY = 86_400_000_000


def _zone(timeZone: object, length: int, step: Step) -> str | None:
    """Return the name of a time zone. Raises TopologyError if it does not exist, or if `length` is not whole days."""
    if timeZone is None:
        return None
    if not isinstance(timeZone, str) or not is_zone(timeZone):
        raise step.error(TopologyError, f"timeZone={brief(timeZone)}: expected a zone's name, such as 'Europe/Berlin'")
    if length % _DAY:
        raise step.error(
            TopologyError,
            f"length {duration_text(length)} with timeZone={timeZone!r}: windows of a time zone are whole days, such "
            "as '1 day'; for shorter windows remove timeZone. Hours of a zone with a half-hour offset are windows "
            f"over a field of local time, .each({{'local': F.from_utc_timestamp('at', {timeZone!r})}})",
        )
    return timeZone


def _step(window: _Window) -> Step:
    name = type(window).__name__
    return Step(name, caller(name))


def _idle(idleAfter: object, step: Step) -> int | None:
    """Return the microseconds of silence after which a source is idle; None if it never is."""
    return None if idleAfter is None else microseconds(idleAfter, "idleAfter", step)


def _shown_idle(idleAfter: int | None) -> list[str]:
    return [] if idleAfter is None else [f"idleAfter={duration_text(idleAfter)!r}"]
