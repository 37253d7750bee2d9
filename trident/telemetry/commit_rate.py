"""The rate of a group's commits. It is logged from time to time, not for each batch."""

EVERY_SECONDS = 10.0
"""The least time in seconds between two log lines about one group."""


class CommitRate:
    """Counts the commits of one batch group since the last log line about the group. One thread at a time calls it.

    >>> rate = CommitRate(began=0.0)
    >>> rate.count(1, 500, now=4.0)
    >>> rate.count(2, 700, now=10.0)
    '2 batches in 10 s, up to txid 2; 1,200 rows, 120 rows/s'
    >>> rate.count(3, None, now=30.0)
    '1 batch in 20 s, up to txid 3'
    """

    def __init__(self, began: float) -> None:
        self._since = began
        self._batches = 0
        self._rows: int | None = 0

    def count(self, txid: int, rows: int | None, now: float) -> str | None:
        """Count a commit at `now` (monotonic seconds).

        Return a line to log if the last line is long enough ago, otherwise None.

        `rows` is the number of tuples that entered the batch; None: not known, and then the line has no rows.
        """
        self._batches += 1
        self._rows = None if rows is None or self._rows is None else self._rows + rows
        seconds = now - self._since
        if seconds < EVERY_SECONDS:
            return None
        line = f"{self._batches:,} batch{'es' if self._batches > 1 else ''} in {seconds:.0f} s, up to txid {txid}"
        if self._rows is not None:
            line += f"; {self._rows:,} rows, {self._rows / seconds:,.0f} rows/s"
        self._since, self._batches, self._rows = now, 0, 0
        return line
