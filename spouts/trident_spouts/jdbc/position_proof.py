"""The proof in a position: the identity of table and server, and the last rows read.

The next plan compares both.

Rows that were read may be deleted or updated, files may be rewritten (VACUUM FULL), and servers are restarted. So not
every difference is a loss. A loss is a difference that is impossible in one history of a server, or that shows that the
table was emptied and filled again.
"""

from typing import Any, NamedTuple

from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.relation import literal, quoted
from trident_spouts.jdbc.source import Opened
from trident_spouts.jdbc.table_identity import TableIdentity, place_from

LAST_ROWS = 16
"""The number of rows that a proof holds."""

# A row's text changes without a new version of the row in two cases: a column is dropped and another column is added in
# its place; or a label of an enumeration is renamed (also inside an array, a domain, a composite type or a range).
_LAYOUT = """
with recursive columns as (select * from pg_attribute where attrelid = {table} and attnum > 0 and not attisdropped
  and {named}), types(oid) as (
    select atttypid from columns union select below.oid from types join pg_type t on t.oid = types.oid, lateral (
      select unnest(array[t.typelem, t.typbasetype]) union all
      select atttypid from pg_attribute where attrelid = t.typrelid and attnum > 0 and not attisdropped union all
      select rngsubtype from pg_range where rngtypid = t.oid) below(oid))
select concat(
  (select md5(string_agg(format('%s %s %s', attnum, attname, atttypid), ',' order by attnum)) from columns),
  (select ' ' || md5(string_agg(concat(oid, ' ', enumlabel), ',' order by oid)) from pg_enum
   where enumtypid in (select oid from types)))
"""


class Row(NamedTuple):
    """A row that was read: its value of orderBy, the transaction that wrote it, and a digest of its fields."""

    value: str
    version: str
    digest: str
    behind: str = ""
    """For a row of a view or a query, a digest of the underlying row of the table, as far as the user may read it."""


class Proof(NamedTuple):
    """The identity of the table as of a batch, and the last rows of the batch."""

    place: TableIdentity
    finished: int
    """The number of a transaction. All transactions with smaller numbers had ended when the rows were read."""
    fields: tuple[str, ...]
    """The columns in the digests of rows."""
    rows: tuple[Row, ...]
    layout: str
    """A digest of everything that determines the text of a row version: the columns in the digests (for a view or a
    query: of the underlying table), and the labels of their enumerations."""

    def logged(self) -> list[Any]:
        """Return the proof as JSON."""
        rows = [list(row) for row in self.rows]
        return [self.place.logged(), self.finished, list(self.fields), rows, self.layout]


def proof_from(stored: list[Any]) -> Proof:
    """Return the proof in a record of the log."""
    place, finished, fields, rows, layout = stored
    return Proof(place_from(place), finished, tuple(fields), tuple(Row(*row) for row in rows), layout)


class Again(NamedTuple):
    """The rows that now have the same values of orderBy as the rows in a proof."""

    rows: list[Row]
    comparable: bool
    """True if a row of the same version must have the same digests. Otherwise only versions are compared."""


class LastRows:
    """Reads the rows for a proof."""

    def __init__(self, opened: Opened) -> None:
        form, column, origin = opened.format, opened.column, opened.origin
        self._column, self._names = column, tuple(form.schema.names)
        self._there = {column.name for column in opened.relation.columns}
        self.versioned = form.versioned
        """True if each row of the source itself has a version."""
        self._version, self._behind = "xmin::text", "''"
        self._table = opened.relation.oid
        if not form.versioned:
            self._version, self._table = "''", None
            if origin.members and origin.readable:
                where = f"from {origin.members[0].name} o where o.{quoted(origin.column)} = source.{column.sql}"
                self._version = f"(select string_agg(o.xmin::text, ' ' order by o.xmin::text) {where})"
                self._behind = f"(select left(md5(string_agg(o::text, ' ' order by o::text)), 12) {where})"
                self._table = origin.table

    def up_to(self, session: Session, place: TableIdentity, to: str | None) -> Proof:
        """Return the proof for a position at `to`."""
        finished = int(session.one("select txid_snapshot_xmin(txid_current_snapshot())")[0])
        rows: list[Row] = []
        if to is not None:
            last = f"{self._column.between(None, to)} order by source.{self._column.sql} desc limit {LAST_ROWS}"
            rows = self._rows(session, last, self._names)
        return Proof(place, finished, self._names, tuple(rows), self._layout(session, self._names))

    def _layout(self, session: Session, fields: tuple[str, ...]) -> str:
        if self._table is None:
            return ""
        names = ", ".join(map(literal, fields))
        named = f"attname in ({names})" if self.versioned and names else "true"
        return str(session.one(_LAYOUT.format(table=self._table, named=named))[0])

    def again(self, session: Session, proof: Proof) -> Again:
        """Return the rows that now have the same values of orderBy as the rows in a proof."""
        values = ", ".join(sorted({self._column.literal(row.value) for row in proof.rows}))
        readable = self._there.issuperset(proof.fields)  # whichever columns the program reads now
        fields = proof.fields if readable else self._names
        rows = self._rows(session, f"{self._column.sql} in ({values})", fields) if values else []
        kept = proof.layout in ("", self._layout(session, fields))
        return Again(rows, readable and kept)

    def _rows(self, session: Session, where: str, fields: tuple[str, ...]) -> list[Row]:
        digest = f"left(md5(row({', '.join(map(quoted, fields))})::text), 12)"
        asked = f"{self._column.sql}::text, {self._version}, {digest}, {self._behind}"
        found = session.rows(f"select {asked} from {self._column.source.sql} where {where}")
        return [Row(value, version or "", row, behind or "") for value, version, row, behind in found]
