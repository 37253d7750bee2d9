"""Waits that an interrupt may end at any line.

The handler of a signal may raise an exception between any two lines of the main thread, as Ctrl-C and SIGTERM do. An
event or a condition of `threading` stays locked if this happens at certain lines of its `wait`: the thread that sets
the event later waits for ever. The waits here take no lock that another thread needs. So they also work in a forked
child.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

_HANDLED_WITHIN = 1.0
"""The most seconds until the handler of a signal runs. The kernel may give a signal to another thread. Python calls the
handler in the main thread, which such a signal does not wake."""


class Waits:
    """Lets threads wait until a condition is true. Thread-safe.

    The condition is checked first and after each `wake`, by the thread that waits, without a lock.

    >>> waits = Waits()
    >>> waits.until(lambda: 7, timeout=1), waits.until(lambda: 0, timeout=0)
    (True, False)
    """

    def __init__(self) -> None:
        self._waiting: list[threading.Lock] = []

    def wake(self) -> None:
        """Let the waiting threads check their conditions. Signal handlers may call this."""
        for lock in tuple(self._waiting):
            with suppress(RuntimeError):  # another call has released it, but its thread has not checked yet
                lock.release()

    def until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait until the condition is true, for `timeout` seconds at most. Return whether it is true."""
        if condition():
            return True
        end = None if timeout is None else time.monotonic() + timeout
        lock = threading.Lock()
        lock.acquire()
        self._waiting.append(lock)
        try:
            while not condition():
                left = _HANDLED_WITHIN if end is None else min(end - time.monotonic(), _HANDLED_WITHIN)
                if left <= 0:
                    return False
                lock.acquire(timeout=left)
            return True
        finally:
            self._waiting.remove(lock)


class Flag:
    """Like `threading.Event`, without `clear`. Signal handlers may set it.

    >>> flag = Flag()
    >>> flag.wait(0), flag.set(), flag.wait(), flag.is_set()
    (False, None, True, True)
    """

    def __init__(self) -> None:
        self._set, self._waits = False, Waits()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._set

    def set(self) -> None:
        """Set the flag, and wake the threads that wait for it."""
        self._set = True
        self._waits.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, for `timeout` seconds at most. Return whether it is set."""
        return self._waits.until(self.is_set, timeout)
