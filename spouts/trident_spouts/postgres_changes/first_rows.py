"""The initial rows of a table, read in parts by primary key, with the transactions that they include."""

import time
from typing import NamedTuple

import pyarrow as pa

from trident.base.errors import SourceUnreadableError
from trident_spouts.jdbc.database import ONE_MOMENT, Database, Session
from trident_spouts.jdbc.relation import literal, quoted
from trident_spouts.postgres_changes.lsn import lsn_from
from trident_spouts.postgres_changes.plan import Key, Shown
from trident_spouts.postgres_changes.source import ChangesSource, Table

_PATIENCE_SECS = 2.0
_PAUSE = 0.02

# A transaction holds this lock from its first change until it has become visible. Prepared transactions hold it, too.
_RUNNING = (
    "select transactionid::text from pg_locks where locktype = 'transactionid' and mode = 'ExclusiveLock' and granted"
)


class FirstRows(NamedTuple):
    """A part of the rows, and the transactions that it includes."""

    shown: Shown
    table: pa.Table


def running_ended(session: Session) -> bool:
    """Wait until all transactions that run now have ended. Return False if that takes too long.

    A transaction may be committed in the log before it is visible to others. If its commit precedes the slot's first
    position, the slot skips it. Once it has ended, every snapshot includes it.
    """
    running, until = set(session.rows(_RUNNING)), time.monotonic() + _PATIENCE_SECS
    while running := running.intersection(session.rows(_RUNNING)):
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


def first_rows(
    database: Database, source: ChangesSource, table: Table, after: Key | None = None, limit: int = 0
) -> FirstRows:
    """Return the next rows as of now: those after a key, of about `limit` rows.

    The slot must exist, and `running_ended` after it was created. Raises SourceUnreadableError if the table has no
    primary key and more rows than the driver may hold.
    """
    return database.read(lambda session: _read(session, source, table, after, limit), ONE_MOMENT)


def _read(session: Session, source: ChangesSource, table: Table, after: Key | None, limit: int) -> FirstRows:
    # The lock comes before the snapshot: a rewritten table looks empty to an older snapshot.
    session.run(f"lock table {table.from_sql.removesuffix(' as source')} in access share mode")
    snapshot, until = session.one("select txid_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
    if table.key:
        upto = _last_key(session, table, after, limit)
    else:
        _check_rows(session, source, table)
        upto = None
    rows = session.csv(f"select {table.format.select} from {table.from_sql}{_between(table, after, upto)}")
    return FirstRows(Shown(snapshot, lsn_from(until), upto), table.format.table(rows)[0])


def _check_rows(session: Session, source: ChangesSource, table: Table) -> None:
    (rows,) = session.one(f"select count(*) from {table.from_sql}")
    if rows > source.most_first_rows:
        raise SourceUnreadableError(
            f"{source.name} has {rows:,} rows and no primary key by which to read them in parts, so that the stream "
            f"begins with all of them, in one batch in the memory of the driver. Add a primary key, or start with a "
            f"larger maxFirstRows=, or with startingFrom='slot' without these rows"
        )


def _last_key(session: Session, table: Table, after: Key | None, limit: int) -> Key | None:
    """Return the key of the last of the next rows; None if no rows follow."""
    names = [f"source.{quoted(column.name)}" for column in table.key]  # a bare name after `order by` would be the text
    keys = session.rows(
        f"select {', '.join(f'{name}::text' for name in names)} from {table.from_sql}{_between(table, after, None)} "
        f"order by {', '.join(names)} limit 2 offset {limit - 1}"
    )
    if len(keys) < 2:
        return None
    return tuple(zip((column.name for column in table.key), keys[0], strict=True))


def _between(table: Table, after: Key | None, upto: Key | None) -> str:
    """Return the SQL condition for rows after one key, up to and including another."""
    row = f"({', '.join(quoted(column.name) for column in table.key)})"

    # without the type, the text of a composite value would be a record of an unknown type
    def typed(key: Key) -> list[str]:
        return [f"{literal(value)}::{column.type}" for column, (_, value) in zip(table.key, key, strict=True)]

    conditions = [
        f"{row} {sign} ({', '.join(typed(key))})" for sign, key in ((">", after), ("<=", upto)) if key is not None
    ]
    return f" where {' and '.join(conditions)}" if conditions else ""
