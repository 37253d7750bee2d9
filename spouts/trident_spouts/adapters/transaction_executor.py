"""The executor of a TransactionSpout: its checkpoints are the positions of an opaque source with one partition."""

import json
from collections.abc import Callable
from time import monotonic
from typing import Any

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.attempt import TransactionAttempt
from trident.base.checkpoint_size import WAY_OUT, too_large
from trident.base.durations import read_seconds
from trident.base.errors import SpoutContractError
from trident_spouts.adapters.partitioned_executors import OpaqueExecutor
from trident_spouts.awaited_rows import waits_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.executor import Metadata
from trident_spouts.messages.collector import Collector
from trident_spouts.single_reader import claim, release
from trident_spouts.transaction_spout import TransactionSpout
from trident_spouts.user_calls import call, json_of

_ALL = "all"
"""The name of the source's only partition."""


class TransactionSpoutExecutor(OpaqueExecutor):
    """The executor of a TransactionSpout: an opaque source of one partition, with the checkpoint as position."""

    def __init__(self, spout: TransactionSpout, schema: StructType, context: SpoutContext = NO_CONTEXT) -> None:
        name = type(spout).__name__
        check_whole_number(f"{name}.maxRows", spout.maxRows)
        read_seconds(f"{name}.maxSecs", spout.maxSecs)
        self._user = spout
        claim(spout, name)
        try:
            self._partition = _Partition(spout)
            super().__init__(self._partition, schema, name, context)
        except BaseException:
            release(spout)
            raise

    def success(self, txid: int, metadata: Metadata) -> None:
        super().success(txid, metadata)
        self._partition.acknowledge(txid)

    def close(self) -> None:
        release(self._user)
        super().close()


class _Partition:
    """A TransactionSpout that behaves as an OpaquePartitionedSpout."""

    def __init__(self, spout: TransactionSpout) -> None:
        self._spout, self._name = spout, type(spout).__name__
        self._place: tuple[Metadata] | None = None
        """The checkpoint of the spout's present position; None if that is not known."""
        self._begun = False
        self._acknowledged: int | None = None
        """A batch of an earlier run that is to be acknowledged once the spout has the batch's checkpoint."""

    def acknowledge(self, txid: int) -> None:
        """Call the spout's `ackCommit` for a committed batch."""
        if self._begun:
            call(self._spout, "ackCommit", txid)
        else:
            self._acknowledged = txid

    def open(self, context: SpoutContext) -> None:
        call(self._spout, "open", context=context)

    def isReady(self, txid: int) -> bool:
        return True

    def waitsFor(self) -> str | None:
        return waits_of(self._spout)

    def getPartitions(self) -> list[str]:
        return [_ALL]

    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata, budget: Budget = NO_LIMIT
    ) -> tuple[list[Any] | None, Metadata]:
        self._go_to(lastMetadata)
        rows = self._gathered(budget)
        if not rows:
            return None, lastMetadata
        self._place = None  # only from a known checkpoint: after an error the spout has advanced past it
        finished = call(self._spout, "finishBatch", attempt.txid)
        where = f"{self._name}.commit({attempt.txid})"
        after = json_of(call(self._spout, "commit", attempt.txid, finished), where)
        if after is None:
            raise SpoutContractError(
                f"{where} returned None, which means the beginning of the source: return a checkpoint, such as a "
                f"number or a dict"
            )
        if (problem := too_large(json.dumps(after))) is not None:
            raise SpoutContractError(f"{where} returned a checkpoint {problem}. {WAY_OUT}")
        self._place = (after,)
        return rows, after

    def _go_to(self, checkpoint: Metadata) -> None:
        """Move the spout to the position of a checkpoint."""
        if not self._begun:
            call(self._spout, "initState", checkpoint)
            self._begun = True
            if self._acknowledged is not None:
                self.acknowledge(self._acknowledged)
        elif self._place != (checkpoint,):
            call(self._spout, "rollback", checkpoint)
        self._place = (checkpoint,)

    def _gathered(self, budget: Budget) -> list[Any]:
        """Return the tuples of one batch, which are gathered within the budget."""
        rows: list[Any] = []
        most, end = budget.rows_within(self._spout.maxRows), monotonic() + budget.seconds_within(self._spout.maxSecs)
        collector = Collector(self._take(rows))
        self._place, place = None, self._place
        while True:  # at least one call, even if the time is up: no call at all would look like an empty source
            known = len(rows)
            call(self._spout, "nextTuple", collector)
            if len(rows) == known or len(rows) >= most or monotonic() >= end:
                break
        if not rows:
            self._place = place
        return rows

    def _take(self, rows: list[Any]) -> Callable[[Any, Any, Any], None]:
        def take(values: Any, message: object, stream: object) -> None:
            if stream is not None:
                raise SpoutContractError(
                    f"{self._name}.nextTuple: emit(..., stream={stream!r}): a TransactionSpout has one stream; omit "
                    f"stream="
                )
            if message is not None:
                raise SpoutContractError(
                    f"{self._name}.nextTuple: emit(..., messageId={message!r}): a TransactionSpout has checkpoints and "
                    f"acknowledges no message; omit messageId=, or extend RichSpout"
                )
            rows.append(values)

        return take

    def close(self) -> None:
        call(self._spout, "close")
