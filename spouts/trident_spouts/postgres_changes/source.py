"""The source of a run: its settings, and the table as the catalogue describes it."""

from typing import NamedTuple

from pyspark.sql.types import BooleanType, StructField, StructType

from trident.base.change_kinds import KIND
from trident.base.errors import SourceUnreadableError, TypeDeclarationError
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.column_origin import members_sql
from trident_spouts.jdbc.columns import RowFormat, row_format
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.relation import Relation, Source, literal, look_up, quoted

OWNER = "PostgresChangesSpout"

EXISTS = "_exists"
"""The field for tuples that may have only a row's key: true, or null if the row was deleted."""


class ChangesSource(NamedTuple):
    """The settings of a PostgresChangesSpout that a run needs; see its parameters."""

    address: Address
    source: Source
    schema: StructType
    """The fields of the table, without the kind of change."""
    slot: str
    publication: str
    rows_first: bool
    """True if the stream begins with the present rows of the table."""
    keys_only: bool
    """True if the row before a change may be only its key, so that each tuple is a row or the deletion of a key."""
    skips_truncate: bool
    limit: int
    most_rows: int
    most_first_rows: int
    patience: float

    @property
    def name(self) -> str:
        return f"{OWNER}: {self.source.name}"


class Column(NamedTuple):
    """A column: its number in the table, which is never reused, and the number of its type.

    `modifier` is the type's modifier, such as a length, -1 if it has none; `labels` are those of an enumeration.
    """

    number: int
    type: int
    modifier: int
    labels: list[str]


class KeyColumn(NamedTuple):
    """A column of the primary key, with its type and collation as SQL."""

    name: str
    type: str
    collation: str
    """``collate "schema"."name"``, or empty."""


_SAME_TEXTS = {21: 20, 23: 20, 1043: 25}
"""Types whose values have the same texts in a wider type: smallint and int in bigint, varchar in text."""


def type_of(oid: int) -> int:
    """Return the number of a type, or that of the wider type with the same texts."""
    return _SAME_TEXTS.get(oid, oid)


class Table(NamedTuple):
    """The table at one moment."""

    oid: int
    format: RowFormat
    columns: dict[str, "Column"]
    """Each column that is read or belongs to the primary key, by its name."""
    from_sql: str
    """The table as an item after FROM, without the rows of tables that inherit from it."""
    key: tuple[KeyColumn, ...]
    """The primary key. Empty if there is none, or if changes do not include it."""
    partitioned: bool


def opened(session: Session, source: ChangesSource) -> Table:
    """Return the description of the table.

    Raises an error unless its changes include the rows before and after.
    """
    relation = look_up(session, source.source)
    assert relation.oid is not None
    form = row_format(relation, source.source, source.schema)
    expressions = tuple(quoted(field.name) for field in source.schema.fields)  # texts, as in the log of changes
    form = RowFormat(form.source, form.schema, expressions, versioned=False)
    kind, secured = session.one(
        f"select relkind::text, row_security_active(oid) from pg_class where oid = {relation.oid}"
    )
    _check_table(session, source, relation, kind, secured)
    key = _key(session, relation.oid)
    names = ", ".join(map(literal, {*source.schema.names, *(column.name for column in key)}))
    rows = session.rows(
        f"select attname, attnum, atttypid::bigint, atttypmod, array(select concat(e.oid, ' ', enumlabel) from pg_enum "
        f"e where enumtypid in (t.oid, typelem, typbasetype) order by 1) from pg_attribute join pg_type t "
        f"on t.oid = atttypid where attrelid = {relation.oid} and attnum > 0 and attname in ({names})"
    )
    columns = {name: Column(number, type_of(oid), *form) for name, number, oid, *form in rows}
    only = "" if kind == "p" else "only "
    return Table(relation.oid, form, columns, f"{only}{source.source.table} as source", key, kind == "p")


def _key(session: Session, table: int) -> tuple[KeyColumn, ...]:
    """Return the primary key of a table, if each update and deletion includes it."""
    bring_others = session.rows(
        f"select 1 from pg_class where oid in ({members_sql(table)}) and relkind in ('r', 'p') "
        f"and relreplident not in ('d', 'f') and (oid = {table} or relispartition)"
    )
    columns = session.rows(
        f"select attname, format_type(atttypid, atttypmod), attgenerated::text, coalesce((select "
        f"format('collate %I.%I', nspname, collname) from pg_collation c join pg_namespace n on n.oid = collnamespace "
        f"where c.oid = attcollation), '') from pg_index cross join unnest(indkey) with ordinality as k(number, place) "
        f"join pg_attribute on attrelid = indrelid and attnum = number "
        f"where indrelid = {table} and indisprimary and place <= indnkeyatts order by place"
    )
    if bring_others or any(generated for _, _, generated, _ in columns):
        return ()
    return tuple(KeyColumn(name, type_, collation) for name, type_, _, collation in columns)


def with_kind(fields: StructType, name: str, keys_only: bool) -> StructType:
    """Return the fields of the tuples: those of the table, then the kind of change, or whether the row exists."""
    kind = StructField(EXISTS, BooleanType()) if keys_only else KIND.fields[0]
    if kind.name in fields.names:
        raise TypeDeclarationError(
            f"{OWNER}: {name}: the column {kind.name!r} has the name of a field that the spout adds; declare the "
            f"fields without it, schema='...'"
        )
    return StructType([*fields.fields, kind])


def _check_table(session: Session, source: ChangesSource, relation: Relation, kind: str, secured: bool) -> None:
    if kind not in "rp":
        raise SourceUnreadableError(f"{source.name} is not a table: only tables have changes")
    if secured:
        raise SourceUnreadableError(
            f"{source.name} has row level security, which hides rows from the user, but not their changes; connect as "
            f"a user with BYPASSRLS"
        )
    names = ", ".join(literal(field.name) for field in source.schema.fields)
    generated = session.rows(
        f"select attname from pg_attribute where attrelid = {relation.oid} and attgenerated <> '' "
        f"and attname in ({names})"
    )
    if generated:
        raise TypeDeclarationError(
            f"{source.name}: column {generated[0][0]!r} is generated, and its values are not in the log of changes; "
            f"declare the fields without it, schema='...'"
        )
    if not source.keys_only:
        _check_identity(session, source, relation.oid or 0)


def _check_identity(session: Session, source: ChangesSource, table: int) -> None:
    """Raise SourceUnreadableError unless updates and deletions include the whole previous row."""
    members = session.rows(
        f"select oid::regclass::text from pg_class where oid in ({members_sql(table)}) and relkind in ('r', 'p') "
        f"and relreplident <> 'f' and (oid = {table} or relispartition)"
    )
    if members:
        raise SourceUnreadableError(
            f"{source.name}: updates and deletions of {members[0][0]} include only the key of the previous row, but "
            f"an aggregate needs the whole row: ALTER TABLE {members[0][0]} REPLICA IDENTITY FULL. Or use "
            f"images='key', which is enough for asUpserts({EXISTS!r}).toTable(...)"
        )
