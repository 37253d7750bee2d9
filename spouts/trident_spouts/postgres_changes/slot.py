"""The slot and the publication of a stream, in the server's catalogue: read, checked, created and advanced."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from trident.base.errors import DataLossError, SourceChangedError, SourceUnreadableError
from trident.base.finding import Finding
from trident_spouts.jdbc.address import postgres_client
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.relation import literal
from trident_spouts.jdbc.table_identity import system_of
from trident_spouts.postgres_changes.lsn import lsn_from, lsn_text
from trident_spouts.postgres_changes.pgoutput import ANEW
from trident_spouts.postgres_changes.plan import Place, Plan
from trident_spouts.postgres_changes.source import OWNER, ChangesSource, Table
from trident_spouts.postgres_changes.table_rewrites import partitions, same_column

_CREATION_SECS = 20
"""The seconds for which one statement waits for the end of the transactions that run when a slot is created."""

_SERVER = "extract(epoch from pg_postmaster_start_time())::text"

_NEVER_LOST = "To continue, use a stream with another name and separate states: it begins with the rows that the table "
_AGAIN = "has now. In the same states, rows that were read would count twice"


class Slot(NamedTuple):
    """A slot at one moment, and the end of the server's log of changes."""

    confirmed: int
    """The LSN before whose commits the slot returns no transaction."""
    flushed: int
    """The LSN up to which the log of changes is on disk: changes are read up to here."""
    inserted: int
    """The LSN at which the next record begins."""
    server: str
    """The server's start time. A restored or replaced server has another one."""


class Look(NamedTuple):
    """The slot and the place at one moment. `slot` is None if there is no slot of the name."""

    place: Place
    slot: Slot | None


def look_at(session: Session, source: ChangesSource, table: Table) -> Look:
    """Return the slot and the place. Raises SourceUnreadableError if they cannot be the source of a stream."""
    standby, server = session.one(f"select pg_is_in_recovery(), {_SERVER}")
    if standby:
        raise SourceUnreadableError(
            f"{source.name}: the server at {source.address.shown} is a standby; the url must lead to the primary "
            f"(target_session_attrs=read-write)"
        )
    flushed, inserted = flushed_to(session), session.one("select pg_current_wal_insert_lsn()::text")[0]
    (database,) = session.one("select oid::bigint from pg_database where datname = current_database()")
    columns = {name: [*column] for name, column in table.columns.items()}
    published, parts = _publication(session, source, table), partitions(session, source, table)
    place = Place(system_of(session), database, table.oid, columns, published, parts)
    rows = session.rows(
        f"select to_jsonb(s)::text from pg_replication_slots s where slot_name = {literal(source.slot)}"
    )
    if not rows:
        return Look(place, None)
    slot: dict[str, Any] = json.loads(rows[0][0])
    _check_slot(session, source, slot)
    return Look(place, Slot(lsn_from(slot["confirmed_flush_lsn"]), flushed, lsn_from(inserted), server))


def logical(connection: Any) -> Iterator[Finding]:
    """Yield, for `trident doctor`, the reasons why a server cannot create a slot: settings and permissions."""
    (level,) = connection.execute("show wal_level").fetchone()
    if level != "logical":
        todo = "ALTER SYSTEM SET wal_level = logical, and restart the server"
        yield Finding(OWNER, f"wal_level is {level} at the server", "no slot can be made: the first batch fails", todo)
    query = "select rolname, rolreplication or rolsuper from pg_roles where rolname = current_user"
    user, allowed = connection.execute(query).fetchone()
    if not allowed:
        found = f"the user {user} may not read the log of changes"
        yield Finding(OWNER, found, "no slot can be made: the first batch fails", f"ALTER ROLE {user} REPLICATION")


def flushed_to(session: Session) -> int:
    """Return the LSN up to which the log of changes is on disk."""
    return lsn_from(session.one("select pg_current_wal_flush_lsn()::text")[0])


