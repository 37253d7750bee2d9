"""A BatchSpout at work.

Its batches have numbers of their own, 1, 2, 3 and so on: the last one is its stream's position. The txids of a batch
group count batches of other streams too, and a stream may move to a group that stands elsewhere. (In version 0.1 the
position was the last txid in which there was a batch; numbers go on from there.)
"""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident_spouts.executor import Emission, Metadata, SpoutExecutor
from trident_spouts.single_reader import claim, release
from trident_spouts.user_calls import call, emission_of


class BatchExecutor(SpoutExecutor):
    """Executor that asks for a batch when it is planned, so that an idle source costs nothing. It keeps the batch until
    it is committed.

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
        number = _number(previous) + 1
        if number not in self._kept:  # a batch that is planned anew has the rows that it had
            emitted = call(self._spout, "emitBatch", number)
            emission = emission_of(emitted, self._schema, f"{self._name}, batch {number}")
            if emission is None or emission.rows == 0:
                return None
            self._kept[number] = emission
        return number

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return self._kept[_number(metadata)]

    def success(self, txid: int, metadata: Metadata) -> None:
        number = _number(metadata)
        for done in sorted({number, *(kept for kept in self._kept if kept < number)}):
            self._kept.pop(done, None)
            call(self._spout, "ack", done)

    def close(self) -> None:
        self._kept.clear()
        release(self._source)
        call(self._spout, "close")


def _number(metadata: Metadata) -> int:
    """Return the number of the batch that metadata names; 0 before the first one."""
    if metadata is None:
        return 0
    if not isinstance(metadata, int):
        raise SpoutContractError(f"{metadata!r} names no batch of a BatchSpout; the log belongs to another spout")
    return metadata
