"""A BatchSpout at work."""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.types import arrow_schema
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.usercode import call, emission_of


class BatchExecutor:
    """Asks for a batch when it is planned, so that an idle source costs nothing, and keeps it until it is committed."""

    plans_ahead = True

    def __init__(self, spout: Any, schema: StructType, name: str | None = None) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._kept: dict[int, Emission] = {}
        call(spout, "open")

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        txid = attempt.txid
        if txid in self._kept:  # planned anew with its group: the source gives its rows only once
            return txid
        emission = self._ask(txid)
        if emission is None or emission.rows == 0:
            return None
        self._kept[txid] = emission
        return txid

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        kept = self._kept.get(attempt.txid)
        if kept is None:  # planned by an earlier process
            kept = self._ask(attempt.txid) or ArrowEmission(arrow_schema(self._schema).empty_table())
            self._kept[attempt.txid] = kept
        return kept

    def success(self, txid: int, metadata: Metadata) -> None:
        for done in sorted({txid, *(kept for kept in self._kept if kept < txid)}):
            self._kept.pop(done, None)
            call(self._spout, "ack", done)

    def fail(self, attempt: TransactionAttempt) -> None:
        """The rows are kept for the replay."""

    def close(self) -> None:
        self._kept.clear()
        call(self._spout, "close")

    def _ask(self, txid: int) -> Emission | None:
        where = f"{self._name}, batch {txid}"
        return emission_of(call(self._spout, "emitBatch", txid), self._schema, where)
