"""A BatchSpout at work."""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.executor import Emission, Metadata, SpoutExecutor
from trident_spouts.readers import claim, release
from trident_spouts.usercode import call, emission_of


class BatchExecutor(SpoutExecutor):
    """Asks for a batch when it is planned, so that an idle source costs nothing, and keeps it until it is committed.

    `source` is what hands out each row once; None where readers do not take rows from each other.
    """

    plans_ahead = True

    def __init__(self, spout: Any, schema: StructType, source: object, name: str | None = None) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._kept: dict[int, Emission] = {}
        self._source = source
        if source is not None:
            claim(source, self._name)
        try:
            call(spout, "open")
        except BaseException:
            release(source)
            raise

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        txid = attempt.txid
        if txid not in self._kept:  # a batch that is planned anew has the rows that it had
            emitted = call(self._spout, "emitBatch", txid)
            emission = emission_of(emitted, self._schema, f"{self._name}, batch {txid}")
            if emission is None or emission.rows == 0:
                return None
            self._kept[txid] = emission
        return txid

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return self._kept[attempt.txid]

    def success(self, txid: int, metadata: Metadata) -> None:
        for done in sorted({txid, *(kept for kept in self._kept if kept < txid)}):
            self._kept.pop(done, None)
            call(self._spout, "ack", done)

    def close(self) -> None:
        self._kept.clear()
        release(self._source)
        call(self._spout, "close")
