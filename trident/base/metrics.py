"""A registry of metrics: counters, gauges and histograms of prometheus_client by name and labels."""

import bisect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from prometheus_client import Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

Labels = tuple[tuple[str, str], ...]
"""The labels of one series as pairs of name and value, sorted by name."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of a histogram's buckets, in seconds. One more bucket counts greater values."""

LONG_SECONDS = (*SECONDS[3:], 300.0, 1800.0, 3600.0, 21600.0, 86400.0)
"""The bounds of a `SummedHistogram`, which may count hours."""

MOST_SERIES = 10_000
"""The most series of one metric. Values with further labels are added to one common series, whose labels have the value
`OTHER`."""

OTHER = "other"

_OF_ALL = ("topology", "group")
"""The labels that keep their values in the common series."""


class SummedHistogram(Histogram):
    """A histogram that takes many observations at once, as counts by the upper bounds of the buckets."""

    def take(self, numbers: Mapping[float, int], sum: float) -> None:
        """Add observations with this sum."""
        for bound, number in numbers.items():
            self._buckets[bisect.bisect_left(self._upper_bounds, bound)].inc(number)
        self._sum.inc(sum)


One = Counter | Gauge | Histogram
OneT = TypeVar("OneT", Counter, Gauge, Histogram, SummedHistogram)
Kind = type[Counter] | type[Gauge] | type[Histogram] | type[SummedHistogram]
"""The kinds of metrics: a counter only grows, a gauge is set, a histogram counts observed seconds by buckets."""

_ENDS: Mapping[Kind, tuple[str, ...]] = {
    Counter: ("_total",),
    Gauge: ("",),
    Histogram: (_OF_HISTOGRAMS := ("_count", "", "_bucket", "_sum")),
    SummedHistogram: _OF_HISTOGRAMS,
}
"""The suffixes of the names that Prometheus reads for a metric of each kind. `value` returns the sample with the first
suffix."""


_BOUNDS: Mapping[Kind, tuple[float, ...]] = {Histogram: SECONDS, SummedHistogram: LONG_SECONDS}


def names_exposed(name: str, kind: Kind) -> tuple[str, ...]:
    """Return the names under which Prometheus reads a metric. Prometheus takes two metrics with a common name for one.

    >>> names_exposed("sold", Counter), names_exposed("sold_total", Counter), names_exposed("sold", Gauge)
    (('sold_total',), ('sold_total',), ('sold',))
    """
    return tuple(f"{name.removesuffix('_total') if kind is Counter else name}{end}" for end in _ENDS[kind])


