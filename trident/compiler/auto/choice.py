"""The choice of an engine for one stage of one attempt, from the times that earlier batches took.

For each stage and engine the times are kept by size class; each class covers sizes up to twice those of the class
below. A class without times is estimated from its neighbours, deliberately low: so an engine is tried if it might be
faster, and its time then decides. docs/decisions/0062-an-engine-for-each-batch.md has the reasons.
"""

import math
import statistics
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Side = Literal["embedded", "spark"]

_KEPT = 5
"""The number of times that are kept for a class of sizes. The median of them is the estimate."""

_BETTER = 0.8
"""The other engine takes over only if its estimate is below this fraction of the present engine's; otherwise noise
would move a stage back and forth."""

_COLD = 3.0
"""The factor by which the first time of a stage on an engine may be too long, because it loads code."""

_FAILED = 2.0
"""An attempt that failed because of an engine counts as this many times the duration on the other engine, so that a
failing engine is avoided."""

_WORTH_A_START = 0.5
"""If a stage takes more seconds than this in the driver's process, a JVM may be started for later batches. If a
session exists, it costs only a warm-up of about a second beside the batches: then there is no such minimum, except for
the first time, which includes loading code."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The least expected cost of an engine: the seconds of a stage without tuples, and of each tuple."""

    stage: float
    tuple: float

    def of(self, tuples: float) -> float:
        """Return the seconds of a stage with this many tuples."""
        return self.stage + self.tuple * tuples


LEAST: Mapping[Side, Cost] = MappingProxyType({"embedded": Cost(0.001, 5e-8), "spark": Cost(0.03, 2e-8)})
"""Estimates for a stage that an engine has not run yet. They are low, so that the engine is tried."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a stage's input. None: not known before it is read."""

    tuples: int | None
    """The number of tuples, or the most that there can be."""
    bytes: int | None
    uncounted: int = 0
    """The bytes of those inputs among several whose number of tuples is not known."""

    @classmethod
    def together(cls, sizes: Sequence["Size"]) -> "Size":
        """Return the total size of several inputs; unknown if the size of one is."""
        if any(size.tuples is None and size.bytes is None for size in sizes):
            return cls(None, None)
        tuples = [size.tuples for size in sizes if size.tuples is not None]
        bytes = [size.bytes for size in sizes if size.bytes is not None]
        uncounted = sum(size.bytes or 0 for size in sizes if size.tuples is None)
        return cls(sum(tuples) if tuples else None, sum(bytes) if bytes else None, uncounted)

    @property
    def measure(self) -> float:
        """The number of tuples by which times are compared; if only bytes are known, a tuple counts as 64 bytes."""
        bytes = self.uncounted if self.tuples is not None else self.bytes or 0
        return max(1.0, (self.tuples or 0) + bytes / 64)


