"""The executor of a TridentSpout."""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema
from trident_spouts.awaited_rows import waits_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor
from trident_spouts.user_calls import call, emission_of, foreign_metadata_error, json_of


class CoordinatedExecutor(SpoutExecutor):
    """An executor that gets the metadata of batches from the user's coordinator, and their tuples from the emitter."""

    plans_ahead = True

    def __init__(self, spout: Any, schema: StructType, context: SpoutContext = NO_CONTEXT) -> None:
        self._name = type(spout).__name__
        self._schema = schema
        self._coordinator = call(spout, "getCoordinator", context=context)
        self._emitter = call(spout, "getEmitter", context=context)
        self._planned: dict[int, Metadata] = {}
        self._attempts: dict[int, TransactionAttempt] = {}

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        txid = attempt.txid
        if not call(self._coordinator, "isReady", txid):
            return None
        before = None if previous is None else self._users_metadata(previous)
        planned = self._planned.get(txid)
        metadata = call(self._coordinator, "initializeTransaction", txid, before, planned, budget=budget)
        self._planned[txid] = json_of(metadata, f"{self._name}: the metadata of txid {txid}")
        return {"metadata": self._planned[txid]}

    def waits_for(self) -> str | None:
        return waits_of(self._coordinator)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        self._attempts[attempt.txid] = attempt
        rows = call(self._emitter, "emitBatch", attempt, self._users_metadata(metadata))
        emission = emission_of(rows, self._schema, f"{self._name}, batch {attempt}")
        return emission or ArrowEmission(arrow_schema(self._schema).empty_table())

    def success(self, txid: int, metadata: Metadata) -> None:
        attempt = self._attempts.get(txid, TransactionAttempt(txid, 0))
        call(self._emitter, "success", attempt)
        call(self._coordinator, "success", txid)
        self._planned = {later: planned for later, planned in self._planned.items() if later > txid}
        self._attempts = {later: emitted for later, emitted in self._attempts.items() if later > txid}

    def close(self) -> None:
        call(self._emitter, "close")
        call(self._coordinator, "close")

    def _users_metadata(self, metadata: Metadata) -> Metadata:
        """Return the metadata that the user's coordinator returned, taken from the metadata in the log.

        `plan` wraps the coordinator's metadata, because it may be None, and a plan that is None means no batch.
        """
        if not isinstance(metadata, dict) or "metadata" not in metadata:
            raise foreign_metadata_error(self._name, metadata)
        inner: Metadata = metadata["metadata"]
        return inner
