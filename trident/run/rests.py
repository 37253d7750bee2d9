"""The moments at which a group rests: its sources had nothing, and everything that they gave is committed."""

import threading
from collections.abc import Callable


class Rests:
    """The rests of a group, for those who wait for one. Any thread.

    `over` tells whether the group has ended, so that a wait is over too.

    >>> rests = Rests(over=lambda: False)
    >>> rests.wait(wake=lambda: (rests.plan_begins(), rests.found_nothing()), timeout=0)
    True
    >>> rests.wait(wake=lambda: None, timeout=0)
    False
    """

    def __init__(self, over: Callable[[], bool]) -> None:
        self._over = over
        self._changed = threading.Condition()
        self._plans = 0
        self._rested_at = -1

    def plan_begins(self) -> None:
        """Count a plan: the sources are about to be asked."""
        with self._changed:
            self._plans += 1

    def found_nothing(self) -> None:
        """End the waits for the plan that was counted last: it found nothing, and nothing is in flight."""
        with self._changed:
            self._rested_at = self._plans
            self._changed.notify_all()

    def wake(self) -> None:
        """Have those who wait look whether the group has ended."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, wake: Callable[[], object], timeout: float | None) -> bool:
        """Have the sources asked anew (`wake`), and wait until they had nothing. False: not in time."""
        with self._changed:
            asked = self._plans + 1  # a plan that is under way may have asked before the newest tuples came
            wake()
            return self._changed.wait_for(lambda: self._rested_at >= asked or self._over(), timeout)
