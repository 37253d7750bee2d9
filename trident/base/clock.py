"""A clock that a test can move. It paces, times out and measures; the order of batches never depends on it."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of seconds."""

    def monotonic(self) -> float:
        """Return seconds that never go back. Only differences mean something."""
        ...

    def time(self) -> float:
        """Return the seconds since the Unix epoch. They give a batch its time, never its order."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()
