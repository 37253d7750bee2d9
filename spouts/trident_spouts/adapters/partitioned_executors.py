"""The executors of PartitionedSpout and OpaquePartitionedSpout, which keep a position for each partition."""

from time import monotonic
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident_spouts.awaited_rows import waits_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.emission import one_emission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.user_calls import all_of, call, emission_of, foreign_metadata_error, pair_of

Positions = dict[str, Metadata]
"""The position of every partition ever seen, including partitions that are not listed now or have no rows."""

_EMPTY_PAGES_SECS = 1.0
"""The seconds for which a plan reads pages without rows. After that the plan is an empty batch."""


class _Batch:
    """The rows of a batch (`parts`), and the positions of all partitions before (`start`) and after them (`after`)."""

    def __init__(self, start: Positions) -> None:
        self.start, self.after = dict(start), dict(start)
        self.parts: list[Emission] = []
        self.partitions: list[str] = []
        """The partition of each of the `parts`."""

    def add(self, partition: str, start: Metadata, after: Metadata, emission: Emission | None) -> None:
        if after is not None:
            self.after[partition] = after
        if start is not None:
            self.start[partition] = start
        if emission is not None:
            self.parts.append(emission)
            self.partitions.append(partition)


class _PartitionsExecutor:
    """An executor that reads rows while it plans a batch, so that an idle source makes no batch.

    The first attempt emits the rows that the plan has read.

    A partition's position may move over a page without rows (a compacted range, an hour without orders). The plan then
    reads the next pages, for at most `_EMPTY_PAGES_SECS`. After that it makes an empty batch, so that the source does
    not count as idle between two pages. If the plan reaches the end of the pages without rows, there is no batch, even
    if positions have moved; the positions stay in memory until the next batch freezes them.
    """

    method: ClassVar[str]

    def __init__(
        self, spout: Any, schema: StructType, name: str | None = None, context: SpoutContext = NO_CONTEXT
    ) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._read: dict[int, tuple[Metadata, Emission]] = {}
        self._moved: tuple[Positions, Positions] = ({}, {})
        """The positions in the log, and for each the later position up to which a plan has found no rows."""
        self._budget = NO_LIMIT
        """The budget of each partition in the last plan."""
        call(spout, "open", context=context)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        self._read.pop(attempt.txid, None)
        if not call(self._spout, "isReady", attempt.txid):
            return None
        logged = self._positions(previous)
        batch = _Batch(self._moved[1] if self._moved[0] == logged else logged)
        end = monotonic() + budget.seconds_within(_EMPTY_PAGES_SECS)
        partitions = self._partitions()
        self._budget = budget.share(len(partitions))
        for partition in partitions:
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
        """Read pages of a partition up to its next rows.

        Return the position before these rows, the position after them, and the rows.

        If the rows are None, equal positions mean that the partition has no rows now; different positions mean that
        rows may follow.

        In some sources the position moves at every call, because it follows a clock, or the end of a log that the
        source filters. Therefore a first page without rows is read twice: if the second call returns another position,
        the source is of that kind, and there is nothing now. If both positions are equal, the source has pages.
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
        """Read one page of a partition from `start` on; return the position after the page, and its rows or None.

        Raises SpoutContractError if the spout returns rows without metadata.
        """
        where = f"{self._name}, partition {partition!r}"
        emitted, after = pair_of(call(self._spout, self.method, attempt, partition, start, budget=self._budget), where)
        emission = emission_of(emitted, self._schema, where)
        if emission is None or emission.rows == 0:
            return start if after is None else after, None
        if after is None:
            raise SpoutContractError(
                f"{where} returned rows without metadata, so every later batch would read the same rows again; "
                f"return the metadata from which the next batch continues"
            )
        return after, emission

    def _metadata(self, batch: _Batch) -> tuple[Metadata, Metadata]:
        """Return the metadata that names a batch, and the `after` of the batch's emission."""
        raise NotImplementedError

    def waits_for(self) -> str | None:
        return waits_of(self._spout)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        planned, emission = self._read.get(attempt.txid, (None, None))
        return emission if emission is not None and planned == metadata else self._read_again(attempt, metadata)

    def _read_again(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Read a batch again, for a later attempt than the one that planned it, and return its emission."""
        raise NotImplementedError

    def success(self, txid: int, metadata: Metadata) -> None:
        self._read = {later: planned for later, planned in self._read.items() if later > txid}

    def fail(self, attempt: TransactionAttempt) -> None:
        self._read.pop(attempt.txid, None)

    def close(self) -> None:
        self._read.clear()
        call(self._spout, "close")

    def _partitions(self) -> list[str]:
        """Return the partitions that the spout has now.

        Raises SpoutContractError if a name is not a str or occurs twice.
        """
        partitions = all_of(call(self._spout, "getPartitions"), f"{self._name}.getPartitions()")
        for at, partition in enumerate(partitions):
            if not isinstance(partition, str):
                raise SpoutContractError(
                    f"{self._name}.getPartitions() returned {partition!r}: expected names of type str"
                )
            if partition in partitions[:at]:
                raise SpoutContractError(f"{self._name}.getPartitions() returned {partition!r} twice")
        return partitions

    def _positions(self, metadata: Metadata) -> Positions:
        """Return the positions in the metadata of a batch; no positions for None (before the first batch)."""
        if metadata is None:
            return {}
        if not isinstance(metadata, dict) or not isinstance(metadata.get("positions"), dict):
            raise foreign_metadata_error(self._name, metadata)
        return dict(metadata["positions"])


class PartitionedExecutor(_PartitionsExecutor):
    """The executor of a PartitionedSpout, whose metadata names exactly the rows of a batch.

    The metadata holds ``positions``, the position of every partition ever seen after the batch, and ``batch``, the
    partitions that have rows in the batch. The position of a partition in ``batch`` names the partition's rows.
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
    """The executor of an OpaquePartitionedSpout: a replay reads again from the position at the beginning of the batch.

    The metadata of a batch holds the positions before the batch; the emission's ``after`` holds those after it.
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
