"""Trident's four contracts for spouts that users write, as base classes with defaults for optional methods.

The method that chooses the rows of a new batch (``emitBatch`` of a BatchSpout, ``initializeTransaction``,
``emitPartitionBatchNew``, ``emitPartitionBatch`` of an OpaquePartitionedSpout) may have one more parameter,
``budget=Budget()``. Then it gets the maximum size of the batch, or of the partition's share of the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.awaited_rows import MayWait
from trident_spouts.executor import Emission, Metadata, SpoutKind
from trident_spouts.messages.rich_spout import RichSpout
from trident_spouts.rows import RowsLike
from trident_spouts.transaction_spout import TransactionSpout

Emitted: TypeAlias = RowsLike | Emission | None
"""The result of an emit method: rows in any form, an Emission that refers to rows elsewhere, or None for no rows."""


class BatchSpout(MayWait, ABC):
    """The simplest spout: one method that returns the rows of a batch.

    The library keeps the rows until their batch is committed, so that a replay within the process has the same tuples.
    After a restart the library calls ``emitBatch`` again for a batch that was under way. A spout that then returns the
    same rows may declare ``kind = SpoutKind.TRANSACTIONAL``. Any other spout has one reader at a time.

    The stream counts its batches: their `batchId` is 1, 2, 3 and so on without a gap. Restarts do not change the count,
    nor do other streams with which the stream is merged.

    Meaning: ``org.apache.storm.trident.spout.IBatchSpout``, where `batchId` is the txid. Here ``emitBatch`` is called
    once in each process for a batch, and a call that returns no rows makes no batch.

    >>> class Dice(BatchSpout):
    ...     outputFields = "eyes int"
    ...     def emitBatch(self, batchId):
    ...         return [4, 4] if batchId < 3 else None
    """

    outputFields: str | StructType
    """The fields with their types, ``"word string, n long"``."""

    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL
    """The promise of the spout for a replay after a restart."""

    def open(self) -> None:  # noqa: B027  may be left out
        """Prepare for a run. Called once at the beginning of each run."""

    @abstractmethod
    def emitBatch(self, batchId: int) -> Emitted:
        """Return the rows of the batch with number `batchId`; None or no rows if there is nothing to emit now."""

    def ack(self, batchId: int) -> None:  # noqa: B027
        """Release resources of the batch, because it is committed.

        May be called again for the batch after a restart.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files. Called once at the end of each run."""


class BatchCoordinator(MayWait, ABC):
    """The half of a TridentSpout that names batches. Meaning: ``ITridentSpout.BatchCoordinator``."""

    @abstractmethod
    def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
        """Return the metadata that names the batch, as JSON.

        `prevMetadata` is the metadata of the previous batch, None for the first batch. `currMetadata` is the earlier
        result of this method for the same txid in this process; None if it was not called for it.
        """

    def isReady(self, txid: int) -> bool:
        """Return whether there may be rows now. If not, the topology stays idle."""
        return True

    def success(self, txid: int) -> None:  # noqa: B027
        """Release resources of batches up to `txid`, because they are committed.

        May be called again after a restart.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files. Called once at the end of each run."""


class Emitter(ABC):
    """The half of a TridentSpout that emits the rows of batches. Meaning: ``ITridentSpout.Emitter``."""

    @abstractmethod
    def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Emitted:
        """Return the rows that `metadata` names. If there are none, the batch is empty."""

    def success(self, attempt: TransactionAttempt) -> None:  # noqa: B027
        """Release resources of batches up to that of `attempt`, because they are committed.

        May be called again after a restart.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files. Called once at the end of each run."""


class TridentSpout(ABC):
    """A spout that chooses the metadata of its batches itself, and declares in `kind` its promise for a replay.

    Meaning: ``org.apache.storm.trident.spout.ITridentSpout``. The metadata of a batch is fixed before any of its tuples
    is emitted, and an attempt after a failure gets the same metadata.
    """

    outputFields: str | StructType
    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL

    @abstractmethod
    def getCoordinator(self) -> BatchCoordinator:
        """Return a new coordinator, the object that names batches, for one run."""

    @abstractmethod
    def getEmitter(self) -> Emitter:
        """Return a new emitter, the object that emits rows, for one run."""


class PartitionedSpout(MayWait, ABC):
    """A transactional spout over partitions, each with a position.

    Meaning: ``org.apache.storm.trident.spout.IPartitionedTridentSpout``. A partition keeps its position if a call
    returns no metadata for it, and while ``getPartitions`` does not list it.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Prepare for a run. Called once at the beginning of each run."""

    def isReady(self, txid: int) -> bool:
        """Return whether the partitions may have rows now. If not, the topology stays idle."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the present partitions. Called for every new batch."""

    @abstractmethod
    def emitPartitionBatchNew(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return the next rows of a partition, and the metadata (JSON) that names exactly these rows.

        `lastMetadata` names the partition's previous rows; it is None if there were none. The call comes while the
        batch is planned. If it returns no rows and other metadata, it is made again at once with that metadata.
        """

    @abstractmethod
    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Metadata) -> Emitted:
        """Return the rows that `metadata` names, the same as before.

        Raise an error if the source no longer has them.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files. Called once at the end of each run."""


class OpaquePartitionedSpout(MayWait, ABC):
    """An opaque spout over partitions: a replay begins at the end of the previous batch, perhaps with other rows.

    Meaning: ``org.apache.storm.trident.spout.IOpaquePartitionedTridentSpout``. Partitions may come, go and return. A
    partition keeps its position while it is not listed, and while it has no rows.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Prepare for a run. Called once at the beginning of each run."""

    def isReady(self, txid: int) -> bool:
        """Return whether the partitions may have rows now. If not, the topology stays idle."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the present partitions. Called for every attempt."""

    @abstractmethod
    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return a partition's rows from position `lastMetadata` on (None: the beginning), and the position after them.

        If a call returns no rows and another position, it is made again at once with that position.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files. Called once at the end of each run."""


UserContract: TypeAlias = (
    BatchSpout | TridentSpout | PartitionedSpout | OpaquePartitionedSpout | RichSpout | TransactionSpout
)
"""An object that a user may give as a spout in place of a Spout of the library."""
