"""What a run tells of itself: one event for each committed batch and each failed attempt, the newest ones kept.

An event is plain data (it can be written as JSON) with camelCase keys: ``event`` ("committed" or "failed"), ``name``,
``id`` and ``runId`` of the run, ``group``, ``txid``, ``attempt``, ``timestamp`` (ISO 8601, UTC). A committed batch adds
``numInputRows`` (None where nobody counted), ``durationMs`` (milliseconds by phase: plan, run, freeze, commit, total)
and ``states`` (by name: ``keys`` that the batch touched, ``written`` of them now). Where the topology has outputs it
adds ``outputs`` (by name: the ``rows`` that each took), where steps let tuples go on which they failed, ``deadLetters``
and ``skipped`` (their numbers by step). A failed attempt adds ``phase`` and ``error``.
"""

import copy
import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

ProgressEvent = dict[str, Any]
Listener = Callable[[ProgressEvent], None]

logger = logging.getLogger(__name__)


class Progress:
    """The newest events of a run, and who wants to hear of them. Any thread may tell and ask.

    Parameters
    ----------
    capacity : how many events are kept.

    >>> progress = Progress()
    >>> progress.tell({"event": "committed", "group": "sentences", "txid": 1, "numInputRows": 16})
    >>> progress.last["txid"], len(progress.recent)
    (1, 1)
    """

    def __init__(self, capacity: int = 100) -> None:
        self._lock = threading.Lock()
        self._recent: deque[ProgressEvent] = deque(maxlen=capacity)
        self._last: ProgressEvent | None = None
        self._listeners: list[Listener] = []

    def tell(self, event: ProgressEvent) -> None:
        """Keep an event, then pass it to the listeners, in this thread. A listener that raises is logged: a batch
        does not fail because somebody could not watch it."""
        with self._lock:
            self._recent.append(event)
            if event.get("event") == "committed":
                self._last = event
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(copy.deepcopy(event))
            except Exception:
                logger.exception("a progress listener raised")

    @property
    def last(self) -> ProgressEvent | None:
        """The last committed batch's event; None before the first one."""
        with self._lock:
            return copy.deepcopy(self._last)

    @property
    def recent(self) -> list[ProgressEvent]:
        """The newest events, oldest first."""
        with self._lock:
            return copy.deepcopy(list(self._recent))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, in the run's own threads, so it must be quick. What is given
        back ends it."""
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end


def rows_per_second(events: list[ProgressEvent]) -> float | None:
    """Input rows a second over these events, oldest first; None where they cannot tell.

    The rows of a batch came in between the commit before it and its own, so the first batch only starts the clock.

    >>> rows_per_second([
    ...     {"event": "committed", "timestamp": "2024-01-01T00:00:00.000+00:00", "numInputRows": 7},
    ...     {"event": "committed", "timestamp": "2024-01-01T00:00:02.000+00:00", "numInputRows": 100},
    ... ])
    50.0
    """
    batches = [event for event in events if event.get("event") == "committed"]
    if len(batches) < 2:
        return None
    first, last = (datetime.fromisoformat(event["timestamp"]) for event in (batches[0], batches[-1]))
    seconds = (last - first).total_seconds()
    rows = [event["numInputRows"] for event in batches[1:]]
    return sum(rows) / seconds if seconds > 0 and None not in rows else None
