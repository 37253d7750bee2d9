"""Spouts that users write: Trident's four contracts, each a base class with the methods that may be left out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.executor import Emission, Metadata, SpoutKind
from trident_spouts.rows import RowsLike

Emitted: TypeAlias = RowsLike | Emission | None
"""What a spout emits: rows in any form, an Emission where they are large and lie elsewhere; None for nothing."""


class BatchSpout(ABC):
    """The simplest spout: it is asked for a batch and gives rows.

    Rows are kept until their batch is committed, so that a replay within the process has the same tuples. After a
    restart ``emitBatch`` is asked again for a batch that was under way. A spout that then gives the same rows may say
    so: ``kind = SpoutKind.TRANSACTIONAL``. Any other one has one reader at a time.

    `batchId` is the stream's own count of its batches: 1, 2, 3 and so on without a gap, over restarts too, and whatever
    streams it is merged with.

    Meaning: ``org.apache.storm.trident.spout.IBatchSpout``, where `batchId` is the txid; here a batch is asked for once
    per process, and one without rows is no batch.

    >>> class Dice(BatchSpout):
    ...     outputFields = "eyes int"
    ...     def emitBatch(self, batchId):
    ...         return [4, 4] if batchId < 3 else None
    """

    outputFields: str | StructType
    """The fields with their types, ``"word string, n long"``."""

    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL
    """What it promises of a replay after a restart."""

    def open(self) -> None:  # noqa: B027  may be left out
        """Called once before a run."""

    @abstractmethod
    def emitBatch(self, batchId: int) -> Emitted:
        """The rows of the batch with this number; None or no rows: nothing there now, ask for it again later."""

    def ack(self, batchId: int) -> None:  # noqa: B027
        """The batch is committed. May come twice for the last one, after a restart."""

    def close(self) -> None:  # noqa: B027
        """Called once after a run."""


class BatchCoordinator(ABC):
    """The half of a TridentSpout that names batches. Meaning: ``ITridentSpout.BatchCoordinator``."""

    @abstractmethod
    def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
        """What names the batch, as JSON. `prevMetadata` is that of txid - 1 (None for the first), `currMetadata` what
        was given for this txid before, in this process."""

    def isReady(self, txid: int) -> bool:
        """Whether there is a batch now."""
        return True

    def success(self, txid: int) -> None:  # noqa: B027
        """Every batch up to this one is committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Called once after a run."""


class Emitter(ABC):
    """The half of a TridentSpout that emits. Meaning: ``ITridentSpout.Emitter``."""

    @abstractmethod
    def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Emitted:
        """The rows that the metadata names; none is an empty batch."""

    def success(self, attempt: TransactionAttempt) -> None:  # noqa: B027
        """Every batch up to this attempt's is committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Called once after a run."""


class TridentSpout(ABC):
    """A spout that names its batches itself. What it promises is for it to say: `kind`.

    Meaning: ``org.apache.storm.trident.spout.ITridentSpout``; the metadata is logged before a tuple is emitted, and an
    attempt that follows a failure finds it unchanged.
    """

    outputFields: str | StructType
    kind: SpoutKind = SpoutKind.NON_TRANSACTIONAL

    @abstractmethod
    def getCoordinator(self) -> BatchCoordinator:
        """The one that names batches, for one run."""

    @abstractmethod
    def getEmitter(self) -> Emitter:
        """The one that emits, for one run."""


class PartitionedSpout(ABC):
    """A transactional spout over partitions, each with a position of its own.

    Meaning: ``org.apache.storm.trident.spout.IPartitionedTridentSpout``. A partition that reports no metadata, or is
    not listed for a while, keeps its position.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Called once before a run."""

    def isReady(self, txid: int) -> bool:
        """Whether it is worth asking the partitions now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """The names of the partitions there are now. Asked for every new batch."""

    @abstractmethod
    def emitPartitionBatchNew(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """The next rows of a partition, and the metadata (JSON) that names exactly these rows.

        `lastMetadata` names the partition's previous rows, None if there were none. Called while the batch is planned.
        Where there are no rows and other metadata, the partition is asked on from there.
        """

    @abstractmethod
    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Metadata) -> Emitted:
        """The same rows again. Raise if the source no longer has them."""

    def close(self) -> None:  # noqa: B027
        """Called once after a run."""


class OpaquePartitionedSpout(ABC):
    """An opaque spout over partitions: a replay starts where the previous batch ended, and may read more or less.

    Meaning: ``org.apache.storm.trident.spout.IOpaquePartitionedTridentSpout``. Partitions may come, go and return; one
    that is away or has nothing keeps its position.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Called once before a run."""

    def isReady(self, txid: int) -> bool:
        """Whether it is worth asking the partitions now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """The names of the partitions there are now. Asked for every attempt."""

    @abstractmethod
    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Rows of a partition from its position `lastMetadata` on (None: the beginning), and its new position. Where
        there are no rows and another position, the partition is asked on from there."""

    def close(self) -> None:  # noqa: B027
        """Called once after a run."""


UserContract: TypeAlias = BatchSpout | TridentSpout | PartitionedSpout | OpaquePartitionedSpout
"""What a user may give where a spout is asked for, besides a Spout."""
