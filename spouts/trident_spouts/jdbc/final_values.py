"""The final values of a growing column: values at or below which no transaction can add a row any more.

A row gets its value before its transaction commits, so a row with a smaller value may appear after a row with a greater
value. A value that was seen is final once all transactions have ended that may have taken a smaller value:

- a transaction takes a number of a known sequence while it holds a lock on the sequence, or a lock for writing on the
  table. So the transactions to wait for hold such a lock when the value is seen;
- a time may be that of a client's message, which began several transactions, or ended one transaction and began the
  next. So sessions are to wait for, not transactions: all sessions that were not waiting for their client when the
  value was seen. Each of them must have been seen waiting since then, or have ended, or be running a later message. The
  same holds for numbers that programs choose, because the time of the choice is unknown.

Locks are listed after the value was seen. If a transaction ended before that, later statements see its rows.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order_column import OrderColumn, Value

_log = logging.getLogger("trident.spouts")

_PREPARED = "-1/"
"""The prefix for the number of a prepared transaction (two-phase commit), which had another number before."""

_SETTLE_SECS = 2.0
_SETTLE_PAUSE = 0.005
_MOST_WAITING = 16
_WARN_SECS = 60

_HERE = "(select oid from pg_database where datname = current_database())"

# The tables that this transaction has queried, including tables below a view and the partitions of a table.
_WRITERS = f"""
select distinct virtualtransaction from pg_locks
where locktype = 'relation' and database = {_HERE} and granted and pid is distinct from pg_backend_pid()
  and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  and (relation in (select relation from pg_locks where locktype = 'relation' and pid = pg_backend_pid()
                    and database = {_HERE} and relation >= 16384) or relation in ({{sequences}}))
"""
# A message gets its time before the server shows its arrival. Only a session that waits for its client has no message.
_SESSIONS = f"""
select pid::text, (datid is null or datid = {_HERE}) and backend_type is distinct from 'autovacuum worker',
  coalesce(state, 'disabled') <> 'disabled', state <> 'idle' and backend_type is distinct from 'walsender',
  state = 'idle' and backend_type = 'client backend' and wait_event is distinct from 'ClientRead',
  extract(epoch from least(xact_start, query_start))::float8
from pg_stat_activity where pid <> pg_backend_pid()
"""
# The locks come first: a transaction that is prepared meanwhile is then in the second list.
_IN_TRANSACTION = f"""
select distinct pid::text from pg_locks where locktype = 'virtualxid' and mode = 'ExclusiveLock' and granted
  and pid <> pg_backend_pid()
