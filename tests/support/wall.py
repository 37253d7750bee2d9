"""A time of day that a test sets."""

import time


class Wall:
    """The time of day as a test sets it, for `start(..., clock=wall)`. Waiting takes as long as ever."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, for every batch that is planned from now on."""
        self.now += seconds
        time.sleep(0.2)  # a plan that is under way has read the former time