@dataclass(slots=True)
class _Times:
    """The times of one stage on one engine, by class of sizes. Each has the size to which it belongs."""

    least: Cost
    classes: dict[int, deque[tuple[float, float]]] = field(default_factory=dict)
    count: int = 0
    stage: float = math.inf
    """The shortest time of all: about that of a stage without tuples, if there were small inputs."""

    def add(self, measure: float, seconds: float) -> None:
        """Note the time of an input of this size."""
        self.classes.setdefault(_class_of(measure), deque(maxlen=_KEPT)).append((measure, seconds))
        self.count += 1
        self.stage = min(self.stage, seconds)

    def expected(self, measure: float) -> float:
        """Return the seconds that an input of this size is expected to take."""
        at = _class_of(measure)
        if at not in self.classes:
            return self._guessed(measure, at)
        seconds = self._median(at, measure)
        return seconds if self.count > 1 else max(seconds / _COLD, min(seconds, self.least.of(measure)))

    def has(self, measure: float) -> bool:
        """Return whether there are times for inputs of about this size."""
        return _class_of(measure) in self.classes

    def surely(self, measure: float) -> float:
        """Return the seconds that an input of this size takes without waiting for a busy machine.

        It is the shortest time of its class (of five, the second shortest, because a few batches may be quick by
        chance). The other engine is tried only if this time is long, because its first job is slow.
        """
        if self.count == 1 or not self.has(measure):
            return self.expected(measure)
        times = sorted(self._scaled(_class_of(measure), measure))
        return times[(len(times) - 1) // (_KEPT - 1)]

    def _guessed(self, measure: float, at: int) -> float:
        """Return an estimate from the nearest classes; a larger size adds the least time for each further tuple."""
        guess = self.least.of(measure)
        below = max((other for other in self.classes if other < at), default=None)
        above = min((other for other in self.classes if other > at), default=None)
        if below is not None:
            size = 2.0**below
            guess = max(guess, self._median(below, size) + self.least.tuple * (measure - size))
        if above is not None:
            larger = self._median(above, 2.0 ** (above - 1))
            share = self.least.stage + max(0.0, larger - self.least.stage) * measure / 2.0 ** (above - 1)
            guess = min(larger, max(guess, share))
        return guess

    def _median(self, at: int, measure: float) -> float:
        """Return the median of the times of a class, each scaled to this size."""
        return statistics.median(self._scaled(at, measure))

    def _scaled(self, at: int, measure: float) -> list[float]:
        return [self.stage + (took - self.stage) * measure / size for size, took in self.classes[at]]


class EngineChoice:
    """The choice for all stages of a run. Thread-safe.

    `tuples` and `bytes` are the largest input of a stage that the driver's process may read.
    """

    def __init__(self, tuples: int, bytes: int) -> None:
        self._tuples, self._bytes = tuples, bytes
        self._lock = threading.Lock()
        self._times: dict[tuple[str, int, Side], _Times] = {}
        self._last: dict[tuple[str, int, int], Side] = {}
        """The engine that was chosen last, by group, stage and class of sizes."""
        self._failed: dict[tuple[str, int], Side] = {}
        """The engine that failed last in a stage, until the stage has run. The next attempt uses the other one."""
        self._here = set[str]()
        """The groups that Spark cannot run with this program or this session."""

    def fits(self, size: Size) -> bool:
        """Return whether the driver's process may read an input. One of unknown size may be too large."""
        if size.tuples is None and size.bytes is None:
            return False
        return (size.tuples or 0) <= self._tuples and (size.bytes or 0) <= self._bytes

    def choose(self, group: str, stage: int, size: Size, ready: bool) -> Side:
        """Return the engine for a stage that both can run, with an input that fits.

        `ready`: whether Spark is running. If it is not, the driver computes the stage, unless it ran out of memory.
        """
        measure = size.measure
        with self._lock:
            if group in self._here:
                return "embedded"
            failed = self._failed.get((group, stage))
            if failed is not None:
                return _other(failed)
            at = group, stage, _class_of(measure)
            side = self._sooner(at, measure) if ready else "embedded"
            self._last[at] = side
            return side

    def _sooner(self, at: tuple[str, int, int], measure: float) -> Side:
        """Return the engine that is expected to be faster, or the last one if both are about equal."""
        times = {side: self._of(at[0], at[1], side) for side in LEAST}
        expected = {side: times[side].expected(measure) for side in LEAST}
        side = self._last.get(at, min(expected, key=expected.__getitem__))
        other = _other(side)
        known = times[other].has(measure)
        here = expected[side] if known else times[side].surely(measure)
        return other if expected[other] < _BETTER * here else side

    def worth_a_start(self, group: str, stage: int, size: Size, session: bool = False) -> bool:
        """Return whether to start Spark, because it might run the next such stage faster.

        Call this when a stage with an input of this size has run in the driver. `session`: whether there is a session.
        """
        with self._lock:
            times = self._of(group, stage, "embedded")
            here = times.surely(size.measure)
            least = 0.0 if session and times.count > 1 else _WORTH_A_START
            return here > least and self._of(group, stage, "spark").expected(size.measure) < _BETTER * here

    def ran(self, group: str, stage: int, side: Side, size: Size, seconds: float) -> None:
        """Note the time of a stage."""
        with self._lock:
            failed = self._failed.pop((group, stage), None)
            self._of(group, stage, side).add(size.measure, seconds)
            if failed == _other(side):
                self._of(group, stage, failed).add(size.measure, _FAILED * seconds)

    def is_longer(self, group: str, stage: int, side: Side, size: Size, seconds: float) -> bool:
        """Return whether a stage has taken longer than was expected."""
        with self._lock:
            return seconds > self._of(group, stage, side).expected(size.measure)

    def failed(self, group: str, stage: int, side: Side) -> None:
        """Record that an engine, not the user's code, failed in a stage. The next attempt runs on the other engine."""
        with self._lock:
            self._failed[group, stage] = side

    def stays_here(self, group: str) -> None:
        """Record that Spark cannot run this group. The stages that the driver can run stay in the driver."""
        with self._lock:
            self._here.add(group)

    def _of(self, group: str, stage: int, side: Side) -> _Times:
        return self._times.setdefault((group, stage, side), _Times(LEAST[side]))


def _class_of(measure: float) -> int:
    return math.frexp(measure)[1]


def _other(side: Side) -> Side:
    return "spark" if side == "embedded" else "embedded"
