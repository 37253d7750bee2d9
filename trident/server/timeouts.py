"""Limits of time for the requests of one event loop, with one timer for all of them.

`asyncio.timeout` begins and cancels a timer for each request. A limit here takes about half of its time, because the
timer stays: when it fires, it is set again for the limit that comes next.
"""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType


class Alarm:
    """A function that the event loop calls at a time, unless the alarm is cancelled before."""

    __slots__ = ("_alarms", "call", "due")

    def __init__(self, alarms: "Alarms", due: float, call: Callable[[], object]) -> None:
        self._alarms, self.due, self.call = alarms, due, call

    def cancel(self) -> None:
        """Cancel the alarm, so that its function is not called. Does nothing after the call, or the second time."""
        self._alarms.forget(self)


class Alarms:
    """The alarms of one event loop. Only its thread may call."""

    def __init__(self) -> None:
        self._set: dict[Alarm, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = math.inf
        """The timer's time. For a time that has passed, the loop of uvloop returns a handle without it."""

    def after(self, seconds: float, call: Callable[[], object]) -> Alarm:
        """Call a function in so many seconds."""
        loop = asyncio.get_running_loop()
        alarm = Alarm(self, loop.time() + seconds, call)
        self._set[alarm] = None
        if alarm.due < self._rings:
            self._wake(loop, alarm.due)
        return alarm

    def forget(self, alarm: Alarm) -> None:
        """Cancel an alarm."""
        self._set.pop(alarm, None)

    def limit(self, seconds: float) -> "Limit":
        """Return a block that is cancelled after this many seconds, and then raises TimeoutError."""
        return Limit(self, seconds)

    def _wake(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = loop.call_at(at, self._ring, loop), at

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._rings, now = None, math.inf, loop.time()
        try:
            for alarm in [each for each in self._set if each.due <= now]:
                if alarm in self._set:  # an earlier alarm may have cancelled it
                    del self._set[alarm]
                    alarm.call()
        finally:
            if self._set:
                self._wake(loop, min(each.due for each in self._set))


class Limit:
    """A time-limited block, like `asyncio.timeout`: a cancellation from outside is passed on."""

    __slots__ = ("_alarm", "_alarms", "_cancelling", "_seconds", "_task", "expired")

    def __init__(self, alarms: Alarms, seconds: float) -> None:
        self._alarms, self._seconds = alarms, seconds
        self.expired = False
        """True if the block took longer than its limit."""

    def __enter__(self) -> "Limit":
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._alarm = self._alarms.after(self._seconds, self._expire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alarm.cancel()
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()
