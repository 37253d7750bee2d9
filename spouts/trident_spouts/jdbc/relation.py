"""The source of a JdbcSpout in SQL (a table, a view or a query), and its columns."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from trident.base.errors import SourceUnreadableError, TopologyError
from trident.base.short_texts import typed_brief
from trident_spouts.jdbc.database import ColumnType, Session

_PART = r'(?:"(?:[^"]|"")+"|[^".]+)'
_NAME = re.compile(rf"{_PART}(?:\.{_PART})?")


def quoted(name: str) -> str:
    """Return a name as a quoted identifier of SQL.

    >>> print(quoted("Order"))
    "Order"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def table_sql(table: object, owner: str = "JdbcSpout") -> str:
    """Return the name of a table as SQL. Raises TopologyError, which begins with `owner`, if it is not a name.

    >>> print(table_sql('shop.Orders'), table_sql('"a.b"'))
    "shop"."Orders" "a.b"
    """
    if not isinstance(table, str) or not _NAME.fullmatch(table):
        raise TopologyError(
            f"{owner}: table={typed_brief(table)}: expected the name of a table or view, 'orders' or 'shop.orders', "
            f"as the database spells it; a name that contains a dot is written '\"a.b\"'"
        )
    parts = re.findall(_PART, table)
    return ".".join(part if part.startswith('"') else quoted(part) for part in parts)


class Source(NamedTuple):
    """A table by its quoted name, or a query; `name` is its name in messages."""

    name: str
    table: str | None
    query: str | None
    owner: str = "JdbcSpout"
    """The spout that messages name."""

    @property
    def exclusion(self) -> str:
        """The end of a message about a value that does not fit: the way to leave out its row, if there is one."""
        return ", or exclude such rows with query=" if self.owner == "JdbcSpout" else ""

    @property
    def sql(self) -> str:
        """The source as an item after FROM."""
        return f"{self.table if self.table is not None else f'({chr(10)}{self.query}{chr(10)})'} as source"


class Relation(NamedTuple):
    """The database's description of a source at one moment."""

    oid: int | None
    """The number that the database gave to the table when it was created; None for a query."""
    versioned: bool
    """True if the database stores for each row the transaction that wrote it (the system column xmin)."""
    columns: tuple[ColumnType, ...]
    types: Mapping[int, str]
    """The names of the columns' types, by the types' numbers; the name of an enumeration is ``enum``."""


def look_up(session: Session, source: Source) -> Relation:
    """Return the database's description of a source.

    Raises SourceUnreadableError if the source is not a table, view or query.
    """
    columns = tuple(session.columns(f"select * from {source.sql} limit 0"))
    oids = ", ".join(sorted({str(column.oid) for column in columns})) or "0"
    named = "case typtype when 'e' then 'enum' else format_type(oid, null) end"
    types: dict[int, str] = dict(session.rows(f"select oid::bigint, {named} from pg_type where oid in ({oids})"))
    if source.table is None:
        return Relation(None, False, columns, types)
    table = f"{literal(source.table)}::regclass"
    oid, kind = session.one(f"select oid::bigint, relkind::text from pg_class where oid = {table}")
    if kind not in "rpmvf":
        raise SourceUnreadableError(f"{source.owner}: {source.name} is not a table or view")
    return Relation(int(oid), kind in "rpm", columns, types)
