"""Plans of batches: the next ranges of the order column, with all that a later run needs to continue."""

import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from trident.base.errors import DataLossError, SourceUnreadableError, TopologyError
from trident_spouts.executor import ReadSoFar
from trident_spouts.jdbc.database import ONE_MOMENT, Database, Session
from trident_spouts.jdbc.isolation import Finality, under_way
from trident_spouts.jdbc.order import OrderColumn
from trident_spouts.jdbc.pages import Page, pages_behind, pages_sql
from trident_spouts.jdbc.relation import Relation, literal

OnDataLoss: TypeAlias = Literal["fail", "warn"]

LATEST = "latest"

_log = logging.getLogger("trident.spouts")

_LEAST_PAGE = 10_000
"""The least rows that are worth a partition: for fewer rows, a connection and a Spark task cost more."""

_MOST_PAGES = 1000
"""The most pages of a snapshot. The metadata of its first batches name all of them, with some 30 bytes for each."""


class Plan(NamedTuple):
    """A batch. The log keeps the plan as a JSON object; its last value is where the next batch begins."""

    table: int | None
    """The number of the table, which changes if the table is re-created; None for a query."""
    after: str | None
    """The value after which the batch begins; None at the beginning of the table."""
    pages: tuple[Page, ...]
    left: tuple[Page, ...] | None = None
    """The pages of a snapshot that later batches read; None if the table is read incrementally."""
    read: int = 0
    """The number of rows that a snapshot's batches have read, including this batch."""

    @property
    def to(self) -> str | None:
        """The value of the order column at which the batch ends."""
        return self.pages[-1].to if self.pages else self.after


