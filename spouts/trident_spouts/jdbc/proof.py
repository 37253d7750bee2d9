"""The proof that a position carries: the place, and the rows that were read last. The next plan compares both.

Rows that were read may be deleted or updated, files may be made anew (VACUUM FULL), and servers are restarted. So a
difference is no loss by itself. What cannot come about in one history of a server is, and what a table shows that was
emptied and filled again.
"""

import hashlib
from typing import Any, NamedTuple

from trident_spouts.jdbc.columns import RowFormat
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order import OrderColumn
from trident_spouts.jdbc.origin import Origin
from trident_spouts.jdbc.place import Place, place_from
from trident_spouts.jdbc.relation import quoted

LAST_ROWS = 16
"""The number of rows that a proof holds."""


class Row(NamedTuple):
    """A row that was read: its value of orderBy, the transaction that wrote it, and a digest of its fields."""

    value: str
    version: str
    digest: str
    behind: str = ""
    """A digest of the table's row behind the row of a view or a query, as far as the user may read it."""


class Proof(NamedTuple):
    """The place of a batch, and its last rows."""

    place: Place
    finished: int
    """The number of a transaction: all before it had ended when the rows were read."""
    fields: str
    """A digest of what is read of each row."""
    rows: tuple[Row, ...]

    def logged(self) -> list[Any]:
        """Return the proof as JSON."""
        return [self.place.logged(), self.finished, self.fields, [list(row) for row in self.rows]]


def proof_from(stored: list[Any]) -> Proof:
    """Return a proof that the log has kept."""
    place, finished, fields, rows = stored
    return Proof(place_from(place), finished, fields, tuple(Row(*row) for row in rows))


class LastRows:
    """Reads the rows for a proof."""

    def __init__(self, form: RowFormat, column: OrderColumn, origin: Origin) -> None:
        self._column, self._fields = column, ", ".join(form.expressions)
        self.versioned = form.versioned
        """True if each row of the source itself has a version."""
        self._version, self._behind, layout = "xmin::text", "''", ""
        if not form.versioned:
            self._version = "''"
            if origin.members and origin.readable:
                where = f"from {origin.members[0].name} o where o.{quoted(origin.column)} = source.{column.sql}"
                self._version = f"(select string_agg(o.xmin::text, ' ' order by o.xmin::text) {where})"
                self._behind = f"(select left(md5(string_agg(o::text, ' ' order by o::text)), 12) {where})"
                layout = origin.layout
        self.fields = hashlib.sha256((self._fields + layout).encode()).hexdigest()[:12]

    def up_to(self, session: Session, place: Place, to: str | None) -> Proof:
        """Return the proof for a position at `to`."""
        finished = int(session.one("select txid_snapshot_xmin(txid_current_snapshot())")[0])
        rows: list[Row] = []
        if to is not None:
            last = f"{self._column.between(None, to)} order by source.{self._column.sql} desc limit {LAST_ROWS}"
            rows = self._rows(session, last)
        return Proof(place, finished, self.fields, tuple(rows))

    def again(self, session: Session, proof: Proof) -> list[Row]:
        """Return the rows that have the values of a proof's rows now."""
        values = ", ".join(sorted({self._column.literal(row.value) for row in proof.rows}))
        return self._rows(session, f"{self._column.sql} in ({values})") if values else []

    def _rows(self, session: Session, where: str) -> list[Row]:
        digest = f"left(md5(row({self._fields})::text), 12)"
        asked = f"{self._column.sql}::text, {self._version}, {digest}, {self._behind}"
        found = session.rows(f"select {asked} from {self._column.source.sql} where {where}")
        return [Row(value, version or "", row, behind or "") for value, version, row, behind in found]
