"""The check that a column only grows, by the origin of its values in the catalogue. Other columns are refused.

The database gives exact information about numbers that a sequence gives one by one, and about times from its clock. For
any other column the user must set `isolationLag`: the time for which a smaller value may still appear.
"""

import logging
from collections.abc import Iterator

from trident.base.errors import TopologyError
from trident_spouts.jdbc.column_origin import Origin
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.relation import quoted

_log = logging.getLogger("trident.spouts")

# Times of one clock without a time zone, in the form in which the server writes these defaults.
CLOCKS = ("now()", "CURRENT_TIMESTAMP", "clock_timestamp()", "statement_timestamp()", "transaction_timestamp()")
UTC_CLOCKS = tuple(
    text
    for clock in CLOCKS
    for zone in ("UTC", "utc")
    for text in (f"timezone('{zone}'::text, {clock})", f"({clock} AT TIME ZONE '{zone}'::text)")
)

_KINDS = {
    "m": "a materialized view, which a REFRESH fills with rows committed earlier, in any order",
    "f": "a foreign table: the transactions of its server are not known here",
}


def in_utc(origin: Origin) -> bool:
    """Return whether a column without time zone holds times of UTC, because its defaults give it such times."""
    return bool(origin.defaults) and all(default in UTC_CLOCKS for default in origin.defaults)


# The relations that this transaction has queried, including the tables below a view.
_RELATIONS = """
select oid::regclass::text, relkind::text, oid in (select srrelid from pg_subscription_rel) from pg_class
where oid in (select relation from pg_locks where locktype = 'relation' and pid = pg_backend_pid()
              and database = (select oid from pg_database where datname = current_database()) and relation >= 16384)
  and relkind in ('r', 'p', 'm', 'f') order by 1
"""


class Growth:
    """The check of one column: whether new rows get values above those that were read."""

    def __init__(self, column: OrderColumn, origin: Origin, lag: float) -> None:
        self._column, self._origin, self._lag = column, origin, lag

    def check(self, session: Session) -> None:
        """Raise TopologyError if the column does not grow, or if only the user can know when values are final.

        This transaction must have read the source before, because its locks name the tables below a view.
        """
        source = f"JdbcSpout: {self._column.source.name}"
        for problem in self._shrinks(self._column.name):
            raise TopologyError(f"{source}: {problem}. To read the rows once, use mode='snapshot'")
        if self._lag:
            return
        for problem in self._not_told(session):
            raise TopologyError(
                f"{source}: {problem}. Use a column of an ordinary table with numbers from one sequence (identity, "
                f"serial, nextval), or with times (timestamp with time zone) whose default is now(). Otherwise set "
                f"isolationLag=, the time to wait before a row is read; a row that is committed later than that is lost"
            )

    def warn(self, session: Session) -> None:
        """Warn that the database hides the order of numbers chosen by programs, or the queries of other sessions."""
        source, name = self._column.source.name, self._column.name
        if self._lag or self._origin.numbered_by is not None:
            return
        if self._origin.given:
            _log.warning(
                "JdbcSpout: %s: %s has no default and no identity, so programs choose its values. The stream waits "
                "only for rows whose number was chosen in their own transaction, and is greater than every number that "
                "was committed before that transaction began. Any other row is lost if it is committed after the "
                "stream has read a greater number. isolationLag= sets a time to wait before rows are read",
                source, name,
            )  # fmt: skip
        shown, user = session.one("select pg_has_role('pg_read_all_stats', 'usage'), quote_ident(current_user)")
        if not shown:
            _log.warning(
                "JdbcSpout: %s: the user may not see the queries of other users' sessions (pg_stat_activity), so the "
                "stream knows only which transactions are open when it waits for values of %s: if a client sends "
                "several transactions in one message, a row of a later transaction may be lost. GRANT "
                "pg_read_all_stats TO %s prevents that",
                source, name, user,
            )  # fmt: skip

    def _shrinks(self, name: str) -> Iterator[str]:
        for sequence in self._origin.sequences:
            if sequence.increment < 0:
                yield f"{name} takes its numbers from {sequence.name}, which counts down (its INCREMENT is negative)"
            if sequence.cycles:
                yield (
                    f"{name} takes its numbers from {sequence.name}, which restarts at its end (CYCLE). To prevent "
                    f"that: ALTER SEQUENCE {sequence.name} NO CYCLE"
                )

    def _not_told(self, session: Session) -> Iterator[str]:
        name = self._column.name
        for table, kind, subscribed in session.rows(_RELATIONS):
            if kind in _KINDS:
                yield f"the rows come from {table}, {_KINDS[kind]}"
            if subscribed:
                yield f"the rows come from {table}, which replication fills in the commit order of another server"
        for sequence in self._origin.sequences:
            if sequence.cache > 1:
                yield (
                    f"{name} takes its numbers from a sequence with CACHE {sequence.cache} ({sequence.name}): a "
                    f"session may insert rows with smaller numbers at any later time. Use CACHE 1"
                )
        if len(self._origin.sequences) > 1:
            names = ", ".join(sequence.name for sequence in self._origin.sequences)
            yield f"{name} takes its numbers from several sequences ({names}), which grow independently"
        yield from self._times(name) if self._column.type.by_clock else self._numbers(name)

    def _numbers(self, name: str) -> Iterator[str]:
        yield from self._computed(name)
        for member in self._origin.members:
            if member.default is not None and member.sequence is None:
                yield f"{name} takes its values from {member.default}, which may not grow"

    def _times(self, name: str) -> Iterator[str]:
        yield from self._computed(name)
        if self._column.type_name == "date":
            yield f"{name} is a date: rows of the same day may be added after it was read"
        local = self._column.type_name == "timestamp without time zone"
        if local and not self._column.utc:
            yield (
                f"{name} is a local time (timestamp without time zone), which goes back with the clocks in autumn, and "
                "depends on the time zone of the session. The default timezone('utc', now()) avoids both"
            )
        elif self._origin.given and self._column.type_name != "date":
            yield (
                f"{name} has no default, so programs or triggers set its times, and their clocks may differ. If the "
                f"database's clock sets them, declare it: ALTER COLUMN {quoted(name)} SET DEFAULT now()"
            )
        for default in () if local else self._origin.defaults:
            if default not in CLOCKS:
                yield f"{name} takes its values from {default}, which may not grow"

    def _computed(self, name: str) -> Iterator[str]:
        if self._origin.hidden is not None:
            schema = self._origin.hidden.rpartition(" ")[2]
            yield (
                f"the user may not see the source of the values of {name} (the server answered: "
                f"{self._origin.hidden}). GRANT USAGE ON SCHEMA {schema} to the user"
            )
        if not self._origin.members or any(member.generated for member in self._origin.members):
            yield (
                f"{name} is computed by the query, a view or the table, so it may not grow. Order by a stored "
                f"column of the table"
            )