class MetricsRegistry(Collector):
    """Holds metrics, and returns copies of them. Thread-safe. A registry of prometheus_client can `register` it.

    A name belongs to one kind and one set of labels. Using it as another kind, with other labels, or beside a name
    that Prometheus considers the same raises ValueError.

    >>> metrics = MetricsRegistry()
    >>> metrics.count("rows_total", "Rows read.", 3, stream="words")
    >>> metrics.count("rows_total", "Rows read.", 4, stream="words")
    >>> metrics.value("rows_total", stream="words")
    7.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, One] = {}
        self._series: dict[str, dict[Labels, One]] = {}
        self._at_hand: dict[tuple[Any, ...], One] = {}
        """The series in use, by kind, name and labels in the order of their use. A series found here needs no
        checks."""
        self._looks: list[Callable[[MetricsRegistry], None]] = []
        self._exposed: dict[str, str] = {}
        """The metric of each name that Prometheus reads."""
        self._label_names: dict[str, tuple[str, ...]] = {}

    def look_with(self, look: "Callable[[MetricsRegistry], None]") -> None:
        """Call `look` with this registry before each `collect`. It can set gauges that are updated nowhere else."""
        self._looks.append(look)

    def count(self, name: str, help: str, by: float, /, **labels: str) -> None:
        """Add `by` to a counter. Raises ValueError for a negative number."""
        if by < 0:
            raise ValueError(f"counter {name!r}: got {by!r}; a counter grows by 0 or more")
        with self._lock:
            self._one(Counter, name, help, labels).inc(by)

    def set(self, name: str, help: str, to: float, /, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._one(Gauge, name, help, labels).set(to)

    def observe(self, name: str, help: str, seconds: float, /, **labels: str) -> None:
        """Add an observation of `seconds` to a histogram."""
        with self._lock:
            self._one(Histogram, name, help, labels).observe(seconds)

    def observe_many(self, name: str, help: str, numbers: Mapping[float, int], sum: float, /, **labels: str) -> None:
        """Add observations to a histogram of long durations: counts by the bounds in `LONG_SECONDS`, and their sum."""
        with self._lock:
            self._one(SummedHistogram, name, help, labels).take(numbers, sum)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a counter or gauge, or a histogram's number of observations; 0 before the first one."""
        with self._lock:
            one = self._series.get(name, {}).get(_key(labels))
            if one is None:
                return 0.0
            read = names_exposed(name, type(one))[0]
            return next(sample.value for metric in one.collect() for sample in metric.samples if sample.name == read)

    def collect(self) -> Iterator[Metric]:
        """Return all metrics as of now, in the order of their names. Later changes do not affect the copies."""
        for look in self._looks:
            try:
                look(self)
            except Exception:  # one failed look must not hide the other metrics
                logger.exception("metrics: some gauges could not be read")
        with self._lock:
            collected = [(name, metric) for name in sorted(self._metrics) for metric in self._metrics[name].collect()]
        for name, metric in collected:
            exposed = names_exposed(name, type(self._metrics[name]))
            metric.samples = [sample for sample in metric.samples if sample.name in exposed]  # no `_created`
        return iter([metric for _, metric in collected])

    def _one(self, kind: type[OneT], name: str, help: str, labels: Mapping[str, str]) -> OneT:
        """Return one series of a metric. The caller must hold the lock."""
        used = (kind, name, *labels.items())
        if (found := self._at_hand.get(used)) is None:
            found = self._checked(kind, name, help, labels)
            if _key(labels) in self._series[name]:  # not the common series, which stands for any number of labels
                self._at_hand[used] = found
        return cast("OneT", found)

    def _checked(self, kind: type[OneT], name: str, help: str, labels: Mapping[str, str]) -> OneT:
        """Return one series of a metric, and make it if it is new."""
        metric = self._metrics.get(name) or self._begin(kind, name, help, labels)
        if not isinstance(metric, kind):
            was, now = type(metric).__name__.lower(), kind.__name__.lower()
            raise ValueError(f"metric {name!r} is a {was}, but was used as a {now}; choose another name")
        if self._label_names[name] != tuple(sorted(labels)):
            had, came = (", ".join(each) or "none" for each in (self._label_names[name], sorted(labels)))
            raise ValueError(f"metric {name!r} has the labels {had}, but was used with {came}; choose another name")
        series = self._series[name]
        key = self._place(name, series, labels)
        if (one := series.get(key)) is None:
            one = series[key] = metric.labels(**dict(key)) if key else metric
        assert isinstance(one, kind)
        return one

    def _begin(self, kind: Kind, name: str, help: str, labels: Mapping[str, str]) -> One:
        exposed = names_exposed(name, kind)
        for each in exposed:
            if each in self._exposed:
                raise ValueError(
                    f"metric {name!r}: in Prometheus it has the same name as {self._exposed[each]!r}; choose "
                    f"another name"
                )
        more: Any = {"buckets": _BOUNDS[kind]} if kind in _BOUNDS else {}
        metric = kind(name, help, sorted(labels), registry=None, **more)
        self._exposed |= dict.fromkeys(exposed, name)
        self._metrics[name], self._series[name], self._label_names[name] = metric, {}, tuple(sorted(labels))
        return metric

    def _place(self, name: str, series: Mapping[Labels, object], labels: Mapping[str, str]) -> Labels:
        """Return the key of a series. If the metric has too many series, return the key of the common series."""
        key = _key(labels)
        if key in series or len(series) < MOST_SERIES:
            return key
        if len(series) == MOST_SERIES:
            logger.warning(
                "metric %s has %d series, one for each combination of %s; further combinations are summed under the "
                "label %r. Choose labels with few values",
                name,
                MOST_SERIES,
                ", ".join(sorted(labels)),
                OTHER,
            )
        return _key({label: value if label in _OF_ALL else OTHER for label, value in labels.items()})


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
