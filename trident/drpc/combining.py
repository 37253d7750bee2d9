"""Batching of questions: questions that arrive while another is being answered are answered together afterwards.

If no caller is answering, a caller answers its question and those of all callers that wait; then it hands this role to
a caller that has come meanwhile. So an idle function answers at once, a busy one answers in batches, and no further
thread is needed.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from trident.user_calls.threads import Threads
from trident.user_calls.watched_calls import Subject, hanging_call

_IDLE = 10.0
"""Seconds after which a thread without questions ends."""

_QUESTION = Subject("a question")

Q = TypeVar("Q")
A = TypeVar("A")


class Late(Exception):
    """The answer did not come within the caller's timeout.

    `thread`: the ident of the thread that works on the answer; None if none has begun.
    """

    def __init__(self, thread: int | None = None) -> None:
        super().__init__()
        self.thread = thread


class Audience:
    """The callers that wait for the answers to one batch of questions."""

    def __init__(self) -> None:
        self.size = 0
        self.thread: int | None = threading.get_ident()
        """The ident of the thread that answers; None if none does yet."""
        self.since = time.time()
        """The time at which the answer began, in seconds since 1970."""
        self.whenGone: Callable[[], None] = _nothing
        """Called when the last caller leaves without an answer."""

    def check(self) -> None:
        """Raise Late if no caller is waiting any more."""
        if not self.size:
            raise Late


def _nothing() -> None: ...


class AtWork:
    """The answers on which threads work now, each with its audience. Thread-safe.

    Every way to ask has its work here, so that a call which hangs is reported whichever way it came.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: dict[Audience, Subject] = {}

    def begin(self, audience: Audience, subject: Subject) -> None:
        with self._lock:
            self._work[audience] = subject

    def end(self, audience: Audience) -> None:
        with self._lock:
            self._work.pop(audience, None)

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The work that goes on although all who waited for it have left, oldest first."""
        with self._lock:
            left = [(audience, subject) for audience, subject in self._work.items() if not audience.size]
        left.sort(key=lambda each: each[0].since)
        return [hanging_call(subject, audience.since, audience.thread) for audience, subject in left]


class _Call(Generic[Q, A]):
    """One caller's question, and its progress.

    A call is queued, then part of a batch, then done; or its caller is told to answer the next batch itself.
    """

    __slots__ = ("answer", "audience", "done", "error", "leads", "left", "question", "queued", "woken")

    def __init__(self, question: Q) -> None:
        self.question = question
        self.audience: Audience | None = None
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.done = self.leads = self.left = self.queued = False
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
    """Answers questions in batches. `answer` returns one answer or exception for each question.

    Parameters
    ----------
    answer : called with the questions of a batch and their audience, by one thread at a time; only if a call takes
        longer than `patience`, another one begins beside it.
    most : the most questions in one batch.
    patience : seconds that a question waits for the batch before it; then it begins a separate batch.
    atWork, subject : where the work is told while it goes on, and in which words.

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
        self._most = most
        self._patience = patience
        self._threads = Threads("trident-drpc", idle=_IDLE)
        self._lock = threading.Lock()
        self._queue: deque[_Call[Q, A]] = deque()
        self._leader: _Call[Q, A] | None = None
        self._at_work, self._subject = atWork or AtWork(), subject

    def ask(self, question: Q, timeout: float | None = None) -> A:
        """Return the answer to one question. Raises the question's error, or Late after `timeout` seconds.

        A caller with a timeout never answers a batch itself, because it must be able to leave: another thread does it.
        """
        call: _Call[Q, A] = _Call(question)
        with self._lock:
            if self._leader is None:
                self._leader, call.leads = call, True
            else:
                self._queue.append(call)
                call.queued = True
        deadline = None if timeout is None else time.monotonic() + timeout
        while not call.done:
            if call.leads:
                call.leads = False
                if deadline is None:
                    self._lead(call)
                else:
                    self._threads.submit(self._lead, call)
            else:
                self._wait(call, deadline)
        if call.error is not None:
            raise call.error
        return call.answer  # type: ignore[return-value]

    def _wait(self, call: _Call[Q, A], deadline: float | None) -> None:
        """Wait until woken. A call that is still queued after `patience` answers a batch. Raise Late at `deadline`."""
        limits = [self._patience] if call.queued else []
        if deadline is not None:
            limits.append(max(deadline - time.monotonic(), 0))
        if call.woken.acquire(timeout=min(limits, default=-1)):
            return
        with self._lock:
            if call.done or call.leads:
                return
            late = deadline is not None and time.monotonic() >= deadline
            if call.queued:
                self._queue.remove(call)
                call.queued = False
                if not late:
                    self._leader, call.leads = call, True
            if late:
                call.left = True
                if call.audience is not None:
                    call.audience.size -= 1
        if late:
            if call.audience is not None and not call.audience.size:
                call.audience.whenGone()
            raise Late(call.audience.thread if call.audience is not None else None)

    def _lead(self, call: _Call[Q, A]) -> None:
        """Answer this call's question together with the waiting ones.

        Then wake a caller, which answers the next batch.
        """
        batch, audience = [call], Audience()
        with self._lock:
            while self._queue and len(batch) < self._most:
                batch.append(self._queue.popleft())
                batch[-1].queued = False
            for each in batch:
                each.audience = audience
                audience.size += not each.left
        self._at_work.begin(audience, self._subject)
        outcomes: Sequence[A | BaseException]
        try:
            outcomes = self._answer([each.question for each in batch], audience)
            if len(outcomes) != len(batch):
                raise TypeError(f"{len(batch)} questions got {len(outcomes)} answers")
        except Exception as error:
            outcomes = [error] * len(batch)
        except BaseException as error:  # an interrupt ends this caller, not the others
            with self._lock:
                for each in reversed(batch[1:]):
                    self._queue.appendleft(each)
                    each.queued = True
                self._hand_on(call)
                call.end(error)
            return
        finally:
            self._at_work.end(audience)
        with self._lock:
            self._hand_on(call)
            for each, outcome in zip(batch, outcomes, strict=True):
                each.end(outcome)

    def _hand_on(self, call: _Call[Q, A]) -> None:
        if self._leader is not call:  # another caller lost patience and leads by now
            return
        self._leader = self._queue.popleft() if self._queue else None
        if self._leader is not None:
            self._leader.queued, self._leader.leads = False, True
            self._leader.wake()
