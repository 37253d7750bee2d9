"""Plans of the rows that are added to a table: the next ranges of the order column, up to the last final value."""

from time import monotonic
from typing import NamedTuple

from trident.base.errors import SourceUnreadableError, TopologyError
from trident_spouts.executor import ReadSoFar
from trident_spouts.jdbc.column_origin import defaults_now
from trident_spouts.jdbc.database import Database, Session
from trident_spouts.jdbc.final_values import Finality, Moment, UnderWay, under_way
from trident_spouts.jdbc.growing_column import Growth
from trident_spouts.jdbc.losses import Losses
from trident_spouts.jdbc.pages import pages_behind, pages_sql
from trident_spouts.jdbc.plan import Plan, page_rows
from trident_spouts.jdbc.position_check import PositionCheck
from trident_spouts.jdbc.position_proof import LastRows
from trident_spouts.jdbc.source import LATEST, JdbcSource, Opened, opened
from trident_spouts.jdbc.table_identity import TableIdentity


class _Look(NamedTuple):
    """The end of the table at one moment, and the transactions and sessions that may still add rows before it."""

    greatest: str | None
    past: str | None
    """The greatest value in the past: no transaction that begins later gets it from the clock."""
    moment: Moment
    under_way: UnderWay
    """The transactions or sessions that ran after `past` was read."""


