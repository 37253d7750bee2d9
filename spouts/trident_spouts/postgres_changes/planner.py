"""Plans of the changes of a table: first its rows as of one moment, then ranges of the server's log of changes."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from trident.base.change_kinds import CHANGE
from trident.base.errors import SourceUnreadableError
from trident_spouts.executor import ReadSoFar
from trident_spouts.jdbc.database import Database, Session
from trident_spouts.postgres_changes.first_rows import first_rows, running_ended
from trident_spouts.postgres_changes.pgoutput import Transaction, kinds_of
from trident_spouts.postgres_changes.plan import Key, Last, Place, Plan, Shown
from trident_spouts.postgres_changes.reader import Reader, up_to_rows
from trident_spouts.postgres_changes.slot import Look, Slot, advance, check_position, create, flushed_to, look_at
from trident_spouts.postgres_changes.source import EXISTS, ChangesSource, Table, opened
from trident_spouts.postgres_changes.table_rewrites import check_partitions
from trident_spouts.postgres_changes.unseen_changes import Unseen, check_key

_LONGEST_SILENCE = 16 << 20
"""The bytes of the log without a change of this table after which an empty batch moves the position. Otherwise the
server would keep the log for as long as only other tables change."""

_PIECE_BYTES = 4 << 20


class ChangesPlanner:
    """Plans batches for one run, and returns their tuples."""

    def __init__(self, source: ChangesSource) -> None:
        self._source = source
        self._database = Database(source.address, source.patience)
        self._reader = Reader(source)
        self._table: Table | None = None
        self._unseen = Unseen(source, self._database)
        self._first: dict[Key | None, tuple[tuple[Shown, ...], pa.Table]] = {}
        """The initial rows in batches under way, by the key after which they begin."""
        self._flushed: int | None = None
        self._place: Place | None = None
        """The place as of the last reading; None before the first."""
        self._silent_to = 0
        """The end of a record in the log. Once it is on disk and the reading has reached the log's end, no
        transaction up to it is missing."""
        self._committed = 0
        """The end of the last plan whose batch is committed."""
        self._proved: str | None = None
        """The server whose log of changes is known to be the one that was read; see `Slot.server`. On any other
        server the slot must not be advanced, because the log could then no longer be compared with the changes that
        were read."""
        self.waits: str | None = None
        """The reason why the last plan returned None although there may be changes."""

    def next(self, previous: Plan | None, limit: int) -> Plan | None:
        """Return the batch after `previous`, of about `limit` rows; None if there are no new changes.

        Raises DataLossError if the slot or the table does not continue what was read.
        """
        self.waits = None
        if previous is None:
            previous = self._begin(limit)
            if previous is None or self._source.rows_first:
                return previous
        if previous.rows_left:
            return self._more_rows(previous, limit)
        plan = self._planned(previous, limit)
        if plan is None:
            silent_to = self._database.read(lambda session: self._read(session, previous))
            plan = self._planned(previous, limit)
            if plan is None and silent_to - previous.to >= _LONGEST_SILENCE:
                return previous._replace(after=previous.to, to=silent_to, rows=0)
        return plan

    def _planned(self, previous: Plan, limit: int) -> Plan | None:
        transactions = up_to_rows(self._reader.between(previous.to), limit)
        if not transactions:
            return None
        last, shown = transactions[-1].id, previous.shown
        place = self._place or previous.place
        plan = previous._replace(place=place, after=previous.to, to=last.end, rows=0, last=last, begin=None)
        if shown and previous.to >= shown[-1].until:
            plan = plan._replace(shown=())
        return plan._replace(rows=sum(each.rows for each in self._new(plan, transactions)))

    def _new(self, plan: Plan, transactions: Sequence[Transaction]) -> list[Transaction]:
        assert self._table is not None
        return self._unseen.of(self._table, plan, transactions)

    def _read(self, session: Session, previous: Plan, repeated: Last | None = None) -> int:
        """Read the log after a plan. Return the LSN up to which it certainly has no further change.

        `repeated` is the last transaction of a batch after `previous` that another run planned.
        """
        if self._table is not None and self._reader.at_end(previous.to, flushed_to(session)):
            return 0
        table = self._opened(session)
        slot = self._checked(session, table, previous)
        self._flushed = slot.flushed
        with_keys = len(previous.shown) > 1
        complete = self._reader.read(session, table, slot, previous.to, previous.last, with_keys, repeated)
        self._proved = slot.server
        if self._committed > slot.confirmed:
            advance(session, self._source, self._committed, slot.server)
        silent_to, safe = self._silent_to, complete and self._silent_to <= slot.flushed
        self._silent_to = slot.inserted if safe or not silent_to else silent_to
        return silent_to if safe else 0

    def _checked(self, session: Session, table: Table, previous: Plan) -> Slot:
        """Return the slot, if it and the table continue what was read."""
        look = look_at(session, self._source, table)
        slot = check_position(self._source, look, previous)
        check_partitions(session, self._source, previous.place, look.place)
        self._place = look.place._replace(columns={**previous.place.columns, **look.place.columns})
        return slot

    def _begin(self, limit: int) -> Plan | None:
        """Return the position at which a new stream begins, after creating the slot; None if that takes longer."""
        look = self._look()
        if look.slot is None:
            if not self._database.read(lambda session: create(session, self._source)):
                self.waits = f"the slot {self._source.slot!r} is created when the open transactions have ended"
                return None
            look = self._look()
        if look.slot is None:
            raise SourceUnreadableError(
                f"{self._source.name}: the slot {self._source.slot!r} was dropped after it was created"
            )
        self._flushed = look.slot.flushed
        begin = look.slot.confirmed
        start = Plan(look.place, begin, begin, 0, None, (), begin)
        if not self._source.rows_first:
            return start
        if not self._database.read(running_ended):
            self.waits = "the rows are read when the transactions have ended that ran when the slot was created"
            return None
        return self._with_rows(start, limit)

    def _more_rows(self, previous: Plan, limit: int) -> Plan:
        """Return the next part of the table's initial rows."""
        self._database.read(lambda session: self._checked(session, self._opened(session), previous))
        return self._with_rows(previous, limit)

    def _with_rows(self, previous: Plan, limit: int) -> Plan:
        assert self._table is not None
        after = previous.shown[-1].upto if previous.shown else None
        if after is not None:
            check_key(self._source, self._table, after)
        part, rows = first_rows(self._database, self._source, self._table, after, limit)
        shown = previous.shown
        if shown and shown[-1].snapshot == part.snapshot:
            shown = (*shown[:-1], shown[-1]._replace(upto=part.upto))
        else:
            shown = (*shown, part)
        self._first[after] = shown, rows
        self._reader = Reader(self._source)  # without keys a part could not be combined with others
        return previous._replace(after=None, rows=rows.num_rows, shown=shown)

    def _look(self) -> Look:
        return self._database.read(lambda session: look_at(session, self._source, self._opened(session)))

    def _opened(self, session: Session) -> Table:
        table = opened(session, self._source)
        self._table = table
        return table

    def table(self, plan: Plan) -> pa.Table:
        """Return the tuples of a plan. Raises SourceUnreadableError if it must be planned again."""
        if plan.after is None:
            rows = next((rows for shown, rows in self._first.values() if shown == plan.shown), None)
            if rows is None:
                raise SourceUnreadableError(f"{self._source.name}: the first rows are read again with a new plan")
            return self._with_kinds(rows, bytes(rows.num_rows))
        return self._changes(plan, plan.after)

    def _changes(self, plan: Plan, after: int) -> pa.Table:
        transactions = self._reader.between(after, plan.to)
        if not transactions and plan.rows:  # another run planned it
            self._reader = Reader(self._source)
            self._database.read(lambda session: self._read(session, plan._replace(to=after, last=None), plan.last))
            transactions = self._reader.between(after, plan.to)
        unseen = [] if self._table is None else self._new(plan, transactions)
        if self._table is None or sum(each.rows for each in unseen) != plan.rows:
            raise SourceUnreadableError(f"{self._source.name}: the slot has other changes now; they are planned again")
        rows, _ = self._table.format.table(_joined(unseen))
        return self._with_kinds(rows, b"".join(each.kinds for each in unseen))

    def _with_kinds(self, rows: pa.Table, codes: bytes) -> pa.Table:
        keys_only = self._source.keys_only
        return rows.append_column(EXISTS if keys_only else CHANGE, kinds_of(codes, keys_only))

    def success(self, plan: Plan) -> None:
        """Let the slot discard the changes up to the end of a plan, because its batch is committed.

        If the server may have been replaced, this is left to the next reading.
        """
        self._committed = max(self._committed, plan.to)
        server = self._proved
        if server is not None:
            self._database.read(lambda session: advance(session, self._source, plan.to, server))
        self._reader.forget(plan.to)
        self._unseen.forget(plan.to)
        self._first = {after: part for after, part in self._first.items() if part[0] != plan.shown}

    def read_so_far(self, previous: Plan | None) -> ReadSoFar | None:
        """Return how many bytes of the log of changes were read, out of those on disk."""
        flushed = self._flushed
        if previous is None or flushed is None:
            return None
        return ReadSoFar(previous.to, max(flushed, previous.to), "bytes")

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def _joined(transactions: Sequence[Transaction]) -> Iterator[bytes]:
    """Yield the rows of transactions as CSV, in pieces that are neither small nor very large."""
    pieces, size = list[bytes](), 0
    for piece in (piece for each in transactions for piece in each.pieces):
        pieces.append(piece)
        size += len(piece)
        if size > _PIECE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)
