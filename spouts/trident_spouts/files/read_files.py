"""The record of the files that were read, and how far: small enough for the metadata of every batch."""

import base64
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from trident_spouts.files.listing import ListedFile

REMEMBERED = 1_000
"""The number of wholly read files that are remembered by name; older ones only as "at or before this time and name"."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The byte up to which a file was read, and its modification time then. `more`: the file was longer than that.

    `inode` and `born` (the time in ms at which the file was made; 0: not known) identify the file under another name.
    `check`, the checksum of what was read, identifies its content. Entries of earlier versions of this library have
    none of these.
    """

    end: int
    mtime: int
    more: bool = False
    inode: int = 0
    check: int | None = None
    born: int = 0

    def fits(self, file: ListedFile) -> bool:
        """Return whether the file has the modification time and the size that it had when it was read."""
        return file.mtime == self.mtime and (file.size > self.end if self.more else file.size == self.end)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The files that the batches up to one txid have read.

    A file that was read has an entry, or sorts at or before `cutoff`; every other file is unread. When there are more
    than REMEMBERED entries of wholly read files, the oldest are dropped, and the cutoff moves up to the last of them.
    It never moves past a file that waits to be read. The names are relative to the folder `root`.
    """

    cutoff: tuple[int, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    root: str | None = None

    def is_past(self, file: ListedFile) -> bool:
        """Return whether the file counts as read by the cutoff alone."""
        return file.name not in self.entries and self.cutoff is not None and (file.mtime, file.name) <= self.cutoff

    def after(self, read: Iterable[tuple[str, Entry]], waiting: tuple[int, str] | None) -> "ReadFiles":
        """Return the record with these files added. `waiting` is the first file that is still to be read."""
        entries = {**self.entries, **dict(read)}
        done = sorted((entry.mtime, name) for name, entry in entries.items() if not entry.more)
        dropped = [key for key in done[: max(0, len(done) - REMEMBERED)] if waiting is None or key < waiting]
        for _, name in dropped:
            del entries[name]
        cutoffs = [key for key in (self.cutoff, *dropped[-1:]) if key is not None]
        return ReadFiles(max(cutoffs, default=None), entries, self.root)

    def below(self, root: str) -> "ReadFiles":
        """Return the same record with names relative to another root; the files stay where they are.

        >>> ReadFiles(entries={"a": Entry(5, 2)}, root="/data/x").below("/data").entries
        {'x/a': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0)}
        """

        def renamed(name: str) -> str:
            return os.path.relpath(os.path.join(self.root or root, name), root)

        cutoff = None if self.cutoff is None else (self.cutoff[0], renamed(self.cutoff[1]))
        return ReadFiles(cutoff, {renamed(name): entry for name, entry in self.entries.items()}, root)

    # --- as metadata ----------------------------------------------------------------------------------------------

    def encode(self) -> str:
        """Return the record as text: base64 of deflated JSON.

        Times and inodes are differences, which deflate well: the log keeps the text of every batch.

        >>> ReadFiles.decode(ReadFiles((1, "a"), {"b": Entry(5, 2)}).encode()).entries
        {'b': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0)}
        """
        files = []
        last = Entry(0, 0)
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].mtime, item[0])):
            differences = entry.mtime - last.mtime, int(entry.more), entry.inode - last.inode
            age = entry.mtime // 1_000_000 - entry.born if entry.born else None
            files.append([name, entry.end, *differences, entry.check, age])
            last = entry
        text = json.dumps([self.cutoff, files, self.root], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()

    @staticmethod
    def decode(text: str) -> "ReadFiles":
        """Read the text of ``encode``, of this version or of one without inodes, checksums, roots and births."""
        cutoff, files, *root = json.loads(zlib.decompress(base64.b64decode(text)))
        entries = {}
        last = Entry(0, 0)
        for name, end, mtime_step, more, *identity in files:
            inode_step, check, age = (*identity, None) if len(identity) == 2 else identity or (0, None, None)
            mtime = last.mtime + mtime_step
            born = 0 if age is None else mtime // 1_000_000 - age
            last = entries[name] = Entry(end, mtime, bool(more), last.inode + inode_step, check, born)
        return ReadFiles(None if cutoff is None else (cutoff[0], cutoff[1]), entries, *root)
