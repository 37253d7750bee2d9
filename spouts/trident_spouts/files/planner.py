"""The choice of files for the next batch, and of the bytes of long text files."""

import logging
import os
import shlex
from dataclasses import dataclass, field

from trident.base.errors import SpoutContractError
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.files.compression import is_compressed, unpacked
from trident_spouts.files.file_ranges import LONG, FileRange, content_checksums, digest, identity
from trident_spouts.files.file_recognition import OnForgotten, Recognizer, open_file
from trident_spouts.files.lines import BOM, line_start, whole_lines_end
from trident_spouts.files.read_files import Entry, ReadFiles
from trident_spouts.files.storage import FileStorage, ListedFile, OpenFile, StaleListingError

logger = logging.getLogger("trident.spouts")

MOST_FILES = 1_000
"""The most files in one batch, unless the user has set another limit."""

_MUCH_LATER = 60.0
"""The seconds in the future from which on the time of a file is a reason for a warning. Clocks differ by less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most bytes and files in one batch, and the age (seconds) from which a file counts as complete."""

    bytes: int
    files: int | None
    complete_after: float


@dataclass(frozen=True, slots=True)
class Planner:
    """The planner of one source's batches.

    With `by_lines`, a batch may end between two lines of a file, and a file may grow by whole lines after it was read,
    if files of the place can grow. Neither holds for compressed files of a format that `unpacks` them.
    """

    place: FileStorage
    limits: Limits
    by_lines: bool
    by_name: bool = False
    """True if files are read in the order of their names, and not of their modification times."""
    unpacks: bool = False
    on_forgotten: OnForgotten = "fail"
    told: set[str] = field(default_factory=set)
    """The files with a future time about which a warning was already logged."""
    recognizer: Recognizer = field(init=False)

    def __post_init__(self) -> None:
        recognizer = Recognizer(self.place, self.grows, self.by_name, self.on_forgotten)
        object.__setattr__(self, "recognizer", recognizer)

    def packed(self, name: str) -> bool:
        """Return whether a file of this name is compressed, so that it is unpacked when it is read."""
        return self.unpacks and is_compressed(name)

    def cuts(self, name: str) -> bool:
        """Return whether a batch may end between two lines of a file of this name."""
        return self.by_lines and not self.packed(name)

    def grows(self, name: str) -> bool:
        """Return whether a file of this name may grow, by whole lines, after it was read."""
        return self.place.grows and self.cuts(name)

    def recognize(self, seen: ReadFiles, listing: list[ListedFile], whole: bool = True) -> ReadFiles:
        """Return the record of the files that were read, `seen`, with the names that these files have in the listing.

        `whole` says whether the listing has all files. Raises SpoutContractError if it is not known which part of a
        file is unread.
        """
        return self.recognizer.recognize(seen, listing, whole)

    # --- the next batch -------------------------------------------------------------------------------------------

    def next(
        self,
        seen: ReadFiles,
        listing: list[ListedFile],
        time: float,
        budget: Budget = NO_LIMIT,
        until: ReadFiles | None = None,
    ) -> tuple[list[FileRange], ReadFiles]:
        """Return the ranges that the next batch reads, and the record of read files after that batch.

        With `until`, the record of another reader, only bytes are read that it has read.

        The bytes of the ranges stay within the limits and within `budget`. A file that cannot be cut is read as a
        whole.

        If there is nothing to read, there are no ranges, and the record is unchanged. `seen` is a result of
        `recognize`. `time` is the present time (seconds since 1970). Raises StaleListingError if the listing is out of
        date.
        """
        ranges: list[FileRange] = []
        read: list[tuple[str, Entry]] = []
        waiting: tuple[int, str] | None = None
        left = budget.bytes_within(self.limits.bytes)
        for listed in listing:
            entry = seen.entries.get(listed.name)
            if not self._has_unread(listed, entry, seen, listing, until):
                continue
            full = bool(ranges) and (left <= 0 or len(ranges) >= (self.limits.files or MOST_FILES))
            planned = None if full else self._range(listed, entry, time, left, until, first=not ranges)
            if planned is None or planned[1].more:
                waiting = waiting or seen.place(listed.mtime, listed.name)
            if planned is None:
                break
            range_, after = planned
            # A file that was read before always gets a new entry, unless the entry would lose its byte order mark.
            if range_.end > range_.start or (entry is not None and after.end >= entry.end):
                read.append((range_.name, after))
            if range_.end > range_.start:
                ranges.append(range_)
                left -= range_.end - range_.start
        return ranges, seen.after(read, waiting, listing) if ranges else seen

    def _has_unread(
        self,
        listed: ListedFile,
        entry: Entry | None,
        seen: ReadFiles,
        listing: list[ListedFile],
        until: ReadFiles | None,
    ) -> bool:
        """Return whether a file has unread bytes; with `until`, whether that record has read more of it.

        Raises SpoutContractError if the file is compressed, and its uncompressed content was already read.
        """
        most = listed.size if until is None else until.bytes_read(listed)
        if most <= (0 if entry is None else entry.end) or seen.is_past(listed):
            return False
        if entry is None and self.packed(listed.name):
            self._check_not_packed_since(listed, seen, listing)
        return True

    def _check_not_packed_since(self, file: ListedFile, seen: ReadFiles, listing: list[ListedFile]) -> None:
        """Raise SpoutContractError if a compressed file unpacks to a file that was read: its lines would count twice.

        Tools that rotate logs make such files. The file is compared with files that were read and are gone, and with
        the file of the same name without the suffix. A short common beginning does not count. Objects are not compared:
        no tool renames or compresses them in place, and to unpack every new object here would read all objects twice.
        """
        if file.tag:
            return
        present = {other.name for other in listing}
        read = {
            name: entry
            for name, entry in seen.entries.items()
            if entry.check is not None and not self.packed(name) and (name not in present or _is_stem(name, file.name))
        }
        if not read:
            return
        with open_file(self.place, file) as opened:
            content = unpacked(opened, self.place.path(file.name))
            checks, size = content_checksums(content, [entry.end for entry in read.values()])
        for name, entry in read.items():
            sure = entry.end >= LONG or entry.end == size or _is_stem(name, file.name)
            found = checks.get(entry.end, (None, None))
            if sure and found[0] == entry.check and entry.digest in (None, found[1]):
                raise SpoutContractError(
                    f"FileSpout: {file.name} decompresses to the content that was read from {name} (to byte "
                    f"{entry.end}), and would count twice. Rotate logs without compressing them, or make the path "
                    f"match only one of the two forms, such as '*.log' or '*.gz'; or remove {file.name}"
                )

    def _range(
        self, listed: ListedFile, entry: Entry | None, time: float, left: int, until: ReadFiles | None, *, first: bool
    ) -> tuple[FileRange, Entry] | None:
        """Return the part of a file that the batch reads, and the file's entry after that; None if the batch is full.

        `left` is the number of bytes for which the batch has room, `first` whether the batch has no range yet, `until`
        the record beyond which nothing is read. The file may have grown since it was listed. The range is empty if the
        file is not complete yet.
        """
        with open_file(self.place, listed) as file:
            now = file.status()
            if now.inode != listed.inode or now.size < listed.size:
                raise StaleListingError(listed.name)
            start = 0 if entry is None else self._next_line(file, now, entry.end)
            end = self._readable_end(file, now, start, time) if until is None else until.bytes_read(listed)
            stop = end if end - start <= left else self._cut(file, now, start, end, left, first)
            if stop is None:
                return None
            check = identity(file, stop)
            if now.tag:
                after = Entry(stop, now.mtime, stop < now.size, now.inode, check)
                return FileRange(now.name, now.size, now.mtime, start, stop, check, now.inode, now.tag), after
            part, all_ = _digests(file, entry, start, stop)
            still = file.status().changed == now.changed and (entry is None or listed.changed == now.changed)
            changed = now.changed if still else 0  # otherwise the next check compares all of it
            after = Entry(stop, now.mtime, stop < now.size, now.inode, check, file.birth(), all_, changed)
            return FileRange(now.name, now.size, now.mtime, start, stop, check, now.inode, "", part, changed), after

    def _readable_end(self, file: OpenFile, now: ListedFile, start: int, time: float) -> int:
        age = now.age(time)
        if self.limits.complete_after <= 0 or age >= self.limits.complete_after:
            return now.size
        if age < -_MUCH_LATER and now.name not in self.told:
            self.told.add(now.name)
            logger.warning(
                "FileSpout: %s was changed at a time that is %.0f seconds in the future, by this machine's clock: it "
                "counts as complete (completeAfterSecs) only then. If it is complete, touch it",
                self.place.path(now.name),
                -age,
            )
        return whole_lines_end(file, start, now.size) if self.grows(now.name) else start

    def _next_line(self, file: OpenFile, now: ListedFile, end: int) -> int:
        """Return the byte at which the next line begins in a file that was read up to byte `end` and has grown since.

        The last line may have had no newline when it was read; then its newline may follow, and is skipped. A byte
        order mark alone is not a line; it is read again together with the line after it. Raises SpoutContractError if
        more text was appended to that last line, because its beginning was already read as a whole line.
        """
        if end == len(BOM):
            file.seek(0)
            if file.read(end) == BOM:
                return 0
        file.seek(max(0, end - 1))
        last, more = file.read(1), file.read(2)
        if not end or last == b"\n":
            return end
        if more.startswith(b"\n"):
            return end + 1
        if more == b"\r\n" or (more == b"\r" and now.size == end + 1):
            return end + len(more)
        rest = line_start(file, end + 1, now.size)
        path = self.place.path(now.name)
        old, new = (
            shlex.quote(os.path.join(os.path.dirname(path), mark + os.path.basename(path))) for mark in ("", "_")
        )
        raise SpoutContractError(
            f"FileSpout: {path} grew after byte {end}, in the middle of a line: its first part was read and counted as "
            f"a whole line. To continue after that line, remove its second part while no program writes to the file: "
            f"{{ head -c {end} {old}; echo; tail -c +{rest + 1} {old}; }} > {new} && mv {new} {old}. To prevent it, "
            f"let the writer write whole lines, or set Watch(completeAfterSecs=...) to longer than its pauses within a "
            f"line"
        )

    def _cut(self, file: OpenFile, now: ListedFile, start: int, end: int, left: int, first: bool) -> int | None:
        """Return the byte up to which a batch reads a file that does not fit into it; None if it reads nothing.

        The batch has room for `left` bytes. `first` says whether the batch has no range yet.
        """
        if not self.cuts(now.name):
            return end if first else None
        if not first and left < self.limits.bytes // 8:
            return None  # it is not worth opening a file for so small a range
        return line_start(file, start + left, end)


def _digests(file: OpenFile, entry: Entry | None, start: int, stop: int) -> tuple[int, int]:
    """Return the digests of a planned range of a file, and of all bytes of the file before the end of the range."""
    part = digest(file, start, stop)
    if not start:
        return part, part
    end, before = (0, 0) if entry is None else (entry.end, entry.digest)
    return part, digest(file, end, stop, before or 0)


def _is_stem(name: str, packed: str) -> bool:
    return packed.startswith(f"{name}.")
