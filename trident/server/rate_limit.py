"""A limit on the requests that one client sends in a second."""

import math
import time
from collections.abc import Callable

_MOST_CLIENTS = 10_000
"""The most clients that are remembered. If there are more, clients without recent requests are forgotten."""


class RateLimit:
    """Lets each client send `perSecond` requests a second, and as many at once after a pause. One thread may call.

    >>> now = [0.0]
    >>> limit = RateLimit(2, clock=lambda: now[0])
    >>> [limit.wait("me"), limit.wait("me"), limit.wait("me"), limit.wait("you")]
    [0.0, 0.0, 0.5, 0.0]
    >>> now[0] = 0.5
    >>> limit.wait("me")
    0.0
    """

    def __init__(self, perSecond: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = perSecond, clock
        self._most = max(1.0, math.floor(perSecond))
        self._clients: dict[str, tuple[float, float]] = {}
        """For each client the number of requests that it may send at once, and when that number was computed."""

    def wait(self, client: str) -> float:
        """Count a client's request and return 0; if the client must wait, return the number of seconds instead."""
        now = self._clock()
        allowed, since = self._clients.pop(client, (self._most, now))
        allowed = min(self._most, allowed + (now - since) * self._rate)
        if allowed < 1:
            self._clients[client] = allowed, now
            return (1 - allowed) / self._rate
        # Entries are in the order of their last use, so the first entry is the oldest.
        self._clients[client] = allowed - 1, now
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return 0.0
