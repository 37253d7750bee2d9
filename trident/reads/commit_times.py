"""The times at which the batches of a group were committed, for reads that report them."""

import threading
from collections.abc import Callable

from trident.base.forked_child import free_in_child

_MOST = 1024
"""The most batches whose times are kept in memory."""


class CommitTimes:
    """The times of a group's commits. The latest times are kept in memory, older times are read from the log.

    Any thread may call. `look` reads a time from the log; it is called without the lock.
    """

    def __init__(self, look: Callable[[int], float | None]) -> None:
        self._look = look
        self._lock = free_in_child(threading.Lock())
        self._known: dict[int, float] = {}

    def note(self, txid: int, time: float | None) -> None:
        """Keep the time of a commit in memory."""
        if time is None:
            return
        with self._lock:
            self._known[txid] = time
            while len(self._known) > _MOST:
                del self._known[next(iter(self._known))]

    def at_hand(self, txid: int) -> float | None:
        """Return when a batch was committed, in seconds since 1970; None if that time is not in memory."""
        return self._known.get(txid)

    def of(self, txid: int) -> float | None:
        """Return when a batch was committed, in seconds since 1970; None if the log has no such time."""
        time = self.at_hand(txid)
        if time is None:
            time = self._look(txid)
            self.note(txid, time)
        return time
