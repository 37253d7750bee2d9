"""The table that an output writes to: its description by the database, checked against the fields of the stream."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.errors import OutputError
from trident.base.names import did_you_mean
from trident.base.value_conversion import type_name
from trident.outputs.jdbc.columns import Column, accepted, merges, rounds
from trident.plan.jdbc_target import JdbcTarget
from trident_spouts.jdbc.relation import quoted, table_sql

Refuse = Callable[[str], OutputError]

_TABLE = """
    select c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relpersistence::text
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass(%s)
"""
_COLUMNS = """
    select a.attname, case b.typtype when 'e' then 'enum' else format_type(b.oid, null) end,
        format_type(a.atttypid, a.atttypmod), case when t.typtype = 'd' then t.typtypmod else a.atttypmod end,
        a.attnotnull and not a.atthasdef and a.attidentity = '', a.attidentity = 'a' or a.attgenerated <> '',
        coalesce(l.collisdeterministic, true),
        case when a.attcollation <> t.typcollation then a.attcollation::regcollation::text else '' end
    from pg_attribute a join pg_type t on t.oid = a.atttypid
        join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
        left join pg_collation l on l.oid = a.attcollation
    where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_UNSAFE_PARTITIONS = """
    select c.oid::regclass::text, c.relkind::text from pg_partition_tree({table}) p join pg_class c on c.oid = p.relid
    where c.relkind = 'f' or c.relkind = 'r' and c.relpersistence <> 'p' order by 1
"""
_FORM = f"""
    select md5(concat_ws(' ', c.oid, c.relkind, c.relpersistence, row_security_active(c.oid), (
        select string_agg(u::text, ',') from ({_UNSAFE_PARTITIONS.format(table="c.oid")}) u), (
        select string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod, attcollation, attnotnull, atthasdef,
            attidentity, attgenerated), ',' order by attnum)
        from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped)))
    from pg_class c where c.oid = to_regclass(%s)
"""
_UNIQUE = """
    select array(select a.attname::text from unnest(i.indkey::int2[]) with ordinality k (number, at)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number where k.at <= i.indnkeyatts)
    from pg_index i where i.indrelid = %s and i.indisunique and i.indisvalid and i.indimmediate
        and i.indpred is null and i.indexprs is null
"""


@dataclass(frozen=True)
class Table:
    """A table that can take every tuple of an output, according to its types. Names are quoted."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    """The columns that get values, in the order of the fields."""
    key: tuple[str, ...]
    merges: bool
    """True if different keys of tuples may be equal keys for the server."""
    form: str
    """A digest of the table's description by the database."""
    oid: int
    """The number that the database assigned to the table. A recreated table has another number."""

    own: str
    """The name for statements that concern only rows of the table itself, not of tables that inherit from it."""

    @property
    def names(self) -> list[str]:
        return [quoted(column.name) for column in self.columns]


def look_up(connection: Any, target: JdbcTarget, fields: pa.Schema, refuse: Refuse) -> Table:
    """Return the target table. Raises the error of `refuse` if it does not fit the fields."""
    form = form_of(connection, target)
    found = connection.execute(_TABLE, (table_sql(target.table),)).fetchone()
    if found is None:
        raise refuse(f"there is no table {target.table}; create it, or correct table=")
    oid, schema, name, kind, persistence = found
    _check_kind(target.table, kind, persistence, refuse)
    _check_partitions(connection, oid, refuse)
    columns = {column.name: column for column in (Column(*row) for row in connection.execute(_COLUMNS, (oid,)))}
    chosen = tuple(_column(columns, field, target.table, refuse) for field in fields)
    _check_rest(columns, fields.names, target.table, refuse)
    if target.changes:
        _check_security(connection, oid, target.table, refuse)
    if target.key:
        _check_unique([row[0] for row in connection.execute(_UNIQUE, (oid,))], target, refuse)
    merging = any(merges(columns[name], fields.field(name).type) for name in target.key)
    full = f"{quoted(schema)}.{quoted(name)}"
    own = full if kind == "p" else f"only {full}"  # rows of a partitioned table are in its partitions
    return Table(quoted(schema), full, chosen, tuple(map(quoted, target.key)), merging, form, oid, own)


