"""The plan of a batch: a range of the server's log of changes, and the data to continue from it."""

from typing import Any, NamedTuple

from trident_spouts.postgres_changes.lsn import lsn_from, lsn_text


class Last(NamedTuple):
    """A transaction that changed the table: its number, the LSNs of its commit and its end, and its time."""

    xid: int
    commit: int
    end: int
    time: int


class Place(NamedTuple):
    """The identity of the server, the database, the table and the publication, which positions are compared by."""

    system: str | None
    """The system identifier of the server; None if the user may not see it."""
    database: int
    table: int
    columns: dict[str, list[Any]]
    """Each column that is read: its number, the number of its type, the type's modifier, the labels of an enumeration.
    """
    publication: str
    """The numbers of the publication and of its entry for the table, and of the transactions that wrote them."""
    partitions: tuple[dict[str, list[int]], int] | None = None
    """The partitions, as `Partitions` has them; None if the table has none."""


Key = tuple[tuple[str, str], ...]
"""The primary key of a row: the name of each column, and its value as the database writes it."""


class Shown(NamedTuple):
    """A part of the initial rows: the transactions that it includes.

    The rows already include the changes of these transactions, so the changes are skipped.
    """

    snapshot: str
    """The snapshot in which the rows were read, as the server writes it: xmin:xmax:xip."""
    until: int
    """An LSN. The rows include no transaction that was committed after it."""
    upto: Key | None = None
    """The greatest key of these rows. None: they are the rest of the table."""

    def shows(self, transaction: Last) -> bool:
        """Return whether the rows include the changes of a transaction.

        >>> shown = Shown("10:20:15,17", 1000)
        >>> [shown.shows(Last(xid, 900, 910, 0)) for xid in (9, 12, 15, 19, 20)]
        [True, True, False, True, False]
        >>> shown.shows(Last(12, 1000, 1010, 0))
        False
        """
        if transaction.commit >= self.until:
            return False
        oldest, following, *running = self.snapshot.split(":")
        distance = (int(following) - transaction.xid) % _CYCLE
        xid = int(following) - (distance if distance < _CYCLE // 2 else distance - _CYCLE)
        if xid < int(oldest):
            return True
        return xid < int(following) and str(xid) not in running[0].split(",")


_CYCLE = 2**32
"""The number of transactions after which the 32-bit transaction numbers in the log of changes repeat."""


class Plan(NamedTuple):
    """The plan of a batch. The log stores it as a JSON object; the next batch begins at its end."""

    place: Place
    after: int | None
    """The LSN after which the batch begins; None for the rows that the table had at the beginning."""
    to: int
    rows: int
    last: Last | None
    """The last transaction up to `to` that changed the table; None if there was none since the slot was created."""
    shown: tuple[Shown, ...]
    """The parts in which the initial rows of the table were read, by their keys. Empty if the stream began without
    these rows, or once all transactions that they include were read."""
    begin: int | None = None
    """The position of the slot at the beginning of the stream. None if `last` is known."""

    @property
    def rows_left(self) -> bool:
        """True if the table has initial rows that were not read yet."""
        return self.after is None and bool(self.shown) and self.shown[-1].upto is not None

    def logged(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        after = None if self.after is None else lsn_text(self.after)
        stored: dict[str, Any] = {"after": after, "to": lsn_text(self.to), "rows": self.rows, "place": list(self.place)}
        if self.last is not None:
            stored["last"] = list(self.last)
        if self.begin is not None:
            stored["begin"] = lsn_text(self.begin)
        if self.shown:
            stored["shown"] = [list(part) for part in self.shown]
        return stored


def plan_from(stored: dict[str, Any]) -> Plan:
    """Return the plan in a record of the log. Raises KeyError, TypeError or ValueError if the record is not a plan."""
    after, last, begin = stored["after"], stored.get("last"), stored.get("begin")
    return Plan(
        Place(*stored["place"]),
        None if after is None else lsn_from(after),
        lsn_from(stored["to"]),
        stored["rows"],
        None if last is None else Last(*last),
        tuple(_shown_from(*part) for part in stored.get("shown", ())),
        None if begin is None else lsn_from(begin),
    )


def _shown_from(snapshot: str, until: int, upto: list[list[str]] | None) -> Shown:
    return Shown(snapshot, until, None if upto is None else tuple((name, value) for name, value in upto))
