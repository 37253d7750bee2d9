"""A clock that a test can move. It is used for pauses, time limits and measurements, never for the order of batches."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of seconds."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary moment.

        They never decrease; only the difference of two calls has a meaning.
        """
        ...

    def time(self) -> float:
        """Return the seconds since the Unix epoch. They date batches, and never order them."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()
