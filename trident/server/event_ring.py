"""The newest progress events of a run, kept as JSON for readers of different speeds."""

import threading
from collections import deque
from typing import Any, NamedTuple

import msgspec

_CAPACITY = 500


class Numbered(NamedTuple):
    """An event with its number; the first event of a ring has the number 1."""

    number: int
    json: bytes


class EventRing:
    """Keeps the newest events and numbers them. Thread-safe.

    There is no queue for a reader: the reader remembers the number of its last event. So a slow reader costs nothing,
    and gets the number of events that it has missed.

    >>> ring = EventRing("run", capacity=2)
    >>> for txid in (1, 2, 3):
    ...     ring.add({"txid": txid})
    >>> ring.after(0)
    (1, [Numbered(number=2, json=b'{"txid":2}'), Numbered(number=3, json=b'{"txid":3}')])
    >>> ring.after(3)
    (0, [])
    """

    def __init__(self, runId: str, capacity: int = _CAPACITY) -> None:
        self.runId = runId
        """The run that sent these events. In another run the same numbers mean other events."""
        self._lock = threading.Lock()
        self._events: deque[Numbered] = deque(maxlen=capacity)
        self._last = 0

    def add(self, event: dict[str, Any]) -> None:
        """Keep an event. If there are too many events, drop the oldest event."""
        content = msgspec.json.encode(event)
        with self._lock:
            self._last += 1
            self._events.append(Numbered(self._last, content))

    def after(self, number: int) -> tuple[int, list[Numbered]]:
        """Return how many events after event `number` are no longer kept, and the later events that are kept."""
        if number == self._last:
            return 0, []
        with self._lock:
            events = [event for event in self._events if event.number > number]
            oldest = self._events[0].number if self._events else 1
        return max(0, oldest - 1 - number), events
