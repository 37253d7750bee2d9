"""The executors of PartitionedSpout and OpaquePartitionedSpout, whose partitions have positions of their own."""

from time import monotonic
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident_spouts.emission import one_emission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.user_calls import call, emission_of, foreign_metadata_error, pair_of

Positions = dict[str, Metadata]
"""The position of every partition ever seen: one that is away or emits nothing keeps its position."""

_PAGING_SECONDS = 1.0
"""Seconds for which a plan follows pages without rows before it makes an empty batch of them."""


class _Batch:
    """The rows of the partitions from their positions `start` on, and their positions `after` these rows."""

    def __init__(self, start: Positions) -> None:
        self.start, self.after = dict(start), dict(start)
        self.parts: list[Emission] = []
        self.partitions: list[str] = []
        """The partition of each part."""

    def add(self, partition: str, start: Metadata, after: Metadata, emission: Emission | None) -> None:
        if after is not None:
            self.after[partition] = after
        if start is not None:
            self.start[partition] = start
        if emission is not None:
            self.parts.append(emission)
            self.partitions.append(partition)


class _PartitionsExecutor:
    """Executor that reads while it plans a batch, so that an idle source makes no batch.

    The first attempt emits the rows that the plan read.

    A partition's position may move over a page without rows (a compacted stretch, an hour without orders). The plan
    then reads on, for at most `_PAGING_SECONDS`. After that it makes an empty batch, so that the source does not count
    as idle between two pages. When the positions moved and the pages came to their end without rows, there is no batch:
    the positions stay in memory until the next batch freezes them.
    """

    method: ClassVar[str]

    def __init__(self, spout: Any, schema: StructType, name: str | None = None) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._read: dict[int, tuple[Metadata, Emission]] = {}
        self._moved: tuple[Positions, Positions] = ({}, {})
        """The positions in the log, and those up to which the partitions had no rows since."""
        call(spout, "open")

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        self._read.pop(attempt.txid, None)
        if not call(self._spout, "isReady", attempt.txid):
            return None
        logged = self._positions(previous)
        batch = _Batch(self._moved[1] if self._moved[0] == logged else logged)
        end = monotonic() + _PAGING_SECONDS
        for partition in self._partitions():
            batch.add(partition, *self._next_rows(attempt, partition, batch.start.get(partition), end))
        if not batch.parts and batch.after == batch.start:
            self._moved = (logged, batch.after)
            return None
        metadata, after = self._metadata(batch)
        self._read[attempt.txid] = (metadata, one_emission(batch.parts, self._schema, after))
        return metadata

    def _next_rows(
        self, attempt: TransactionAttempt, partition: str, start: Metadata, end: float
    ) -> tuple[Metadata, Metadata, Emission | None]:
        """Read on to the partition's next rows; return the positions before and after them, and the rows.

        Without rows, equal positions mean that there is nothing now, and different ones that more may follow.

        The position of some sources moves at every call: it follows a clock, or the end of a log that they filter. Two
        calls from one position tell such a source from one with pages: the second call returns another position.
        """
        after, emission = self._read_page(attempt, partition, start)
        if emission is None and after != start:
            again, emission = self._read_page(attempt, partition, start)
            if emission is None and again != after:
                return again, again, None
            after = again
        while emission is None and after != start and monotonic() < end:
            start = after
            after, emission = self._read_page(attempt, partition, start)
        return start, after, emission

    def _read_page(
        self, attempt: TransactionAttempt, partition: str, start: Metadata
    ) -> tuple[Metadata, Emission | None]:
        """Read one page; return the position after it, and its rows if it has any."""
        where = f"{self._name}, partition {partition!r}"
        emitted, after = pair_of(call(self._spout, self.method, attempt, partition, start), where)
        emission = emission_of(emitted, self._schema, where)
        if emission is None or emission.rows == 0:
            return start if after is None else after, None
        if after is None:
            raise SpoutContractError(f"{where} returned rows without metadata: the same rows would come again for ever")
        return after, emission

    def _metadata(self, batch: _Batch) -> tuple[Metadata, Metadata]:
        """Return the metadata that names a batch, and its `after`."""
        raise NotImplementedError

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        planned, emission = self._read.get(attempt.txid, (None, None))
        return emission if emission is not None and planned == metadata else self._read_again(attempt, metadata)

    def _read_again(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Read the batch once more, for another attempt."""
        raise NotImplementedError

    def success(self, txid: int, metadata: Metadata) -> None:
        self._read = {later: planned for later, planned in self._read.items() if later > txid}

    def fail(self, attempt: TransactionAttempt) -> None:
        self._read.pop(attempt.txid, None)

    def close(self) -> None:
        self._read.clear()
        call(self._spout, "close")

    def _partitions(self) -> list[str]:
        """Return the present partitions. Raise SpoutContractError for a name that is not a str or comes twice."""
        partitions = list(call(self._spout, "getPartitions"))
        for at, partition in enumerate(partitions):
            if not isinstance(partition, str):
                raise SpoutContractError(
                    f"{self._name}.getPartitions() returned {partition!r}: expected names of type str"
                )
            if partition in partitions[:at]:
                raise SpoutContractError(f"{self._name}.getPartitions() returned {partition!r} twice")
        return partitions

    def _positions(self, metadata: Metadata) -> Positions:
        """Return the positions in a batch's metadata."""
        if metadata is None:
            return {}
        if not isinstance(metadata, dict) or not isinstance(metadata.get("positions"), dict):
            raise foreign_metadata_error(self._name, metadata)
        return dict(metadata["positions"])


class PartitionedExecutor(_PartitionsExecutor):
    """Executor of a transactional spout, whose metadata names exactly the rows of a batch.

    The metadata holds ``positions``, of every partition ever seen, after the batch, and ``batch``, the partitions that
    have rows in it. The position of such a partition names its rows.
    """

    plans_ahead = True
    method = "emitPartitionBatchNew"

    def _metadata(self, batch: _Batch) -> tuple[Metadata, Metadata]:
        return {"positions": batch.after, "batch": batch.partitions}, None

    def _read_again(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        positions = self._positions(metadata)
        parts = []
        for partition in metadata["batch"] if isinstance(metadata, dict) else ():
            where = f"{self._name}, partition {partition!r}, txid {attempt.txid}"
            emitted = call(self._spout, "emitPartitionBatch", attempt, partition, positions[partition])
            parts.append(emission_of([] if emitted is None else emitted, self._schema, where))
        return one_emission([part for part in parts if part is not None], self._schema)


class OpaqueExecutor(_PartitionsExecutor):
    """Executor of an opaque spout. An attempt after a failure reads again from the positions where the batch begins.

    The metadata of a batch holds the positions before it; the emission's ``after`` holds those behind it.
    """

    plans_ahead = False
    method = "emitPartitionBatch"

    def _metadata(self, batch: _Batch) -> tuple[Metadata, Metadata]:
        return {"positions": batch.start}, {"positions": batch.after}

    def _read_again(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        batch = _Batch(self._positions(metadata))
        for partition in self._partitions():
            start = batch.start.get(partition)
            batch.add(partition, start, *self._read_page(attempt, partition, start))
        return one_emission(batch.parts, self._schema, self._metadata(batch)[1])
