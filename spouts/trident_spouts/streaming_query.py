"""A streaming query of Spark whose batches are handed over one at a time. Each is held until it is frozen.

Spark calls the function of ``foreachBatch`` in a thread of its own, and commits the batch's offsets to the query's
checkpoint when the function returns. So the function waits here until the topology's log holds the batch.
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from trident.base.errors import SourceUnreadableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECS = 0.01
_PATIENCE_SECS = 10.0
"""The seconds that one plan waits while the query looks for data. If that takes longer, the next plan waits again."""


class BatchRefusedError(Exception):
    """Raised inside Spark's call if the run ends while a batch is held, so that Spark does not commit the batch."""


class HeldQuery:
    """A running streaming query, and the batch that it has handed over. Used by Spark's thread and the spout's."""

    def __init__(self, frame: "DataFrame", checkpoint: str, trigger: Mapping[str, Any]) -> None:
        self._frame, self._checkpoint, self._trigger = frame, checkpoint, trigger
        self._changed = threading.Condition()
        self._query: StreamingQuery | None = None
        self._batch: int | None = None
        self._released = -1
        """The last batch that may be committed."""
        self._closed = False
        self._view = f"trident_{uuid.uuid4().hex}"
        self.wake: Callable[[], None] = lambda: None

    @property
    def id(self) -> str:
        """The id of the query, which stays the same over restarts from its checkpoint."""
        assert self._query is not None, "`start` comes first"
        return str(self._query.id)

    @property
    def view(self) -> str:
        """The global temporary view of the batch that is held, which every session of a run can read."""
        return f"global_temp.{self._view}"

    def start(self) -> None:
        """Start the query, unless it is active. Raises SourceUnreadableError if it has failed, or cannot start."""
        if self._query is not None and self._query.isActive:
            return
        failed = None if self._query is None else self._query.exception()
        if failed is not None:
            self._query = None  # the next attempt starts it again
            raise SourceUnreadableError(
                f"StreamingSpout: the streaming query has failed: {_first_line(failed)}"
            ) from failed
        if self._query is not None:  # it has ended by itself, as with the trigger availableNow
            return
        writer = self._frame.writeStream.option("checkpointLocation", self._checkpoint).foreachBatch(self._hold)
        writer = writer.trigger(**self._trigger) if self._trigger else writer
        try:
            self._query = writer.start()
        except Exception as error:
            raise SourceUnreadableError(f"StreamingSpout: cannot start the query: {_first_line(error)}") from error

    def _hold(self, frame: "DataFrame", batch: int) -> None:
        """Hold a batch until it is frozen. Spark calls this once for each batch, in the order of their ids."""
        with self._changed:
            if batch <= self._released:
                return
            frame.createOrReplaceGlobalTempView(self._view)
            self._batch = batch
            self._changed.notify_all()
        self.wake()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or batch <= self._released)
            self._batch = None
            if batch > self._released:
                raise BatchRefusedError(f"batch {batch} is not frozen: the topology has stopped")

    def release(self, batch: int) -> None:
        """Let Spark commit all batches up to `batch`."""
        with self._changed:
            self._released = max(self._released, batch)
            self._changed.notify_all()

    def held(self) -> int | None:
        """Return the id of the batch that is held and not released; None if the query has no data now."""
        until = monotonic() + _PATIENCE_SECS
        while monotonic() < until:
            with self._changed:
                if self._changed.wait_for(self._holds, _LOOK_SECS):
                    return self._batch
            if self._idle():
                return None
        return None

    def _holds(self) -> bool:
        return self._batch is not None and self._batch > self._released

    def _idle(self) -> bool:
        query = self._query
        if query is None or not query.isActive:
            return True
        status = query.status
        return not status["isTriggerActive"] and str(status["message"]).startswith("Waiting")

    def close(self) -> None:
        """Stop the query. A batch that is held is not committed: Spark hands it over again after a restart."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()
        self._frame.sparkSession.catalog.dropGlobalTempView(self._view)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
