"""The executor of a BatchSpout.

The batches of the spout have separate numbers, 1, 2, 3 and so on, and the number of the last batch is the stream's
position. A txid cannot be the position, because the txids of a batch group also count the batches of other streams, and
a stream may move to a group with other txids. (In version 0.1 the position was the last txid for which the stream had a
batch. For a stream from that version the numbers continue after that txid.)
"""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.awaited_rows import waits_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.executor import Emission, Metadata, SpoutExecutor
from trident_spouts.single_reader import claim, release
from trident_spouts.user_calls import call, emission_of, foreign_metadata_error


class BatchExecutor(SpoutExecutor):
    """An executor that calls ``emitBatch`` while it plans, so that an idle source makes no batch.

    The executor keeps rows until their batch is committed. `source` is an object that returns each row only once; the
    executor claims it from `open` to `close`. It is None if several readers can each get all rows.
    """

    plans_ahead = True

    def __init__(
        self,
        spout: Any,
        schema: StructType,
        source: object,
        name: str | None = None,
        context: SpoutContext = NO_CONTEXT,
    ) -> None:
        self._spout = spout
        self._name = name or type(spout).__name__
        self._schema = schema
        self._kept: dict[int, Emission] = {}
        self._untold: set[int] = set()
        """The committed batches that still have to be acknowledged, because the spout's `ack` raised an error."""
        self._source = source
        if source is not None:
            claim(source, self._name)
        try:
            call(spout, "open", context=context)
        except BaseException:
            release(source)
            raise

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        number = _number(previous) + 1
        if number not in self._kept:  # a batch that is planned again keeps its rows
            emitted = call(self._spout, "emitBatch", number, budget=budget)
            emission = emission_of(emitted, self._schema, f"{self._name}, batch {number}")
            if emission is None or emission.rows == 0:
                return None
            self._kept[number] = emission
        return number

    def waits_for(self) -> str | None:
        return waits_of(self._spout)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return self._kept[_number(metadata)]

    def success(self, txid: int, metadata: Metadata) -> None:
        number = _number(metadata)
        self._untold |= {number, *(earlier for earlier in self._kept if earlier < number)}
        self._kept = {later: emission for later, emission in self._kept.items() if later > number}
        for done in sorted(self._untold):
            call(self._spout, "ack", done)
            self._untold.discard(done)

    def close(self) -> None:
        self._kept.clear()
        release(self._source)
        call(self._spout, "close")


def _number(metadata: Metadata) -> int:
    """Return the number of the batch that `metadata` names; 0 for None, which means before the first batch."""
    if metadata is None:
        return 0
    if not isinstance(metadata, int):
        raise foreign_metadata_error("BatchSpout", metadata)
    return metadata