def _check_slot(session: Session, source: ChangesSource, slot: dict[str, Any]) -> None:
    (here,) = session.one("select current_database()")
    for name, wanted, hint in (
        ("slot_type", "logical", "name another slot"),
        ("plugin", "pgoutput", "name another slot"),
        ("database", here, "a slot belongs to one database: name another slot"),
        ("temporary", False, "name another slot"),
    ):
        if slot.get(name) != wanted:
            raise SourceUnreadableError(
                f"{source.name}: the slot {source.slot!r} has {name} {slot.get(name)!r}; expected {wanted!r}: {hint}, "
                f"or drop it, pg_drop_replication_slot({literal(source.slot)}): the first plan of a stream creates "
                f"its slot"
            )
    lost = slot.get("invalidation_reason") or ("wal_removed" if slot.get("wal_status") == "lost" else None)
    if lost or slot.get("confirmed_flush_lsn") is None:
        raise DataLossError(
            f"{source.name}: the server has given up the slot {source.slot!r} ({lost or 'it has no position'}), and "
            f"changes that were not read are lost (max_slot_wal_keep_size limits what a slot keeps). {_NEVER_LOST}"
            f"{_AGAIN}. Drop the slot before, pg_drop_replication_slot({literal(source.slot)})"
        )


def _publication(session: Session, source: ChangesSource, table: Table) -> str:
    """Return the identity of the publication. Raises SourceUnreadableError unless it has all changes of the table."""
    name = literal(source.publication)
    found = session.rows(
        f"select to_jsonb(p)::text, p.oid::bigint, p.xmin::text from pg_publication p where pubname = {name}"
    )
    create = f"CREATE PUBLICATION {source.publication} FOR TABLE {source.source.table}"
    if not found:
        raise SourceUnreadableError(f"{source.name}: there is no publication {source.publication!r}: {create}")
    text, number, version = found[0]
    about = json.loads(text)
    kinds = ["insert", "update", "delete", *([] if source.skips_truncate else ["truncate"])]
    missing = [kind for kind in kinds if not about[f"pub{kind}"]]
    if missing:
        raise SourceUnreadableError(
            f"{source.name}: the publication {source.publication!r} leaves out {', '.join(missing)}, which would be "
            f"lost: ALTER PUBLICATION {source.publication} SET (publish = 'insert, update, delete, truncate')"
        )
    listed = session.rows(
        f"select to_jsonb(t)::text from pg_publication_tables t, pg_class c, pg_namespace n where pubname = {name} "
        f"and c.oid = {table.oid} and n.oid = c.relnamespace and t.schemaname = n.nspname and t.tablename = c.relname"
    )
    if not listed:
        raise SourceUnreadableError(
            f"{source.name} is not in the publication {source.publication!r}: ALTER PUBLICATION {source.publication} "
            f"ADD TABLE {source.source.table}; for a partitioned table also SET (publish_via_partition_root = true)"
        )
    entry = json.loads(listed[0][0])
    hidden = [name for name in source.schema.names if name not in entry.get("attnames", source.schema.names)]
    if hidden:
        raise SourceUnreadableError(
            f"{source.name}: the publication {source.publication!r} has a list of columns without {hidden[0]!r}, so "
            f"that its values are not in the log of changes: publish the table without a list, or declare the fields "
            f"without it"
        )
    if entry.get("rowfilter") is not None:
        raise SourceUnreadableError(
            f"{source.name}: the publication {source.publication!r} has a WHERE for it, which this spout does not "
            f"apply to the rows that are there at the beginning; publish the table without it, and filter the stream"
        )
    rel = f"select concat(oid, ' ', xmin) from pg_publication_rel where prpubid = {number} and prrelid = {table.oid}"
    (entries,) = session.one(f"select coalesce(({rel}), '')")
    return f"{number} {version} {entries}".strip()


def check_position(source: ChangesSource, look: Look, plan: Plan) -> Slot:
    """Return the slot. Raises DataLossError unless it has all changes after a plan, of the same table."""
    then, now = plan.place, look.place
    problem = None
    if then.system != now.system and None not in (then.system, now.system):  # a permission was granted or revoked
        problem = f"is on another server (system identifier {then.system} before, {now.system} now)"
    elif then.database != now.database:
        problem = f"is in another database (number {then.database} before, {now.database} now)"
    elif then.table != now.table:
        problem = f"was dropped and recreated (oid {then.table} before, {now.table} now)"
    elif altered := [
        name for name, was in then.columns.items() if name in now.columns and not same_column(was, now.columns[name])
    ]:
        raise SourceChangedError(
            f"{source.name}: column {altered[0]!r} was altered or recreated after the stream read it, and the log of "
            f"changes does not have the values that it got then. To continue, {ANEW}"
        )
    elif then.publication != now.publication:
        problem = (
            f"may have changes that are not in the log of changes: the publication {source.publication!r} was altered "
            f"or recreated (oid and transaction {then.publication} before, {now.publication} now)"
        )
    elif look.slot is None:
        problem = f"was read up to {lsn_text(plan.to)}, and there is no slot {source.slot!r} any more: it was dropped"
    else:
        problem = _other_position(source, look.slot, plan)
    if problem is not None or look.slot is None:
        raise lost(source, problem)
    return look.slot


