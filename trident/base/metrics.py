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


MOST_SERIES = 10_000
"""The most series of one metric. What comes with further labels is added to one series whose labels say `OTHER`."""

OTHER = "other"

_OF_ALL = ("topology", "group")
"""The labels that keep their values in the series of all others."""


def names_exposed(name: str, kind: MetricKind) -> frozenset[str]:
    """Return the names under which Prometheus reads a metric. Two metrics that share one are one metric there.

    >>> sorted(names_exposed("sold", MetricKind.COUNTER)), sorted(names_exposed("sold", MetricKind.GAUGE))
    (['sold_total'], ['sold'])
    """
    if kind is MetricKind.COUNTER:
        return frozenset([f"{name.removesuffix('_total')}_total"])
    ends = ("",) if kind is MetricKind.GAUGE else ("", "_bucket", "_sum", "_count")
    return frozenset(f"{name}{end}" for end in ends)


class MetricsRegistry:
    """Holds metrics, and returns copies of them. Thread-safe.

    A name belongs to one kind and one set of labels. A use of it as another kind, with other labels, or beside a name
    that Prometheus takes for the same one is a ValueError.

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
        self._exposed: dict[str, str] = {}
        """The metric of each name that Prometheus reads."""
        self._label_names: dict[str, tuple[str, ...]] = {}

    def look_with(self, look: "Callable[[MetricsRegistry], None]") -> None:
        """Call `look` with this registry before each `collect`. It can set gauges that nothing else updates."""
        self._looks.append(look)

    def count(self, name: str, help: str, by: float, /, **labels: str) -> None:
        """Add `by` to a counter. Raises ValueError for a negative number."""
        if by < 0:
            raise ValueError(f"counter {name!r}: came {by!r}; a counter grows by 0 or more")
        with self._lock:
            values = self._series(name, MetricKind.COUNTER, help, labels)
            key = self._place(name, values, labels)
            values[key] = values.get(key, 0) + by

    def set(self, name: str, help: str, to: float, /, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            values = self._series(name, MetricKind.GAUGE, help, labels)
            values[self._place(name, values, labels)] = to

    def observe(self, name: str, help: str, seconds: float, /, **labels: str) -> None:
        """Add an observation of `seconds` to a histogram."""
        with self._lock:
            self._series(name, MetricKind.HISTOGRAM, help, labels)
            histograms = self._histograms[name]
            histogram = histograms.setdefault(self._place(name, histograms, labels), Histogram())
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

    def _series(self, name: str, kind: MetricKind, help: str, labels: Mapping[str, str]) -> dict[Labels, float]:
        """Return the values of a metric. The caller must hold the lock."""
        family = self._families.get(name)
        if family is None:
            return self._begin(name, kind, help, labels)
        if family.kind is not kind:
            raise ValueError(f"metric {name!r} is a {family.kind}, and was used as a {kind}; take another name")
        if len(self._label_names[name]) != len(labels) or any(each not in labels for each in self._label_names[name]):
            had, came = (", ".join(sorted(each)) or "none" for each in (self._label_names[name], labels))
            raise ValueError(f"metric {name!r} has the labels {had}, and was used with {came}; take another name")
        return self._values[name]

    def _begin(self, name: str, kind: MetricKind, help: str, labels: Mapping[str, str]) -> dict[Labels, float]:
        exposed = names_exposed(name, kind)
        for each in exposed:
            if each in self._exposed:
                raise ValueError(
                    f"metric {name!r}: for Prometheus it is the same as {self._exposed[each]!r}; take another name"
                )
        self._exposed |= dict.fromkeys(exposed, name)
        values, histograms = dict[Labels, float](), dict[Labels, Histogram]()
        self._families[name] = MetricFamily(name, kind, help, values, histograms)
        self._values[name], self._histograms[name] = values, histograms
        self._label_names[name] = tuple(labels)
        return values

    def _place(self, name: str, series: Mapping[Labels, object], labels: Mapping[str, str]) -> Labels:
        """Return the key of a series. If the metric has too many, return that of all further ones together."""
        key = _key(labels)
        if key in series or len(series) < MOST_SERIES:
            return key
        if len(series) == MOST_SERIES:
            logger.warning(
                "metric %s has %d series, one for each combination of %s; further ones are added up under the label "
                "%r. Choose labels with few values",
                name,
                MOST_SERIES,
                ", ".join(sorted(labels)),
                OTHER,
            )
        return _key({label: value if label in _OF_ALL else OTHER for label, value in labels.items()})


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
