"""Plans of a table as of one moment, in ranges of the order column."""

from collections.abc import Sequence

from trident.base.errors import SourceUnreadableError, TopologyError
from trident_spouts.executor import ReadSoFar
from trident_spouts.jdbc.database import ONE_MOMENT, Database, Session
from trident_spouts.jdbc.losses import Losses
from trident_spouts.jdbc.pages import Page, pages_behind, pages_sql
from trident_spouts.jdbc.plan import Plan, page_rows
from trident_spouts.jdbc.position_check import PositionCheck
from trident_spouts.jdbc.position_proof import LastRows, Proof
from trident_spouts.jdbc.source import JdbcSource, Opened, opened

_MOST_PAGES = 1000
"""The most pages of a snapshot. The metadata of its first batches names all pages, with about 30 bytes for each."""


class SnapshotPlanner:
    """Plans batches of the whole table as of the moment of the first plan. After that the stream ends."""

    def __init__(self, database: Database, source: JdbcSource, description: Opened) -> None:
        self._database, self._source, self._opened = database, source, description
        self._column = description.column
        self._last_rows = LastRows(description)
        self._history = PositionCheck(description.column, description.origin, self._last_rows)
        self._losses = Losses(source.source.name, source.on_data_loss)
        self._pages: tuple[Page, ...] | None = None
        self._proof: Proof | None = None
        self._total = 0
        self.snapshot: str | None = None
        """The number of the snapshot that the transaction of the first plan keeps open; None if there is none. With it,
        workers can read rows as they were before other transactions changed them. Correctness does not depend on it,
        because each page is checked."""

    def next(self, previous: Plan | None, limit: int) -> Plan | None:
        """Return the batch after `previous`, of about `limit` rows; None if all rows were planned.

        Raises DataLossError if the server or the table is not the one of the first plan.
        """
        if previous is None:
            left = self._all_pages(limit)
            after, read = None, 0
        else:
            left, after, read = previous.left or (), previous.to, previous.read
            self._total = max(self._total, read + sum(page.rows for page in left))
            if left and self._proof is None:
                self._proof = self._database.read(lambda session: self._compared(session, previous))
        pages = left[: _pages_within(left, limit)]
        rows = sum(page.rows for page in pages)
        if not pages:
            return None
        assert self._proof is not None
        return Plan(self._opened.relation.oid, after, pages, self._proof, left[len(pages) :], read + rows)

    def _compared(self, session: Session, previous: Plan) -> Proof:
        """Return the proof of a snapshot that another run began, after comparing it."""
        session.rows(f"select from {self._column.source.sql} limit 0")
        place, proof = self._opened.place(session), previous.proof
        if proof.place.query != place.query:
            digests = f"digest {proof.place.query} before, {place.query} now"
            self._losses.tell(
                f"is not the query that the stream has read so far: query= was changed ({digests})", TopologyError
            )
        another = next(self._history.another(proof.place, place), None)
        loss = another or self._history.loss(session, proof, place, None)
        if loss is not None:
            self._losses.tell(loss)
        return proof

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
                f"order by a column that is NOT NULL, or exclude such rows with query="
            )
        opened(session, self._source)
        self._proof = self._last_rows.up_to(session, self._opened.place(session), None)
        size = max(page_rows(limit, self._source.partitions), -(-rows // _MOST_PAGES))
        return tuple(pages_behind(session, pages_sql(self._opened.relation, column, "true", size), None))

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
