"""A source that the program itself feeds, from any thread."""

import threading
import uuid
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import FeedTimeoutError, SpoutContractError, SpoutError
from trident.base.types import ddl
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import RowsLike, read_schema, table_of
from trident_spouts.single_reader import claim, release


class FeederBatchSpout:
    """Each ``feed`` is a batch; while nothing is fed, the topology is idle.

    Within the process it behaves as a transactional spout: a batch is kept until it is committed, and every replay
    emits the same tuples. **Nothing of it survives the process**: batches that were fed and not yet committed when it
    died are gone unless the program feeds them again, and one whose ``feed(wait=True)`` had not returned may have been
    committed. That is why its kind is non-transactional: what it emits lands once, but over a restart the source may
    lose or repeat. Where that matters, put the input into files or a log and read those. It has one reader at a time.

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
    Meaning: ``org.apache.storm.trident.testing.FeederBatchSpout``, whose ``feed`` always waits for the commit.
    """

    kind = SpoutKind.NON_TRANSACTIONAL

    def __init__(self, fields: str | StructType) -> None:
        self.schema = read_schema(fields)
        self._id = uuid.uuid4().hex
        self._changed = threading.Condition()
        self._waiting: dict[int, pa.Table] = {}
        self._fed = 0
        self._committed = 0
        self._finished = False
        self._closed = 0

    def feed(self, rows: RowsLike, wait: bool = False, timeout: float | None = None) -> None:
        """Give one batch: a list of tuples, scalars, dicts or Rows, an Arrow table or pandas. An empty one counts.

        With ``wait=True`` this returns when the batch is committed, after at most `timeout` seconds (None: no limit).

        Raises
        ------
        SpoutContractError
            A value that is not of its field's type; nothing was fed.
        FeedTimeoutError
            The batch was not committed in time; it stays fed.
        SpoutError
            ``finish`` was called before, or the topology closed the spout while this waited.
        """
        table = table_of(rows, self.schema, f"FeederBatchSpout, batch {self._fed}")
        with self._changed:
            if self._finished:
                raise SpoutError("FeederBatchSpout: finish() was called; feed before it, or make another spout")
            index, closed = self._fed, self._closed
            self._waiting[index] = table
            self._fed += 1
            if wait:
                self._await_commit(index, closed, timeout)

    def finish(self) -> None:
        """Say that nothing more comes. What was fed is still emitted."""
        with self._changed:
            self._finished = True

    def open(self) -> SpoutExecutor:
        """Begin to work for one run: from the first batch that is not committed."""
        claim(self, repr(self))
        return _FeederExecutor(self)

    def _await_commit(self, index: int, closed: int, timeout: float | None) -> None:
        done = self._changed.wait_for(lambda: self._committed > index or self._closed > closed, timeout)
        if self._committed > index:
            return
        if not done:
            raise FeedTimeoutError(
                f"FeederBatchSpout: batch {index} was not committed within {timeout} s; it stays fed "
                f"({self._committed} of {self._fed} batches are committed). Is the topology running?"
            )
        raise SpoutError(
            f"FeederBatchSpout: the topology stopped before batch {index} was committed; it stays fed. "
            "Why it stopped, awaitTermination() of its handle raises"
        )

    def __repr__(self) -> str:
        batches = f"{self._fed} batch{'' if self._fed == 1 else 'es'}"
        return f"FeederBatchSpout({ddl(self.schema)!r}, {batches} fed, {self._committed} committed)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a FeederBatchSpout is fed in this process and cannot be pickled")


class _FeederExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: FeederBatchSpout) -> None:
        self._spout = spout

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        spout = self._spout
        with spout._changed:
            before = self._index(previous)
            index = max(0 if before is None else before + 1, spout._committed)
            return {"feeder": spout._id, "index": index} if index < spout._fed else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        with self._spout._changed:
            index = self._index(metadata)
            assert index is not None, "a plan ends with the process that made it"
            return ArrowEmission(self._spout._waiting[index])

    def success(self, txid: int, metadata: Metadata) -> None:
        spout = self._spout
        with spout._changed:
            index = self._index(metadata)
            if index is None:
                return
            for done in [waiting for waiting in spout._waiting if waiting <= index]:
                del spout._waiting[done]
            spout._committed = max(spout._committed, index + 1)
            spout._changed.notify_all()

    def close(self) -> None:
        release(self._spout)
        with self._spout._changed:
            self._spout._closed += 1
            self._spout._changed.notify_all()

    def _index(self, metadata: Metadata) -> int | None:
        """Return the index that metadata names; None where another process fed that batch."""
        if metadata is None:
            return None
        if not isinstance(metadata, dict) or not {"feeder", "index"} <= metadata.keys():
            raise SpoutContractError(
                f"FeederBatchSpout: {metadata!r} names none of its batches; the log belongs to another spout"
            )
        return int(metadata["index"]) if metadata["feeder"] == self._spout._id else None
