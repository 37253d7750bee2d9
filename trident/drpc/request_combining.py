"""Batching of requests between threads: a caller answers its request and those of all waiting callers.

Then it passes this role to a caller that has arrived meanwhile, so no further thread is needed. `RequestQueue` decides
which caller answers which questions.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from trident.base.forked_child import in_child
from trident.drpc.request_queue import Audience, Late, Queued, RequestQueue
from trident.user_calls.daemon_threads import Threads
from trident.user_calls.watched_calls import Subject, hanging_call

_IDLE = 10.0
"""Seconds after which a thread without requests ends."""

_QUESTION = Subject("a question")

Q = TypeVar("Q")
A = TypeVar("A")


class AtWork:
    """The answers on which threads are working, each with its audience. Thread-safe.

    Calls in this process and calls through a server are all recorded here, so that every hanging call is reported.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: dict[Audience, Subject] = {}
        in_child(self, AtWork._begin_again)

    def _begin_again(self) -> None:
        """Forget the work of the parent's threads in a forked child."""
        self._lock, self._work = threading.Lock(), {}

    @contextmanager
    def working(self, audience: Audience, subject: Subject) -> Iterator[None]:
        """Record this thread's work for an audience within the block."""
        audience.thread, audience.since = threading.get_ident(), time.time()
        with self._lock:
            self._work[audience] = subject
        try:
            yield
        finally:
            with self._lock:
                self._work.pop(audience, None)

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The calls that continue although no caller waits for them any longer, oldest first."""
        with self._lock:
            left = [(audience, subject) for audience, subject in self._work.items() if not audience.size]
        left.sort(key=lambda each: each[0].since)
        return [hanging_call(subject, audience.since, audience.thread) for audience, subject in left]


class _Call(Queued, Generic[Q, A]):
    """One caller's request: it gets an answer or an error, or its caller answers the next batch itself."""

    def __init__(self, question: Q) -> None:
        super().__init__()
        self.question = question
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.done = self.leads = False
        self.woken = threading.Lock()
        self.woken.acquire()

    def end(self, outcome: A | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self.error = outcome
        else:
            self.answer = outcome
        self.done = True
        self.wake()

    def wake(self) -> None:
        if self.woken.locked():
            self.woken.release()


class Combining(Generic[Q, A]):
    """Answers requests in batches. `answer` returns one answer or exception for each request.

    Parameters
    ----------
    answer : called with the questions of a batch and their audience, by one thread at a time; only if a call takes
    longer than `patience`, a second call begins at the same time. most : the most questions in one batch. patience :
    seconds that a question waits for the previous batch; then it begins a separate batch. atWork, subject : the record
    of the work in progress, and the words that describe the work in it.

    >>> Combining(lambda words, audience: [len(word) for word in words]).ask("dog")
    3
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q], Audience], Sequence[A | Exception]],
        most: int = 256,
        patience: float = 0.1,
        atWork: AtWork | None = None,
        subject: Subject = _QUESTION,
    ) -> None:
        self._answer = answer
        self._patience = patience
        self._threads = Threads("trident-drpc", idle=_IDLE)
        self._lock = threading.Lock()
        self._most = most
        self._queue: RequestQueue[_Call[Q, A]] = RequestQueue(most)
        self._at_work, self._subject = atWork or AtWork(), subject
        in_child(self, Combining._begin_again)

    def _begin_again(self) -> None:
        """Forget the requests of the parent's threads in a forked child, where no thread would end their batch."""
        self._lock, self._queue = threading.Lock(), RequestQueue(self._most)

    def ask(self, question: Q, timeout: float | None = None) -> A:
        """Return the answer to one request. Raises the request's error, or Late after `timeout` seconds.

        A caller with a timeout never answers a batch itself, because it must be able to leave. Another thread answers.
        """
        call: _Call[Q, A] = _Call(question)
        with self._lock:
            call.leads = self._queue.come(call)
            waits = not call.leads
        deadline = None if timeout is None else time.monotonic() + timeout
        while not call.done:
            if call.leads:
                call.leads = waits = False
                if deadline is None:
                    self._lead(call)
                else:
                    self._threads.start(partial(self._lead, call))
            else:
                self._wait(call, waits and call.audience is None, deadline)
        if call.error is not None:
            raise call.error
        return call.answer  # type: ignore[return-value]

    def _wait(self, call: _Call[Q, A], queued: bool, deadline: float | None) -> None:
        """Wait until this call is notified.

        If it is still queued after `patience`, it answers a batch. Raise Late at `deadline`.
        """
        limits = [self._patience] if queued else []
        if deadline is not None:
            limits.append(max(deadline - time.monotonic(), 0))
        if call.woken.acquire(timeout=min(limits, default=-1)):
            return
        with self._lock:
            if call.done or call.leads:
                return
            if deadline is None or time.monotonic() < deadline:
                call.leads = self._queue.lose_patience(call)
                return
            gone = self._queue.leave(call)
        gone()
        raise Late(call.thread)

    def _lead(self, call: _Call[Q, A]) -> None:
        """Answer this call's request together with the waiting requests.

        Then notify a caller, which answers the next batch.
        """
        with self._lock:
            batch = self._queue.take(call)
        assert call.audience is not None
        outcomes: Sequence[A | BaseException]
        try:
            with self._at_work.working(call.audience, self._subject):
                outcomes = self._answer([each.question for each in batch], call.audience)
            if len(outcomes) != len(batch):
                raise TypeError(f"{len(batch)} requests got {len(outcomes)} answers")
        except Exception as error:
            outcomes = [error] * len(batch)
        except BaseException as error:  # an interrupt ends this caller, not the others
            outcomes = [error]
        with self._lock:
            self._queue.put_back(batch[len(outcomes) :])
            following = self._queue.end(call)
            if following is not None:
                following.leads = True
                following.wake()
            for each, outcome in zip(batch, outcomes, strict=False):
                each.end(outcome)
