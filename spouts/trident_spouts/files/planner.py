"""From a listing to the next batch: which files, and of long text files which bytes."""

import os
import shlex
from dataclasses import dataclass, replace
from typing import BinaryIO

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.file_births import birth_of
from trident_spouts.files.lines import line_start, whole_lines_end
from trident_spouts.files.listing import Found, Place
from trident_spouts.files.ranges import FileRange, checksum, iso_time
from trident_spouts.files.read_files import Entry, Seen

MOST_FILES = 1_000
"""In one batch, where the user set no limit."""


class StaleListingError(Exception):
    """A file is gone, or is another one, since it was listed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that goes into one batch, and the age (seconds) at which a file counts as complete."""

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
        """Return what is seen, under the names that the files have now. Raise for a file that was read and is another
        one now, or was written anew: nobody could say what is left to read of it.

        A renamed file is recognized by its inode and its content, one that differs from its entry by its content.
        """
        root = os.path.realpath(self.place.root)
        moved = seen.root not in (None, root)
        if moved and not listing:
            return seen
        if moved:
            seen = self._moved(seen, root, listing)
        entries = self._renamed(seen.entries, listing)
        for file in listing:
            entry = entries.get(file.name)
            if entry is not None and (moved or entry.check is None or not entry.fits(file)):
                entries[file.name] = self._verified(file, entry)
        return replace(seen, entries=entries, root=root)

    def _moved(self, seen: Seen, root: str, listing: list[Found]) -> Seen:
        """Return what is seen with its names below another root: the path names more folders now, or fewer, or the
        folder was moved. Raise where it is simply another folder."""
        stayed = seen.below(root)
        if self._knows(stayed, listing):
            self._check_folders(seen, stayed, listing)
            return stayed
        if self._knows(seen, listing):
            return seen
        raise SpoutContractError(
            f"FileSpout: this stream has read {seen.root}, and {root} is another folder: it has none of the files that "
            f"were read last. Where the folder was moved, bring one of these back. To read {root} from its beginning "
            f"besides, keep this stream as it was and add a second one; in its place, give the stream another name, "
            f"with newStream(..., anew=True)"
        )

    def _knows(self, seen: Seen, listing: list[Found]) -> bool:
        """Return whether a file that was read is there, under its name and with its content."""
        return any(file.name in seen.entries and self._same(file, seen.entries[file.name]) for file in listing)

    def _check_folders(self, seen: Seen, stayed: Seen, listing: list[Found]) -> None:
        """Raise where files of folders that were not read before would be taken for those read long ago."""
        for file in listing:
            inside = os.path.relpath(os.path.join(stayed.root or "", file.name), seen.root)
            if stayed.is_past(file) and inside.startswith(os.pardir + os.sep):
                raise SpoutContractError(
                    f"FileSpout: this stream has read {seen.root}, of which only the files that were read last are "
                    f"remembered by name; {file.name} in {stayed.root} is older than these, and would be taken for "
                    f"read. Keep this stream as it was, and read the other folders by a second one"
                )

    def _renamed(self, entries: dict[str, Entry], listing: list[Found]) -> dict[str, Entry]:
        names = {entry.inode: name for name, entry in entries.items() if entry.inode}
        here = {file.name: file.inode for file in listing if file.name in entries}
        moves: dict[str, str] = {}
        for file in listing:
            name = names.get(file.inode, file.name)
            if name != file.name and here.get(name) != file.inode:
                entry = entries[name]  # a new file may have got the inode of one that was deleted
                unlike = file.size == entry.end and file.mtime != entry.mtime
                if not unlike and self._born(file, entry) and self._same(file, entry):
                    moves[name] = file.name
        kept = {name: entry for name, entry in entries.items() if name not in moves}
        return {**kept, **{new: entries[name] for name, new in moves.items()}}

    def _same(self, file: Found, entry: Entry) -> bool:
        """Return whether the file begins with what was read by its entry. More may follow only in files of lines."""
        if file.size < entry.end or (file.size > entry.end and not self.by_lines):
            return False
        if entry.check is None:
            return file.size > entry.end or entry.fits(file)
        return self._checksum(file, entry.end) == entry.check

    def _born(self, file: Found, entry: Entry) -> bool:
        """Return whether the file was made when the one was that was read, as far as the file system tells."""
        born = self._birth(file)
        return born == entry.born or not (born and entry.born)

    def _birth(self, file: Found) -> int:
        with self._open(file) as opened:
            return birth_of(opened.fileno())

    def _checksum(self, file: Found, end: int) -> int:
        with self._open(file) as opened:
            return checksum(opened, end)

    def _verified(self, file: Found, entry: Entry) -> Entry:
        """Return the entry with the file's present inode, time and checksum. Raise where it is another file."""
        if not self._same(file, entry):
            raise SpoutContractError(
                f"FileSpout: {file.name} was read to byte {entry.end} (modified {iso_time(entry.mtime)}) and is "
                f"another file now, or was written anew ({file.size} bytes, modified {iso_time(file.mtime)}); a file "
                f"must not change after it was read{', only grow by whole lines' if self.by_lines else ''}. Give the "
                f"new content another name to have it read, or take it away to leave it out. Logs that are rotated by "
                f"renaming are followed where the path matches the new names too, such as app.log*"
            )
        mtime = file.mtime if file.size == entry.end else entry.mtime
        check = self._checksum(file, entry.end) if entry.check is None else entry.check
        return Entry(entry.end, mtime, entry.more and file.size > entry.end, file.inode, check, self._birth(file))

    # --- the next batch -------------------------------------------------------------------------------------------

    def next(self, seen: Seen, listing: list[Found], time: float) -> tuple[list[FileRange], Seen]:
        """Return the ranges of the next batch (none: there is nothing to read), and what is seen after it. `time` is
        now, in seconds; `seen` comes from `recognize`."""
        ranges: list[FileRange] = []
        read: list[tuple[str, Entry]] = []
        waiting: tuple[int, str] | None = None
        left = self.limits.bytes
        for listed in listing:
            entry = seen.entries.get(listed.name)
            if listed.size <= (0 if entry is None else entry.end) or seen.is_past(listed):
                continue
            full = bool(ranges) and (left <= 0 or len(ranges) >= (self.limits.files or MOST_FILES))
            found = None if full else self._range(listed, entry, time, left, first=not ranges)
            if found is None or found[1].more:
                waiting = waiting or (listed.mtime, listed.name)
            if found is None:
                break
            range_, after = found
            if entry is not None or range_.end > range_.start:  # also where nothing is read of it: it grows
                read.append((range_.name, after))
            if range_.end > range_.start:
                ranges.append(range_)
                left -= range_.end - range_.start
        return ranges, seen.after(read, waiting) if ranges else seen

    def _range(
        self, listed: Found, entry: Entry | None, time: float, left: int, *, first: bool
    ) -> tuple[FileRange, Entry] | None:
        """Return the range that this batch reads of a file, which may have grown since it was listed, and the entry
        after that. The range is empty where the file is not complete yet. None where the batch has no room for it."""
        with self._open(listed) as file:
            now = Found.of(listed.name, os.fstat(file.fileno()))
            if now.inode != listed.inode or now.size < listed.size:
                raise StaleListingError(listed.name)
            start = 0 if entry is None else self._next_line(file, now, entry.end)
            end = self._readable_end(file, now, start, time)
            stop = end if end - start <= left else self._cut(file, start, end, left, first)
            if stop is None:
                return None
            check = checksum(file, stop)
            after = Entry(stop, now.mtime, stop < now.size, now.inode, check, birth_of(file.fileno()))
            return FileRange(now.name, now.size, now.mtime, start, stop, check, now.inode), after

    def _readable_end(self, file: BinaryIO, now: Found, start: int, time: float) -> int:
        if self.limits.complete_after <= 0 or time - now.mtime / 1e9 >= self.limits.complete_after:
            return now.size
        return whole_lines_end(file, start, now.size) if self.by_lines else start

    def _next_line(self, file: BinaryIO, now: Found, end: int) -> int:
        """Return the byte at which to go on in a file that grew: behind the end of its last line, where that had none
        when it was read. Raise where the line itself went on: a part of it was read as a whole line."""
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
            f"FileSpout: {path} grew after byte {end}, in the middle of a line whose beginning was read as a whole "
            f"line and counts as one; the rest is no line of its own. To read on behind it, take the rest out while "
            f"nobody writes to the file: {{ head -c {end} {old}; echo; tail -c +{rest + 1} {old}; }} > {new} && "
            f"mv {new} {old}. So that it does not happen again, let the writer end its lines, or give "
            f"completeAfterSecs a time longer than it pauses within one"
        )

    def _cut(self, file: BinaryIO, start: int, end: int, left: int, first: bool) -> int | None:
        """Return the byte up to which the batch reads a file that is longer than the room left; None: no byte."""
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
