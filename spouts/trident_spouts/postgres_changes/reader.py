"""Reads transactions from a slot, and keeps them until their batches are committed.

The slot returns all transactions after its confirmed position, each time. It is advanced only after a commit, so it
returns the transactions of batches under way again: they are compared with those that were read, and skipped.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from trident.base.errors import DataLossError
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.relation import literal, quoted
from trident_spouts.postgres_changes.lsn import lsn_text
from trident_spouts.postgres_changes.pgoutput import Decoder, Transaction
from trident_spouts.postgres_changes.plan import Last
from trident_spouts.postgres_changes.slot import Slot, check_still, lost
from trident_spouts.postgres_changes.source import ChangesSource, Table

_LEAST_MESSAGES = 10_000
_BATCHES = 4
"""The number of full batches per reading, because each reading starts over at the slot's confirmed position."""


class _Kept(NamedTuple):
    """The transactions that changed the table between two LSNs."""

    begin: int
    end: int
    transactions: tuple[Transaction, ...]
    last: Last | None
    """The last transaction up to `end` that changed the table."""


class Reader:
    """The transactions of one run's slot, by LSN."""

    def __init__(self, source: ChangesSource) -> None:
        self._source = source
        self._kept = _Kept(0, 0, (), None)
        self._complete = 0
        """The LSN up to which the log of changes was on disk when the last reading reached its end."""

    def between(self, after: int, to: int | None = None) -> Sequence[Transaction]:
        """Return the kept transactions that were committed after one LSN, and up to another."""
        if not self._kept.begin <= after <= self._kept.end:
            return ()
        last = self._kept.end if to is None else to
        return [each for each in self._kept.transactions if each.id.commit >= after and each.id.end <= last]

    def forget(self, to: int) -> None:
        """Drop the transactions up to an LSN, because their batch was committed."""
        kept = self._kept
        if kept.begin < to <= kept.end:
            left = tuple(each for each in kept.transactions if each.id.commit >= to)
            self._kept = kept._replace(begin=to, transactions=left)

    def at_end(self, after: int, flushed: int) -> bool:
        """Return whether no change can follow an LSN as of the last reading: the log ends there."""
        return self._kept.end <= after <= flushed == self._complete

    def read(
        self,
        session: Session,
        table: Table,
        slot: Slot,
        after: int,
        last: Last | None,
        with_keys: bool = False,
        repeated: Last | None = None,
    ) -> bool:
        """Read transactions after an LSN, beyond those already kept. Return whether the end of the log was reached.

        `with_keys`: read the primary key of each tuple, too. `last` is the last transaction up to the LSN; the slot
        must have the same one. If it is not known, `repeated` is a later transaction that was read before, which the
        slot must still have. Otherwise raises DataLossError.
        """
        kept = self._kept if self._kept.begin <= after <= self._kept.end else _Kept(after, after, (), last)
        again = sum(each.messages for each in kept.transactions if each.id.commit >= slot.confirmed)
        most = again + max(_BATCHES * self._source.limit, _LEAST_MESSAGES)
        while True:
            decoder = Decoder(self._source, table, kept.end, with_keys)
            read, complete = self._peeked(session, decoder, most)
            if complete or (read if repeated is None else repeated in [each.id for each in read]):
                break
            most *= 2
        check_still(session, self._source, slot, kept.end)
        if repeated is None:
            self._check_history(kept, slot, decoder.skipped)
        elif repeated not in [each.id for each in read]:
            raise self._other_history(
                f"a batch ended with transaction {_shown(repeated)}, which the slot does not have"
            )
        if read:
            kept = kept._replace(end=read[-1].id.end, transactions=(*kept.transactions, *read), last=read[-1].id)
        self._kept = kept
        self._complete = slot.flushed if complete else 0
        return complete

    def _peeked(self, session: Session, decoder: Decoder, most: int) -> tuple[list[Transaction], bool]:
        """Return the transactions in the slot's first `most` messages, and whether these are all of its messages."""
        read, count = list[Transaction](), 0
        for message in session.values(self._query(most)):
            count += 1
            transaction = decoder.feed(message)
            if transaction is not None:
                read.append(transaction)
        return read, count < most

    def _query(self, most: int) -> str:
        names = literal(quoted(self._source.publication))
        return (
            f"select data from pg_logical_slot_peek_binary_changes({literal(self._source.slot)}, null, {most}, "
            f"'proto_version', '1', 'publication_names', {names})"
        )

    def _check_history(self, kept: _Kept, slot: Slot, skipped: Last | None) -> None:
        """Raise DataLossError unless the slot returned the last transaction again, and none between it and the LSN."""
        expected = kept.last if kept.last is not None and kept.last.commit >= slot.confirmed else None
        if skipped != expected:
            raise self._other_history(
                f"the last transaction before {lsn_text(kept.end)} was {_shown(kept.last)}, and the slot has "
                f"{_shown(skipped)}"
            )

    def _other_history(self, difference: str) -> DataLossError:
        problem = f"has a different history from the one that was read: {difference}"
        return lost(self._source, f"{problem}: the server was restored from an older copy")


def _shown(transaction: Last | None) -> str:
    return "none" if transaction is None else f"number {transaction.xid}"


def up_to_rows(transactions: Sequence[Transaction], limit: int) -> list[Transaction]:
    """Return the first transactions, at least one, that have at most `limit` rows in all."""
    rows = 0

    def fits(transaction: Transaction) -> bool:
        nonlocal rows
        rows += transaction.rows
        return rows <= limit or rows == transaction.rows

    return list(takewhile(fits, transactions))
