"""The origin of a column's values, by the catalogue: their table, and the source of a new row's value.

For each column of a query, the server says whether it is an unchanged column of a table. The query of a view's
definition is examined in the same way, so views over views lead to their table, and no SQL is parsed here.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.relation import Relation, Source, literal

_MOST_VIEWS = 32

# nextval('ids'::regclass), for which the catalogue holds the sequence, or nextval(('ids'::text)::regclass), which looks
# up the name at each call.
_NEXTVAL = r"^nextval\(''(?:[^'']|'''')*''::regclass\)$"
_NEXTVAL_BY_NAME = r"^nextval\(\(''((?:[^'']|'''')*)''::text\)::regclass\)$"


class Sequence(NamedTuple):
    """A sequence, as the catalogue describes it."""

    oid: int
    name: str
    cache: int
    increment: int
    cycles: bool


class Member(NamedTuple):
    """A table of the origin: the table itself, a partition, or a table that inherits from it."""

    oid: int
    name: str
    kind: str
    unlogged: bool
    default: str | None
    """The expression that gives the column its value if a program gives none, as SQL; None if there is none."""
    generated: bool
    sequence: int | None
    """The number of the sequence whose values the default, or the identity, takes unchanged."""


class Origin(NamedTuple):
    """The table from whose column the values come. `members` is empty if the values are computed."""

    members: tuple[Member, ...]
    column: str
    sequences: tuple[Sequence, ...]
    readable: bool
    """True if the user may read the table itself, including the versions of the rows that a view shows."""
    digits: int
    """The decimal places of the seconds that a time in the column has, 6 unless its type rounds."""
    layout: str = ""
    """A digest of the table's columns and their types."""
    hidden: str | None = None
    """The server's refusal to show the origin of the values; None if the user may see it."""

    @property
    def table(self) -> int | None:
        return self.members[0].oid if self.members else None

    @property
    def given(self) -> bool:
        """True if programs or triggers give the values, because the table has no default."""
        return bool(self.members) and self.members[0].default is None and not self.members[0].generated

    @property
    def numbered_by(self) -> list[int] | None:
        """The sequences that produce all values; None if a value may have another source."""
        if self.given or not self.members or any(each.default and each.sequence is None for each in self.members):
            return None
        return [sequence.oid for sequence in self.sequences] or None

    @property
    def unlogged(self) -> bool:
        return any(member.unlogged for member in self.members)

    @property
    def defaults(self) -> tuple[str, ...]:
        """The defaults of new rows. A partition may have none, because rows come through the table."""
        return tuple(dict.fromkeys(each.default for each in self.members if each.default is not None))


def origin_of(session: Session, relation: Relation, source: Source, column: str) -> Origin:
    """Return the origin of a column of the source."""
    at = [each.name for each in relation.columns].index(column)
    table, number, digits = session.origins(f"select * from {source.sql}")[at]
    hidden = None
    for _ in range(_MOST_VIEWS):
        kind = session.rows(f"select relkind::text, pg_get_viewdef(oid) from pg_class where oid = {table}")
        if not kind or kind[0][0] != "v":
            break
        hidden, below = session.permitted(partial(session.origins, kind[0][1]))
        table, number, _ = below[number - 1] if below else (0, 0, 0)
    digits = 6 if digits < 0 else digits
    if not table:
        return Origin((), column, (), False, digits, hidden=hidden)
    columns = f"from pg_attribute where attrelid = {table} and attnum > 0 and not attisdropped"
    layout = "md5(string_agg(format('%s %s %s', attnum, attname, atttypid), ',' order by attnum))"
    name, readable, layout = session.one(
        f"select attname, has_table_privilege({table}, 'select'), (select {layout} {columns}) {columns} "
        f"and attnum = {number}"
    )
    members = []
    for *row, sequence, looked_up in session.rows(_members(table, name)):
        if looked_up is not None:
            by_name = f"select to_regclass({literal(looked_up)})::oid::bigint"
            hidden, found = session.permitted(partial(session.rows, by_name))
            sequence = found[0][0] if found else None
        members.append(Member._make((*row, sequence)))
    return Origin(tuple(members), name, _sequences(session, members), readable, digits, layout, hidden)


def defaults_now(session: Session, origin: Origin) -> str | None:
    """Return a value that changes if a default or an identity of the column is added, removed or replaced."""
    if origin.table is None:
        return None
    numbers = "string_agg(concat_ws(' ', a.attrelid, a.attidentity, d.oid, d.xmin), ',' order by a.attrelid)"
    joined = "pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum"
    where = f"a.attname = {literal(origin.column)} and a.attrelid in ({members_sql(origin.table)})"
    (found,) = session.one(f"select {numbers} from {joined} where {where}")
    return None if found is None else str(found)


def members_sql(table: int) -> str:
    """Return the query of the numbers of a table, its partitions, and the tables that inherit from it."""
    return (
        f"with recursive members(oid) as (select {table}::oid union "
        f"select inhrelid from pg_inherits join members on inhparent = members.oid) select oid from members"
    )


def _members(table: int, column: str) -> str:
    identity = (
        "(select s.objid from pg_depend s where s.classid = 'pg_class'::regclass and s.deptype = 'i' "
        "and s.refclassid = 'pg_class'::regclass and s.refobjid = c.oid and s.refobjsubid = a.attnum)"
    )
    taken_from = (
        "(select s.refobjid from pg_depend s join pg_class q on q.oid = s.refobjid and q.relkind = 'S' "
        "where s.classid = 'pg_attrdef'::regclass and s.objid = d.oid and s.refclassid = 'pg_class'::regclass)"
    )
    return (
        f"select c.oid::bigint, c.oid::regclass::text, c.relkind::text, c.relpersistence = 'u', "
        f"case when a.attidentity <> '' then 'identity' else e.text end, a.attgenerated <> '', "
        f"case when a.attidentity <> '' then {identity} when e.text ~ '{_NEXTVAL}' then {taken_from} end::bigint, "
        f"replace(substring(e.text from '{_NEXTVAL_BY_NAME}'), '''''', '''') "
        f"from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = {literal(column)} "
        f"left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum, "
        f"lateral (select pg_get_expr(d.adbin, d.adrelid) as text) e "
        f"where c.oid in ({members_sql(table)}) order by c.oid <> {table}, c.oid"
    )


def _sequences(session: Session, members: Iterable[Member]) -> tuple[Sequence, ...]:
    numbers = ", ".join(sorted({str(member.sequence) for member in members if member.sequence is not None}))
    if not numbers:
        return ()
    asked = "seqrelid::bigint, seqrelid::regclass::text, seqcache, seqincrement, seqcycle"
    rows = session.rows(f"select {asked} from pg_sequence where seqrelid in ({numbers}) order by 1")
    return tuple(Sequence(*row) for row in rows)
