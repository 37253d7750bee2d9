"""The SQL that puts the tuples of a batch into a table."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.change_kinds import CHANGE, adding
from trident.base.short_texts import short_repr
from trident.outputs.jdbc.columns import Column, dropped_spaces
from trident.outputs.jdbc.rows import as_csv
from trident.outputs.jdbc.table import Table
from trident_spouts.jdbc.relation import quoted
from trident_state.binary_arrays import one_chunk

_CHUNK = 20_000
"""The most tuples that exist as text at the same time."""

_ADDS, _AT = '"_trident_adds"', '"_trident_at"'


class BatchText:
    """The tuples of one batch as text for COPY. The digest covers the text that was read so far.

    Raises ValueError for a text whose last spaces a column drops.
    """

    def __init__(self, tables: Iterable[pa.Table], columns: Iterable[Column], changes: bool) -> None:
        self._tables, self._changes, self._hash = tables, changes, hashlib.blake2b(digest_size=16)
        self._columns = [*columns]
        self.deletions = self.rows = 0

    def __iter__(self) -> Iterator[bytes]:
        for table in self._tables:
            for part in table.to_batches(max_chunksize=_CHUNK):
                rows = pa.Table.from_batches([part])
                if self._changes:
                    adds = adding(one_chunk(rows.column(CHANGE)))
                    self.deletions += len(adds) - pc.sum(adds).as_py()
                    rows = rows.drop_columns([CHANGE]).append_column("adds", adds)
                self._check_spaces(rows)
                self.rows += rows.num_rows
                text = as_csv(self._widened(rows))
                self._hash.update(text)
                yield text

    def _check_spaces(self, rows: pa.Table) -> None:
        for column in self._columns:
            text = dropped_spaces(column, rows.column(column.name))
            if text is not None:
                raise ValueError(
                    f"field {column.name!r} has the text {short_repr(text)}, and the column is {column.full}, which "
                    f"drops spaces at the end; make it text, or remove the spaces before"
                )

    def _widened(self, rows: pa.Table) -> pa.Table:
        """Return the rows with floats as the doubles that they are, if the column is a double.

        The text of a float has only as many digits as distinguish it from other floats, so it would be read as another
        double.
        """
        for at, column in enumerate(self._columns):
            if column.type == "double precision" and pa.types.is_float32(rows.column(column.name).type):
                rows = rows.set_column(at, column.name, rows.column(column.name).cast(pa.float64()))
        return rows

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def read_through(self) -> str:
        """Return the digest of the whole batch, without writing it."""
        for _ in self:
            pass
        return self.digest


def append(connection: Any, table: Table, text: BatchText) -> None:
    """Add a row for each tuple. Raises ValueError if the server leaves rows out."""
    _check_taken(table, _copy(connection, f"{table.name} ({', '.join(table.names)})", text), text.rows)


def upsert(connection: Any, table: Table, text: BatchText, changes: bool, consolidated: bool) -> None:
    """Replace or insert the row of each key; if the tuples are changes, delete the rows that they remove.

    Raises ValueError if the server leaves rows out.
    """
    held = _staging(connection, table, changes)
    _copy(connection, f"{held} ({', '.join([*table.names, *([_ADDS] if changes else [])])})", text)
    if table.merges:
        _keep_last(connection, table, held, consolidated)
    same = " and ".join(f"t.{name} = b.{name}" for name in table.key)
    if text.deletions:
        going = f"{held} b where not b.{_ADDS} and {same}"
        connection.execute(f"delete from {table.own} t using {going}")
        left = connection.execute(f"select count(*) from {table.own} t, {going}").fetchone()[0]
        _check_taken(table, 0, left, "deleted")
    names = ", ".join(table.names)
    replaced = [name for name in table.names if table.merges or name not in table.key]
    others = ", ".join(f"{name} = excluded.{name}" for name in replaced)
    added = connection.execute(
        f"insert into {table.name} ({names}) select {names} from {held} {f'where {_ADDS}' if changes else ''} "
        f"on conflict ({', '.join(table.key)}) do {f'update set {others}' if others else 'nothing'}"
    ).rowcount
    count = f"select count(*) from {held} b where {f'b.{_ADDS}' if changes else 'true'}"
    if not others:  # existing rows do not count as written
        count = f"{count} and not exists (select from {table.own} t where {same})"
        added = 0
    if table.merges or not others:
        _check_taken(table, added, connection.execute(count).fetchone()[0])
    else:
        _check_taken(table, added, text.rows - text.deletions)


def _check_taken(table: Table, taken: int, wanted: int, verb: str = "written") -> None:
    if taken != wanted:
        raise ValueError(
            f"{wanted - taken} of its rows are not {verb}: a trigger or a rule of the table {table.name} leaves them "
            f"out, so they would be lost; remove it, or write into a table without it"
        )


def _staging(connection: Any, table: Table, changes: bool) -> str:
    """Create the temporary table of a batch in this session, unless it is there, and return its name.

    Each transaction ends with an empty table. Its name follows from its columns, because the connection may go through
    a pool, and a session of the pool may have such a table of other columns.
    """
    columns = [
        f"{name} {column.full}{f' collate {column.collation}' if column.collation else ''}"
        for name, column in zip(table.names, table.columns, strict=True)
    ]
    columns += [f"{_ADDS} boolean"] if changes else []
    columns += [f"{_AT} bigint generated always as identity"] if table.merges else []
    listed = ", ".join(columns)
    name = f"pg_temp.{quoted(f'_trident_{hashlib.sha256(listed.encode()).hexdigest()[:16]}')}"
    if connection.execute("select to_regclass(%s)", (name,)).fetchone()[0] is None:
        connection.execute(f"create temp table {name} ({listed}) on commit delete rows")
    return name


def _keep_last(connection: Any, table: Table, held: str, consolidated: bool) -> None:
    """Keep only the last tuple of each key in the staging table, by the server's own comparison of keys."""
    same = " and ".join(f"a.{name} = b.{name}" for name in table.key)
    later = f"(b.{_ADDS}, b.{_AT}) > (a.{_ADDS}, a.{_AT})" if consolidated else f"b.{_AT} > a.{_AT}"
    connection.execute(f"delete from {held} a using {held} b where {same} and {later}")


def _copy(connection: Any, into: str, text: BatchText) -> int:
    """Return the number of rows that the server has taken."""
    with connection.cursor() as cursor:
        with cursor.copy(f"copy {into} from stdin (format csv)") as copy:
            for part in text:
                copy.write(part)
        return int(cursor.rowcount)
