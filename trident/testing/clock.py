"""A clock that only a test moves."""

import threading


class ManualClock:
    """A `Clock` with a time that changes only when `advance` is called.

    >>> clock = ManualClock(time=100.0)
    >>> clock.advance(2.5)
    >>> clock.time(), clock.monotonic()
    (102.5, 2.5)
    """

    def __init__(self, time: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._began = time
        self._passed = 0.0

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`. Raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        with self._lock:
            self._passed += seconds

    def monotonic(self) -> float:
        with self._lock:
            return self._passed

    def time(self) -> float:
        with self._lock:
            return self._began + self._passed
