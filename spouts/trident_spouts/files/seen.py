"""Which files were read, and how far: small enough for the metadata of every batch."""

import base64
import bisect
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from trident.base.errors import SpoutContractError
from trident_spouts.files.listing import Found

REMEMBERED = 1_000
"""How many wholly read files are remembered by name; older ones only as "at or before this time and name"."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How far a file was read, and its modification time then; `more`: it was longer than that."""

    end: int
    mtime: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """The files that batches up to one txid hold.

    A file is known by its entry. One without an entry is unread, unless it sorts at or before `cutoff`: entries of
    wholly read files fall out at the old end when there are more than REMEMBERED, and the cutoff moves up to them,
    never past a file that waits to be read.
    """

    cutoff: tuple[int, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)

    def candidates(self, listing: list[Found]) -> list[Found]:
        """The files of a sorted listing that are not known to be read by the cutoff alone: in a folder of many read
        files, few."""
        if self.cutoff is None:
            return listing
        at = bisect.bisect_right(listing, self.cutoff, key=lambda found: (found.mtime, found.name))
        return [found for found in listing[:at] if found.name in self.entries] + listing[at:]

    def start_of(self, found: Found, *, grows: bool) -> int | None:
        """Where reading goes on; None where nothing of the file is left.

        `grows`: whether a longer file means more lines, and not another content.
        """
        entry = self.entries.get(found.name)
        if entry is None:
            return None if self.cutoff is not None and (found.mtime, found.name) <= self.cutoff else 0
        if found.size > entry.end and (grows or entry.more):
            return entry.end
        if (found.size, found.mtime) != (entry.end, entry.mtime):
            raise SpoutContractError(
                f"FileSpout: {found.name} was read to byte {entry.end} (modified {entry.mtime}) and now has "
                f"{found.size} bytes (modified {found.mtime}); a file must not change after it was read"
                f"{', only grow by whole lines' if grows else ''}. "
                f"Give the new content another name to have it read, or take the file away: it was read already"
            )
        return None

    def after(self, read: Iterable[tuple[Found, int]], waiting: tuple[int, str] | None) -> "Seen":
        """What is seen once these files are read up to these bytes; `waiting` is the first file still to be read."""
        entries = dict(self.entries)
        for found, end in read:
            entries[found.name] = Entry(end, found.mtime, end < found.size)
        done = sorted((entry.mtime, name) for name, entry in entries.items() if not entry.more)
        dropped = [key for key in done[: max(0, len(done) - REMEMBERED)] if waiting is None or key < waiting]
        for _, name in dropped:
            del entries[name]
        cutoffs = [key for key in (self.cutoff, *dropped[-1:]) if key is not None]
        return Seen(max(cutoffs, default=None), entries)

    # --- as metadata ----------------------------------------------------------------------------------------------

    def encode(self) -> str:
        """As text: base64 of deflated JSON, times as differences, because every batch's log row carries it.

        >>> Seen.decode(Seen((1, "a"), {"b": Entry(5, 2)}).encode())
        Seen(cutoff=(1, 'a'), entries={'b': Entry(end=5, mtime=2, more=False)})
        """
        files = []
        last = 0
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].mtime, item[0])):
            files.append([name, entry.end, entry.mtime - last, int(entry.more)])
            last = entry.mtime
        text = json.dumps([self.cutoff, files], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()

    @staticmethod
    def decode(text: str) -> "Seen":
        """What ``encode`` wrote."""
        cutoff, files = json.loads(zlib.decompress(base64.b64decode(text)))
        entries = {}
        last = 0
        for name, end, step, more in files:
            last += step
            entries[name] = Entry(end, last, bool(more))
        return Seen(None if cutoff is None else (cutoff[0], cutoff[1]), entries)
