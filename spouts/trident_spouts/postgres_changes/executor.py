"""The executor of a PostgresChangesSpout, for one run."""

import logging

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SourceUnreadableError
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor
from trident_spouts.postgres_changes.plan import Plan, plan_from
from trident_spouts.postgres_changes.planner import ChangesPlanner
from trident_spouts.postgres_changes.source import OWNER, ChangesSource
from trident_spouts.user_calls import foreign_metadata_error

_log = logging.getLogger("trident.spouts")


class ChangesExecutor(SpoutExecutor):
    """The executor of a PostgresChangesSpout. It reads the slot in the driver, and emits tables."""

    plans_ahead = True

    def __init__(self, source: ChangesSource) -> None:
        self._source = source
        self._planner = ChangesPlanner(source)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        before = None if previous is None else plan_of(previous)
        plan = self._planner.next(before, budget.rows_within(self._source.limit))
        return None if plan is None else plan.logged()

    def waits_for(self) -> str | None:
        return self._planner.waits

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return ArrowEmission(self._planner.table(plan_of(metadata)))

    def success(self, txid: int, metadata: Metadata) -> None:
        try:
            self._planner.success(plan_of(metadata))
        except SourceUnreadableError as error:  # the next batch, or the next start, advances the slot further
            _log.warning("%s: the slot %r was not advanced yet: %s", self._source.name, self._source.slot, error)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        return self._planner.read_so_far(None if position is None else plan_of(position))

    def close(self) -> None:
        self._planner.close()


def plan_of(metadata: Metadata) -> Plan:
    """Return the plan of a batch. Raises SpoutContractError if another spout wrote the metadata."""
    try:
        return plan_from(metadata)  # type: ignore[arg-type]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise foreign_metadata_error(OWNER, metadata) from error
