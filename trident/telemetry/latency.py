"""The end-to-end latency of a batch's messages: from the source's own time to COMMITTED."""

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trident.base.metrics import LONG_SECONDS
from trident_spouts.source_times import SourceSpan

_POINTS = 1000
"""The approximate most latencies that represent a batch."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latencies of a stream's messages in a batch, in seconds.

    >>> Latencies.of([SourceSpan(10.0, 12.0, 3)], 12.5).as_dict()
    {'count': 3, 'mean': 1500.0, 'p50': 1500.0, 'p99': 2500.0, 'max': 2500.0, 'buckets': {'500': 1, '2500': 2}}
    """

    points: Sequence[tuple[float, int]]
    """Latencies in growing order, each with its number of messages."""

    @classmethod
    def of(cls, spans: Sequence[SourceSpan], committed: float) -> "Latencies":
        """Return the latencies at the time `committed`.

        A time after `committed` comes from a differing clock; its latency counts as 0.
        """
        most = max(2, _POINTS // max(1, len(spans)))
        times = (point for span in spans for point in _points(span, most))
        return cls(sorted((max(0.0, committed - time), tuples) for time, tuples in times))

    @property
    def count(self) -> int:
        """The number of messages whose time is known."""
        return sum(tuples for _, tuples in self.points)

    @property
    def sum(self) -> float:
        """The sum of all latencies."""
        return math.fsum(latency * tuples for latency, tuples in self.points)

    def quantile(self, share: float) -> float:
        """Return the smallest latency that this share of the messages does not exceed."""
        passed, wanted = 0, math.ceil(share * self.count)
        for latency, tuples in self.points:
            passed += tuples
            if passed >= wanted:
                return latency
        raise ValueError("there are no messages")

    def buckets(self) -> dict[float, int]:
        """Return the number of messages in each non-empty bucket, by the bucket's upper bound."""
        counts: dict[float, int] = {}
        for latency, tuples in self.points:
            bound = (*LONG_SECONDS, math.inf)[bisect.bisect_left(LONG_SECONDS, latency)]
            counts[bound] = counts.get(bound, 0) + tuples
        return counts

    def as_dict(self) -> Mapping[str, Any]:
        """Return the histogram as progress events show it, in milliseconds."""
        shown = {"count": self.count, "mean": self.sum / self.count, "p50": self.quantile(0.5)}
        shown |= {"p99": self.quantile(0.99), "max": self.points[-1][0]}
        in_milliseconds = {name: round(value * 1000, 3) for name, value in shown.items() if name != "count"}
        buckets = {f"{bound * 1000:.0f}": tuples for bound, tuples in self.buckets().items()}
        return {"count": self.count, **in_milliseconds, "buckets": buckets}


def _points(span: SourceSpan, most: int) -> Iterator[tuple[float, int]]:
    """Yield times of a span, at most `most`, each with its number of tuples."""
    number = 1 if span.oldest == span.newest else min(span.tuples, most)
    step = (span.newest - span.oldest) / (number - 1) if number > 1 else 0.0
    for at in range(number):
        yield span.newest - step * at, span.tuples * (at + 1) // number - span.tuples * at // number
