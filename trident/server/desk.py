"""The desk of one DRPC function: requests that arrive in an event loop while the function is busy form one batch."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from trident.drpc.combining import Audience
from trident.drpc.local import DRPCFunction, DRPCResult
from trident.user_calls.threads import Threads

_MOST = 256
"""The most requests of a batch."""

_THREADS = 16
"""The most threads of one function. Calls that never end use up the threads of their own function, and of no other."""

_IDLE = 10.0

_PATIENCE = 0.1
"""Seconds that a request waits for the running batch. After that, another batch begins beside it."""


class _Request:
    """One request and its progress: queued, then part of a batch with its `audience`, then answered or abandoned."""

    __slots__ = ("answered", "audience", "values")

    def __init__(self, values: list[Any], answered: "asyncio.Future[DRPCResult]") -> None:
        self.values, self.answered = values, answered
        self.audience: Audience | None = None

    def end(self, outcome: DRPCResult | BaseException) -> None:
        if self.answered.done():
            return
        if isinstance(outcome, BaseException):
            self.answered.set_exception(outcome)
        else:
            self.answered.set_result(outcome)


class Desk:
    """Answers the requests of one function in batches, in threads. Only the thread of one event loop may call it.

    It does for an event loop what `Combining` does for threads; in `Combining` each waiting request would hold a
    thread.
    """

    def __init__(self, function: DRPCFunction) -> None:
        self._function = function
        self._threads = Threads(f"trident-drpc-{function.name}", most=_THREADS, idle=_IDLE)
        self._queue: deque[_Request] = deque()
        self._busy = 0
        self._impatient: asyncio.TimerHandle | None = None

    async def ask(self, values: list[Any], timeout: float) -> DRPCResult:
        """Return the answer for bound arguments. Raises DRPCTimeoutError after `timeout` seconds.

        If the caller is cancelled because its client has gone, the work ends at its next read of a state.
        """
        request = _Request(values, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        if not self._busy:
            self._begin()
        else:
            self._wait_with_patience()
        try:
            async with asyncio.timeout(timeout):
                return await request.answered
        except TimeoutError:
            thread = None if request.audience is None else request.audience.thread
            raise self._function.late(timeout, thread, self._busy) from None
        finally:
            self._leave(request)

    def _leave(self, request: _Request) -> None:
        """Remove an abandoned request from the queue or from its audience. Do nothing if the request was answered."""
        if request.answered.done() and not request.answered.cancelled():
            return
        if request.audience is None:
            if request in self._queue:
                self._queue.remove(request)
            return
        request.audience.size -= 1
        if not request.audience.size:
            request.audience.whenGone()

    def _begin(self) -> None:
        """Begin to answer the waiting requests, as one batch in a thread."""
        batch = [self._queue.popleft() for _ in range(min(_MOST, len(self._queue)))]
        audience = Audience()
        audience.size, audience.thread = len(batch), None
        for request in batch:
            request.audience = audience
        self._busy += 1
        loop = asyncio.get_running_loop()
        work = self._threads.submit(self._answer, [request.values for request in batch], audience)
        work.add_done_callback(lambda done: _call_soon(loop, self._end, batch, done))
        if self._queue:
            self._wait_with_patience()

    def _wait_with_patience(self) -> None:
        """After `_PATIENCE` seconds, begin another batch beside the running ones if a request is still waiting."""
        if self._impatient is None:
            self._impatient = asyncio.get_running_loop().call_later(_PATIENCE, self._lose_patience)

    def _answer(self, batch: Sequence[list[Any]], audience: Audience) -> list[DRPCResult | Exception]:
        audience.thread = threading.get_ident()
        self._function.atWork.begin(audience, self._function.subject)
        try:
            return self._function.answer(batch, audience)
        finally:
            self._function.atWork.end(audience)

    def _end(self, batch: Sequence[_Request], done: "Future[list[DRPCResult | Exception]]") -> None:
        """Deliver the answers of a batch, and begin the next batch."""
        self._busy -= 1
        error = done.exception()
        # The work may end with Late, if nobody waited any more: then the requests have ended already.
        outcomes = done.result() if error is None else [error] * len(batch)
        for request, outcome in zip(batch, outcomes, strict=True):
            request.end(outcome)
        if self._queue and not self._busy:
            self._begin()
        elif self._queue:
            self._wait_with_patience()

    def _lose_patience(self) -> None:
        self._impatient = None
        # While all threads are at work, requests wait in the queue. There a request whose client has gone is removed.
        if self._queue and self._busy < _THREADS:
            self._begin()


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """Schedule a call in the event loop. Do nothing if the server has stopped, because no client waits then."""
    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(call, *args)
