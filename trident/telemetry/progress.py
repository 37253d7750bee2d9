"""The progress of a run: one event for each committed batch and each failed attempt. The newest events are kept.

An event is plain data (it can be written as JSON) with camelCase keys: ``event`` ("committed", "failed" or "skipped"),
``name``, ``id``, ``runId`` and ``engine`` of the run, ``group``, ``txid``, ``attempt``, ``timestamp`` (ISO 8601, UTC).
A committed batch adds ``numInputRows`` (None if the rows were not counted), ``durationMs`` (milliseconds by phase:
plan, run, freeze, commit, total) and ``states`` (by name: the number of ``keys`` that the batch touched, and how many
of them were ``written`` now; and ``writers``: "executors" if Spark's executors sent them). The state of a window by
time adds its ``watermark`` after the batch (ISO 8601) and ``numRowsDroppedByWatermark``, the rows that came too late
for it. A row is a tuple; or, if a combiner combines tuples before they enter the window, all tuples of one group and
pane. A state of dead letters that is full adds ``evicted``, the number of its oldest letters that it removed. If the
topology has outputs, the event adds ``outputs`` (by name: the ``rows`` that each took). For streams with a source that
knows its size, it adds ``sources`` (by stream: how much is ``read`` of what is ``known``, in the ``unit``; the ``lag``
between the two, with ``lags`` by partition if a source has partitions; and ``lagGrowthPerSecond`` since the previous
batch). If steps left out tuples on which they failed, it adds ``deadLetters`` and ``skipped`` (by step: the number of
tuples). With ``engine="auto"`` the ``engine`` of a committed batch names the engines that ran it, and it adds
``stages``: the engine of each stage by its number, as `explain` numbers them. A failed attempt adds ``phase`` and
``error``; in the phase "commit", ``attempt`` is the number of earlier failures of this commit in user code. In the
phase "bestEffort" a branch missed the batch, and ``numInputRows`` is the number of tuples that it missed; an event
"skipped" has, as ``skipped``, the tuples that a branch left out of a batch. A listener that was slow gets ``dropped``
in its next event: the number of events that were left out just before.

For streams whose source gives its messages a time, a committed batch has ``latencyMs`` (by stream: ``count``, ``mean``,
``p50``, ``p99`` and ``max`` in milliseconds, and the numbers of messages in ``buckets``, by their upper bounds).

A committed batch's ``steps`` lists the steps that were measured: ``name``, the tuples ``in``, ``out``, ``failed`` and
``skipped``, and ``seconds``, of the attempt that was committed; also ``counts`` and ``warnings`` of user code. The
embedded engine measures every step. On Spark workers measure Python functions; Spark runs its own steps as one, so a
number that is not known is left out. Every step that reads another step gets all tuples that leave it.
"""

import copy
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

ProgressEvent = dict[str, Any]
Listener = Callable[[ProgressEvent], None]

logger = logging.getLogger(__name__)

BEHIND = 1000
"""The most events that wait for one listener. If more arrive, the oldest are dropped."""


class Progress:
    """The newest events of a run, and its listeners. Thread-safe.

    Parameters
    ----------
    capacity : how many events are kept.
    whenDropped : a function that is called for each event that a slow listener does not get.

    >>> progress = Progress()
    >>> progress.tell({"event": "committed", "group": "sentences", "txid": 1, "numInputRows": 16})
    >>> progress.last["txid"], len(progress.recent)
    (1, 1)
    """

    def __init__(self, capacity: int = 100, whenDropped: Callable[[], None] = lambda: None) -> None:
        self._when_dropped = whenDropped
        self._lock = threading.Lock()
        self._recent: deque[ProgressEvent] = deque(maxlen=capacity)
        self._last: ProgressEvent | None = None
        self._listening: list[_Listening] = []

    def tell(self, event: ProgressEvent) -> None:
        """Keep an event and pass it to the listeners. Each listener is called in a separate thread."""
        with self._lock:
            self._recent.append(event)
            if event.get("event") == "committed":
                self._last = event
            for listening in self._listening:
                listening.tell(event)

    @property
    def last(self) -> ProgressEvent | None:
        """The last committed batch's event; None before the first batch."""
        with self._lock:
            return copy.deepcopy(self._last)

    @property
    def recent(self) -> list[ProgressEvent]:
        """The newest events, oldest first."""
        with self._lock:
            return copy.deepcopy(list(self._recent))

    def listen(self, listener: Listener, *, fromRecent: bool = False) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends the calls.

        With `fromRecent` it first gets the events of `recent`, and no event twice.

        Each listener has a separate thread, so that a slow listener does not delay batches or other listeners. When
        more than a thousand events wait for a listener, the oldest are left out, and the next event that it gets has
        their number under ``"dropped"``. An error that a listener raises is logged, and does not fail a batch.
        """
        listening = _Listening(listener, self._when_dropped)
        with self._lock:
            for event in self._recent if fromRecent else ():
                listening.tell(event)
            self._listening.append(listening)

        def end() -> None:
            with self._lock:
                if listening in self._listening:
                    self._listening.remove(listening)

        return end

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread belongs to a listener."""
        with self._lock:
            return any(listening.owns_this_thread() for listening in self._listening)

    def flush(self, timeout: float) -> None:
        """Wait until every listener has received all events so far, at most `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._lock:
            listening = list(self._listening)
        for listener in listening:
            listener.wait(max(0.0, until - time.monotonic()))


class _Listening:
    """One listener, its queue of events, and the thread that empties it. The thread ends when the queue is empty."""

    def __init__(self, listener: Listener, whenDropped: Callable[[], None]) -> None:
        self._listener, self._when_dropped = listener, whenDropped
        self._changed = threading.Condition()
        self._waiting: deque[ProgressEvent] = deque()
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def tell(self, event: ProgressEvent) -> None:
        """Queue an event for the listener. If too many events wait already, drop the oldest."""
        with self._changed:
            if len(self._waiting) >= BEHIND:
                self._waiting.popleft()
                self._dropped += 1
                self._when_dropped()
            self._waiting.append(copy.deepcopy(event))
            if self._thread is None:
                self._thread = threading.Thread(target=self._hear, name="trident-listener", daemon=True)
                self._thread.start()

    def _hear(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                event, dropped, self._dropped = self._waiting.popleft(), self._dropped, 0
            try:
                self._listener(event | {"dropped": dropped} if dropped else event)
            except Exception:
                logger.exception("a progress listener raised an error")

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread belongs to this listener."""
        return threading.current_thread() is self._thread

    def wait(self, timeout: float) -> None:
        """Wait until the listener has received all events, at most `timeout` seconds."""
        with self._changed:
            # A listener that stops its own run must not wait for itself.
            self._changed.wait_for(lambda: self._thread is None or self.owns_this_thread(), timeout)


def rows_per_second(events: list[ProgressEvent]) -> float | None:
    """Return the input rows per second over `events`, oldest first; None without two commits, or without counts.

    A batch's rows count for the time between the previous commit and its own commit, so the first batch only sets the
    start time.

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
