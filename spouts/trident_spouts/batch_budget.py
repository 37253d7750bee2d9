"""The budget of a batch: the most that a spout should put into it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum size of the next batch of a spout. None: no limit but the spout's own.

    A run passes a budget whenever it plans a new batch. Without ``start(targetBatchSecs=...)`` nothing is limited. A
    spout obeys the limits that it can measure, and ignores the others. A batch may be larger if its source cannot be
    divided further, such as one Parquet file; it is never empty because the budget is small.

    Parameters
    ----------
    rows : int, optional
        The most rows.
    bytes : int, optional
        The most bytes, as stored in the source.
    seconds : float, optional
        The most seconds that `plan` should wait for a batch to become full.

    Examples
    --------
    >>> Budget(rows=500).rows_within(1000), Budget().rows_within(1000)
    (500, 1000)
    >>> Budget(rows=500).share(3)
    Budget(rows=167, bytes=None, seconds=None)
    """

    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def rows_within(self, most: int) -> int:
        """Return the smaller of this budget's rows and `most`, the spout's limit."""
        return most if self.rows is None else max(1, min(most, self.rows))

    def bytes_within(self, most: int) -> int:
        """Return the smaller of this budget's bytes (at least 1) and `most`, the spout's limit."""
        return most if self.bytes is None else max(1, min(most, self.bytes))

    def seconds_within(self, most: float) -> float:
        """Return the smaller of this budget's seconds and `most`, the spout's limit."""
        return most if self.seconds is None else min(most, self.seconds)

    def share(self, parts: int) -> "Budget":
        """Return the part of this budget that each of several partitions gets. The time is not divided."""
        rows = None if self.rows is None else -(-self.rows // max(1, parts))
        size = None if self.bytes is None else -(-self.bytes // max(1, parts))
        return Budget(rows, size, self.seconds)


NO_LIMIT = Budget()
"""The budget without a limit: the spout's own options decide."""
