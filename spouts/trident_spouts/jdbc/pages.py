"""Pages: ranges of the order column that a plan names and a worker reads, with counts and digests of their rows."""

from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from trident.base.errors import DataLossError, SourceUnreadableError
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.columns import RowFormat
from trident_spouts.jdbc.database import ONE_MOMENT, Database, Session
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.relation import Relation, literal

_NO_SNAPSHOT = ("22023", "42704", "55000")
"""The SQLSTATEs of an error for a snapshot that no transaction keeps open, by version and cause."""


class Page(NamedTuple):
    """The rows after the value `after`, up to and including the value `to`, with their number and a digest of them.

    Values are texts, as the database writes them. The digest is the sum of the rows' versions (the system column xmin).
    Every row that is written gets a new version, so an equal number of rows with an equal sum are the same rows. It is
    empty if rows have no versions.
    """

    after: str | None
    to: str
    rows: int
    digest: str


def pages_sql(relation: Relation, column: OrderColumn, rows: str, size: int) -> str:
    """Return the query that divides the rows of the condition `rows` into pages of about `size` rows, in order.

    All rows with equal values are in one page, because they have the same rank.
    """
    digest = "sum(n * version::text::bigint)::text" if relation.versioned else "''"
    version = "xmin" if relation.versioned else "0"
    ranked = f"(rank() over (order by {column.sql}) - 1) / {size} as page"
    # Grouped by versions first, because converting the version of each row to text would take as long as all the rest.
    return (
        f"select max(value)::text, sum(n)::bigint, {digest} "
        f"from (select page, version, max(value) as value, count(*) as n "
        f"from (select {column.sql} as value, {version} as version, {ranked} from {column.source.sql} where {rows}) "
        f"as ranked group by page, version) as versions group by page order by page"
    )


def pages_behind(session: Session, query: str, after: str | None) -> list[Page]:
    """Return the pages from the rows of a `pages_sql` query. The first page begins after the value `after`."""
    pages: list[Page] = []
    for to, rows, digest in session.rows(query):
        pages.append(Page(pages[-1].to if pages else after, to, rows, digest))
    return pages


@dataclass(frozen=True, slots=True)
class PageReader:
    """The function by which a worker reads a page. With `replans`, a failed batch is planned again.

    `snapshot` is the number of a snapshot that the driver's transaction keeps open; None if it keeps none.
    """

    address: Address
    patience: float
    format: RowFormat
    column: OrderColumn
    replans: bool
    snapshot: str | None = None

    def __call__(self, page: Page) -> pa.Table:
        """Return the rows of a page. Raises an error unless they are the planned rows."""
        with closing(Database(self.address, self.patience)) as database:
            table, digest = self._rows(database, page)
        self._check(page, table.num_rows, digest)
        return table

    def _rows(self, database: Database, page: Page) -> tuple[pa.Table, str]:
        """Return the rows as of the snapshot, or as of now if the snapshot is gone.

        Also return their digest, which reveals changes.
        """
        rows = self.column.between(page.after, page.to)
        query = f"select {self.format.select} from {self.format.source.sql} where {rows}"

        def read(session: Session) -> tuple[pa.Table, str]:
            return self.format.table(session.csv(query))

        if self.snapshot is not None:
            try:
                return database.read(read, f"{ONE_MOMENT}; set transaction snapshot {literal(self.snapshot)}")
            except SourceUnreadableError as error:
                if getattr(error.__cause__, "sqlstate", None) not in _NO_SNAPSHOT:
                    raise
        return database.read(read)

    def _check(self, page: Page, rows: int, digest: str) -> None:
        if rows == page.rows and digest == page.digest:
            return
        column, source = self.column.name, self.format.source.name
        if rows < page.rows:
            what = f"{page.rows - rows} of them are gone: they were deleted, or an update changed {column}"
        elif rows > page.rows:
            what = (
                f"{rows - page.rows} more are there now: inserted or committed late, with values of {column} that "
                f"were already read (isolationLag= waits for such rows)"
            )
        else:
            what = "some of them were updated or replaced"
        behind = "" if page.after is None else f" after {page.after}"
        problem = (
            f"JdbcSpout: {source}: the batch was planned with {page.rows} rows of {column}{behind} up to {page.to}, "
            f"and {what}"
        )
        if self.replans:
            raise SourceUnreadableError(f"{problem}; the batch is planned again")
        raise DataLossError(
            f"{problem}. Nothing of the batch was applied: the next start plans it again. With kind='opaque' the "
            f"same run plans it again"
        )
