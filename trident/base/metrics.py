"""A registry of metrics: counters, gauges and histograms by name and labels, in the terms of Prometheus."""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

logger = logging.getLogger(__name__)

Labels = tuple[tuple[str, str], ...]
"""The labels of one series as pairs of name and value, sorted by name."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of a histogram's buckets, in seconds. One more bucket counts greater values."""


class MetricKind(StrEnum):
    """The kinds of metrics: a counter only grows, a gauge is set, a histogram counts observed seconds by buckets."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(slots=True)
class Histogram:
    """The observations of one series: the number in each bucket of `SECONDS`, and their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    sum: float = 0.0

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """All series of one metric: their values by labels, or for a histogram their observations."""

    name: str
    kind: MetricKind
    help: str
    values: Mapping[Labels, float]
    histograms: Mapping[Labels, Histogram]


class MetricsRegistry:
    """Holds metrics, and returns copies of them. Thread-safe.

    A name belongs to one kind: a second use of it as another kind is a ValueError.

    >>> metrics = MetricsRegistry()
    >>> metrics.count("rows_total", "Rows read.", 3, stream="words")
    >>> metrics.count("rows_total", "Rows read.", 4, stream="words")
    >>> metrics.value("rows_total", stream="words")
    7
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[str, MetricFamily] = {}
        self._values: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._looks: list[Callable[[MetricsRegistry], None]] = []

    def look_with(self, look: "Callable[[MetricsRegistry], None]") -> None:
        """Call `look` with this registry before each `collect`. It can set gauges that nothing else updates."""
        self._looks.append(look)

    def count(self, name: str, help: str, by: float, /, **labels: str) -> None:
        """Add `by` to a counter. Raises ValueError for a negative number."""
        if by < 0:
            raise ValueError(f"counter {name!r}: came {by!r}; a counter grows by 0 or more")
        key = _key(labels)
        with self._lock:
            values = self._series(name, MetricKind.COUNTER, help)
            values[key] = values.get(key, 0) + by

    def set(self, name: str, help: str, to: float, /, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._series(name, MetricKind.GAUGE, help)[_key(labels)] = to

    def observe(self, name: str, help: str, seconds: float, /, **labels: str) -> None:
        """Add an observation of `seconds` to a histogram."""
        with self._lock:
            self._series(name, MetricKind.HISTOGRAM, help)
            histogram = self._histograms[name].setdefault(_key(labels), Histogram())
            histogram.counts[bisect_left(SECONDS, seconds)] += 1
            histogram.sum += seconds

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a counter or gauge, or a histogram's number of observations; 0 before the first one."""
        key = _key(labels)
        with self._lock:
            histogram = self._histograms.get(name, {}).get(key)
            return self._values.get(name, {}).get(key, 0) if histogram is None else histogram.count

    def collect(self) -> list[MetricFamily]:
        """Return all metrics as of now, in the order of their names. Later changes do not affect the copies."""
        for look in self._looks:
            try:
                look(self)
            except Exception:  # the other metrics are worth more than these
                logger.exception("metrics: some gauges could not be looked up")
        with self._lock:
            return [
                MetricFamily(
                    name,
                    family.kind,
                    family.help,
                    dict(self._values[name]),
                    {key: Histogram(list(each.counts), each.sum) for key, each in self._histograms[name].items()},
                )
                for name, family in sorted(self._families.items())
            ]

    def _series(self, name: str, kind: MetricKind, help: str) -> dict[Labels, float]:
        """Return the values of a metric. The caller must hold the lock."""
        family = self._families.get(name)
        if family is None:
            values, histograms = dict[Labels, float](), dict[Labels, Histogram]()
            self._families[name] = MetricFamily(name, kind, help, values, histograms)
            self._values[name], self._histograms[name] = values, histograms
            return values
        if family.kind is not kind:
            raise ValueError(f"metric {name!r} is a {family.kind}, and was used as a {kind}; take another name")
        return self._values[name]


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
