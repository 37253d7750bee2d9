"""The executor of a JdbcSpout, for one run."""

from typing import Any, NamedTuple

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError
from trident_spouts.budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.columns import RowFormat, row_format
from trident_spouts.jdbc.database import Database, Session
from trident_spouts.jdbc.isolation import check_sequence
from trident_spouts.jdbc.order import OrderColumn, order_column
from trident_spouts.jdbc.pages import Page, PageReader
from trident_spouts.jdbc.planner import IncrementalPlanner, OnDataLoss, Plan, SnapshotPlanner, check_starting
from trident_spouts.jdbc.relation import Source, look_up
from trident_spouts.shares import SharesEmission
from trident_spouts.user_calls import foreign_metadata_error


class JdbcSource(NamedTuple):
    """The settings of a JdbcSpout that a run needs; see its parameters."""

    address: Address
    source: Source
    schema: StructType
    order: str
    snapshot: bool
    opaque: bool
    starting: str | None
    lag: float
    on_data_loss: OnDataLoss
    limit: int
    partitions: int
    patience: float


class _Opened(NamedTuple):
    format: RowFormat
    column: OrderColumn
    planner: IncrementalPlanner | SnapshotPlanner


class JdbcExecutor(SpoutExecutor):
    """The executor of a JdbcSpout. It queries the database to plan ranges of a column, and emits them by reference."""

    plans_ahead = True

    def __init__(self, source: JdbcSource) -> None:
        self._source = source
        self._database = Database(source.address, source.patience)
        self._opened_: _Opened | None = None

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        before = None if previous is None else self._from_metadata(previous)
        plan = self._opened().planner.next(before, budget.rows_within(self._source.limit), time)
        return None if plan is None else self._to_metadata(plan)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        source, opened, plan = self._source, self._opened(), self._from_metadata(metadata)
        snapshot = opened.planner.snapshot if isinstance(opened.planner, SnapshotPlanner) else None
        read = PageReader(source.address, source.patience, opened.format, opened.column, source.opaque, snapshot)
        rows = sum(page.rows for page in plan.pages)
        return SharesEmission(plan.pages, read, source.schema, rows, f"JdbcSpout, batch {attempt.txid}")

    def success(self, txid: int, metadata: Metadata) -> None:
        planner = self._opened_.planner if self._opened_ else None
        if isinstance(planner, SnapshotPlanner) and not self._from_metadata(metadata).left:
            planner.release()  # all is committed

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
        relation = look_up(session, source.source)
        column = order_column(relation, source.source, source.order, texts=source.snapshot)
        form = row_format(relation, source.source, source.schema)
        planner: IncrementalPlanner | SnapshotPlanner
        if source.snapshot:
            held = Database(source.address, source.patience)
            planner = SnapshotPlanner(held, relation, column, source.partitions, self._check_types)
        else:
            check_sequence(session, relation, source.source, source.order, source.lag)
            check_starting(column, source.starting)
            planner = IncrementalPlanner(
                self._database,
                relation,
                column,
                source.partitions,
                self._check_types,
                starting=source.starting,
                lag=source.lag,
                on_data_loss=source.on_data_loss,
            )
        return _Opened(form, column, planner)

    def _check_types(self, session: Session) -> None:
        """Raise TypeDeclarationError if the type of a column no longer fits its field."""
        row_format(look_up(session, self._source.source), self._source.source, self._source.schema)

    # --- the log ---------------------------------------------------------------------------------------------------

    def _to_metadata(self, plan: Plan) -> Metadata:
        metadata: dict[str, Any] = {"orderBy": self._source.order, "table": plan.table, "from": plan.after}
        metadata["pages"] = [page[1:] for page in plan.pages]
        if plan.left is not None:
            metadata |= {"left": [page[1:] for page in plan.left], "read": plan.read}
        return metadata

    def _from_metadata(self, metadata: Metadata) -> Plan:
        try:
            stored: dict[str, Any] = metadata  # type: ignore[assignment]
            after, pages = stored["from"], _pages(stored["from"], stored["pages"])
            to = pages[-1].to if pages else after
            left = _pages(to, stored["left"]) if "left" in stored else None
            plan, order = Plan(stored["table"], after, pages, left, stored.get("read", 0)), stored["orderBy"]
        except (KeyError, TypeError) as error:
            raise foreign_metadata_error("JdbcSpout", metadata) from error
        mode = "incremental" if left is None else "snapshot"
        if order != self._source.order or (left is not None) != self._source.snapshot:
            raise TopologyError(
                f"JdbcSpout: the stream was read with orderBy={order!r}, mode={mode!r}; it can go on only so. To read "
                f"the table in another way, give it to a stream of another name"
            )
        return plan


def _pages(after: str | None, stored: list[Any]) -> tuple[Page, ...]:
    """Return the pages stored in a plan.

    They are stored without beginnings: each begins where the previous page ends.
    """
    pages: list[Page] = []
    for to, rows, digest in stored:
        pages.append(Page(pages[-1].to if pages else after, to, rows, digest))
    return tuple(pages)
