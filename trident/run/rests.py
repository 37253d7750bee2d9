"""When a group rests: its sources were asked and had nothing, and everything that they gave is committed."""

import threading
from collections.abc import Callable


class Rests:
    """Counts the plans of a group, and tells those who wait that one found nothing. Any thread. `over`: whether the
    group has ended, so that nobody is to wait.

    >>> rests = Rests(over=lambda: False)
    >>> rests.wait(wake=lambda: (rests.plan_begins(), rests.begin()), timeout=0)
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
        """The sources are about to be asked."""
        with self._changed:
            self._plans += 1

    def begin(self) -> None:
        """They had nothing, and nothing is in flight."""
        with self._changed:
            self._rested_at = self._plans
            self._changed.notify_all()

    def look(self) -> None:
        """Let those who wait see that the group is over."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, wake: Callable[[], object], timeout: float | None) -> bool:
        """Have the sources asked anew (`wake`), and wait until they had nothing. False: not in time."""
        with self._changed:
            asked = self._plans + 1
            wake()
            return self._changed.wait_for(lambda: self._rested_at >= asked or self._over(), timeout)
