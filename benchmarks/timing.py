"""Seconds of a block, and medians."""

import statistics
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class Timed:
    """Measure the wall time of a block: ``with Timed() as timed: ...``, then ``timed.seconds``."""

    seconds: float = float("nan")

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._start


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99)
    (2.0, 4.0)
    """
    ranked = sorted(samples)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


median = statistics.median
