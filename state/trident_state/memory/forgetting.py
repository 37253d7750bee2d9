"""What a memory state forgets, and when it takes the room back."""

from trident_state.expiry import Expiry
from trident_state.memory.entries import Entries
from trident_state.store import Update

_FROM = 4096
"""Entries below which those that nobody can see any more are left where they are."""


class Forgetting:
    """The rule of one store: by a time to live (`ttl`, seconds), by a number of keys (`most`), or nothing at all."""

    def __init__(self, ttl: float | None, most: int | None, where: str) -> None:
        self._ttl, self._most, self._where = ttl, most, where
        self._look_at = _FROM

    def after(self, expiry: Expiry, update: Update) -> Expiry:
        """What is nothing to this batch."""
        return expiry.after(update.txid, update.time, update.life(self._ttl), self._where)

    def found_by(self, expiry: Expiry, txid: int, time: float) -> int:
        """Up to which txid everything is nothing to a batch that is about to be made."""
        return expiry.after(txid, time, self._ttl, self._where).cutoff

    def bounded(self, expiry: Expiry, entries: Entries, txid: int) -> Expiry:
        """What is nothing once batch `txid` is written: where there are more than `most` keys, the least recently
        updated go, an eighth of them at once. What this batch brought stays, however much it is."""
        if self._most is None or len(entries) <= self._most:
            return expiry
        cutoff = entries.oldest(expiry.cutoff, self._most, self._most - self._most // 8)
        return Expiry(max(expiry.cutoff, min(cutoff, txid - 1)), expiry.before)

    def due(self, entries: Entries) -> bool:
        """Whether to look for room: the state has grown by half since the last look."""
        return len(entries) >= self._look_at

    def collected(self, entries: Entries, forgotten: int, removed: int) -> Entries | None:
        """The entries without those that no read can see any more: last changed up to txid `forgotten`, or removed up
        to txid `removed`. None where these are less than a quarter."""
        slots = entries.living(forgotten, removed)
        live = len(slots)
        self._look_at = max(_FROM, live + live // 2)
        if self._most is not None:
            self._look_at = min(self._look_at, max(self._most, live + live // 8))
        return entries.only(slots) if 4 * live <= 3 * len(entries) else None