def page_rows(limit: int, partitions: int) -> int:
    """Return the rows of a page if a batch holds up to `limit` rows.

    >>> page_rows(200_000, 8), page_rows(20_000, 8), page_rows(5, 8)
    (25000, 10000, 5)
    """
    return min(limit, max(_LEAST_PAGE, -(-limit // partitions)))


def check_starting(column: OrderColumn, starting: str | None) -> None:
    """Raise TopologyError if a stream cannot begin after the value `starting`, because the column has another type."""
    if starting in (None, LATEST):
        return
    try:
        fits = column.type.read(str(starting))
        zoned = getattr(fits, "tzinfo", None) is not None
        if zoned == (column.type_name == "timestamp with time zone"):
            return
    except (ValueError, ArithmeticError):
        pass
    raise TopologyError(
        f"JdbcSpout: {column.source.name}: startingFrom={starting} is no value of {column.name!r}, which has the type "
        f"{column.type_name}"
    )


class _Look(NamedTuple):
    """The end of the table at one moment, and the transactions that may still add rows before it."""

    greatest: str | None
    past: str | None
    """The greatest value in the past: no transaction that begins later gets it from the clock."""
    nulls: bool
    standby: bool
    table: int | None
    transactions: frozenset[str]
    """The transactions that were running after `past` was read."""


class IncrementalPlanner:
    """Plans batches of the rows that were added after the last batch, as far as they are final.

    `check` is called with the transaction of each plan, and raises an error if the rows cannot be read any more. The
    stream begins after the value `starting`; None means the beginning, and `LATEST` the end.
    """

    def __init__(
        self,
        database: Database,
        relation: Relation,
        column: OrderColumn,
        partitions: int,
        check: Callable[[Session], None],
        *,
        starting: str | None,
        lag: float,
        on_data_loss: OnDataLoss,
    ) -> None:
        self._database, self._relation, self._column, self._check = database, relation, column, check
        self._partitions, self._starting, self._on_data_loss = partitions, starting, on_data_loss
        self._finality = Finality(column, lag)
        self._warned: set[str] = set()
        self._first: str | None = None
        """The value after which this run began to read."""
        self._greatest: str | None = None
        """The greatest value that the last plan saw."""

    def next(self, previous: Plan | None, limit: int, time: float) -> Plan | None:
        """Return the batch after `previous`, of about `limit` rows; None if there are no new final rows.

        Raises DataLossError if the table is not the one that was read, or ends before rows that were read.
        """
        return self._database.read(lambda session: self._next(session, previous, limit, time))

    def _next(self, session: Session, previous: Plan | None, limit: int, time: float) -> Plan | None:
        look = self._look(session)
        self._check_readable(look)
        if previous is None and self._starting == LATEST:
            return Plan(look.table, look.greatest, ())
        after = previous.to if previous else self._starting
        if previous is not None:
            self._check_not_lost(previous, look)
        self._greatest = look.greatest
        self._first = self._first if self._first is not None else after
        if look.past is None:
            return None
        final = self._finality.of(look.past, look.transactions, time)
        if final is None or (after is not None and self._column.value(final) <= self._column.value(after)):
            return None
        self._check(session)
        pages = pages_behind(session, self._pages_sql(after, final, limit), after)
        return Plan(look.table, after, tuple(pages)) if pages else None

    def _pages_sql(self, after: str | None, final: str, limit: int) -> str:
        """Return the query of the next pages. They end with row number `limit`, and with all rows of the same value."""
        column, rows = self._column, self._column.between(after, final)
        ordered = f"select {column.sql} from {column.source.sql} where {rows} order by {column.sql}"
        last = f"{ordered} limit 1 offset {limit - 1}"
        size = page_rows(limit, self._partitions)
        return pages_sql(
            self._relation, column, f"{rows} and {column.sql} <= coalesce(({last}), {column.literal(final)})", size
        )

    def _look(self, session: Session) -> _Look:
        """Read the end of the table, and then the transactions that may still add rows before it."""
        column, source = self._column, self._column.source
        greatest = f"(select max({column.sql}) from {source.sql})::text"
        past = f"(select max({column.sql}) from {source.sql} where {column.past})::text"
        nulls = f"exists(select from {source.sql} where {column.sql} is null)"
        table = "null" if source.table is None else f"{literal(source.table)}::regclass::oid::bigint"
        asked = f"select {greatest}, {past}, {nulls}, pg_is_in_recovery(), {table}"
        last, passed, has_nulls, standby, number = session.one(asked)
        return _Look(last, passed, has_nulls, standby, number, under_way(session, column.type.by_clock))

    def _check_readable(self, look: _Look) -> None:
        name, column = self._column.source.name, self._column.name
        if look.standby:
            raise SourceUnreadableError(
                f"JdbcSpout: the server at {self._database.address.shown} is a standby, which does not know the "
                f"transactions under way; the url must lead to the primary (target_session_attrs=read-write)"
            )
        if look.nulls:
            raise SourceUnreadableError(
                f"JdbcSpout: {name} has rows without a value of {column}, which would never be read; make the column "
                f"NOT NULL, or leave such rows out by query="
            )

    def _check_not_lost(self, previous: Plan, look: _Look) -> None:
        name, column = self._column.source.name, self._column.name
        if previous.table is not None and look.table is not None and previous.table != look.table:
            self._tell(f"{name} was dropped and made anew (number {previous.table} before, {look.table} now)")
        elif previous.to is not None and previous.pages and self._behind(look.greatest, previous.to):
            what = "is empty" if look.greatest is None else f"ends at {column}={look.greatest}"
            self._tell(
                f"{name} {what} and was read up to {previous.to}: rows were deleted, or the table was truncated or "
                f"restored. New rows with values up to there would be left out"
            )

    def _behind(self, greatest: str | None, to: str) -> bool:
        return greatest is None or self._column.value(greatest) < self._column.value(to)

    def _tell(self, loss: str) -> None:
        if self._on_data_loss == "fail":
            raise DataLossError(
                f"JdbcSpout: {loss}. Start with onDataLoss='warn' to go on behind what was read; to read all of the "
                f"table, give it to a stream of another name"
            )
        if loss not in self._warned:
            self._warned.add(loss)
            _log.warning("JdbcSpout: %s. Reading goes on behind what was read", loss)

    def read_so_far(self, previous: Plan | None) -> ReadSoFar | None:
        """Return how far the column was read since this run began, in the column's unit; None if it has no unit."""
        column = self._column
        if self._greatest is None or column.type.unit is None:
            return None
        first, last = column.amount(self._first), column.amount(self._greatest)
        at = column.amount(previous.to) if previous and previous.to is not None else first
        return ReadSoFar(max(0, at - first), max(0, last - first, at - first), column.type.unit)


class SnapshotPlanner:
    """Plans batches of the whole table as of the moment of the first plan, and then no more."""

    def __init__(
        self,
        database: Database,
        relation: Relation,
        column: OrderColumn,
        partitions: int,
        check: Callable[[Session], None],
    ) -> None:
        self._database, self._relation, self._column, self._check = database, relation, column, check
        self._partitions = partitions
        self._pages: tuple[Page, ...] | None = None
        self._total = 0
        self.snapshot: str | None = None
        """The number of the snapshot that the transaction of the first plan keeps open; None if there is none. With it,
        workers can read rows as they were before other transactions changed them. It is only a help, because each page
        is checked."""

    def next(self, previous: Plan | None, limit: int, time: float) -> Plan | None:
        """Return the batch after `previous`, of about `limit` rows; None if all rows were planned."""
        if previous is None:
            left = self._all_pages(limit)
            after, read = None, 0
        else:
            left, after, read = previous.left or (), previous.to, previous.read
            self._total = max(self._total, read + sum(page.rows for page in left))
        pages = left[: _pages_within(left, limit)]
        rows = sum(page.rows for page in pages)
        return Plan(self._relation.oid, after, pages, left[len(pages) :], read + rows) if pages else None

    def _all_pages(self, limit: int) -> tuple[Page, ...]:
        """Return the pages of the whole table, as of the first call."""
        if self._pages is None:
            self._pages = self._database.read(lambda session: self._exported(session, limit), ONE_MOMENT, keep=True)
            self._total = sum(page.rows for page in self._pages)
        return self._pages

    def _exported(self, session: Session, limit: int) -> tuple[Page, ...]:
        """Return all pages. The transaction exports its snapshot, and stays open."""
        column, source = self._column, self._column.source
        (self.snapshot,) = session.one("select pg_export_snapshot()")
        rows, nulls = session.one(f"select count(*), count(*) filter (where {column.sql} is null) from {source.sql}")
        if nulls:
            raise SourceUnreadableError(
                f"JdbcSpout: {source.name} has {nulls} rows without a value of {column.name}, which would not be read; "
                f"order by a column that is NOT NULL, or leave such rows out by query="
            )
        self._check(session)
        size = max(page_rows(limit, self._partitions), -(-rows // _MOST_PAGES))
        return tuple(pages_behind(session, pages_sql(self._relation, column, "true", size), None))

    def read_so_far(self, previous: Plan | None) -> ReadSoFar | None:
        """Return how many rows of the snapshot the batches up to `previous` have read."""
        return ReadSoFar(previous.read if previous else 0, self._total, "rows") if self._total else None

    def release(self) -> None:
        """Release the snapshot, so that the server may clean up old versions of rows."""
        self.snapshot = None
        self._database.close()


def _pages_within(pages: Sequence[Page], rows_in_batch: int) -> int:
    """Return how many pages a batch of `rows_in_batch` rows holds, at least one."""
    rows = 0
    for number, page in enumerate(pages):
        rows += page.rows
        if rows > rows_in_batch and number:
            return number
    return len(pages)
