"""The record of which files were read, and up to which byte. It is small, because every batch's metadata holds it."""

import base64
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from trident_spouts.files.places import ListedFile
from trident_spouts.files.ranges import tag_checksum

REMEMBERED = 1_000
"""The number of read files that are remembered by name. All older files (at or before the cutoff) count as read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of one file: the byte up to which it was read, and its modification time (ns) then.

    `more` says whether the file was longer than `end`. `inode` and `born` (the time in ms at which the file was made;
    0: not known) identify the file under another name. `check`, the checksum of what was read (of an object: of its
    tag), identifies the content. Entries of earlier versions of this library lack `inode`, `check` and `born`.
    """

    end: int
    mtime: int
    more: bool = False
    inode: int = 0
    check: int | None = None
    born: int = 0

    def fits(self, file: ListedFile) -> bool:
        """Return whether a file has the modification time and size that the file of this entry had when it was read.

        The size of a file that was not read to its end is not known; the file must then be longer than what was read.
        """
        if file.tag and tag_checksum(file.tag) != self.check:
            return False
        return file.mtime == self.mtime and (file.size > self.end if self.more else file.size == self.end)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The record of all files that the batches up to one txid have read.

    A file was read if it has an entry, or sorts at or before `cutoff` (modification time in ns, name); every other file
    is unread. If files are read in the order of their names (`by_name`), the time in `cutoff` is 0, and only names are
    compared. When there are more than REMEMBERED entries of wholly read files, the first of them in that order are
    dropped, and the cutoff moves up to the last dropped one, but never past a file that waits to be read. The names of
    files are relative to the folder `root`.
    """

    cutoff: tuple[int, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    root: str | None = None
    by_name: bool = False

    def place(self, mtime: int, name: str) -> tuple[int, str]:
        """Return the value by which files are sorted."""
        return 0 if self.by_name else mtime, name

    def is_past(self, file: ListedFile) -> bool:
        """Return whether a file has no entry, and counts as read because it sorts at or before the cutoff."""
        place = self.place(file.mtime, file.name)
        return file.name not in self.entries and self.cutoff is not None and place <= self.cutoff

    def bytes_read(self, file: ListedFile) -> int:
        """Return how many bytes of a file were read."""
        entry = self.entries.get(file.name)
        if entry is None:
            return file.size if self.is_past(file) else 0
        return min(entry.end, file.size)

    def after(self, read: Iterable[tuple[str, Entry]], waiting: tuple[int, str] | None) -> "ReadFiles":
        """Return the record after the files in `read` were read.

        `waiting` is the sort value of the first unread file.
        """
        entries = {**self.entries, **dict(read)}
        done = sorted(self.place(entry.mtime, name) for name, entry in entries.items() if not entry.more)
        dropped = [key for key in done[: max(0, len(done) - REMEMBERED)] if waiting is None or key < waiting]
        for _, name in dropped:
            del entries[name]
        cutoffs = [key for key in (self.cutoff, *dropped[-1:]) if key is not None]
        return replace(self, cutoff=max(cutoffs, default=None), entries=entries)

    def below(self, root: str) -> "ReadFiles":
        """Return the same record with names relative to another root, for files that stay where they are.

        >>> ReadFiles(entries={"a": Entry(5, 2)}, root="/data/x").below("/data").entries
        {'x/a': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0)}
        """

        def renamed(name: str) -> str:
            return os.path.relpath(os.path.join(self.root or root, name), root)

        cutoff = None if self.cutoff is None else (self.cutoff[0], renamed(self.cutoff[1]))
        entries = {renamed(name): entry for name, entry in self.entries.items()}
        return replace(self, cutoff=cutoff, entries=entries, root=root)

    # --- as metadata ----------------------------------------------------------------------------------------------

    def encode(self) -> str:
        """Return the record as text: base64 of deflated JSON.

        The log keeps this text for every batch, so times and inodes are written as differences, which deflate well.

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
        order = ["name"] if self.by_name else []  # left out where earlier versions of this library can read the record
        text = json.dumps([self.cutoff, files, self.root, *order], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()

    @staticmethod
    def decode(text: str) -> "ReadFiles":
        """Return the record in a text from `encode`.

        Texts of old versions, without inodes, checksums, roots and births, are read, too.
        """
        cutoff, files, *rest = json.loads(zlib.decompress(base64.b64decode(text)))
        entries = {}
        last = Entry(0, 0)
        for name, end, mtime_step, more, *identity in files:
            inode_step, check, age = (*identity, None) if len(identity) == 2 else identity or (0, None, None)
            mtime = last.mtime + mtime_step
            born = 0 if age is None else mtime // 1_000_000 - age
            last = entries[name] = Entry(end, mtime, bool(more), last.inode + inode_step, check, born)
        place = None if cutoff is None else (cutoff[0], cutoff[1])
        root = rest[0] if rest else None
        return ReadFiles(place, entries, root, by_name="name" in rest[1:])
