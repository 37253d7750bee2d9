"""Rows that DDL adds, removes or rewrites without an entry in the log of changes.

A position holds the file of each partition, and the form of each column. The next look at the server compares them.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from trident.base.errors import SourceChangedError, SourceUnreadableError
from trident_spouts.jdbc.column_origin import members_sql
from trident_spouts.jdbc.database import Session
from trident_spouts.postgres_changes.pgoutput import ANEW
from trident_spouts.postgres_changes.plan import Place
from trident_spouts.postgres_changes.source import ChangesSource, Column, Table

_VARYING = {25, 1562}
"""Types whose length may grow: text and varchar, which count as the same type here, and varbit."""
_TIMES = {1083, 1114, 1184, 1266}
_NUMERIC, _CHAR = 1700, 1042


class Partitions(NamedTuple):
    """The partitions of a table at one moment.

    `files` has for each the number of its file, and of the transaction that attached it or a table above it; `xid` is
    the number of the next transaction.
    """

    files: dict[str, list[int]]
    xid: int


def partitions(session: Session, source: ChangesSource, table: Table) -> Partitions | None:
    """Return the partitions; None if the table has none. Raises SourceUnreadableError if one writes no log."""
    if not table.partitioned:
        return None
    members = f"pg_class where oid in ({members_sql(table.oid)})"
    silent = session.rows(
        f"select oid::regclass::text, case relkind when 'f' then 'a foreign' else 'an unlogged' end from {members} "
        f"and (relkind = 'f' or relkind = 'r' and relpersistence <> 'p')"
    )
    if silent:
        name, kind = silent[0]
        raise SourceUnreadableError(
            f"{source.name}: its partition {name} is {kind} table, with changes that are not in the log of changes; "
            f"detach the partition, or make it a logged table of this database"
        )
    files, xid = session.one(
        f"with recursive members(id, xid) as (select {table.oid}::oid, null::xid union all select inhrelid, "
        f"case when age(members.xid) < age(i.xmin) then members.xid else i.xmin end from pg_inherits i join members "
        f"on inhparent = id) select coalesce(json_object_agg(oid::bigint, json_build_array("
        f"pg_relation_filenode(oid)::bigint, xid::text::bigint)), '{{}}')::text, "
        f"txid_snapshot_xmax(txid_current_snapshot()) from pg_class join members on id = oid where relkind = 'r'"
    )
    return Partitions(json.loads(files), xid)


def check_partitions(session: Session, source: ChangesSource, then: Place, now: Place) -> None:
    """Raise SourceChangedError if partitions added or removed rows without the log of changes."""
    if then.partitions is None or now.partitions is None:
        return
    (before, xid), (files, _) = then.partitions, now.partitions
    for member in [each for each, (_, attached) in files.items() if attached != before.get(each, [0, 0])[1]]:
        if _filled_before(session, source, member):
            raise SourceChangedError(
                f"{source.name}: partition {_name(session, member)} had rows when it was attached, which are not in "
                f"the log of changes. Attach a partition while it is empty, and insert the rows then. To continue, "
                f"{ANEW}"
            )
    if source.skips_truncate:
        return
    skip = "Start with onTruncate='skip' to continue without the change: the rows stay in the states. Or"
    if gone := sorted(before.keys() - files.keys()):
        raise SourceChangedError(
            f"{source.name}: the partition with the oid {gone[0]} was dropped or detached, and the log of changes does "
            f"not say which rows that removes. {skip} {ANEW}"
        )
    for member in [each for each in before if before[each][0] != files[each][0]]:
        if not _same_rows(session, source, member, xid):
            raise SourceChangedError(
                f"{source.name}: partition {_name(session, member)} was truncated or rewritten, and the log of changes "
                f"does not say which rows that removes. {skip} {ANEW}"
            )


def same_column(then: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return whether the table still has a column of a position, with the same values in the same texts."""
    (number, kind, before, labels), now = then, Column(*now)
    if (number, kind) != (now.number, now.type) or not set(labels) <= set(now.labels):
        return False
    return before == now.modifier or _widened(kind, before, now.modifier)


def _widened(kind: int, before: int, after: int) -> bool:
    if after == -1:
        return kind != _CHAR
    if kind == _NUMERIC:
        return before != -1 and (before - 4) & 0x7FF == (after - 4) & 0x7FF  # the scale
    return (kind in _TIMES and after == 6) or (kind in _VARYING | _TIMES and -1 < before < after)


def _filled_before(session: Session, source: ChangesSource, member: str) -> bool:
    """Return whether a partition has rows that were written before it, or a table above it, was attached."""
    rows = session.rows(
        f"with recursive above(child, parent, xid, command) as ("
        f"select inhrelid, inhparent, xmin, cmin from pg_inherits where inhrelid = {member} union all "
        f"select inhrelid, inhparent, i.xmin, i.cmin from pg_inherits i join above on inhrelid = above.parent), "
        f"attached as (select age(xid) as age, command::text::bigint as command from above order by 1, 2 desc limit 1) "
        f"select exists(select from {_rows_of(session, source, member)} r, attached where age(r.xmin) > attached.age "
        f"or age(r.xmin) = attached.age and r.cmin::text::bigint < command)"
    )
    return bool(rows[0][0])


def _same_rows(session: Session, source: ChangesSource, member: str, xid: int) -> bool:
    """Return whether a new file has the rows of the previous one.

    VACUUM FULL and CLUSTER keep the transaction numbers of rows. ALTER TABLE rewrites each row in the transaction that
    changes a column. After TRUNCATE there is no row of either kind.
    """
    (same,) = session.one(
        f"select exists(select from {_rows_of(session, source, member)} r where age(r.xmin) > "
        f"age('{xid % 2**32}'::xid) or r.xmin in (select a.xmin from pg_attribute a where attrelid = {member}))"
    )
    return bool(same)


def _rows_of(session: Session, source: ChangesSource, member: str) -> str:
    """Return the rows of a partition as SQL. The permission to read the table may not include its partitions."""
    (readable,) = session.one(f"select has_table_privilege({member}, 'select')")
    return (
        _name(session, member)
        if readable
        else f"(select xmin, cmin from {source.source.table} where tableoid = {member})"
    )


def _name(session: Session, member: str) -> str:
    return str(session.one(f"select {member}::regclass::text")[0])
