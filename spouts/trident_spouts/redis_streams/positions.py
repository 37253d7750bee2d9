"""Positions in streams, and the detection of entries lost after a position: deleted, trimmed, or rolled back.

A stream only grows at its end: the server refuses an id below the last id. So until a stream is deleted, entries
between two of its ids can only vanish, and if their number is unchanged, they are the same entries. A position
remembers the state of the stream at its id. Each later Look (the state of the stream at one moment) is compared with
it, and the number of entries that were ever added must agree.
"""

from typing import Any, NamedTuple

from trident_spouts.redis_streams.ids import ZERO, order


class Position(NamedTuple):
    """The id up to which a stream was read, with data that identify the stream. The log keeps it as JSON."""

    id: str
    """The id of the last entry that was read, or the id after which reading began."""
    digest: str | None = None
    """The digest of the entry at `id`; None if it is not known."""
    added: int | None = None
    """The number of entries that were ever added up to `id`; None if it is not known."""
    next: str | None = None
    """The id of the entry after `id`; None if there was no such entry, or if it is not known."""
    deleted: str = ZERO
    """The greatest id of a deleted entry that is not a new loss.

    It was deleted before reading began, or was reported.
    """

    @property
    def comparable(self) -> bool:
        """Return whether losses can be detected, because the position has data of the stream at `id`."""
        return self.added is not None or self.next is not None


class Look(NamedTuple):
    """A stream as it was at one moment, and its page of entries after a position. The fields are those of look.lua."""

    length: int
    last: str
    """The greatest id that the stream ever assigned."""
    added: int
    deleted: str
    """The greatest id of an entry that XDEL deleted; `ZERO` if there is none. Trimmed entries do not count."""
    first: str
    """The id of the first present entry; `ZERO` if the stream is empty."""
    digest: str
    """The digest of the entry at the position; empty if there is no such entry."""
    entries: int
    size: int
    """The approximate number of bytes of the page's entries."""
    to: str
    to_digest: str
    next: str
    """The id of the entry after the page; empty if the page ends at the end of the stream."""

    @classmethod
    def of_reply(cls, reply: list[Any]) -> "Look | None":
        """Return the Look in a reply of look.lua, after its element `role`; None if the key does not exist."""
        parts: list[Any] = [part.decode() if isinstance(part, bytes) else part for part in reply]
        return cls(*parts) if parts else None

    def all_behind(self, entry_id: str) -> bool:
        """Return whether all present entries have ids greater than `entry_id`."""
        return self.length == 0 or order(self.first) > order(entry_id)


def begin(entry_id: str, look: Look | None) -> Position:
    """Return the position at which reading begins. Entries that are already missing do not count as lost.

    `entry_id` may be an id that the stream has not assigned yet.
    """
    if look is None:
        return Position(entry_id, added=0 if entry_id == ZERO else None)
    known = order(entry_id) <= order(look.last) and look.all_behind(entry_id)
    return Position(entry_id, added=look.added - look.length if known else None, deleted=look.deleted)


def begin_again(position: Position, look: Look | None) -> Position:
    """Return the position at which reading continues after a loss.

    That is `position`, or the stream's last id if it is smaller, or the beginning if the stream does not exist.
    """
    if look is None:
        return begin(ZERO, None)
    return begin(min(position.id, look.last, key=order), look)


def after_page(position: Position, look: Look | None) -> Position:
    """Return the position after the page in `look`, which begins at `position`."""
    if look is None or order(look.last) < order(position.id):
        return position
    added = None if position.added is None else position.added + look.entries
    return Position(
        look.to if look.entries else position.id,
        look.to_digest if look.entries else position.digest or look.digest or None,
        added if look.next else look.added,
        look.next or None,
        max(position.deleted, look.deleted, key=order),
    )


def loss(position: Position, look: Look | None) -> str | None:
    """Return a text about the entries that were lost between `position` and `look`; None if no entry was lost."""
    if not position.comparable:
        return None
    if look is None:
        gone = "the stream is gone: it was deleted, or the server has lost its data"
        return None if position.added == 0 else f"{gone}; it was read up to {position.id}"
    return _another_life(position, look) or _vanished(position, look)


def _another_life(position: Position, look: Look) -> str | None:
    """Return a text if this stream is not the one that was read, or is an older copy of it; otherwise None."""
    if order(look.last) < order(position.id):
        return (
            f"its last id is {look.last}, but it was read up to {position.id}: it was deleted and recreated, or the "
            f"server lost its last entries (for example, a replica without them took over)"
        )
    if position.digest is not None and look.digest not in ("", position.digest):
        return f"its entry {position.id} is not the one that was read: the stream was deleted and recreated"
    missing = position.digest is not None and not look.digest
    if missing and not look.all_behind(position.id) and order(look.deleted) < order(position.id):
        return (
            f"the entry {position.id}, which was read, is missing, but was not deleted: the server lost its last "
            f"entries (for example, a replica without them took over), or the stream was recreated"
        )
    if position.added is not None and look.added < position.added:
        return (
            f"{look.added} entries were added to it in total, but {position.added} were read or trimmed before: it "
            f"was deleted and recreated, or the server has an older copy of it"
        )
    return None


def _vanished(position: Position, look: Look) -> str | None:
    """Return a text about missing entries after the position; None if no entry is missing."""
    all_behind = look.all_behind(position.id)
    if position.added is not None and (all_behind or not look.next):
        return _miscount(position, look.added - position.added - (look.length if all_behind else look.entries))
    if all_behind and position.next is not None and look.first != position.next:
        return f"entries from {position.next} on were trimmed or deleted before they were read"
    if order(look.deleted) > max(order(position.id), order(position.deleted)):
        return f"the entry {look.deleted} was deleted before it was read, and possibly others after {position.id}"
    return None


def _miscount(position: Position, missing: int) -> str | None:
    if missing > 0:
        entries = "1 entry" if missing == 1 else f"{missing} entries"
        return f"{entries} after {position.id} vanished before being read: trimmed or deleted"
    if missing < 0:
        return (
            f"it has {-missing} more entries after {position.id} than were added since: it was deleted and "
            f"recreated, or the server lost entries that were read (for example, a replica without them took over)"
        )
    return None
