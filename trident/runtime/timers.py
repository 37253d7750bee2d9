"""What is to happen later, in order of time."""

import heapq
import itertools
from typing import Generic, TypeVar

T = TypeVar("T")


class Timers(Generic[T]):
    """A queue of things with their times (seconds of one clock)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()

    def add(self, when: float, thing: T) -> None:
        heapq.heappush(self._heap, (when, next(self._order), thing))

    def due(self, now: float) -> list[T]:
        """What is due, taken out."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heapq.heappop(self._heap)[2])
        return found

    def wait(self, now: float, most: float) -> float:
        """How long until the next one, `most` at most."""
        return max(0.0, min(most, self._heap[0][0] - now)) if self._heap else most