class IncrementalPlanner:
    """Plans batches of the rows that were added after the last batch, up to the last final value."""

    def __init__(self, database: Database, source: JdbcSource, first: Opened) -> None:
        self._database, self._source = database, source
        self._losses = Losses(source.source.name, source.on_data_loss)
        self._open(first)
        self._beginning: Plan | None = None
        """The empty first batch of a stream with `startingFrom="latest"`, once the end is known."""
        self._end: str | None = None
        """The greatest value that the first plan saw. The stream begins after it."""
        self._served: tuple[str, str] | None = None
        """The timeline and the life of the server that the last plan saw."""
        self._checked: tuple[object, ...] | None = None
        """The history of the last identity, and the defaults of the column at that time."""
        self._first: str | None = None
        """The value after which this run began."""
        self._greatest: str | None = None
        """The greatest value that the last plan saw."""
        self._begun = False
        """True after the first plan of this run."""
        self._awaited: str | None = None
        """The greatest value of the table when the wait for its last rows began; None if no rows are waited for."""
        self.waits: str | None = None
        """The reason why the last plan left out existing rows; None if it left out no rows."""

    def _open(self, description: Opened) -> None:
        self._opened = description
        self._column = description.column
        self._finality = Finality(description.column, self._source.lag)
        self._growth = Growth(description.column, description.origin, self._source.lag)
        self._last_rows = LastRows(description)
        self._history = PositionCheck(description.column, description.origin, self._last_rows)

    def next(self, previous: Plan | None, limit: int) -> Plan | None:
        """Return the batch after `previous`, of about `limit` rows; None if no new rows are final.

        Raises DataLossError if the table is not the one that was read, or ends before rows that were read.
        """
        description, beginning, end = self._opened, self._beginning, self._end
        plan = self._database.read(lambda session: self._next(session, previous, limit))
        if self._opened is not description:  # the values have another origin: check finality again
            self._finality = Finality(self._column, self._source.lag)
            self._beginning, self._end = beginning, end
            plan = self._database.read(lambda session: self._next(session, previous, limit))
        return plan

    def _next(self, session: Session, previous: Plan | None, limit: int) -> Plan | None:
        look = self._look(session)
        self.waits = None
        place = self._place(session)
        if self._served != (place.timeline, place.life):  # a server that went back gives values a second time
            self._served = place.timeline, place.life
            self._finality, self._end = Finality(self._column, self._source.lag), None
        table = self._opened.relation.oid
        if previous is not None:
            self._check_not_lost(session, previous, look, place)
        self._begun = True
        if previous is None and self._source.starting == LATEST:
            beginning = self._latest(session, look, place)
            self.waits = self._reason(look) if beginning is None else None
            return beginning
        after = previous.to if previous else self._source.starting
        self._greatest = look.greatest
        self._first = self._first if self._first is not None else after
        if look.past is None:
            return None
        final = self._finality.of(look.past, look.under_way, look.moment)
        if final is None or not self._behind(after, final):
            self.waits = self._held_back(after, look.past, look)
            return None
        self._check_unchanged(session)
        pages = tuple(pages_behind(session, self._pages_sql(after, final, limit), after))
        return Plan(table, after, pages, self._last_rows.up_to(session, place, pages[-1].to)) if pages else None

    def _pages_sql(self, after: str | None, final: str, limit: int) -> str:
        """Return the query of the next pages. They end with row number `limit` and all rows of the same value."""
        column, rows = self._column, self._column.between(after, final)
        ordered = f"select {column.sql} from {column.source.sql} where {rows} order by {column.sql}"
        last = f"{ordered} limit 1 offset {limit - 1}"
        size = page_rows(limit, self._source.partitions)
        return pages_sql(
            self._opened.relation,
            column,
            f"{rows} and {column.sql} <= coalesce(({last}), {column.literal(final)})",
            size,
        )

    def _look(self, session: Session) -> _Look:
        """Read the end of the table, and then list the transactions and sessions that may still add rows before it."""
        column, source = self._column, self._column.source
        (standby,) = session.one("select pg_is_in_recovery()")
        if standby:
            raise SourceUnreadableError(
                f"JdbcSpout: the server at {self._database.address.shown} is a standby, which does not know the "
                f"open transactions; the url must lead to the primary (target_session_attrs=read-write)"
            )
        greatest = f"(select max({column.sql}) from {source.sql})::text"
        past = f"(select max({column.sql}) from {source.sql} where {column.past})::text"
        nulls = f"exists(select from {source.sql} where {column.sql} is null)"
        clock = "extract(epoch from clock_timestamp())::float8"
        last, passed, has_nulls, server = session.one(f"select {greatest}, {past}, {nulls}, {clock}")
        if has_nulls:
            raise SourceUnreadableError(
                f"JdbcSpout: {source.name} has rows without a value of {column.name}, which would never be read; "
                f"make the column NOT NULL, or exclude such rows with query="
            )
        sequences = None if column.type.by_clock else self._opened.origin.numbered_by
        return _Look(last, passed, Moment(monotonic(), server), under_way(session, sequences))

    def _place(self, session: Session) -> TableIdentity:
        """Return the current identity of the table. If it has changed, check the description of the source first."""
        place, defaults = self._opened.place(session), defaults_now(session, self._opened.origin)
        if (place.history, defaults) != self._checked:
            self._check_unchanged(session)
            if self._checked is None:
                self._growth.warn(session)
            place = self._opened.place(session)
            self._checked = place.history, defaults_now(session, self._opened.origin)
        return place

    def _check_unchanged(self, session: Session) -> None:
        """Raise an error if a column, its type, or the source of its values is no longer suitable."""
        now = opened(session, self._source)
        if now != self._opened:
            self._open(now)
        self._growth.check(session)

    def _latest(self, session: Session, look: _Look, place: TableIdentity) -> Plan | None:
        """Return the empty first batch of a stream that begins at the end of the table; None until that end is final.

        A second plan of the first batch begins at the same end, so that rows that came in between are read. The end of
        an empty table is final at once, because all of its rows are still to come.
        """
        if self._beginning is None:
            end = self._end = self._end if self._end is not None else look.past
            final = None if end is None else self._finality.of(end, look.under_way, look.moment)
            if final is not None or end is None:
                proof = self._last_rows.up_to(session, place, final)
                self._beginning = Plan(self._opened.relation.oid, final, (), proof)
        return self._beginning

    def _check_not_lost(self, session: Session, previous: Plan, look: _Look, place: TableIdentity) -> None:
        proof = previous.proof
        if proof.place.query != place.query:
            digests = f"digest {proof.place.query} before, {place.query} now"
            self._losses.tell(
                f"is not the query that the stream has read so far: query= was changed ({digests})", TopologyError
            )
            return
        loss = self._another(previous, place) or self._lost(session, previous, look, place)
        if loss is not None:
            self._losses.tell(loss)
        elif not self._begun:
            self._history.begin(session, proof)

    def _another(self, previous: Plan, place: TableIdentity) -> str | None:
        """Return the reason why this is not the table that was read; None if it is the same table."""
        before, now = previous.table, self._opened.relation.oid
        if before is not None and now is not None and before != now:
            return f"was dropped and recreated (oid {before} before, {now} now)"
        return next(self._history.another(previous.proof.place, place), None)

    def _lost(self, session: Session, previous: Plan, look: _Look, place: TableIdentity) -> str | None:
        """Return a text about read rows that the table has lost; None if none are missing, or if they were deleted."""
        to, proof = previous.to, previous.proof
        loss = self._history.loss(session, proof, place, to)
        if to is None or not previous.pages or not self._behind(look.greatest, to):
            return loss
        if loss is None and self._history.only_deleted(proof, place, to):
            return None
        what = "is empty" if look.greatest is None else f"ends at {self._column.name}={look.greatest}"
        return (
            f"{what} and was read up to {to}: rows were deleted, or the table was truncated or restored. New rows "
            f"with values up to there would be lost"
        )

    def _held_back(self, after: str | None, last: str, look: _Look) -> str | None:
        """Return the reason why rows after `after` are not final yet; None if there are no such rows.

        With a lag, a table that keeps getting rows always has some that are not final. So a run waits only for rows
        that existed when the wait began; then a run that reads available rows may end.
        """
        reached = self._awaited is not None and not self._behind(after, self._awaited)
        if not self._behind(after, last) or (self._source.lag and reached):
            self._awaited = None
            return None
        self._awaited = self._awaited or last
        return self._reason(look)

    def _reason(self, look: _Look) -> str:
        """Return the reason why existing rows are not final yet."""
        if self._source.lag:
            return f"{self._column.source.name}: isolationLag={self._source.lag:g} s has not passed for the last rows"
        others = f" ({len(look.under_way.begun)} seen)" if look.under_way.begun else ""
        return (
            f"{self._column.source.name}: open transactions{others} may still add rows before those that the table has "
            f"now"
        )

    def _behind(self, greatest: str | None, to: str) -> bool:
        return greatest is None or self._column.value(greatest) < self._column.value(to)

    def read_so_far(self, previous: Plan | None) -> ReadSoFar | None:
        """Return how far the column was read since this run began, in the column's unit; None if it has no unit."""
        column = self._column
        if self._greatest is None or column.type.unit is None:
            return None
        first, last = column.amount(self._first), column.amount(self._greatest)
        at = column.amount(previous.to) if previous and previous.to is not None else first
        return ReadSoFar(max(0, at - first), max(0, last - first, at - first), column.type.unit)
