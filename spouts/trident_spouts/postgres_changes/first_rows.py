"""The rows that a table has when a stream begins, as of one moment, and the transactions that they show."""

import time
from typing import NamedTuple

import pyarrow as pa

from trident.base.errors import SourceUnreadableError
from trident_spouts.jdbc.database import ONE_MOMENT, Database, Session
from trident_spouts.postgres_changes.lsn import lsn_from
from trident_spouts.postgres_changes.plan import Shown
from trident_spouts.postgres_changes.source import ChangesSource, Table

_PATIENCE_SECS = 2.0
_PAUSE = 0.02

# A transaction holds this lock from its first change until it has become visible. Prepared transactions hold it, too.
_RUNNING = (
    "select transactionid::text from pg_locks where locktype = 'transactionid' and mode = 'ExclusiveLock' and granted"
)


class FirstRows(NamedTuple):
    """The rows, and the transactions that they show."""

    shown: Shown
    table: pa.Table


def running_ended(session: Session) -> bool:
    """Wait until all transactions have ended that run now. Return False if that takes longer than a moment.

    A transaction may be in the log as committed and not yet be visible to others. If that was before the slot's first
    position, the slot leaves it out. When it has ended, every snapshot shows it.
    """
    running, until = set(session.rows(_RUNNING)), time.monotonic() + _PATIENCE_SECS
    while running := running.intersection(session.rows(_RUNNING)):
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


def first_rows(database: Database, source: ChangesSource, table: Table) -> FirstRows:
    """Return the rows as of now. The slot must exist, and `running_ended` after it was created."""
    return database.read(lambda session: _read(session, source, table), ONE_MOMENT)


def _read(session: Session, source: ChangesSource, table: Table) -> FirstRows:
    # The lock comes before the snapshot: to a snapshot that is older than it, a table that was rewritten looks empty.
    session.run(f"lock table {table.from_sql.removesuffix(' as source')} in access share mode")
    snapshot, until = session.one("select txid_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
    (rows,) = session.one(f"select count(*) from {table.from_sql}")
    if rows > source.most_first_rows:
        raise SourceUnreadableError(
            f"{source.name} has {rows:,} rows, and the stream begins with all of them, in one batch in the memory of "
            f"the driver. Start with a larger maxFirstRows=, or with startingFrom='slot' without these rows"
        )
    read = table.format.table(session.csv(f"select {table.format.select} from {table.from_sql}"))[0]
    return FirstRows(Shown(snapshot, lsn_from(until)), read)
