"""A streaming query of Spark that hands over its batches one at a time. Each batch is held until it is frozen.

Spark calls the function of ``foreachBatch`` in a separate thread, and commits the batch's offsets to the query's
checkpoint when the function returns. So the function waits here until the topology's log holds the batch.
"""

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from trident.base.errors import SourceUnreadableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("trident.spouts")

_PATIENCE_SECS = 10.0
"""The seconds that one plan waits while the query looks for data. If that takes longer, the query wakes the run."""


class BatchRefusedError(Exception):
    """Raised inside Spark's call if the run ends while a batch is held, so that Spark does not commit the batch."""


class HeldQuery:
    """A running streaming query, and the batch that it has handed over. Used by Spark's thread and the spout's."""

    def __init__(self, frame: "DataFrame", checkpoint: str, trigger: Mapping[str, Any]) -> None:
        self._frame, self._checkpoint, self._trigger = frame, checkpoint, trigger
        self._changed = threading.Condition()
        self._query: StreamingQuery | None = None
        self._batch: int | None = None
        self._looking = False
        """True while a thread waits for the query to look for new data."""
        self._released = -1
        """The last batch that Spark may commit."""
        self._closed = False
        self._view = f"trident_{uuid.uuid4().hex}"
        self.waits_for: str | None = None
        """The reason why the last `held` had no batch; None if the query found no data."""
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

    def offsets(self, batch: int) -> str | None:
        """Return a checksum of the record of a batch in Spark's checkpoint; None if it has no record.

        The record holds the batch's offsets in each source and the time at which Spark planned it, so a batch that is
        planned again under the same number has another checksum. The checkpoint may be on any file system that Spark
        can reach.
        """
        session: Any = self._frame.sparkSession  # a classic Spark session, which has a JVM
        jvm, configuration = session._jvm, session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        path = jvm.org.apache.hadoop.fs.Path(f"{self._checkpoint}/offsets/{batch}")
        files = path.getFileSystem(configuration)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            content: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return hashlib.sha256(content.encode()).hexdigest()[:32]

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
        if self._query is not None:  # the query has ended by itself, as with the trigger availableNow
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
        """Return the id of the batch that is held but not released; None if there is none, see `waits_for`.

        Only Spark knows when it has no data: it also holds no batch between two batches, before the first batch, and
        while it lists a large folder. So a thread asks the query (`_look`), and this method waits some seconds for the
        answer.
        """
        until = monotonic() + _PATIENCE_SECS
        with self._changed:
            self.waits_for = None
            # A `_look` of an earlier plan may have begun before the newest data came, so it does not count.
            self._changed.wait_for(lambda: self._holds() or not self._looking, until - monotonic())
            if not self._holds() and not self._looking and self._query is not None:
                self._looking = True
                threading.Thread(target=self._look, args=(self._query,), name="trident-look", daemon=True).start()
                self._changed.wait_for(lambda: self._holds() or not self._looking, until - monotonic())
            if self._holds():
                return self._batch
            self.waits_for = "the streaming query is still looking for data" if self._looking else None
            return None

    def _look(self, query: "StreamingQuery") -> None:
        """Wait until the query has looked for data once more and found none, or has ended."""
        try:
            query.processAllAvailable()
        except Exception as error:
            # The query has failed, or was stopped: `start` raises the reason at the next plan.
            logger.debug("the streaming query ended while it looked for data: %s", error)
        with self._changed:
            self._looking, late = False, self.waits_for is not None
            self._changed.notify_all()
        if late:  # the plan that began this `_look` no longer waits
            self.wake()

    def _holds(self) -> bool:
        return self._batch is not None and self._batch > self._released

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
