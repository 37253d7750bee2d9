"""Which files were read, and how far: small enough for the metadata of every batch."""

import base64
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from trident_spouts.files.listing import Found

REMEMBERED = 1_000
"""The number of wholly read files that are remembered by name; older ones only as "at or before this time and name"."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The byte up to which a file was read, and its modification time then. `more`: the file was longer than that.

    By its `inode` the file is found under another name, unless it was made at another time than `born` (ms; 0: not
    known). By `check` (the checksum of what was read) its content is recognized. What an earlier version of this
    library wrote has none of these.
    """

    end: int
    mtime: int
    more: bool = False
    inode: int = 0
    check: int | None = None
    born: int = 0

    def fits(self, file: Found) -> bool:
        """Return whether modification time and size fit the file as it was when it was read."""
        return file.mtime == self.mtime and (file.size > self.end if self.more else file.size == self.end)


@dataclass(frozen=True, slots=True)
class Seen:
    """The files that batches up to one txid hold.

    A file is known by its entry. One without an entry is unread, unless it sorts at or before `cutoff`: entries of
    wholly read files fall out at the old end when there are more than REMEMBERED, and the cutoff moves up to them,
    never past a file that waits to be read. `root` is the folder that the names are relative to.
    """

    cutoff: tuple[int, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    root: str | None = None

    def is_past(self, file: Found) -> bool:
        """Return whether the file counts as read by the cutoff alone."""
        return file.name not in self.entries and self.cutoff is not None and (file.mtime, file.name) <= self.cutoff

    def after(self, read: Iterable[tuple[str, Entry]], waiting: tuple[int, str] | None) -> "Seen":
        """Return what is seen once these files are read too. `waiting` is the first file still to be read."""
        entries = {**self.entries, **dict(read)}
        done = sorted((entry.mtime, name) for name, entry in entries.items() if not entry.more)
        dropped = [key for key in done[: max(0, len(done) - REMEMBERED)] if waiting is None or key < waiting]
        for _, name in dropped:
            del entries[name]
        cutoffs = [key for key in (self.cutoff, *dropped[-1:]) if key is not None]
        return Seen(max(cutoffs, default=None), entries, self.root)

    def below(self, root: str) -> "Seen":
        """Return the same with names relative to another root, where nothing was moved.

        >>> Seen(entries={"a": Entry(5, 2)}, root="/data/x").below("/data").entries
        {'x/a': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0)}
        """

        def renamed(name: str) -> str:
            return os.path.relpath(os.path.join(self.root or root, name), root)

        cutoff = None if self.cutoff is None else (self.cutoff[0], renamed(self.cutoff[1]))
        return Seen(cutoff, {renamed(name): entry for name, entry in self.entries.items()}, root)

    # --- as metadata ----------------------------------------------------------------------------------------------

    def encode(self) -> str:
        """Return this as text: base64 of deflated JSON, times and inodes as differences, because the log has it once a
        batch.

        >>> Seen.decode(Seen((1, "a"), {"b": Entry(5, 2)}).encode())
        Seen(cutoff=(1, 'a'), entries={'b': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0)}, root=None)
        """
        files = []
        last = Entry(0, 0)
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].mtime, item[0])):
            steps = entry.mtime - last.mtime, int(entry.more), entry.inode - last.inode
            age = entry.mtime // 1_000_000 - entry.born if entry.born else None
            files.append([name, entry.end, *steps, entry.check, age])
            last = entry
        text = json.dumps([self.cutoff, files, self.root], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()

    @staticmethod
    def decode(text: str) -> "Seen":
        """Read what ``encode`` wrote, in this version or in one without inodes, checksums, roots and births."""
        cutoff, files, *root = json.loads(zlib.decompress(base64.b64decode(text)))
        entries = {}
        last = Entry(0, 0)
        for name, end, step, more, *identity in files:
            inode, check, age = (*identity, None) if len(identity) == 2 else identity or (0, None, None)
            mtime = last.mtime + step
            born = 0 if age is None else mtime // 1_000_000 - age
            last = entries[name] = Entry(end, mtime, bool(more), last.inode + inode, check, born)
        return Seen(None if cutoff is None else (cutoff[0], cutoff[1]), entries, *root)
