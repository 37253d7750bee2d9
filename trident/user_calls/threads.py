"""Pools of daemon threads. A stop need not wait for them.

When an interpreter exits, it joins the threads of a ``concurrent.futures`` pool, even if a call in them hangs; and even
earlier such a pool refuses work, perhaps in the middle of a batch. The threads here are daemons: a stop that cannot
wait longer abandons a hanging thread and continues.

Before the interpreter exits, it waits a short time for the abandoned threads. If a daemon thread returned from C++ into
an exiting interpreter, the process would abort (an Arrow reader returns so when its job is cancelled).
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

from trident.base.errors import UserFunctionError

T = TypeVar("T")

MakeThreads = Callable[[str, int | None], "Threads"]
"""A function that creates a pool with a name and a size. The simulator has its own pools, in which a seed decides which
work runs next."""

_left_behind: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def await_left_behind(timeout: float) -> None:
    """Wait for the threads that `close` abandoned, at most `timeout` seconds for all of them together."""
    deadline = time.monotonic() + timeout
    for thread in list(_left_behind):
        thread.join(max(0.0, deadline - time.monotonic()))


def ended_by_user_code(where: str, error: BaseException) -> UserFunctionError:
    """Return the error for user code that raised something other than an Exception, as ``exit()`` does.

    In a thread of a pool no interrupt arrives, so only user code raises it. It must not end what asked for the call.
    """
    failed = UserFunctionError(
        f"{where}: user code raised {type(error).__name__}: {error}; only this call was ended. Raise a subclass of "
        f"Exception instead"
    )
    failed.__cause__ = error
    return failed


class Threads:
    """A pool that runs submitted work in order, in at most `most` daemon threads.

    Without `most` there is a new thread whenever all others are busy. A thread without work for `idle` seconds ends.

    >>> threads = Threads("example", most=1)
    >>> threads.submit(sum, [1, 2]).result()
    3
    >>> threads.close(timeout=1)
    True
    """

    def __init__(self, name: str, most: int | None = None, idle: float | None = None) -> None:
        self._name, self._most, self._idle = name, most, idle
        self._changed = threading.Condition()
        self._work: deque[tuple[Future[Any], Callable[[], None]]] = deque()
        self._waiting = 0
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Queue `work` and return its future. Raises RuntimeError after `close`.

        A caller that gives up waiting may set the future's outcome itself. Then that outcome stays, and the outcome of
        `work` is dropped.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = work(*args)
            except BaseException as error:
                # For a BaseException, too: without an outcome, the thread that waits for the future would never go on.
                # A caller that gave the call up has set the outcome already, and this late one is dropped.
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(result)

        with self._changed:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed and accepts no more work")
            self._work.append((future, run))
            # `_waiting` is compared with all queued work: a notified thread counts as waiting until it has the lock,
            # and two calls must not count on the same thread (an attempt that hangs would hold the other one up).
            if self._waiting < len(self._work) and (self._most is None or len(self._threads) < self._most):
                thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify()
        return future

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread belongs to this pool."""
        return threading.current_thread() in self._threads

    def close(self, timeout: float | None = None) -> bool:
        """Drop the work that has not begun, and wait for the rest.

        Return False if it does not end in `timeout` seconds.
        """
        with self._changed:
            self._closed = True
            # Cancelled under the lock, so that no thread takes a call whose future was cancelled.
            for future, _ in self._work:
                future.cancel()
            self._work.clear()
            self._changed.notify_all()
            # A stop may come from a call of this pool, and a thread cannot join itself.
            others = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in others:
            # A signal may have come between the making of a thread and its start: that one has nothing to do.
            with suppress(RuntimeError):
                thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        hanging = [thread for thread in others if thread.is_alive()]
        # At the end of the program they are waited for once more (`run/registry.py`).
        _left_behind.update(hanging)
        return not hanging

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._waiting += 1
                self._changed.wait_for(lambda: self._work or self._closed, self._idle)
                self._waiting -= 1
                if not self._work:
                    # Discarded under the lock: a submit either counts this thread as waiting, or starts another one.
                    self._threads.discard(threading.current_thread())
                    return
                future, work = self._work.popleft()
            work()
            del future, work  # else this thread would hold their objects in memory while it waits