union all select '{_PREPARED}' || transaction from pg_prepared_xacts where database = current_database()
"""


class Moment(NamedTuple):
    """A time by two clocks, in seconds: this process's monotonic clock, and the server's clock."""

    steady: float
    server: float


class UnderWay(NamedTuple):
    """The possible writers of rows with lower values than those seen: transactions, or sessions by their processes."""

    begun: Mapping[str, float | None]
    """For each of them, by its number, the earliest time that it may still give a row; None if that is not known."""
    hidden: frozenset[str] = frozenset()
    """The sessions of which the user may see only whether they are in a transaction."""

    @property
    def prepared(self) -> frozenset[str]:
        return frozenset(number for number in self.begun if number.startswith(_PREPARED))


def under_way(session: Session, sequences: Iterable[int] | None) -> UnderWay:
    """Return the transactions and sessions that may still add rows with lower values than this transaction has seen.

    `sequences` are the sequences that give all values; None if the values come from the clock or from programs. This
    transaction must have read the source before, because its locks name the tables below a view.
    """
    if sequences is None:
        return _sessions(session)
    known = ", ".join(map(str, sequences))
    return UnderWay(dict.fromkeys(number for (number,) in session.rows(_WRITERS.format(sequences=known))))


def _sessions(session: Session) -> UnderWay:
    """Return the sessions that run something. If a session begins or ends just now, list them again after a moment."""
    until = time.monotonic() + _SETTLE_SECS
    while True:
        running, settled = _listed(session)
        if settled or time.monotonic() > until:
            return running
        time.sleep(_SETTLE_PAUSE)
        session.rows("select pg_stat_clear_snapshot()")


def _listed(session: Session) -> tuple[UnderWay, bool]:
    """Return the sessions that run something, and whether no session is between waiting for its client and running.

    The list of sessions comes before that of locks: a session that waited for its client, and is in no transaction
    after that, has processed all its messages.
    """
    others, hidden, changing = set(), set(), set()
    begun: dict[str, float | None] = {}
    since: dict[str, float | None] = {}
    for number, ours, shown, runs, changes, first in session.rows(_SESSIONS):
        if not ours:
            others.add(number)
        elif not shown:
            hidden.add(number)
        else:
            since[number] = first
            if runs or changes:
                begun[number] = first
            if changes:
                changing.add(number)
    locks = {number for (number,) in session.rows(_IN_TRANSACTION)} - others
    begun |= {number: since.get(number) for number in locks}
    return UnderWay(begun, frozenset(hidden & locks)), changing <= locks


class _Seen(NamedTuple):
    text: str
    value: Value
    moment: Moment
    waits_for: frozenset[str]

    def after(self, now: UnderWay, before: UnderWay, moment: Moment) -> "_Seen":
        """Return the transactions and sessions that are still to wait for.

        `now` is the latest listing, `before` the listing before it.
        """
        left = {each for each in self.waits_for if each in before.hidden or self._runs(each, now, moment)}
        # A transaction that is gone may have become any of the prepared transactions.
        return self._replace(waits_for=frozenset(left if left == self.waits_for else left | now.prepared))

    def _runs(self, number: str, now: UnderWay, moment: Moment) -> bool:
        begun = now.begun.get(number)
        return number in now.begun and not (begun is not None and self.moment.server < begun <= moment.server)


class Finality:
    """Finds the greatest final value. `lag`: the seconds for which every value is held back."""

    def __init__(self, column: OrderColumn, lag: float) -> None:
        self._column, self._lag = column, lag
        self._final: tuple[str, Value] | None = None
        self._waiting: deque[_Seen] = deque()
        self._before = UnderWay({})
        self._warned = False

    def of(self, greatest: str, now: UnderWay, moment: Moment) -> str | None:
        """Return the greatest final value; None if no value is final.

        `greatest` is the greatest value that was seen, and `now` the transactions and sessions that were under way
        after that.
        """
        if any(seen.moment.server > moment.server for seen in self._waiting):  # the server's clock was set back
            self._waiting = deque(seen._replace(moment=moment) for seen in self._waiting)
        self._waiting = deque(seen.after(now, self._before, moment) for seen in self._waiting)
        self._before = now
        value = self._column.value(greatest)
        last = self._waiting[-1].value if self._waiting else self._final[1] if self._final else None
        if (last is None or value > last) and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(_Seen(greatest, value, moment, frozenset(now.begun)))
        while self._waiting and self._ended(self._waiting[0], moment):
            seen = self._waiting.popleft()
            self._final = seen.text, seen.value
            self._warned = False
        self._warn(moment)
        return self._final[0] if self._final else None

    def _ended(self, seen: _Seen, moment: Moment) -> bool:
        # A clock that was set forward must not shorten the lag.
        waited = min(moment.steady - seen.moment.steady, moment.server - seen.moment.server)
        return not seen.waits_for and (not self._lag or waited >= self._lag)

    def _warn(self, moment: Moment) -> None:
        waited = moment.steady - self._waiting[0].moment.steady if self._waiting else 0
        if waited >= self._lag + _WARN_SECS and not self._warned:
            self._warned = True
            _log.warning(
                "JdbcSpout: %s: rows up to %s=%s have waited %d s for %d transactions that may still add earlier "
                "rows. A long transaction, or a session that is idle in transaction, delays the stream "
                "(pg_stat_activity)",
                self._column.source.name, self._column.name, self._waiting[0].text,
                waited, len(self._waiting[0].waits_for),
            )  # fmt: skip
