"""The moments at which a group rests: its sources had nothing, and everything that they emitted is committed."""

from collections.abc import Callable

from trident.base.interruptible_waits import Waits


class IdleMoments:
    """Lets threads wait until a group rests: its sources are empty, and everything is committed.

    Any thread may wait; one thread plans. `over` returns whether the group has ended; then every wait ends. It may
    raise, and the wait then raises that.

    >>> rests = IdleMoments(over=lambda: False)
    >>> rests.wait(wake=lambda: (rests.plan_begins(), rests.found_nothing()), timeout=0)
    True
    >>> rests.wait(wake=lambda: None, timeout=0)
    False
    """

    def __init__(self, over: Callable[[], bool]) -> None:
        self._over = over
        self._waits = Waits()
        self._plans = 0
        self._rested_at = -1

    def plan_begins(self) -> None:
        """Count a plan. This must be called just before the sources are asked."""
        self._plans += 1

    def found_nothing(self) -> None:
        """End all waits that began before the newest plan: that plan found nothing, and nothing is in flight."""
        self._rested_at = self._plans
        self._waits.wake()

    def wake(self) -> None:
        """Let the waiting threads check whether the group has ended."""
        self._waits.wake()

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the condition is true; each `wake` checks it again. Return False after `timeout` seconds."""
        return self._waits.until(condition, timeout)

    def wait(self, wake: Callable[[], object], timeout: float | None) -> bool:
        """Call `wake`, so that the sources are asked again, and wait until they have nothing.

        Return False if that takes longer than `timeout` seconds.
        """
        asked = self._plans + 1  # a plan in progress may have asked the sources before the newest tuples came
        wake()
        return self._waits.until(lambda: self._rested_at >= asked or self._over(), timeout)
