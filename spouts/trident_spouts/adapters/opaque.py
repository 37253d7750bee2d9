"""An OpaquePartitionedSpout at work."""

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
    start: Positions
    emission: Emission


class OpaqueExecutor:
    """Every attempt reads from where the previous batch ended; where that was is known when it has emitted.

    The metadata of a batch is the positions before it, its ``after`` those behind it. They are read while the batch is
    planned (an idle source makes no batch) and handed to the first attempt; after a failure they are read again.
    """

    plans_ahead = False

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
        start = positions_in(previous, self._name)
        emission = self._emission(attempt, start)
        if not has_rows(emission):
            return None
        self._read[attempt.txid] = _Read(start, emission)
        return {"positions": start}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        start = positions_in(metadata, self._name)
        read = self._read.get(attempt.txid)
        if read is None or read.start != start:
            read = self._read[attempt.txid] = _Read(start, self._emission(attempt, start))
        return read.emission

    def _emission(self, attempt: TransactionAttempt, start: Positions) -> Emission:
        positions = dict(start)
        parts = []
        for partition in partitions_of(self._spout, self._name):
            where = f"{self._name}, partition {partition!r}"
            result = call(self._spout, "emitPartitionBatch", attempt, partition, start.get(partition))
            emitted, metadata = pair_of(result, where)
            emission = emission_of(emitted, self._schema, where)
            if metadata is not None:
                positions[partition] = metadata
            elif has_rows(emission):
                raise SpoutContractError(f"{where} returned rows and no new position; they would come again for ever")
            if emission is not None and has_rows(emission):
                parts.append(emission)
        return one_emission(parts, self._schema, {"positions": positions})

    def success(self, txid: int, metadata: Metadata) -> None:
        self._read = {later: read for later, read in self._read.items() if later > txid}

    def fail(self, attempt: TransactionAttempt) -> None:
        self._read.pop(attempt.txid, None)

    def close(self) -> None:
        self._read.clear()
        call(self._spout, "close")
