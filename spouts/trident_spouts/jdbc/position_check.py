"""Compares a position's proof with the current server: whether it belongs to this table and its history."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trident_spouts.jdbc.column_origin import Origin
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.position_proof import Again, LastRows, Proof, Row
from trident_spouts.jdbc.relation import quoted
from trident_spouts.jdbc.table_identity import SequenceAt, TableIdentity, last_checkpoint

_log = logging.getLogger("trident.spouts")

_CYCLE = 2**32
"""The number of values of the system column xmin, which holds the last 32 bits of a transaction's number."""


class PositionCheck:
    """The comparison, for the source of one run. It skips an identity that was compared before without a difference."""

    def __init__(self, column: OrderColumn, origin: Origin, last_rows: LastRows) -> None:
        self._column, self._origin, self._last_rows = column, origin, last_rows
        self._trusted: tuple[object, ...] | None = None
        self._warned = False

    def loss(self, session: Session, proof: Proof, now: TableIdentity, to: str | None) -> str | None:
        """Return why the position `to` does not belong to the table's history; None if it may."""
        before = proof.place
        problem = next(self._numbers(before, now, to), None)
        problem = problem or next(self._attached(session, before, now, to), None)
        if problem is None and now.history not in (before.history, self._trusted):
            problem = self._changed(session, proof, now, to)
            if problem is None:
                self._trusted = now.history
        return problem

    def begin(self, session: Session, proof: Proof) -> None:
        """Warn at the start of a run if all last rows were rewritten: they may be other rows with the same numbers.

        DELETE and setval leave no other trace once the sequence has reached the same numbers again. Times of the clock
        do not repeat.
        """
        if self._column.type.by_clock or not proof.rows:
            return
        rows = self._last_rows.again(session, proof).rows
        known = {row[:2] for row in proof.rows}
        if _values(rows) == _values(proof.rows) and all(row.version and row[:2] not in known for row in rows):
            last = f"each of the last {len(proof.rows)} rows up to {self._column.name}={proof.rows[0].value}"
            self._warn(
                f"{last} has since been updated",
                "the table was emptied, its sequence was reset, and it was filled again",
            )

    def only_deleted(self, proof: Proof, now: TableIdentity, to: str) -> bool:
        """Return whether missing rows at the end were certainly deleted, because new rows will follow them."""
        return self._grows(proof, now, to) and not self._began_anew(proof.place, now, to)

    def _grows(self, proof: Proof, now: TableIdentity, to: str) -> bool:
        """Return whether new rows come after `to`, on a server that has not gone back."""
        if now.table is None:
            return False
        before = proof.place
        if before.timeline != now.timeline or now.xid < before.xid or now.wal < before.wal:
            return False
        if self._column.type.by_clock:
            return bool(self._origin.defaults)
        return bool(now.sequences) and all(self._gives_beyond(each, to) for each in now.sequences)

    def _gives_beyond(self, sequence: SequenceAt, to: str | None) -> bool:
        next_ = self._next(sequence)
        return next_ is not None and to is not None and next_ > self._column.value(to)

    def _next(self, sequence: SequenceAt) -> int | None:
        increments = {each.oid: each.increment for each in self._origin.sequences}
        return sequence.next(increments.get(sequence.oid, 1))

    def _began_anew(self, before: TableIdentity, now: TableIdentity, to: str | None) -> bool:
        """Return whether a sequence may have returned numbers up to `to` a second time.

        RESTART and every other option of ALTER SEQUENCE give the sequence a new file. If the sequence has returned no
        number since, or has other options now, its next number decides.
        """
        known = {each.oid: each for each in before.sequences}
        for each in now.sequences:
            then = known.get(each.oid)
            if then is not None and then.file == each.file:
                continue
            altered = then is not None and then.options not in (None, each.options)
            was, is_ = then and self._next(then), self._next(each)
            behind = was is not None and is_ is not None and is_ < was
            if not self._gives_beyond(each, to) or (each.called and (behind or not altered)):
                return True
        return False

    def _skipped(self, session: Session, proof: Proof, now: TableIdentity, rows: list[Row]) -> bool:
        """Return whether the sequences skipped numbers after the last row, because they were restarted higher.

        If a restarted sequence returned the numbers of all last rows again, it also returned the numbers after them.
        """
        was, next_ = self._numbers_of(proof.place), self._numbers_of(now)
        if _values(rows) != _values(proof.rows) or not was or not next_ or min(next_) <= max(was):
            return False
        column, last = self._column, self._column.literal(proof.rows[0].value)
        (above,) = session.one(f"select min({column.sql})::text from {column.source.sql} where {column.sql} > {last}")
        return above is None or bool(column.value(above) > max(was))

    def _numbers_of(self, place: TableIdentity) -> list[int]:
        """Return the next number of each sequence; an empty list if the user may not see one of them."""
        numbers = [number for each in place.sequences if (number := self._next(each)) is not None]
        return numbers if len(numbers) == len(place.sequences) else []

    def another(self, before: TableIdentity, now: TableIdentity) -> Iterator[str]:
        """Yield the reasons why this is not the same table as before."""
        # a permission was granted or revoked
        if before.system != now.system and None not in (before.system, now.system):
            yield f"is on another server (system identifier {before.system} before, {now.system} now)"
        if before.database != now.database:
            yield f"is in another database (number {before.database} before, {now.database} now)"
        if before.table != now.table:
            yield f"was dropped and recreated (oid {before.table} before, {now.table} now)"
        if before.views != now.views:
            yield f"or a view below it was redefined (digest {before.views} before, {now.views} now)"

    def _numbers(self, before: TableIdentity, now: TableIdentity, to: str | None) -> Iterator[str]:
        """Yield the reasons why new rows may get values up to `to`: the clock or a sequence has not passed `to`."""
        name = self._column.name
        if to is None:
            return
        if self._column.type.by_clock:
            if (moment := self._column.epoch(to)) is not None and now.clock <= moment < before.clock:
                yield f"was read up to {name}={to}, but the clock of the server now shows an earlier time"
            return
        known = {each.oid: self._next(each) for each in before.sequences}
        names = {each.oid: each.name for each in self._origin.sequences}
        for each in now.sequences:
            is_, was = self._next(each), known.get(each.oid)
            if is_ is None or self._gives_beyond(each, to) or (each.oid in known and was in (None, is_)):
                continue
            came = "" if was is None else f" ({was} before)"
            yield f"was read up to {name}={to}, and its sequence {names[each.oid]} gives {is_} next{came}"

    def _attached(self, session: Session, before: TableIdentity, now: TableIdentity, to: str | None) -> Iterator[str]:
        """Yield a text for each new member of the table (partition or inheriting table) that has rows up to `to`."""
        joined = {number for number, _ in now.files} - {number for number, _ in before.files}
        if to is None or not joined or now.history == self._trusted or not self._origin.readable:
            return
        named = ", ".join(map(str, sorted(joined)))
        column, root = self._column._replace(name=self._origin.column), self._origin.members[0].name
        numbered = f"select oid, oid::regclass::text from pg_class where oid in ({named}) order by 2"
        for number, table in session.rows(numbered):  # the user may read the partitions only through their table
            rows = f"select from {root} where tableoid = {number} and {column.between(None, to)}"
            if session.one(f"select exists({rows})")[0]:
                yield (
                    f"was read up to {quoted(column.name)}={to}, and {table}, which became a partition of it since, "
                    f"has rows with values up to there"
                )

    def _changed(self, session: Session, proof: Proof, now: TableIdentity, to: str | None) -> str | None:
        """Compare the rows that were read last, because the server was restarted or the table has new files."""
        before, again = proof.place, self._last_rows.again(session, proof)
        rows = again.rows
        same = [row for row in proof.rows if _same(row, again)]
        if _holds_last(proof.rows, same):
            return None
        crashed = self._origin.unlogged and before.life != now.life
        back = next(self._went_back(session, proof, now, again), None)
        if back is not None:  # after a crash the numbers of transactions that wrote only unlogged tables are used again
            crash = ", or a crash emptied the table, because it is unlogged" if crashed else ""
            return f"{back}: the server was restored from an older copy{crash}"
        if proof.rows and not same and (rows or not self._deleted(session, proof, now, to)):
            why = self._filled_again(session, proof, now, rows, to, crashed)
            if why is not None:
                return (
                    f"has none of the last {len(proof.rows)} rows up to {self._column.name}={proof.rows[0].value} as "
                    f"they were read, and {why}: it was emptied and filled again"
                )
        if proof.rows:
            self._warn_of_gone_rows(proof, now, altered=not same)
        return None

    def _warn_of_gone_rows(self, proof: Proof, now: TableIdentity, altered: bool) -> None:
        """Warn that a restart (with `altered`: a change of the sequence) may hide that the rows are different rows."""
        gone = f"and the row with {self._column.name}={proof.rows[0].value} has since been deleted or updated"
        if proof.place.life != now.life:
            self._warn(f"the server was restarted, {gone}", "the server was restored from a copy")
        elif altered and proof.place.sequence_files != now.sequence_files:
            self._warn(f"its sequence was altered, {gone}", "the table was emptied and filled again")

    def _filled_again(
        self, session: Session, proof: Proof, now: TableIdentity, rows: list[Row], to: str | None, crashed: bool
    ) -> str | None:
        """Return the sign that a table whose last rows have all changed was filled again; None if there is no sign."""
        further = all(self._gives_beyond(each, to) for each in now.sequences)
        if self._began_anew(proof.place, now, to) and not (further and self._skipped(session, proof, now, rows)):
            return "its sequence was restarted"
        files = dict(proof.place.files)
        made_anew = any(files.get(number, file) != file for number, file in now.files)
        if not (made_anew or crashed) or self._rewritten(proof, rows):
            return None
        return "it has new files" if made_anew else "a crash of the server empties it, because it is unlogged"

    def _went_back(self, session: Session, proof: Proof, now: TableIdentity, again: Again) -> Iterator[str]:
        """Yield facts that are impossible in one history of a server."""
        before = proof.place
        if proof.rows and now.timeline != before.timeline:
            yield (
                f"is on timeline {now.timeline} ({before.timeline} before), and lacks the last row that the stream has "
                f"read"
            )
        if now.xid < before.xid or now.wal < before.wal:
            yield f"is on a server whose next transaction is number {now.xid} ({before.xid} before)"
        checkpoint = last_checkpoint(session)
        if checkpoint and checkpoint[0] > before.clock + 1 and checkpoint[1] < before.xid:
            yield f"is on a server that went back from transaction {before.xid} to transaction {checkpoint[1]}"
        yield from self._impossible_rows(proof, now, again)

    def _impossible_rows(self, proof: Proof, now: TableIdentity, again: Again) -> Iterator[str]:
        """Yield the rows that contradict the rows that were read."""
        known = Counter(row.value for row in proof.rows)
        for value, count in Counter(row.value for row in again.rows).items():
            if count > known[value]:  # several rows have this value, and the proof has only some of them
                continue
            last = (row for row in proof.rows if row.value == value)
            versions = {row.version: self._content(row) if again.comparable else None for row in last}
            for other in (row for row in again.rows if row.value == value):
                if self._impossible(other, versions, proof, now):
                    yield (
                        f"has at {self._column.name}={value} a row of transaction {other.version}, which had already "
                        f"ended when the stream read another row there"
                    )

    def _impossible(self, row: Row, versions: Mapping[str, str | None], proof: Proof, now: TableIdentity) -> bool:
        """Return whether a row existed when another row was read in its place."""
        if row.version in versions:
            return versions[row.version] not in (None, self._content(row)) and len(versions) == 1
        numbers = self._transactions(row, now)
        return bool(numbers) and all(2 < number < proof.finished for number in numbers)

    def _content(self, row: Row) -> str:
        """Return the digest that is equal for equal versions of a row.

        A row of a view may change with other tables, while the row in its table does not change.
        """
        return row.digest if self._last_rows.versioned else row.behind

    def _deleted(self, session: Session, proof: Proof, now: TableIdentity, to: str | None) -> bool:
        """Return whether new rows will follow `to`, and all remaining rows up to `to` were read before the proof.

        A table that was truncated, and filled again with values that a program chose, has newer rows there.
        """
        if to is None or not self._grows(proof, now, to):
            return False
        left = [self._transactions(row, now) for row in self._last_rows.up_to(session, now, to).rows]
        return all(numbers and max(numbers) < proof.finished for numbers in left)

    def _transactions(self, row: Row, now: TableIdentity) -> list[int]:
        """Return the numbers of the transactions that wrote a row; an empty list if the source does not show them."""
        return [now.xid - (now.xid - int(version)) % _CYCLE for version in row.version.split()]

    def _rewritten(self, proof: Proof, rows: list[Row]) -> bool:
        """Return whether one statement has written all rows again, as ALTER TABLE ... TYPE does."""
        known = {(row.value, row.digest) for row in proof.rows}
        return {(row.value, row.digest) for row in rows} == known and len({row.version for row in rows}) == 1

    def _warn(self, what: str, otherwise: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "JdbcSpout: %s: %s. If %s, rows that have since been added up to there are lost",
                self._column.source.name, what, otherwise,
            )  # fmt: skip


def _values(rows: Iterable[Row]) -> set[str]:
    return {row.value for row in rows}


def _holds_last(rows: Sequence[Row], among: Sequence[Row]) -> bool:
    """Return whether the proof has rows, and includes all rows with the value of its first row."""
    return bool(rows) and all(row in among for row in rows if row.value == rows[0].value)


def _same(row: Row, again: Again) -> bool:
    if again.comparable:
        return row in again.rows
    return any(row[:2] == other[:2] for other in again.rows)
