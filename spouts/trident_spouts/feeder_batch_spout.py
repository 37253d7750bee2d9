"""A spout of batches that the program itself supplies, from any thread."""

import os
import threading
import uuid
from collections.abc import Callable
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.clock import SystemClock
from trident.base.durations import Duration, read_limit
from trident.base.errors import FeedTimeoutError, SpoutError
from trident.base.option_names import known_options
from trident.base.spark_types import ddl
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import RowsLike, read_schema, table_of
from trident_spouts.single_reader import claim, release
from trident_spouts.source_times import SourceSpan
from trident_spouts.user_calls import foreign_metadata_error


class FeederBatchSpout:
    """A spout of batches that the program feeds: each ``feed`` is a batch. The topology is idle until a batch is fed.

    Within the process the spout behaves like a transactional spout: it keeps a batch until it is committed, and every
    replay emits the same tuples. **No batch survives the process**: batches that were fed but not committed when the
    process died are lost unless the program feeds them again. If a ``feed(wait=True)`` had not returned, its batch may
    have been committed. So its kind is non-transactional: every batch that it emits is committed once, but batches may
    be lost or repeated at a restart. If that matters, put the input into files or a log, and read those. The spout has
    one reader at a time.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"line string"``.

    Examples
    --------
    >>> spout = FeederBatchSpout("line string")
    >>> spout.feed(["the cow jumped", "over the moon"])
    >>> spout
    FeederBatchSpout('line string', 1 batch fed, 0 committed)

    Notes
    -----
    Meaning: ``org.apache.storm.trident.testing.FeederBatchSpout``; its ``feed`` always waits for the commit.
    """

    kind = SpoutKind.NON_TRANSACTIONAL
    forkable = True

    @known_options({})
    def __init__(self, fields: str | StructType) -> None:
        self.schema = read_schema(fields)
        self._batches = _FedBatches()
        self._finished = False

    def feed(self, rows: RowsLike, wait: bool = False, timeout: Duration | None = None) -> None:
        """Feed one batch: a list of tuples, scalars, dicts or Rows, an Arrow table or pandas. An empty batch counts.

        With ``wait=True``, wait until the batch is committed, for at most `timeout` (``"5 minutes"``, seconds, a
        timedelta; None: no limit).

        Raises
        ------
        SpoutContractError
            A value is not of its field's type. Nothing was fed.
        FeedTimeoutError
            The batch was not committed in time. It stays fed.
        SpoutError
            ``finish`` was called before, or the topology that read the spout has failed, or runs in the process that
            forked this one: no run would read the batch, and nothing was fed. Batches can be fed before the first
            start, and again after the next start.
        """
        batches, limit = self._batches, read_limit("FeederBatchSpout: timeout", timeout, zero=True)
        batches.check_process()
        table = table_of(rows, self.schema, f"FeederBatchSpout, batch {batches.fed}")
        with batches.changed:
            if self._finished:
                raise SpoutError(
                    "FeederBatchSpout: finish() was called already; feed before finish(), or make another spout"
                )
            batches.check_read()
            index, closed = batches.fed, batches.closed
            batches.uncommitted[index] = table
            batches.times[index] = SystemClock().time()
            batches.fed += 1
            batches.wake()
            if wait:
                batches.await_commit(index, closed, limit)

    def finish(self) -> None:
        """Declare that no more batches will be fed. Batches that were fed before are still emitted."""
        with self._batches.changed:
            self._finished = True

    def open(self) -> SpoutExecutor:
        """Return the executor of one run, which begins at the first batch that is not committed."""
        claim(self, repr(self))
        with self._batches.changed:
            self._batches.failed, self._batches.reader = False, os.getpid()
        return _FeederExecutor(self, self._batches)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the number of fed batches that were read, in the process that fed them."""
        if not isinstance(position, dict) or "index" not in position:
            raise foreign_metadata_error("FeederBatchSpout", position)
        return {"batches": position["index"] + 1}

    def __repr__(self) -> str:
        fed = self._batches.fed
        batches = f"{fed} batch{'' if fed == 1 else 'es'}"
        return f"FeederBatchSpout({ddl(self.schema)!r}, {batches} fed, {self._batches.committed} committed)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a FeederBatchSpout is fed in this process and cannot be pickled")


class _FedBatches:
    """The batches of one spout, shared by the threads that feed and the thread that reads.

    `changed` guards all fields.
    """

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.changed = threading.Condition()
        self.uncommitted: dict[int, pa.Table] = {}
        self.times: dict[int, float] = {}
        """When each uncommitted batch was fed, in seconds since 1970."""
        self.fed = 0
        self.committed = 0
        self.wake: Callable[[], None] = _nothing
        """Wakes the run that reads the spout, if there is one, because a batch was fed."""
        self.closed = 0
        """The number of runs that have closed the spout.

        A change tells a waiting `feed` that its run has ended.
        """
        self.failed = False
        """True from the end of a run that failed until the spout is opened again."""
        self.reader: int | None = None
        """The process in which a run reads the spout; None if no run does."""

    def check_process(self) -> None:
        """Raise SpoutError in a forked child of the process in which a run reads the spout."""
        if self.reader not in (None, os.getpid()):  # without the lock, which a thread of the parent may be holding
            raise SpoutError(
                "FeederBatchSpout: the topology that reads it runs in the process that forked this one, so this batch "
                "would be lost, and nothing was fed. Pass the rows to that process, such as by a queue, and feed there"
            )

    def check_read(self) -> None:
        """Raise SpoutError if the run that read the spout has failed, and no other run has begun."""
        if self.failed:
            waiting = self.fed - self.committed
            raise SpoutError(
                f"FeederBatchSpout: the topology that read this spout has failed, so the batch was not added to the "
                f"queue ({waiting} earlier {'batch is' if waiting == 1 else 'batches are'} not committed). To see why, "
                f"call awaitTermination() of its handle; then start a topology with this spout again, and feed the "
                f"batch"
            )

    def await_commit(self, index: int, closed: int, timeout: float | None) -> None:
        """Wait until batch `index` is committed, at most `timeout` seconds.

        `closed` is the number of runs that had closed the spout before.

        Raises FeedTimeoutError on a timeout, SpoutError if the run ends first.
        """
        done = self.changed.wait_for(lambda: self.committed > index or self.closed > closed, timeout)
        if self.committed > index:
            return
        if not done:
            raise FeedTimeoutError(
                f"FeederBatchSpout: batch {index} was not committed within {timeout} s; it is still in the queue "
                f"({self.committed} of {self.fed} batches are committed). Is the topology running?"
            )
        raise SpoutError(
            f"FeederBatchSpout: the topology stopped before batch {index} was committed; the batch is still in the "
            f"queue. "
            "To see why it stopped, call awaitTermination() of its handle"
        )


def _nothing() -> None: ...


class _FeederExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: FeederBatchSpout, batches: _FedBatches) -> None:
        self._spout = spout
        self._batches = batches

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        batches = self._batches
        with batches.changed:
            before = self._index(previous)
            index = max(0 if before is None else before + 1, batches.committed)
            return {"feeder": self._batches.id, "index": index} if index < batches.fed else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        with self._batches.changed:
            index = self._index(metadata)
            assert index is not None, "a plan is lost when the process that made it ends"
            table, fed = self._batches.uncommitted[index], self._batches.times[index]
            return ArrowEmission(table, source_times=SourceSpan.at(fed, table.num_rows))

    def on_rows(self, wake: Callable[[], None]) -> None:
        with self._batches.changed:
            self._batches.wake = wake

    def success(self, txid: int, metadata: Metadata) -> None:
        batches = self._batches
        with batches.changed:
            index = self._index(metadata)
            if index is None:
                return
            for done in [fed for fed in batches.uncommitted if fed <= index]:
                del batches.uncommitted[done], batches.times[done]
            batches.committed = max(batches.committed, index + 1)
            batches.changed.notify_all()

    def run_failed(self) -> None:
        with self._batches.changed:
            self._batches.failed = True

    def close(self) -> None:
        release(self._spout)
        with self._batches.changed:
            self._batches.closed += 1
            self._batches.reader = None
            self._batches.wake = _nothing
            self._batches.changed.notify_all()

    def _index(self, metadata: Metadata) -> int | None:
        """Return the index of the batch that `metadata` names; None for None, or if another process fed the batch.

        Raises SpoutContractError if another spout wrote the metadata.
        """
        if metadata is None:
            return None
        if not isinstance(metadata, dict) or not {"feeder", "index"} <= metadata.keys():
            raise foreign_metadata_error("FeederBatchSpout", metadata)
        return int(metadata["index"]) if metadata["feeder"] == self._batches.id else None
