"""The record of which files were read, and up to which byte. It is small, because every batch's metadata holds it."""

import base64
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from trident_spouts.executor import Metadata
from trident_spouts.files.file_ranges import iso_time, tag_checksum
from trident_spouts.files.forgotten_files import KNOWN_BY_CHECKSUM, Forgotten, Known
from trident_spouts.files.storage import ListedFile

REMEMBERED = 1_000
"""The number of read files that are remembered one by one, unless the user has set another number.

Earlier files (at or before the cutoff) are only known to have been read.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of one file: the byte up to which it was read, and its modification time (ns) at that time.

    `more` says whether the file was longer than `end`. `inode` and `born` (the time in ms at which the file was made;
    0: not known) identify the file after it was renamed. `check`, the checksum of the beginning and end of the read
    part (for an object: of its tag), and `digest`, the checksum of the whole read part, identify the content. `changed`
    is the time (ns) of the file's last change when its content was proved; 0: it must be proved again.
    """

    end: int
    mtime: int
    more: bool = False
    inode: int = 0
    check: int | None = None
    born: int = 0
    digest: int | None = None
    changed: int = 0

    @property
    def known(self) -> Known:
        """Return the part of the entry that is kept when the file is forgotten."""
        return Known(self.inode, self.end, (self.digest if self.inode or self.digest is not None else self.check) or 0)

    def fits(self, file: ListedFile) -> bool:
        """Return whether the status of a file proves that it is the file of this entry, and has not changed since.

        The size of a file that was not read to its end is not known; the file must then be longer than the read part.
        """
        if file.tag and tag_checksum(file.tag) != self.check:
            return False
        if file.mtime != self.mtime or not (file.size > self.end if self.more else file.size == self.end):
            return False
        return bool(file.tag) or (0 < self.changed == file.changed and self.inode == file.inode)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The record of all files that the batches up to one txid have read.

    A file was read if it has an entry, or sorts at or before `cutoff` (modification time in ns, name); every other file
    is unread. If files are read in the order of their names (`by_name`), the time in `cutoff` is 0, and only names are
    compared. If more files were read completely than the number to remember, the first entries in that order are
    dropped. The cutoff then moves up to the last dropped entry, but never past a file that waits to be read. The names
    of files are relative to the folder `root`.
    """

    cutoff: tuple[int, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    root: str | None = None
    by_name: bool = False
    forgotten: Forgotten = Forgotten()
    """The evidence of files that were read and have no entry."""
    late: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of unread files that sort at or before the cutoff. A check of the listing finds them."""
    skipped: int = 0
    """The number of files that count as read although it is not known which part of them was (onForgotten="skip")."""
    remembered: int | None = field(default=None, compare=False)
    """The number of files to remember; None: REMEMBERED."""

    def place(self, mtime: int, name: str) -> tuple[int, str]:
        """Return the value by which files are sorted."""
        return 0 if self.by_name else mtime, name

    def is_past(self, file: ListedFile) -> bool:
        """Return whether a file has no entry, and counts as read because it sorts at or before the cutoff."""
        return self.sorts_past(file) and file.name not in self.late

    def has_read(self, name: str) -> bool:
        """Return whether a file with this name was read, as far as names are known."""
        return name in self.entries or self.forgotten.knows(name)

    def sorts_past(self, file: ListedFile) -> bool:
        """Return whether a file has no entry, and sorts at or before the cutoff."""
        place = self.place(file.mtime, file.name)
        return file.name not in self.entries and self.cutoff is not None and place <= self.cutoff

    def bytes_read(self, file: ListedFile) -> int:
        """Return how many bytes of a file were read."""
        entry = self.entries.get(file.name)
        if entry is None:
            return file.size if self.is_past(file) else 0
        return min(entry.end, file.size)

    @property
    def bytes_by_file(self) -> dict[str, Metadata]:
        """The bytes that were read of each remembered file, and the last of the earlier files.

        >>> ReadFiles((0, "a"), {"b": Entry(5, 2)}, "/data", by_name=True).bytes_by_file
        {'earlier files': 'up to a', '/data/b': 5}
        """
        files: dict[str, Metadata] = {f"{self.root}/{name}": entry.end for name, entry in self.entries.items()}
        if self.cutoff is None:
            return files
        mtime, name = self.cutoff
        last = name if self.by_name else f"{name}, modified {iso_time(mtime)}"
        return {"earlier files": f"up to {last}", **files}

    def _surplus(self, done: list[tuple[int, str]], waiting: tuple[int, str] | None) -> list[tuple[int, str]]:
        """Return the read files beyond the number of files to remember, in order, up to the first unread file."""
        most = REMEMBERED if self.remembered is None else self.remembered
        return [key for key in done[: max(0, len(done) - most)] if waiting is None or key < waiting]

    def after(
        self,
        read: Iterable[tuple[str, Entry]],
        waiting: tuple[int, str] | None,
        listing: Sequence[ListedFile] = (),
    ) -> "ReadFiles":
        """Return the record after the files in `read` were read.

        `waiting` is the sort value of the first unread file, and `listing` has all files that exist.
        """
        entries = {**self.entries, **dict(read)}
        listed = {file.name: self.place(file.mtime, file.name) for file in listing if file.name in entries}
        places = {name: self.place(entry.mtime, name) for name, entry in entries.items() if not entry.more}
        # A file that was moved to another path would be read again there if its entry were dropped.
        done = sorted(place for name, place in places.items() if listed.get(name, place) == place)
        dropped = self._surplus(done, waiting)
        forgotten = {name: entries.pop(name) for _, name in dropped}
        cutoffs = [key for key in (self.cutoff, *dropped[-1:]) if key is not None]
        evidence = self.forgotten
        if forgotten:
            evidence = evidence.plus(
                ((name, entry.known, entry.born) for name, entry in forgotten.items()),
                (file for file in listing if file.name in forgotten),
            )
        late = frozenset(self.late - entries.keys() - forgotten.keys())
        return replace(self, cutoff=max(cutoffs, default=None), entries=entries, forgotten=evidence, late=late)

    def below(self, root: str) -> "ReadFiles":
        """Return the same record with names relative to another root. The files themselves have not moved.

        >>> ReadFiles(entries={"a": Entry(5, 2)}, root="/data/x").below("/data").entries
        {'x/a': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0, digest=None, changed=0)}
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
        {'b': Entry(end=5, mtime=2, more=False, inode=0, check=None, born=0, digest=None, changed=0)}
        """
        files = []
        last = Entry(0, 0)
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].mtime, item[0])):
            differences = entry.mtime - last.mtime, int(entry.more), entry.inode - last.inode
            age = entry.mtime // 1_000_000 - entry.born if entry.born else None
            since = entry.changed - entry.mtime if entry.changed else None
            files.append([name, entry.end, *differences, entry.check, age, entry.digest, since])
            last = entry
        most = KNOWN_BY_CHECKSUM * (REMEMBERED if self.remembered is None else self.remembered)
        evidence = self.forgotten.to_json(most)
        skipped = [self.skipped] if self.skipped else []
        text = json.dumps([self.cutoff, files, self.root, self.by_name, evidence, *skipped], separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 1)).decode()

    @staticmethod
    def decode(text: str) -> "ReadFiles":
        """Return the record in a text from `encode`."""
        cutoff, files, root, by_name, evidence, *skipped = json.loads(zlib.decompress(base64.b64decode(text)))
        entries = {}
        last = Entry(0, 0)
        for name, end, mtime_step, more, inode_step, check, age, digest, since in files:
            mtime = last.mtime + mtime_step
            born = 0 if age is None else mtime // 1_000_000 - age
            inode, changed = last.inode + inode_step, 0 if since is None else mtime + since
            last = entries[name] = Entry(end, mtime, bool(more), inode, check, born, digest, changed)
        place = None if cutoff is None else (cutoff[0], cutoff[1])
        return ReadFiles(place, entries, root, by_name, Forgotten.of_json(evidence), skipped=sum(skipped))
