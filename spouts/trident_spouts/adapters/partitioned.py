"""A PartitionedSpout at work: transactional."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident_spouts.adapters.positions import Positions, has_rows, partitions_of, positions_in
from trident_spouts.emission import one_emission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.usercode import call, emission_of, pair_of


@dataclass(frozen=True, slots=True)
class _Read:
    metadata: Metadata
    emission: Emission


class PartitionedExecutor:
    """Reads new rows while a batch is planned: their metadata is in the log before a tuple is processed, and an idle
    source makes no batch. The first attempt gets what was read, later ones read again by the metadata.

    The metadata of a batch: ``positions``, of every partition ever seen; ``batch``, the partitions with rows in it and
    how many (null: not known).
    """

    plans_ahead = True

    def __init__(self, spout: Any, schema: StructType, name: str | None = None) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._read: dict[int, _Read] = {}
        call(spout, "open")

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        self._read.pop(attempt.txid, None)
        if not call(self._spout, "isReady", attempt.txid):
            return None
        positions = positions_in(previous, self._name)
        rows: dict[str, int | None] = {}
        parts = []
        for partition in partitions_of(self._spout, self._name):
            emission = self._new_rows(attempt, partition, positions)
            if emission is not None and has_rows(emission):
                parts.append(emission)
                rows[partition] = emission.rows
        if not parts:
            return None
        metadata: Metadata = {"positions": positions, "batch": rows}
        self._read[attempt.txid] = _Read(metadata, one_emission(parts, self._schema))
        return metadata

    def _new_rows(self, attempt: TransactionAttempt, partition: str, positions: Positions) -> Emission | None:
        """The partition's new rows; moves its position."""
        where = f"{self._name}, partition {partition!r}"
        result = call(self._spout, "emitPartitionBatchNew", attempt, partition, positions.get(partition))
        emitted, metadata = pair_of(result, where)
        emission = emission_of(emitted, self._schema, where)
        if metadata is not None:
            positions[partition] = metadata
        elif has_rows(emission):
            raise SpoutContractError(f"{where} returned rows without metadata; they could not be emitted again")
        return emission

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        read = self._read.get(attempt.txid)
        if read is not None and read.metadata == metadata:
            return read.emission
        positions = positions_in(metadata, self._name)
        batch = metadata["batch"] if isinstance(metadata, dict) else {}
        parts = [self._again(attempt, name, positions[name], rows) for name, rows in batch.items()]
        return one_emission(parts, self._schema)

    def _again(self, attempt: TransactionAttempt, partition: str, metadata: Metadata, rows: int | None) -> Emission:
        where = f"{self._name}, partition {partition!r}, txid {attempt.txid}"
        emitted = call(self._spout, "emitPartitionBatch", attempt, partition, metadata)
        emission = emission_of([] if emitted is None else emitted, self._schema, where)
        assert emission is not None
        if rows is not None and emission.rows is not None and emission.rows != rows:
            raise SpoutContractError(
                f"{where}: the replay has {emission.rows} rows, the batch had {rows}; a transactional spout must emit "
                f"the same rows for the same metadata ({metadata!r}), else it is an OpaquePartitionedSpout"
            )
        return emission

    def success(self, txid: int, metadata: Metadata) -> None:
        self._read = {later: read for later, read in self._read.items() if later > txid}

    def fail(self, attempt: TransactionAttempt) -> None:
        self._read.pop(attempt.txid, None)

    def close(self) -> None:
        self._read.clear()
        call(self._spout, "close")