def _other_position(source: ChangesSource, slot: Slot, plan: Plan) -> str | None:
    """Return why a slot does not continue at the end of a plan, by its position and the end of the log of changes."""
    to = f"was read up to {lsn_text(plan.to)}, and"
    if slot.confirmed > plan.to:
        return (
            f"{to} the slot {source.slot!r} begins at {lsn_text(slot.confirmed)}: it was recreated, or another program "
            f"has read from it"
        )
    if plan.begin is not None and slot.confirmed < plan.begin:
        return (
            f"was read from {lsn_text(plan.begin)} on, and the slot {source.slot!r} begins before, at "
            f"{lsn_text(slot.confirmed)}: it was recreated, on a server that was restored from an older copy, or that "
            f"took over without the last rows"
        )
    if slot.inserted < plan.to:
        return f"{to} the log of changes ends at {lsn_text(slot.inserted)}: the server was restored from an older copy"
    return None


def check_still(session: Session, source: ChangesSource, slot: Slot, read: int) -> None:
    """Raise an error if another program advanced the slot during a reading that began after the LSN `read`."""
    rows = session.rows(
        f"select confirmed_flush_lsn::text from pg_replication_slots where slot_name = {literal(source.slot)}"
    )
    confirmed = lsn_from(rows[0][0]) if rows else None
    if confirmed is None or confirmed > read:
        raise lost(
            source, f"has changes that another program has taken from the slot {source.slot!r}, or dropped with it"
        )
    if confirmed != slot.confirmed:  # a previous driver reports its last commit
        raise SourceUnreadableError(
            f"{source.name}: the slot {source.slot!r} was advanced during a reading; read again"
        )


def lost(source: ChangesSource, problem: str | None) -> DataLossError:
    """Return the error for changes that were lost."""
    return DataLossError(f"{source.name} {problem}. {_NEVER_LOST}{_AGAIN}")


def create(session: Session, source: ChangesSource) -> bool:
    """Create the slot. Returns False if it takes too long, because transactions are open that have written rows.

    It must be the only statement of its transaction.
    """
    client = postgres_client()
    session.rows(f"select set_config('statement_timeout', '{_CREATION_SECS}s', true)")
    try:
        session.rows(f"select pg_create_logical_replication_slot({literal(source.slot)}, 'pgoutput')")
    except client.errors.QueryCanceled:
        return False
    except client.errors.ObjectNotInPrerequisiteState as error:
        raise SourceUnreadableError(
            f"{source.name}: the server at {source.address.shown} cannot create a slot: {error.diag.message_primary}. "
            f"Set wal_level = logical in its configuration, and restart it"
        ) from error
    except client.errors.ConfigurationLimitExceeded as error:
        raise SourceUnreadableError(
            f"{source.name}: the server at {source.address.shown} cannot create a slot: {error.diag.message_primary}. "
            f"Drop a slot that is not needed, or set max_replication_slots higher"
        ) from error
    return True


def advance(session: Session, source: ChangesSource, to: int, server: str) -> None:
    """Let the slot discard the changes up to an LSN.

    Do nothing if it is beyond the LSN, is gone, or is on another server.

    `server` is the server that is known to have these changes; see `Slot.server`.
    """
    lsn = literal(lsn_text(to))
    session.rows(
        f"select pg_replication_slot_advance(slot_name, {lsn}) from pg_replication_slots where slot_name = "
        f"{literal(source.slot)} and database = current_database() and confirmed_flush_lsn < {lsn} "
        f"and {_SERVER} = {literal(server)}"
    )
