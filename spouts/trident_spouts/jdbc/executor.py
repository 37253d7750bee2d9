"""The executor of a JdbcSpout, for one run."""

from typing import Any, NamedTuple

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor
from trident_spouts.jdbc.columns import RowFormat
from trident_spouts.jdbc.database import Database, Session
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.pages import PageReader
from trident_spouts.jdbc.plan import Plan, plan_from
from trident_spouts.jdbc.planner import IncrementalPlanner
from trident_spouts.jdbc.snapshot import SnapshotPlanner
from trident_spouts.jdbc.source import JdbcSource, check_starting, opened
from trident_spouts.shared_reading import SharesEmission
from trident_spouts.user_calls import foreign_metadata_error


class _Opened(NamedTuple):
    format: RowFormat
    column: OrderColumn
    planner: IncrementalPlanner | SnapshotPlanner


class JdbcExecutor(SpoutExecutor):
    """The executor of a JdbcSpout.

    It queries the database to plan ranges of a column, and emits references to the ranges.
    """

    plans_ahead = True

    def __init__(self, source: JdbcSource) -> None:
        self._source = source
        self._database = Database(source.address, source.patience)
        self._opened_: _Opened | None = None

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        before = None if previous is None else self._from_metadata(previous)
        plan = self._opened().planner.next(before, budget.rows_within(self._source.limit))
        return None if plan is None else plan.logged(self._source.order)

    def waits_for(self) -> str | None:
        planner = self._opened_.planner if self._opened_ else None
        return planner.waits if isinstance(planner, IncrementalPlanner) else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        source, opened, plan = self._source, self._opened(), self._from_metadata(metadata)
        snapshot = opened.planner.snapshot if isinstance(opened.planner, SnapshotPlanner) else None
        read = PageReader(source.address, source.patience, opened.format, opened.column, source.opaque, snapshot)
        rows = sum(page.rows for page in plan.pages)
        where = f"JdbcSpout, batch {attempt.txid}"
        return SharesEmission(plan.pages, read, source.schema, rows, where, verified=True)

    def success(self, txid: int, metadata: Metadata) -> None:
        planner = self._opened_.planner if self._opened_ else None
        if isinstance(planner, SnapshotPlanner) and not self._from_metadata(metadata).left:
            planner.release()  # all rows are committed

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        opened = self._opened_
        return opened and opened.planner.read_so_far(None if position is None else self._from_metadata(position))

    def close(self) -> None:
        self._database.close()
        if self._opened_ and isinstance(self._opened_.planner, SnapshotPlanner):
            self._opened_.planner.release()

    def _opened(self) -> _Opened:
        """Return the database's description of the source, read at the first call."""
        if self._opened_ is None:
            self._opened_ = self._database.read(self._look)
        return self._opened_

    def _look(self, session: Session) -> _Opened:
        source = self._source
        description = opened(session, source)
        planner: IncrementalPlanner | SnapshotPlanner
        if source.snapshot:
            planner = SnapshotPlanner(Database(source.address, source.patience), source, description)
        else:
            check_starting(description.column, source.starting)
            planner = IncrementalPlanner(self._database, source, description)
        return _Opened(description.format, description.column, planner)

    def _from_metadata(self, metadata: Metadata) -> Plan:
        plan, order = plan_of(metadata)
        mode = "incremental" if plan.left is None else "snapshot"
        if order != self._source.order or (plan.left is not None) != self._source.snapshot:
            raise TopologyError(
                f"JdbcSpout: the stream was read with orderBy={order!r}, mode={mode!r} and can only continue with "
                f"these. To read the table in another way, use a stream with another name"
            )
        return plan


def plan_of(metadata: Metadata) -> tuple[Plan, str]:
    """Return the plan of a batch and the name of its order column.

    Raises SpoutContractError if another spout wrote the metadata.
    """
    try:
        stored: dict[str, Any] = metadata  # type: ignore[assignment]
        return plan_from(stored), stored["orderBy"]
    except (KeyError, TypeError, ValueError) as error:
        raise foreign_metadata_error("JdbcSpout", metadata) from error