def form_of(connection: Any, target: JdbcTarget) -> str:
    """Return a digest of the description of the target table; "" if there is none."""
    found = connection.execute(_FORM, (table_sql(target.table),)).fetchone()
    return "" if found is None else str(found[0])


def _check_security(connection: Any, oid: int, table: str, refuse: Refuse) -> None:
    if connection.execute("select row_security_active(%s::oid)", (oid,)).fetchone()[0]:
        raise refuse(
            f"the table {table} has row level security, which hides rows from the user, so deletions would skip them; "
            f"connect as a user with BYPASSRLS"
        )


def _check_kind(table: str, kind: str, persistence: str, refuse: Refuse) -> None:
    if kind not in "rp":
        raise refuse(
            f"{table} is a view or a foreign table: expected a table of this database, because the rows and the "
            f"record of the batch must be written in one transaction; name the table itself"
        )
    if persistence != "p":
        raise refuse(
            f"the table {table} is unlogged: a crash of the server would empty it, and keep the record of the batches; "
            f"ALTER TABLE {table} SET LOGGED"
        )


def _check_partitions(connection: Any, oid: int, refuse: Refuse) -> None:
    """Refuse a table with partitions that do not become durable together with the record."""
    unsafe = connection.execute(_UNSAFE_PARTITIONS.format(table=oid)).fetchall()
    if unsafe:
        name, kind = unsafe[0]
        raise refuse(
            f"the partition {name} is a foreign table: its rows are on another server, and cannot be in one "
            f"transaction with the record of the batch; detach it, or write into another table"
            if kind == "f"
            else f"the partition {name} is unlogged: a crash of the server would empty it, and keep the record of the "
            f"batches; ALTER TABLE {name} SET LOGGED"
        )


def _column(columns: dict[str, Column], field: pa.Field, table: str, refuse: Refuse) -> Column:
    """Return the column of a field."""
    column = columns.get(field.name)
    if column is None:
        lower = field.name.lower()
        near = f": rename the field, rename({field.name!r}, {lower!r})" if lower in columns else ""
        near = near or did_you_mean(field.name, columns)
        raise refuse(
            f"the table {table} has no column {field.name!r}; its columns are {', '.join(columns)}{near}. Add the "
            f"column, or leave the field out with project"
        )
    if column.computed:
        raise refuse(f"the server computes column {field.name!r} of the table {table}; leave the field out with drop")
    takes = accepted(field.type)
    if column.type not in takes:
        raise refuse(
            f"field {field.name!r} is {type_name(field.type)}, and column {field.name!r} of the table {table} is "
            f"{column.full}: expected {' or '.join(takes) or 'another field; no column type holds this one'}"
        )
    if rounds(column, field.type):
        raise refuse(
            f"field {field.name!r} is {type_name(field.type)}, and column {field.name!r} of the table {table} is "
            f"{column.full}, which would round its values or refuse them; change the column, or cast the field before"
        )
    return column


def _check_rest(columns: dict[str, Column], names: Collection[str], table: str, refuse: Refuse) -> None:
    """Refuse a table that requires values for other columns."""
    missing = [column.name for column in columns.values() if column.required and column.name not in names]
    missing = [name for name in missing if not columns[name].computed]
    if missing:
        raise refuse(
            f"the table {table} has the column {missing[0]!r}, which is NOT NULL without a default, and the stream has "
            f"no such field; add the field, or give the column a default"
        )


def _check_unique(indexes: list[list[str]], target: JdbcTarget, refuse: Refuse) -> None:
    if set(target.key) in map(set, indexes):
        return
    shown = ", ".join(f"({', '.join(names)})" for names in indexes)
    known = f"; it has {shown}" if indexes else ""
    listed = ", ".join(map(quoted, target.key))
    raise refuse(
        f"the table {target.table} has no primary key or unique index of the columns ({', '.join(target.key)}) "
        f"alone{known}. Without it a key could have several rows: CREATE UNIQUE INDEX ON {table_sql(target.table)} "
        f"({listed}), or correct key="
    )
