"""The answers that clients have not received yet. They are in memory, so their total size is limited."""

import time
from collections.abc import Callable, Hashable

MOST_UNSENT = 32 << 20
"""The bytes of unsent answers beyond which the connections of clients that do not read are closed."""

_STUCK_SECONDS = 1.0
"""Seconds without progress after which a client counts as not reading."""


class Unsent:
    """The unsent bytes of each answer of a server.

    The answer that has made no progress for the longest time comes first.

    >>> now, cut = [0.0], []
    >>> unsent = Unsent(10, clock=lambda: now[0])
    >>> unsent.note("slow", 8, lambda: cut.append("slow"))
    >>> now[0] = 2.0
    >>> unsent.note("fast", 8, lambda: cut.append("fast"))
    >>> cut, unsent.bytes
    (['slow'], 8)
    """

    def __init__(self, most: int = MOST_UNSENT, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._answers: dict[Hashable, tuple[int, float, Callable[[], None]]] = {}
        self.bytes = 0
        """The unsent bytes of all answers."""

    def note(self, answer: Hashable, left: int, cut: Callable[[], None]) -> None:
        """Record that a client has received a part of its answer.

        `left` bytes remain, and `cut` closes the connection.
        """
        self._forget(answer)
        now = self._clock()
        if left:
            self._answers[answer] = left, now, cut
            self.bytes += left
        while self.bytes > self._most:
            stuck, (_, since, end) = next(iter(self._answers.items()))
            if now - since < _STUCK_SECONDS:
                return
            self._forget(stuck)
            end()

    def _forget(self, answer: Hashable) -> None:
        if (known := self._answers.pop(answer, None)) is not None:
            self.bytes -= known[0]
