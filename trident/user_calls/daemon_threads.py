"""Pools of daemon threads. A stop need not wait for them.

When an interpreter exits, it joins the threads of a ``concurrent.futures`` pool, even if a call in them hangs; and even
before that such a pool refuses work, perhaps in the middle of a batch. The threads here are daemons: a stop that cannot
wait longer abandons a hanging thread and continues.

Before the interpreter exits, it waits a short time for the abandoned threads. If a daemon thread returned from C++ into
an exiting interpreter, the process would abort (an Arrow reader does this when its job is cancelled).
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
from trident.base.forked_child import in_child
from trident.base.short_texts import raised

T = TypeVar("T")

MakeThreads = Callable[[str, int | None], "Threads"]
"""A function that creates a pool with a name and a size. The simulator uses other pools, in which a seed decides which
work runs next."""

_left_behind: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def await_left_behind(timeout: float) -> None:
    """Wait for the threads that `close` abandoned, at most `timeout` seconds for all of them together."""
    deadline = time.monotonic() + timeout
    for thread in list(_left_behind):
        thread.join(max(0.0, deadline - time.monotonic()))


def ended_by_user_code(where: str, error: BaseException) -> UserFunctionError:
    """Return the error for user code that raised something other than an Exception, as ``exit()`` does.

    No interrupt arrives in a thread of a pool, so only user code raises such an error. It must not end the component
    that requested the call.
    """
    failed = UserFunctionError(
        f"{where}: user code {raised(error)}; only this call was ended. Raise a subclass of Exception instead"
    )
    failed.__cause__ = error
    return failed


class _Worker:
    """A thread of a pool. While the thread has no work, `woken` is locked; a submit releases it."""

    __slots__ = ("woken", "work")

    def __init__(self) -> None:
        self.woken = threading.Lock()
        self.woken.acquire()
        self.work: Callable[[], None] | None = None


class Threads:
    """A pool that runs submitted work in order, in at most `most` daemon threads.

    Without `most`, a new thread starts whenever all others are busy. A thread without work for `idle` seconds ends.

    Work goes directly to a waiting thread, which is woken by its separate lock. With a condition that all threads
    share, the woken thread would have to wait once more, for the condition's lock.

    >>> threads = Threads("example", most=1)
    >>> threads.submit(sum, [1, 2]).result()
    3
    >>> threads.close(timeout=1)
    True
    """

    def __init__(self, name: str, most: int | None = None, idle: float | None = None) -> None:
        self._name, self._most, self._idle = name, most, idle
        self._lock = threading.Lock()
        self._work: deque[tuple[Future[Any] | None, Callable[[], None]]] = deque()
        """The work that no thread has taken yet. While it is not empty, no thread waits."""
        self._waiting: list[_Worker] = []
        """The workers without work. The last worker is woken first, because its memory is still in the caches."""
        self._threads: set[threading.Thread] = set()
        self._closed = False
        in_child(self, Threads._begin_again)

    def _begin_again(self) -> None:
        """Forget the threads and their work in a forked child, which has neither."""
        self._lock, self._waiting, self._threads = threading.Lock(), [], set()
        self._work.clear()

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
                # For a BaseException, too: without an outcome, the thread that waits for the future would never
                # continue. A caller that gave up the call has already set an outcome, and this late outcome is dropped.
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(result)

        self._begin(future, run)
        return future

    def start(self, work: Callable[[], None]) -> None:
        """Queue `work`, which must not raise. Without a future, this costs less than `submit`.

        Raises RuntimeError after `close`.
        """
        self._begin(None, work)

    def _begin(self, future: Future[Any] | None, work: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed and accepts no more work")
            if self._waiting:
                # In this order, because an interrupt may come at any line, and a worker that is not woken would wait
                # for ever.
                worker = self._waiting[-1]
                worker.work = work
                worker.woken.release()  # the thread runs without the pool's lock
                self._waiting.pop()
            else:
                self._work.append((future, work))
                # Two calls must not rely on the same thread, because a hanging attempt would block the other call. So
                # each call that finds no waiting thread starts a new thread.
                if self._most is None or len(self._threads) < self._most:
                    thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                    self._threads.add(thread)
                    thread.start()

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread belongs to this pool."""
        return threading.current_thread() in self._threads

    def close(self, timeout: float | None = None) -> bool:
        """Drop the work that has not begun, and wait for running work.

        Return False if it does not end in `timeout` seconds.
        """
        with self._lock:
            self._closed = True
            # Cancelled under the lock, so that no thread takes a call whose future was cancelled.
            for future, _ in self._work:
                if future is not None:
                    future.cancel()
            self._work.clear()
            waiting, self._waiting = self._waiting, []
            # A stop may come from a call of this pool, and a thread cannot join itself.
            others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for worker in waiting:
            worker.woken.release()
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in others:
            # A signal may have come between the creation of a thread and its start. Such a thread has nothing to do.
            with suppress(RuntimeError):
                thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        hanging = [thread for thread in others if thread.is_alive()]
        # The end of the program waits for these threads once more (`run/registry.py`).
        _left_behind.update(hanging)
        return not hanging

    def _loop(self) -> None:
        worker = _Worker()
        while (work := self._next(worker)) is not None:
            work()
            del work  # otherwise this thread would keep the work's objects in memory while it waits

    def _next(self, worker: _Worker) -> Callable[[], None] | None:
        """Return the next work.

        None means that the thread must end, because the pool was closed or has no work for it.
        """
        with self._lock:
            if self._work:
                return self._work.popleft()[1]
            if self._closed:
                self._threads.discard(threading.current_thread())
                return None
            self._waiting.append(worker)
        if not worker.woken.acquire(timeout=-1 if self._idle is None else self._idle):
            with self._lock:
                # Under the lock: a submit finds this worker among the waiting workers, or starts another thread.
                if worker in self._waiting:
                    self._waiting.remove(worker)
                    self._threads.discard(threading.current_thread())
                    return None
            # The worker got work, or the pool was closed, at this very moment.
            worker.woken.acquire()
        work, worker.work = worker.work, None
        if work is None:
            with self._lock:
                self._threads.discard(threading.current_thread())
        return work
