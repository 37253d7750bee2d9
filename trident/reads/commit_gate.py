"""The gate of a batch group, through which reads hold commits back for a limited time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trident.base.forked_child import free_in_child

HOLD_SECONDS = 30.0
"""The most seconds for which one read holds commits back."""


class CommitGate:
    """Holds back the commits of one batch group while reads need that. Thread-safe.

    Readers hold commits back, and only the committer waits. No reader waits for a commit, so there is no deadlock.

    >>> gate = CommitGate(lambda: 4)
    >>> with gate.between() as txid:
    ...     txid, gate.wait(5, timeout=0), gate.wait(6, timeout=0)
    (4, True, False)
    >>> gate.wait(6, timeout=0)
    True
    """

    def __init__(self, committed: Callable[[], int]) -> None:
        self._committed = committed
        self._changed = free_in_child(threading.Condition())
        self._holds: set[_Hold] = set()

    @contextmanager
    def between(self) -> Iterator[int]:
        """Yield the last committed txid. Until the end of the block, hold back all batches after the next batch.

        Held back means that `wait` does not return True for them. The hold ends after `HOLD_SECONDS` at the latest.
        """
        # The txid is read under the lock: a hold would come too late if `wait` had already admitted the second batch
        # after it.
        with self._changed:
            hold = _Hold(self._committed(), time.monotonic() + HOLD_SECONDS)
            self._holds.add(hold)
        try:
            yield hold.txid
        finally:
            with self._changed:
                self._holds.remove(hold)
                self._changed.notify_all()

    def wait(self, txid: int, timeout: float | None = None) -> bool:
        """Return True as soon as no read holds back the commit of `txid`; return False after `timeout` seconds.

        The committer calls this before the first write of a batch, when `committed` has reached the previous batch.
        """
        until = float("inf") if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                now = time.monotonic()
                # The first commit after a hold's txid is allowed: the store then still has the values as of that txid.
                # After the second commit it no longer has them. An ended hold does not count, even if its reader has
                # not left the block (guard "hold, limit").
                over = max((hold.until for hold in self._holds if hold.txid < txid - 1), default=now)
                if over <= now:
                    return True
                if until <= now:
                    return False
                self._changed.wait(min(over, until) - now)


# Compared by identity: two reads may hold the same txid until the same moment, and each removes its own hold.
@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """A read that holds back all commits after `txid` + 1, until `until` (monotonic time) at the latest."""

    txid: int
    until: float
