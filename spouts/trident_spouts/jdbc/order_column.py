"""The column that orders rows: its possible types, and its values in plans, in SQL and as numbers."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from trident.base.errors import SourceUnreadableError, TopologyError
from trident_spouts.jdbc.relation import Relation, Source, literal, quoted

Value = Any
"""A value of the column in Python: an int, a Decimal, a date or a datetime; a text for a column of text."""

_EPOCH = datetime.datetime(1970, 1, 1)


class OrderType(NamedTuple):
    """A type that the column may have."""

    read: Callable[[str], Value]
    unit: str | None
    """The unit of the difference of two values; None if the type has no unit."""
    by_clock: bool = False
    """True if values are times, which a transaction usually takes when it begins."""


ORDER_TYPES = {
    **dict.fromkeys(("smallint", "integer", "bigint"), OrderType(int, "ids")),
    "numeric": OrderType(Decimal, "ids"),
    "date": OrderType(datetime.date.fromisoformat, "days", True),
    "timestamp without time zone": OrderType(datetime.datetime.fromisoformat, "seconds", True),
    "timestamp with time zone": OrderType(datetime.datetime.fromisoformat, "seconds", True),
    **dict.fromkeys(("text", "character varying"), OrderType(str, None)),
}


class OrderColumn(NamedTuple):
    """The column, with the name of its type."""

    source: Source
    name: str
    type_name: str
    digits: int = 6
    """The decimal places of the seconds of a time."""
    utc: bool = False
    """True if a time without time zone is a time in UTC."""

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def type(self) -> OrderType:
        return ORDER_TYPES[self.type_name]

    @property
    def past(self) -> str:
        """The SQL condition for rows with a value in the past.

        No later transaction gets such a value from the clock.
        """
        return self.before("now()") if self.type.by_clock else "true"

    def before(self, moment: str) -> str:
        """Return the SQL condition for rows with a time that the column gets only before `moment`, an SQL expression.

        If the column's type rounds, the time of a row may be half a unit earlier than the clock.
        """
        if self.digits < 6:
            moment = f"{moment} - interval '{5 * 10 ** -(self.digits + 1):.7f} seconds'"
        if self.utc:
            moment = f"(({moment}) at time zone 'UTC')"
        elif self.type_name != "timestamp with time zone":
            # The time zone of sessions that set none; this package sets UTC.
            moment = f"(({moment}) at time zone (select reset_val from pg_settings where name = 'TimeZone'))"
        return f"{self.sql} < ({moment}){'::date' if self.type_name == 'date' else ''}"

    def literal(self, text: str) -> str:
        """Return a value as an SQL literal. `text` is the value as the database wrote it."""
        return f"{literal(text)}::{self.type_name}"

    def between(self, after: str | None, to: str) -> str:
        """Return the SQL condition for rows after the value `after`, up to and including `to`."""
        behind = "" if after is None else f"{self.sql} > {self.literal(after)} and "
        return f"{behind}{self.sql} <= {self.literal(to)}"

    def value(self, text: str) -> Value:
        """Return the Python value of a text that the database wrote.

        Raises SourceUnreadableError if the text has no such value.
        """
        try:
            value = self.type.read(text)
            if not isinstance(value, Decimal) or value.is_finite():  # nothing comes after NaN or infinity
                return value
        except (ValueError, ArithmeticError):
            pass
        raise SourceUnreadableError(
            f"JdbcSpout: {self.source.name}: column {self.name!r} has the value {text}, which cannot be compared; "
            f"exclude such rows with query="
        )

    def epoch(self, text: str) -> float | None:
        """Return a time as seconds since 1970; None if it is a local time."""
        value = self.value(text)
        if self.type_name == "date" or not (value.tzinfo or self.utc):
            return None
        return float((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp())

    def amount(self, text: str | None) -> int:
        """Return a value as a number of units (`unit`) from the origin of its type."""
        value = 0 if text is None else self.value(text)
        if isinstance(value, datetime.datetime):
            return int((value.replace(tzinfo=None) - _EPOCH).total_seconds())
        return value.toordinal() if isinstance(value, datetime.date) else int(value)


def order_column(relation: Relation, source: Source, name: str, *, texts: bool) -> OrderColumn:
    """Return the column `name`. Raises an error if it does not exist, or if plans cannot use the order of its type."""
    by_name = {column.name: column for column in relation.columns}
    if name not in by_name:
        raise SourceUnreadableError(
            f"JdbcSpout: {source.name} has no column {name!r} (orderBy); its columns are {', '.join(by_name)}"
        )
    type_name = relation.types.get(by_name[name].oid, "unknown")
    found = ORDER_TYPES.get(type_name)
    if found is None or (found.unit is None and not texts):
        accepted = "an integer, numeric, date or timestamp" + (", or a text" if texts else "")
        raise TopologyError(f"JdbcSpout: {source.name}: orderBy={name!r} has the type {type_name}; expected {accepted}")
    return OrderColumn(source, name, type_name)
