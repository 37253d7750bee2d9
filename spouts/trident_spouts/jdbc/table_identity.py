"""The identity of a table and of its server's history, which positions are compared by."""

from typing import Any, NamedTuple

from trident_spouts.jdbc.column_origin import Origin, Sequence, members_sql
from trident_spouts.jdbc.database import Session

_SERVER = """
select (select oid::bigint from pg_database where datname = current_database()),
  left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
  concat(pg_postmaster_start_time(), ' ', (select stats_reset from pg_stat_bgwriter)),
  (select md5(string_agg(md5(ev_action::text), ',' order by ev_class)) from pg_rewrite
   where ev_type = '1' and ev_class in (select relation from pg_locks where locktype = 'relation'
     and pid = pg_backend_pid() and database = (select oid from pg_database where datname = current_database())
     and relation >= 16384)),
  txid_snapshot_xmax(txid_current_snapshot()),
  pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, extract(epoch from clock_timestamp())::float8
"""

_CHECKPOINT = """
select extract(epoch from checkpoint_time)::float8, split_part(next_xid, ':', 1)::bigint * 4294967296
  + split_part(next_xid, ':', 2)::bigint from pg_control_checkpoint()
"""


_SEQUENCE = """
select oid::bigint, pg_relation_filenode(oid)::bigint,
  concat_ws(' ', seqtypid, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle),
  has_schema_privilege(relnamespace, 'usage') and has_sequence_privilege(oid, 'select'),
  has_sequence_privilege(oid, 'usage')
from pg_class join pg_sequence on seqrelid = oid where oid = {}
"""


class SequenceAt(NamedTuple):
    """A sequence at one moment."""

    oid: int
    file: int | None
    """The number of the sequence's file. RESTART changes it, as every other option of ALTER SEQUENCE does."""
    last: int | None
    """The last number of the sequence, or the next number; None if the user may not see it."""
    called: bool = True
    """False if `last` is the next number, as after ``setval(..., false)``."""
    options: str | None = None
    """The options that ALTER SEQUENCE sets, without RESTART; None if the sequence is gone."""

    def next(self, increment: int) -> int | None:
        """Return the sequence's next number; None if the user may not see it."""
        return None if self.last is None else self.last + increment * self.called


class TableIdentity(NamedTuple):
    """The server and the table at one moment. The log keeps it with each batch."""

    system: str | None
    """The system identifier that the server got when its data directory was created.

    None if the user may not see it.
    """
    database: int
    timeline: str
    """The server's timeline. A new timeline begins when a standby takes over, or a server is recovered up to a point in
    time."""
    life: str
    """The time of the server's start, and of its statistics, which a crash resets."""
    views: str | None
    """A digest of the definitions of the views that are read."""
    xid: int
    """The number of the next transaction."""
    wal: int
    """The number of bytes that the server has written to its log of changes."""
    clock: float
    query: str | None
    table: int | None
    """The table from which the values of orderBy come; None if they are computed."""
    files: tuple[tuple[int, int | None], ...]
    """Each member of the table with the number of its file. TRUNCATE and VACUUM FULL change this number."""
    sequences: tuple[SequenceAt, ...]

    @property
    def history(self) -> tuple[Any, ...]:
        """The part that does not change as long as the server runs and the table keeps its files."""
        kept = self.system, self.database, self.timeline, self.life, self.views, self.query, self.table
        return (*kept, self.files, self.sequence_files)

    @property
    def sequence_files(self) -> tuple[Any, ...]:
        """Each sequence with the number of its file."""
        return tuple(sequence[:2] for sequence in self.sequences)

    def logged(self) -> list[Any]:
        """Return the identity as JSON."""
        return list(self)


def place_from(stored: list[Any]) -> TableIdentity:
    """Return the identity in a record of the log."""
    *rest, files, sequences = stored
    return TableIdentity._make((*rest, tuple(map(tuple, files)), tuple(SequenceAt(*each) for each in sequences)))


def place_of(session: Session, origin: Origin, query: str | None) -> TableIdentity:
    """Return the identity of the table.

    This transaction must have read the source before, because its locks name the views.
    """
    files: list[Any] = []
    if origin.table is not None:
        members = members_sql(origin.table)
        files = session.rows(
            f"select oid::bigint, pg_relation_filenode(oid)::bigint from pg_class where oid in ({members}) order by oid"
        )
    sequences = tuple(_sequence_at(session, each) for each in origin.sequences)
    return TableIdentity._make(
        (system_of(session), *session.one(_SERVER), query, origin.table, tuple(files), sequences)
    )


# The server checks the right to call a function even if the query does not call it. So each function has a separate
# query.
def system_of(session: Session) -> str | None:
    """Return the system identifier of the server; None if the user may not see it."""
    if not session.one("select has_function_privilege('pg_control_system()', 'execute')")[0]:
        return None
    return str(session.one("select system_identifier::text from pg_control_system()")[0])


def _sequence_at(session: Session, sequence: Sequence) -> SequenceAt:
    found = session.rows(_SEQUENCE.format(sequence.oid))
    if not found:  # the sequence was dropped after the catalogue was read
        return SequenceAt(sequence.oid, None, None)
    ((oid, file, options, readable, usable),) = found
    last, called = None, True
    if readable:
        last, called = session.one(f"select last_value, is_called from {sequence.name}")
    elif usable:  # no row if the sequence has given no number yet
        (last,) = session.one(f"select pg_sequence_last_value({oid})")
    return SequenceAt(oid, file, last, called, options)


def last_checkpoint(session: Session) -> tuple[float, int] | None:
    """Return the time of the last checkpoint, and the number of the next transaction at that time.

    None if the user may not see them.
    """
    if not session.one("select has_function_privilege('pg_control_checkpoint()', 'execute')")[0]:
        return None
    time, xid = session.one(_CHECKPOINT)
    return float(time), int(xid)
