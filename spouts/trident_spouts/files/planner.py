"""From a listing to the next batch: which files, and of long text files which bytes."""

import os
from dataclasses import dataclass, replace
from typing import BinaryIO

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.lines import line_start, whole_lines_end
from trident_spouts.files.listing import Found, Place
from trident_spouts.files.ranges import FileRange, checksum
from trident_spouts.files.seen import Entry, Seen

MOST_FILES = 1_000
"""In one batch, where the user set no limit."""


class StaleListingError(Exception):
    """A file is gone, or is another one, since it was listed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much goes into one batch, and when a file counts as complete."""

    bytes: int
    files: int | None
    complete_after: float


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans batches over one place. `by_lines`: files may be cut at line starts and may grow by whole lines."""

    place: Place
    limits: Limits
    by_lines: bool

    # --- which of the files were read -----------------------------------------------------------------------------

    def recognize(self, seen: Seen, listing: list[Found]) -> Seen:
        """Return what is seen under the names that the files have now. Raise for a file that was read and is another
        one, or was written anew: what is left to read of it, nobody could say.

        A file that was renamed is known by its inode; then, and wherever it is not as its entry says, by its content.
        """
        root = os.path.realpath(self.place.root)
        moved = seen.root not in (None, root)
        if moved and not any(file.name in seen.entries for file in listing):
            if not listing:
                return seen
            raise SpoutContractError(
                f"FileSpout: this stream has read {seen.root}, and {root} has none of the files that it read last. "
                f"Where the folder was moved, bring one of them back. To read another folder from its beginning, give "
                f"the stream another name"
            )
        entries = self._renamed(seen.entries, listing)
        for file in listing:
            entry = entries.get(file.name)
            if entry is not None and (moved or entry.check is None or not entry.fits(file)):
                entries[file.name] = self._verified(file, entry)
        return replace(seen, entries=entries, root=root)

    def _renamed(self, entries: dict[str, Entry], listing: list[Found]) -> dict[str, Entry]:
        names = {entry.inode: name for name, entry in entries.items() if entry.inode}
        here = {file.name: file.inode for file in listing if file.name in entries}
        moves: dict[str, str] = {}
        for file in listing:
            name = names.get(file.inode, file.name)
            if name != file.name and here.get(name) != file.inode:
                entry = entries[name]  # a new file may have got the inode of one that was deleted
                if (file.size > entry.end or file.mtime == entry.mtime) and self._same(file, entry):
                    moves[name] = file.name
        kept = {name: entry for name, entry in entries.items() if name not in moves}
        return {**kept, **{new: entries[name] for name, new in moves.items()}}

    def _same(self, file: Found, entry: Entry) -> bool:
        """Whether the file begins with what was read under the entry, and may have more only where that may be."""
        if file.size < entry.end or (file.size > entry.end and not self.by_lines):
            return False
        if entry.check is None:
            return file.size > entry.end or entry.fits(file)
        return self._checksum(file, entry.end) == entry.check

    def _checksum(self, file: Found, end: int) -> int:
        with self._open(file) as opened:
            return checksum(opened, end)

    def _verified(self, file: Found, entry: Entry) -> Entry:
        """Return the entry with what identifies the file now."""
        if not self._same(file, entry):
            raise SpoutContractError(
                f"FileSpout: {file.name} was read to byte {entry.end} (modified {entry.mtime}) and is another file "
                f"now, or was written anew ({file.size} bytes, modified {file.mtime}); a file must not change after it "
                f"was read{', only grow by whole lines' if self.by_lines else ''}. Give the new content another name "
                f"to have it read, or take the file away: it was read. Logs that are rotated by renaming are followed "
                f"where the path matches the new names too, such as app.log*"
            )
        mtime = file.mtime if file.size == entry.end else entry.mtime
        check = self._checksum(file, entry.end) if entry.check is None else entry.check
        return Entry(entry.end, mtime, entry.more and file.size > entry.end, file.inode, check)

    # --- the next batch -------------------------------------------------------------------------------------------

    def next(self, seen: Seen, listing: list[Found], time: float) -> tuple[list[FileRange], Seen]:
        """Return the ranges of the next batch (none: nothing there), and what is seen after it. `time` is now, in
        seconds. `seen` is recognized."""
        ranges: list[FileRange] = []
        read: list[tuple[str, Entry]] = []
        waiting: tuple[int, str] | None = None
        left = self.limits.bytes
        for listed in listing:
            entry = seen.entries.get(listed.name)
            if listed.size <= (0 if entry is None else entry.end) or seen.is_past(listed):
                continue
            full = bool(ranges) and (left <= 0 or len(ranges) >= (self.limits.files or MOST_FILES))
            range_ = None if full else self._range(listed, entry, time, left, first=not ranges)
            if range_ is None or range_.end < range_.size:
                waiting = waiting or (listed.mtime, listed.name)
            if range_ is None:
                break
            if range_.end > range_.start:
                ranges.append(range_)
                more = range_.end < range_.size
                read.append((range_.name, Entry(range_.end, range_.mtime, more, listed.inode, range_.check)))
                left -= range_.end - range_.start
        return ranges, seen.after(read, waiting) if ranges else seen

    def _range(self, listed: Found, entry: Entry | None, time: float, left: int, *, first: bool) -> FileRange | None:
        """Return what this batch reads of a file, which may have grown since it was listed. Empty where the file must
        ripen first; None where the batch has no room for it."""
        start = 0 if entry is None else entry.end
        with self._open(listed) as file:
            now = Found.of(listed.name, os.fstat(file.fileno()))
            if now.inode != listed.inode or now.size < listed.size:
                raise StaleListingError(listed.name)
            end = self._readable_end(file, now, start, time)
            stop = end if end - start <= left else self._cut(file, start, end, left, first)
            return None if stop is None else FileRange(now.name, now.size, now.mtime, start, stop, checksum(file, stop))

    def _readable_end(self, file: BinaryIO, now: Found, start: int, time: float) -> int:
        if self.limits.complete_after <= 0 or time - now.mtime / 1e9 >= self.limits.complete_after:
            self._check_line_start(file, now.name, start)
            return now.size
        return whole_lines_end(file, start, now.size) if self.by_lines else start

    def _check_line_start(self, file: BinaryIO, name: str, start: int) -> None:
        """Going on in a file that grew is right only where its last line was whole."""
        file.seek(max(0, start - 1))
        if start and file.read(1) != b"\n":
            raise SpoutContractError(
                f"FileSpout: {self.place.path(name)} grew after byte {start}, in the middle of a line that "
                f"was read as its last one; for files that are appended to, set completeAfterSecs to longer than "
                f"their writers pause"
            )

    def _cut(self, file: BinaryIO, start: int, end: int, left: int, first: bool) -> int | None:
        """Return how far the batch reads a file that is longer than the room left."""
        if not self.by_lines:
            return end if first else None
        if not first and left < self.limits.bytes // 8:
            return None  # a sliver is not worth a range
        return line_start(file, start + left, end)

    def _open(self, file: Found) -> BinaryIO:
        path = self.place.path(file.name)
        try:
            return open(path, "rb")
        except FileNotFoundError:
            raise StaleListingError(file.name) from None
        except OSError as error:
            raise SourceUnreadableError(f"FileSpout: cannot read {path}: {error.strerror or error}") from error
