"""Time that a test can move. Order never depends on it: it only paces, times out and measures."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of seconds."""

    def monotonic(self) -> float:
        """Seconds that never go back; the zero has no meaning."""
        ...

    def time(self) -> float:
        """Seconds since the Unix epoch: a batch's time, never an order."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()
