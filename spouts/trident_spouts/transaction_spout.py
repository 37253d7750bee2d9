"""TransactionSpout: a source that keeps its position, returns a checkpoint for each batch, and can go back."""

from abc import ABC, abstractmethod
from typing import Any

from pyspark.sql.types import StructType

from trident_spouts.awaited_rows import MayWait
from trident_spouts.messages.collector import Collector


class TransactionSpout(MayWait, ABC):
    """A source that keeps its position. A checkpoint of the position is frozen with the tuples of each batch.

    Meaning: JStorm's ``ITransactionSpoutExecutor``. The library calls all methods on one thread:

    1. ``open``, and ``initState(checkpoint)`` with the checkpoint of the last frozen batch, or None.
       ``ackCommit`` of the last committed batch may follow;
    2. for each batch ``nextTuple`` until it emits nothing or the batch is full, ``finishBatch(txid)``,
       ``commit(txid, checkpoint)``. The result of `commit` is frozen with the tuples. If no tuple was emitted, there is
       no batch;
    3. ``ackCommit(txid)`` when the batch is committed.

    If a batch fails before it is frozen, ``rollback`` with the checkpoint of the previous batch comes next, and then
    step 2, perhaps with other tuples. So the spout is opaque: exactly-once with transactional and opaque states.

    Attributes
    ----------
    outputFields : str or StructType
        The fields with their types, ``"word string, n long"``.
    maxRows, maxSecs : int, float
        The most tuples of a batch, and the most seconds for which it gathers tuples. The tuples of one call of
        ``nextTuple`` are never divided.

    Examples
    --------
    >>> class Lines(TransactionSpout):
    ...     outputFields = "line string"
    ...     def open(self):
    ...         self.file = open("/var/log/words.txt")
    ...     def initState(self, checkpoint):
    ...         self.file.seek(checkpoint or 0)
    ...     rollback = initState
    ...     def nextTuple(self, collector):
    ...         if line := self.file.readline():
    ...             collector.emit(line)
    ...     def finishBatch(self, txid):
    ...         return self.file.tell()
    """

    outputFields: str | StructType
    maxRows: int = 1000
    maxSecs: float = 0.1

    def open(self) -> None:  # noqa: B027  may be left out
        """Connect. Called once at the beginning of each run."""

    @abstractmethod
    def initState(self, checkpoint: Any) -> None:
        """Begin after the batch with this checkpoint, which `commit` returned; None means at the beginning."""

    @abstractmethod
    def rollback(self, checkpoint: Any) -> None:
        """Go back to this checkpoint (None: to the beginning). The tuples after it are emitted again."""

    @abstractmethod
    def nextTuple(self, collector: Collector) -> None:
        """Emit the next tuple, or several, by ``collector.emit``; emit nothing if there is none now. Must not wait."""

    @abstractmethod
    def finishBatch(self, txid: int) -> Any:
        """Return the checkpoint of the position after the tuples that were emitted for this batch."""

    def commit(self, txid: int, checkpoint: Any) -> Any:
        """Return the JSON value, of at most 64 KiB, to freeze for the checkpoint.

        By default it is the checkpoint itself.

        For a large checkpoint, store it elsewhere under a key with the txid, and return the key. This method may be
        called again for a txid, even with another checkpoint.
        """
        return checkpoint

    def ackCommit(self, txid: int) -> None:  # noqa: B027
        """Delete data that only batches before `txid` needed.

        The call may be repeated, and may be missing for a batch.
        """

    def close(self) -> None:  # noqa: B027
        """Disconnect. Called once at the end of each run."""
