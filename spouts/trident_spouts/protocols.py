"""Trident's four contracts of spouts that users write. Each is a base class with defaults for the optional methods."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.executor import Emission, Metadata, SpoutKind
from trident_spouts.rows import RowsLike

Emitted: TypeAlias = RowsLike | Emission | None
"""The result of an emit method: rows in any form, an Emission for large rows that lie elsewhere, or None."""


class BatchSpout(ABC):
    """The simplest spout: one method that returns the rows of a batch.

    The library keeps the rows until their batch is committed, so that a replay within the process has the same tuples.
    After a restart it calls ``emitBatch`` again for a batch that was under way. A spout that returns the same rows then
    may declare it: ``kind = SpoutKind.TRANSACTIONAL``. Any other spout has one reader at a time.

    `batchId` is the stream's own count of its batches: 1, 2, 3 and so on without a gap. Restarts do not change it, nor
    do the streams that it is merged with.

    Meaning: ``org.apache.storm.trident.spout.IBatchSpout``, where `batchId` is the txid. Here ``emitBatch`` is called
    once per process for a batch, and a call that returns no rows makes no batch.

    >>> class Dice(BatchSpout):
    ...     outputFields = "eyes int"
    ...     def emitBatch(self, batchId):
    ...         return [4, 4] if batchId < 3 else None
    """

    outputFields: str | StructType
    """The fields with their types, ``"word string, n long"``."""

    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL
    """The promise for a replay after a restart."""

    def open(self) -> None:  # noqa: B027  may be left out
        """Prepare for a run; called once before it."""

    @abstractmethod
    def emitBatch(self, batchId: int) -> Emitted:
        """Return the rows of the batch with this number. None or no rows: there is nothing now, call again later."""

    def ack(self, batchId: int) -> None:  # noqa: B027
        """Release the batch: it is committed. After a restart this may come a second time for the last batch."""

    def close(self) -> None:  # noqa: B027
        """Release connections and files; called once after a run."""


class BatchCoordinator(ABC):
    """The half of a TridentSpout that names batches. Meaning: ``ITridentSpout.BatchCoordinator``."""

    @abstractmethod
    def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
        """Return the metadata that names the batch, as JSON.

        `prevMetadata` is the metadata of txid - 1 (None for the first batch). `currMetadata` is what this method
        returned for this txid before, in this process.
        """

    def isReady(self, txid: int) -> bool:
        """Return whether there is a batch now."""
        return True

    def success(self, txid: int) -> None:  # noqa: B027
        """Release every batch up to this one: they are committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Release connections and files; called once after a run."""


class Emitter(ABC):
    """The half of a TridentSpout that emits. Meaning: ``ITridentSpout.Emitter``."""

    @abstractmethod
    def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Emitted:
        """Return the rows that the metadata names. No rows make an empty batch."""

    def success(self, attempt: TransactionAttempt) -> None:  # noqa: B027
        """Release every batch up to this attempt's: they are committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Release connections and files; called once after a run."""


class TridentSpout(ABC):
    """A spout that names its batches itself, and declares in `kind` what it promises for a replay.

    Meaning: ``org.apache.storm.trident.spout.ITridentSpout``. The metadata is fixed before a tuple is emitted, and an
    attempt after a failure gets the same metadata.
    """

    outputFields: str | StructType
    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL

    @abstractmethod
    def getCoordinator(self) -> BatchCoordinator:
        """Return the object that names batches, for one run."""

    @abstractmethod
    def getEmitter(self) -> Emitter:
        """Return the object that emits, for one run."""


class PartitionedSpout(ABC):
    """A transactional spout over partitions, each with a position of its own.

    Meaning: ``org.apache.storm.trident.spout.IPartitionedTridentSpout``. A partition that reports no metadata, or is
    not listed for a while, keeps its position.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Prepare for a run; called once before it."""

    def isReady(self, txid: int) -> bool:
        """Return whether the partitions may have something now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the present partitions. Called for every new batch."""

    @abstractmethod
    def emitPartitionBatchNew(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return the next rows of a partition, and the metadata (JSON) that names exactly these rows.

        `lastMetadata` names the partition's previous rows, None if there were none. Called while the batch is planned.
        When it returns other metadata without rows, it is called again at once, with that metadata.
        """

    @abstractmethod
    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Metadata) -> Emitted:
        """Return the same rows again. Raise if the source no longer has them."""

    def close(self) -> None:  # noqa: B027
        """Release connections and files; called once after a run."""


class OpaquePartitionedSpout(ABC):
    """An opaque spout over partitions: a replay begins where the previous batch ended, and may read more or less.

    Meaning: ``org.apache.storm.trident.spout.IOpaquePartitionedTridentSpout``. Partitions may come, go and return. A
    partition that is away, or has nothing, keeps its position.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Prepare for a run; called once before it."""

    def isReady(self, txid: int) -> bool:
        """Return whether the partitions may have something now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the present partitions. Called for every attempt."""

    @abstractmethod
    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return rows of a partition from its position `lastMetadata` on (None: the beginning), and its new position.

        When it returns another position without rows, it is called again at once, with that position.
        """

    def close(self) -> None:  # noqa: B027
        """Release connections and files; called once after a run."""


UserContract: TypeAlias = BatchSpout | TridentSpout | PartitionedSpout | OpaquePartitionedSpout
"""The objects that a user may give as a spout, besides a Spout."""
