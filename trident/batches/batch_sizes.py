"""The sizes of batches: how much of each stream the next batch may hold, computed from the times of the last batches.

Only new batches get a size: a plan that is kept for a replay, or is in the log, stays as it is. Nothing here has a
thread, a clock or I/O. The reasons are in docs/decisions/0027-batches-sized-by-what-the-last-took.md.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trident_spouts.batch_budget import NO_LIMIT, Budget

REMEMBERED = 8
"""The number of batches from which the next size is computed. Each counts half as much as the following one."""

LARGEST_GROWTH = 2.0
"""The greatest factor by which a limit may grow at once."""

LARGEST_CUT = 4.0
"""The greatest factor by which the limit falls after a slow batch: perhaps a single commit had to wait for a server."""

NEARLY_ONE_SIZE = 0.1
"""The least difference between batch sizes, as a fraction of their mean, from which the fixed part can be computed."""

FULL = 0.8
"""The fraction of the limit from which a batch counts as full, so that a larger batch may be tried."""


class Measured(NamedTuple):
    """A committed batch: its number of rows or bytes, and the seconds from its attempt to its commit."""

    amount: int
    seconds: float


class Amount(NamedTuple):
    """The size of a batch. None: that measure is not known."""

    rows: int | None
    bytes: int | None


def fixed_part(batches: Sequence[Measured], before: float) -> float:
    """Return the seconds that even an empty batch takes: the intercept of a line through the batches.

    The batches come oldest first, and newer ones weigh more. `before` is the previous result, which is returned while
    the batches have nearly the same size, because no line can be drawn through them.

    >>> round(fixed_part([Measured(100, 0.3), Measured(200, 0.4), Measured(300, 0.5)], before=0.0), 6)
    0.2
    >>> fixed_part([Measured(100, 0.3), Measured(101, 0.4)], before=0.1)
    0.1
    """
    weights = [0.5 ** (len(batches) - 1 - at) for at in range(len(batches))]
    amount = _mean(weights, [batch.amount for batch in batches])
    seconds = _mean(weights, [batch.seconds for batch in batches])
    spread = _mean(weights, [(batch.amount - amount) ** 2 for batch in batches])
    if spread < (NEARLY_ONE_SIZE * amount) ** 2:
        return min(before, seconds)
    together = _mean(weights, [(batch.amount - amount) * (batch.seconds - seconds) for batch in batches])
    return min(seconds, max(0.0, seconds - amount * together / spread))


def _mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def size_for(target: float, batches: Sequence[Measured], fixed: float) -> float:
    """Return the amount with which a batch would take `target` seconds; infinity if the amount has no influence.

    If the fixed cost of a batch is more than half the target, small batches would spend most of their time on it. Then
    the size is chosen so that the variable part takes as long as the fixed part.

    >>> batches = [Measured(100, 0.3), Measured(200, 0.4), Measured(300, 0.5)]
    >>> round(size_for(1.0, batches, fixed=0.2)), round(size_for(0.1, batches, fixed=0.2))
    (800, 200)
    """
    weights = [0.5 ** (len(batches) - 1 - at) for at in range(len(batches))]
    seconds = _mean(weights, [batch.seconds for batch in batches]) - fixed
    amount = _mean(weights, [batch.amount for batch in batches])
    return amount * max(target - fixed, fixed) / seconds if seconds > 0 else float("inf")


@dataclass(slots=True)
class Limit:
    """The limit of one measure (rows or bytes) of one stream.

    There is no limit until a batch took longer than `target`.
    """

    target: float
    now: int | None = None
    _fixed: float = 0.0
    _batches: deque[Measured] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def took(self, amount: int, seconds: float) -> None:
        """Adjust the limit after a committed batch."""
        if amount < 1:  # a batch without rows of this stream gives no information about it
            return
        self._batches.append(Measured(amount, seconds))
        self._fixed = fixed_part(self._batches, self._fixed)
        size = size_for(self.target, self._batches, self._fixed)
        if seconds > self.target:
            # Never above an amount that was too slow, even if `size` is larger: it also follows from older batches.
            self.now = max(1, int(min(amount, max(size, amount / LARGEST_CUT))))
        elif self.now is not None and amount >= FULL * self.now:
            self.now = max(self.now, int(min(size, LARGEST_GROWTH * self.now)))


class BatchSizes:
    """The limits of all streams of a batch group. Thread-safe: one thread plans, another thread commits.

    Parameters
    ----------
    target : the seconds that a batch should take, from the end of its plan to its commit; None: nothing is limited.

    >>> sizes = BatchSizes(target=1.0)
    >>> sizes.budget("words")
    Budget(rows=None, bytes=None, seconds=1.0)
    >>> sizes.ran(1, {"words": Amount(rows=1000, bytes=None)}, began=10.0)
    >>> sizes.committed(1, now=12.0)
    >>> sizes.budget("words")
    Budget(rows=500, bytes=None, seconds=1.0)
    """

    def __init__(self, target: float | None) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._limits: dict[tuple[str, str], Limit] = {}
        self._under_way: dict[int, tuple[Mapping[str, Amount], float]] = {}

    def budget(self, stream: str) -> Budget:
        """Return the budget of a stream's next batch."""
        if self.target is None:
            return NO_LIMIT
        with self._lock:
            limits = [self._limits.get((stream, measure)) for measure in Amount._fields]
            rows, size = (None if limit is None else limit.now for limit in limits)
            return Budget(rows, size, self.target)

    def ran(self, txid: int, amounts: Mapping[str, Amount], began: float) -> None:
        """Record how much of each stream a finished batch holds, and when its attempt began (monotonic seconds)."""
        with self._lock:
            self._under_way[txid] = amounts, began

    def committed(self, txid: int, now: float) -> None:
        """Adjust the limits after batch `txid`, committed at `now`. Ignore the batch if an earlier run froze it."""
        with self._lock:
            amounts, began = self._under_way.pop(txid, ({}, now))
            self._took(amounts, now - began)

    def _took(self, amounts: Mapping[str, Amount], seconds: float) -> None:
        if self.target is not None:
            for stream, amount in amounts.items():
                for measure, known in amount._asdict().items():
                    if known is not None:
                        limit = self._limits.setdefault((stream, measure), Limit(self.target))
                        limit.took(known, seconds)
