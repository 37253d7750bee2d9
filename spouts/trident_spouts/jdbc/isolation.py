"""The final values of a growing column: values at or below which no transaction can add a row any more.

A row gets its value before its transaction commits, so a row with a smaller value may appear after a row with a greater
value. A value that was seen is final once every transaction has ended that may have taken a smaller one:

- a number is taken while the transaction holds a lock on its sequence, or for writing on the table. The transactions in
  question hold such a lock when the value is seen: on any sequence if the catalogue does not tell which one it is;
- a time is usually that of the transaction's beginning. The transactions in question are all that run.

Locks are listed after the value was seen. The rows of a transaction that ended before are visible to later statements.
"""

import logging
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order import OrderColumn, Value
from trident_spouts.jdbc.relation import literal

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
  and (relation in (select relation from pg_locks where locktype = 'relation' and pid = pg_backend_pid()
                    and database = {_HERE} and relation >= 16384) or relation in ({{sequences}}))
"""
# The locks come first: a transaction that is prepared meanwhile stands in the second list.
_ALL = f"""
select distinct virtualtransaction from pg_locks left join pg_stat_activity using (pid)
where locktype = 'virtualxid' and mode = 'ExclusiveLock' and granted and pid <> pg_backend_pid()
  and (datid is null or datid = {_HERE}) and backend_type is distinct from 'autovacuum worker'
union all select '{_PREPARED}' || transaction from pg_prepared_xacts where database = current_database()
"""


class Moment(NamedTuple):
    """A moment by two clocks: one of this process that never goes back, and the server's. Both in seconds."""

    steady: float
    server: float


def under_way(session: Session, by_clock: bool, sequences: Iterable[int]) -> frozenset[str]:
    """Return the transactions that may still add rows with values below those that this transaction has seen.

    `sequences` are those that give the values, if they are known. This transaction must have read the source before,
    because its own locks name the tables below a view.
    """
    known = ", ".join(map(str, sequences)) or "select oid from pg_class where relkind = 'S'"
    query = _ALL if by_clock else _WRITERS.format(sequences=known)
    return frozenset(number for (number,) in session.rows(query))


def oldest(session: Session, transactions: frozenset[str]) -> tuple[int | None, str | None]:
    """Return the greatest age of the transactions' numbers, and the earliest beginning of one; None if unknown.

    A transaction without a number has written nothing yet. The beginnings of other users' transactions are seen with
    the role pg_read_all_stats; that of a prepared one is not known.
    """
    known = ", ".join(literal(number) for number in sorted(transactions))
    numbered, age = session.one(
        f"select count(distinct virtualtransaction), max(age(transactionid)) from pg_locks where granted "
        f"and locktype = 'transactionid' and mode = 'ExclusiveLock' and virtualtransaction in ({known})"
    )
    begun, first = session.one(
        f"select count(xact_start), min(xact_start)::text from pg_locks join pg_stat_activity using (pid) "
        f"where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualtransaction in ({known})"
    )
    return (age if numbered == len(transactions) else None, first if begun == len(transactions) else None)


class _Seen(NamedTuple):
    text: str
    value: Value
    moment: Moment
    transactions: frozenset[str]


class Finality:
    """Finds the greatest final value. `lag`: the seconds for which every value is held back."""

    def __init__(self, column: OrderColumn, lag: float) -> None:
        self._column, self._lag = column, lag
        self._final: tuple[str, Value] | None = None
        self._waiting: deque[_Seen] = deque()
        self._warned = False

    def of(self, greatest: str, transactions: frozenset[str], moment: Moment) -> str | None:
        """Return the greatest final value; None if no value is final.

        `greatest` is the greatest value that was seen, and `transactions` those that were running after that.
        """
        value = self._column.value(greatest)
        last = self._waiting[-1].value if self._waiting else self._final[1] if self._final else None
        if (last is None or value > last) and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(_Seen(greatest, value, moment, transactions))
        if any(seen.moment.server > moment.server for seen in self._waiting):  # the server's clock was set back
            self._waiting = deque(seen._replace(moment=moment) for seen in self._waiting)
        prepared = {number for number in transactions if number.startswith(_PREPARED)}
        while self._waiting and self._ended(self._waiting[0], transactions, prepared, moment):
            seen = self._waiting.popleft()
            self._final = seen.text, seen.value
            self._warned = False
        self._warn(moment)
        return self._final[0] if self._final else None

    def _ended(self, seen: _Seen, transactions: frozenset[str], prepared: set[str], moment: Moment) -> bool:
        if seen.transactions and (seen.transactions & transactions or prepared):
            return False
        # A clock that was set forward must not shorten the lag.
        waited = min(moment.steady - seen.moment.steady, moment.server - seen.moment.server)
        return not self._lag or waited >= self._lag

    def _warn(self, moment: Moment) -> None:
        waited = moment.steady - self._waiting[0].moment.steady if self._waiting else 0
        if waited >= self._lag + _WARN_SECS and not self._warned:
            self._warned = True
            _log.warning(
                "JdbcSpout: %s: rows up to %s=%s wait since %d s for %d transactions that may still add rows below. A "
                "long transaction, or a session that is idle in transaction, holds the stream up (pg_stat_activity)",
                self._column.source.name, self._column.name, self._waiting[0].text,
                waited, len(self._waiting[0].transactions),
            )  # fmt: skip
