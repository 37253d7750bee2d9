"""The queue of requests that are answered together. It reacts only to its events, without a thread, lock or clock.

If no batch is under way, a request begins a batch. Requests that come meanwhile wait. When the newest batch ends, the
oldest waiting request begins the next batch. A request that waits too long begins another batch at the same time. So an
idle function answers at once, a busy function answers in batches, and a hanging call does not block others for long.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar


class Late(Exception):
    """The answer did not arrive within the caller's timeout.

    `thread`: the ident of the thread that works on the answer; None if no thread has begun.
    """

    def __init__(self, thread: int | None = None) -> None:
        super().__init__()
        self.thread = thread


class Audience:
    """The callers that wait for the answers to one batch of requests."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.thread: int | None = None
        """The ident of the thread that answers; None if no thread does yet."""
        self.since = 0.0
        """The time at which the answer began, in seconds since 1970."""
        self.whenGone: Callable[[], None] = _nothing
        """Called when the last caller leaves without an answer."""

    def check(self) -> None:
        """Raise Late if no caller is waiting any more."""
        if not self.size:
            raise Late


def _nothing() -> None: ...


class Queued:
    """One request and its progress: queued, then part of a batch with its `audience`. `left`: its caller is gone."""

    def __init__(self) -> None:
        self.audience: Audience | None = None
        self.left = False

    @property
    def thread(self) -> int | None:
        """The ident of the thread that answers the request; None if none does yet."""
        return None if self.audience is None else self.audience.thread


R = TypeVar("R", bound=Queued)


class RequestQueue(Generic[R]):
    """Decides which request begins a batch, and when. Its caller makes the calls one after the other.

    Parameters
    ----------
    most : the most requests in one batch.
    limit : the most batches under way at the same time.
    """

    def __init__(self, most: int, limit: float = math.inf) -> None:
        self._most, self._limit = most, limit
        self._waiting: deque[R] = deque()
        self.busy = 0
        """The number of batches under way."""
        self.leader: R | None = None
        """The request that began the newest batch; None if that batch has ended and no request has begun another."""

    def __len__(self) -> int:
        """Return the number of requests that wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> R | None:
        return self._waiting[0] if self._waiting else None

    def come(self, request: R) -> bool:
        """Add a request. Return whether it begins a batch now; otherwise it waits."""
        if self.leader is not None:
            self._waiting.append(request)
            return False
        self.leader = request
        return True

    def lose_patience(self, request: R) -> bool:
        """Return whether a request that has waited long enough begins another batch now."""
        begins = request in self._waiting and self.busy < self._limit
        if begins:
            self._waiting.remove(request)
            self.leader = request
        return begins

    def take(self, leader: R) -> list[R]:
        """Begin the batch of `leader`: return `leader` and the waiting requests, as many as the batch may hold."""
        batch = [leader, *(self._waiting.popleft() for _ in range(min(self._most - 1, len(self._waiting))))]
        audience = Audience(sum(not each.left for each in batch))
        for each in batch:
            each.audience = audience
        self.busy += 1
        return batch

    def put_back(self, requests: list[R]) -> None:
        """Put the requests of an abandoned batch back into the queue, before all others."""
        for each in requests:
            each.audience = None
        self._waiting.extendleft(reversed(requests))

    def end(self, leader: R) -> R | None:
        """End the batch of `leader`. Return the request that begins the next batch; None if none begins it."""
        self.busy -= 1
        if self.leader is not leader:  # a request that waited too long has begun a newer batch
            return None
        self.leader = self._waiting.popleft() if self._waiting else None
        return self.leader

    def leave(self, request: R) -> Callable[[], None]:
        """Remove a request whose caller has left. Return the function to call after that."""
        request.left = True
        if request.audience is None:
            if request in self._waiting:
                self._waiting.remove(request)
            return _nothing
        request.audience.size -= 1
        return _nothing if request.audience.size else request.audience.whenGone
