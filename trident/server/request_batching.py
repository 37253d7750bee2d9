"""The batcher of one DRPC function: requests that arrive in an event loop while the function is busy form one batch."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from trident.drpc.local import DRPCFunction, DRPCResult
from trident.drpc.request_queue import Audience, Queued, RequestQueue
from trident.server.timeouts import Alarms
from trident.user_calls.daemon_threads import Threads

_MOST = 256
"""The most requests of a batch."""

_THREADS = 16
"""The most threads of one function. Calls that never end use up only the threads of their function."""

_IDLE = 10.0

_PATIENCE = 0.1
"""Seconds that a request waits for the running batch. After that, another batch begins at the same time."""


class _Request(Queued):
    """One request: its arguments, and the future of its answer."""

    def __init__(self, values: list[Any], answered: "asyncio.Future[DRPCResult]") -> None:
        super().__init__()
        self.values, self.answered = values, answered

    def end(self, outcome: DRPCResult | BaseException) -> None:
        if self.answered.done():
            return
        if isinstance(outcome, BaseException):
            self.answered.set_exception(outcome)
        else:
            self.answered.set_result(outcome)


class RequestBatcher:
    """Answers the requests of one function in batches, in threads. Only the thread of one event loop may call it.

    It does the same for an event loop as `Combining` does for threads. With `Combining`, each waiting request would
    hold a thread.
    """

    def __init__(self, function: DRPCFunction, alarms: Alarms) -> None:
        self._function, self._alarms = function, alarms
        self._threads = Threads(f"trident-drpc-{function.name}", most=_THREADS, idle=_IDLE)
        # While all threads are busy, requests wait in the queue, which drops a request whose client has disconnected.
        self._queue: RequestQueue[_Request] = RequestQueue(_MOST, _THREADS)
        self._impatient: asyncio.TimerHandle | None = None

    async def ask(self, values: list[Any], timeout: float) -> DRPCResult:
        """Return the answer for bound arguments. Raises DRPCTimeoutError after `timeout` seconds.

        If the caller is cancelled because its client has disconnected, the work ends at its next read of a state.
        """
        if (answer := self._function.answer_promptly(values)) is not None:
            return answer
        request = _Request(values, asyncio.get_running_loop().create_future())
        self._next(request if self._queue.come(request) else None)
        try:
            with self._alarms.limit(timeout):
                return await request.answered
        except TimeoutError:
            raise self._function.late(timeout, request.thread, self._queue.busy) from None
        finally:
            if request.answered.cancelled() or not request.answered.done():
                self._queue.leave(request)()

    def _next(self, leader: _Request | None) -> None:
        """Begin the batch of `leader`, if given, in a thread. Schedule the next batch for the waiting requests."""
        loop = asyncio.get_running_loop()
        if leader is not None:
            batch = self._queue.take(leader)
            work = self._threads.submit(self._answer, [request.values for request in batch], leader.audience)
            work.add_done_callback(lambda done: _call_soon(loop, self._end, batch, done))
        if self._queue and self._impatient is None:
            self._impatient = loop.call_later(_PATIENCE, self._lose_patience)

    def _answer(self, batch: Sequence[list[Any]], audience: Audience) -> list[DRPCResult | Exception]:
        with self._function.atWork.working(audience, self._function.subject):
            return self._function.answer(batch, audience)

    def _end(self, batch: Sequence[_Request], done: "Future[list[DRPCResult | Exception]]") -> None:
        """Deliver the answers of a batch, and begin the next batch."""
        error = done.exception()
        # The work may end with Late if no caller waited any more; its requests have then already ended.
        outcomes = done.result() if error is None else [error] * len(batch)
        for request, outcome in zip(batch, outcomes, strict=True):
            request.end(outcome)
        self._next(self._queue.end(batch[0]))

    def _lose_patience(self) -> None:
        self._impatient = None
        oldest = self._queue.oldest
        self._next(oldest if oldest is not None and self._queue.lose_patience(oldest) else None)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """Schedule a call in the event loop. Do nothing if the server has stopped, because no client waits then."""
    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(call, *args)
