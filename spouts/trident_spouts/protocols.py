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
        """Prepare for a run; called once before it."""

    @abstractmethod
    def emitBatch(self, batchId: int) -> Emitted:
        """Return the rows of the batch with this number. None or no rows: nothing there now, ask for it again later."""

    def ack(self, batchId: int) -> None:  # noqa: B027
        """Let go of the batch: it is committed. May come twice for the last one, after a restart."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections and files; called once after a run."""


class BatchCoordinator(ABC):
    """The half of a TridentSpout that names batches. Meaning: ``ITridentSpout.BatchCoordinator``."""

    @abstractmethod
    def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
        """Return what names the batch, as JSON. `prevMetadata` is that of txid - 1 (None for the first), `currMetadata`
        what was returned for this txid before, in this process."""

    def isReady(self, txid: int) -> bool:
        """Return whether there is a batch now."""
        return True

    def success(self, txid: int) -> None:  # noqa: B027
        """Let go of every batch up to this one: they are committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections and files; called once after a run."""


class Emitter(ABC):
    """The half of a TridentSpout that emits. Meaning: ``ITridentSpout.Emitter``."""

    @abstractmethod
    def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Emitted:
        """Return the rows that the metadata names; no rows make an empty batch."""

    def success(self, attempt: TransactionAttempt) -> None:  # noqa: B027
        """Let go of every batch up to this attempt's: they are committed. Repeated after a restart."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections and files; called once after a run."""


class TridentSpout(ABC):
    """A spout that names its batches itself, and says in `kind` what it promises of a replay.

    Meaning: ``org.apache.storm.trident.spout.ITridentSpout``; the metadata is logged before a tuple is emitted, and an
    attempt that follows a failure finds it unchanged.
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
        """Return whether it is worth asking the partitions now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the partitions there are now. Called for every new batch."""

    @abstractmethod
    def emitPartitionBatchNew(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return the next rows of a partition, and the metadata (JSON) that names exactly these rows.

        `lastMetadata` names the partition's previous rows, None if there were none. Called while the batch is planned.
        No rows and other metadata: the partition is asked again at once, from there.
        """

    @abstractmethod
    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Metadata) -> Emitted:
        """Return the same rows again. Raise if the source no longer has them."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections and files; called once after a run."""


class OpaquePartitionedSpout(ABC):
    """An opaque spout over partitions: a replay starts where the previous batch ended, and may read more or less.

    Meaning: ``org.apache.storm.trident.spout.IOpaquePartitionedTridentSpout``. Partitions may come, go and return; one
    that is away or has nothing keeps its position.
    """

    outputFields: str | StructType

    def open(self) -> None:  # noqa: B027
        """Prepare for a run; called once before it."""

    def isReady(self, txid: int) -> bool:
        """Return whether it is worth asking the partitions now."""
        return True

    @abstractmethod
    def getPartitions(self) -> Sequence[str]:
        """Return the names of the partitions there are now. Called for every attempt."""

    @abstractmethod
    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        """Return rows of a partition from its position `lastMetadata` on (None: the beginning), and its new position.
        No rows and another position: the partition is asked again at once, from there."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections and files; called once after a run."""


UserContract: TypeAlias = BatchSpout | TridentSpout | PartitionedSpout | OpaquePartitionedSpout
"""What a user may give where a spout is asked for, besides a Spout."""
