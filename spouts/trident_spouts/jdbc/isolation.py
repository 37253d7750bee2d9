"""The final values of a growing column: values at or below which no transaction can add a row any more.

A row gets its value before its transaction commits, so a row with a smaller value may appear after a row with a greater
value. A value that was seen is final once every transaction has ended that may have taken a smaller one:

- a number comes from a sequence during the insertion of the row, for which the transaction has locked the table.
  The transactions in question hold such a lock when the value is seen;
- a time is usually that of the transaction's beginning. The transactions in question are all that run.

Locks are listed after the value was seen. The rows of a transaction that ended before are visible to later statements.
"""

import logging
from collections import deque
from typing import NamedTuple

from trident.base.errors import TopologyError
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order import OrderColumn, Value
from trident_spouts.jdbc.relation import Relation, Source, literal

_log = logging.getLogger("trident.spouts")

_PREPARED = "-1/"
"""The prefix for the number of a prepared transaction (two-phase commit), which had another number before."""

_MOST_WAITING = 16
_WARN_SECS = 60

_HERE = "(select oid from pg_database where datname = current_database())"

# The tables of this transaction's own queries: also those below a view, and the partitions of a table.
_WRITERS = f"""
select distinct virtualtransaction from pg_locks
where locktype = 'relation' and database = {_HERE} and granted and pid is distinct from pg_backend_pid()
  and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  and relation in (select relation from pg_locks where locktype = 'relation' and pid = pg_backend_pid()
                   and database = {_HERE} and relation >= 16384)
"""
_ALL = f"""
select distinct virtualtransaction from pg_locks left join pg_stat_activity using (pid)
where locktype = 'virtualxid' and mode = 'ExclusiveLock' and granted and pid <> pg_backend_pid()
  and (datid is null or datid = {_HERE}) and backend_type is distinct from 'autovacuum worker'
union select '{_PREPARED}' || gid from pg_prepared_xacts where database = current_database()
"""


def under_way(session: Session, by_clock: bool) -> frozenset[str]:
    """Return the transactions that may still add rows with values below those that this transaction has seen.

    This transaction must have read the source before, because its own locks name the tables below a view.
    """
    return frozenset(number for (number,) in session.rows(_ALL if by_clock else _WRITERS))


def check_sequence(session: Session, relation: Relation, source: Source, column: str, lag: float) -> None:
    """Raise TopologyError if sessions reserve numbers of the column in advance (CACHE) and `lag` is 0."""
    if lag or not relation.versioned or source.table is None:
        return
    sequence = f"pg_get_serial_sequence({literal(source.table)}, {literal(column)})::regclass"
    for (cached,) in session.rows(f"select seqcache from pg_sequence where seqrelid = {sequence} and seqcache > 1"):
        raise TopologyError(
            f"JdbcSpout: {source.name}: {column} takes its numbers from a sequence with CACHE {cached}: a session may "
            f"insert rows with smaller numbers at any later time. Give the sequence CACHE 1, or say with isolationLag= "
            f"for how long rows are to be kept back"
        )


class _Seen(NamedTuple):
    text: str
    value: Value
    time: float
    transactions: frozenset[str]


class Finality:
    """Finds the greatest final value. `lag`: the seconds for which every value is held back."""

    def __init__(self, column: OrderColumn, lag: float) -> None:
        self._column, self._lag = column, lag
        self._final: tuple[str, Value] | None = None
        self._waiting: deque[_Seen] = deque()
        self._warned = False

    def of(self, greatest: str, transactions: frozenset[str], time: float) -> str | None:
        """Return the greatest final value; None if no value is final.

        `greatest` is the greatest value that was seen, and `transactions` those that were running after that.
        """
        value = self._column.value(greatest)
        last = self._waiting[-1].value if self._waiting else self._final[1] if self._final else None
        if (last is None or value > last) and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(_Seen(greatest, value, time, transactions))
        prepared = {number for number in transactions if number.startswith(_PREPARED)}
        while self._waiting and self._ended(self._waiting[0], transactions, prepared, time):
            seen = self._waiting.popleft()
            self._final = seen.text, seen.value
            self._warned = False
        self._warn(time)
        return self._final[0] if self._final else None

    def _ended(self, seen: _Seen, transactions: frozenset[str], prepared: set[str], time: float) -> bool:
        if seen.transactions and (seen.transactions & transactions or prepared):
            return False
        return time - seen.time >= self._lag

    def _warn(self, time: float) -> None:
        if self._waiting and not self._warned and time - self._waiting[0].time >= self._lag + _WARN_SECS:
            self._warned = True
            _log.warning(
                "JdbcSpout: %s: rows up to %s=%s wait since %d s for %d transactions that may still add rows below. A "
                "long transaction, or a session that is idle in transaction, holds the stream up (pg_stat_activity)",
                self._column.source.name, self._column.name, self._waiting[0].text,
                time - self._waiting[0].time, len(self._waiting[0].transactions),
            )  # fmt: skip
