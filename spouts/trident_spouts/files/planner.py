"""From a listing to the next batch: which files, and of long text files which bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.lines import line_start, whole_lines_end
from trident_spouts.files.listing import Found, Place
from trident_spouts.files.ranges import FileRange
from trident_spouts.files.seen import Seen

MOST_FILES = 1_000
"""In one batch, where the user set no limit."""


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

    def next(self, seen: Seen, listing: list[Found], time: float) -> tuple[list[FileRange], Seen]:
        """The ranges of the next batch (none: nothing there), and what is seen after it. `time` is now, in seconds."""
        ranges: list[FileRange] = []
        read: list[tuple[Found, int]] = []
        waiting: tuple[int, str] | None = None
        left = self.limits.bytes
        for found, start, end in self._unread(seen, listing, time):
            key = (found.mtime, found.name)
            stop = None if end == start or self._full(ranges, left) else self._stop(found, start, end, left, not ranges)
            if stop is None:
                waiting = waiting or key
                if end > start:
                    break
                continue
            ranges.append(FileRange(found.name, found.size, found.mtime, start, stop))
            read.append((found, stop))
            left -= stop - start
            if stop < end:
                waiting = waiting or key
        return ranges, seen.after(read, waiting) if ranges else seen

    def _full(self, ranges: list[FileRange], left: int) -> bool:
        return bool(ranges) and (left <= 0 or len(ranges) >= (self.limits.files or MOST_FILES))

    def _unread(self, seen: Seen, listing: list[Found], time: float) -> Iterator[tuple[Found, int, int]]:
        """Files of which something is left: from where, to where; an empty stretch where it must ripen first."""
        for found in seen.candidates(listing):
            start = seen.start_of(found, grows=self.by_lines)
            if start is not None and found.size > start:
                yield found, start, self._readable_end(found, start, time)

    def _readable_end(self, found: Found, start: int, time: float) -> int:
        if self.limits.complete_after <= 0 or time - found.mtime / 1e9 >= self.limits.complete_after:
            self._check_line_start(found, start)
            return found.size
        if not self.by_lines:
            return start
        with self._open(found) as file:
            return whole_lines_end(file, start, found.size)

    def _check_line_start(self, found: Found, start: int) -> None:
        """Going on in a file that grew is right only where its last line was whole."""
        if not start:
            return
        with self._open(found) as file:
            file.seek(start - 1)
            if file.read(1) != b"\n":
                raise SpoutContractError(
                    f"FileSpout: {self.place.path(found.name)} grew after byte {start}, in the middle of a line that "
                    f"was read as its last one; for files that are appended to, set completeAfterSecs to longer than "
                    f"their writers pause"
                )

    def _stop(self, found: Found, start: int, end: int, left: int, first: bool) -> int | None:
        """How far this batch reads the file; None where it is for the next one."""
        if end - start <= left:
            return end
        if not self.by_lines:
            return end if first else None
        if not first and left < self.limits.bytes // 8:
            return None  # a sliver is not worth a range
        with self._open(found) as file:
            return line_start(file, start + left, end)

    def _open(self, found: Found) -> BinaryIO:
        path = self.place.path(found.name)
        try:
            return open(path, "rb")
        except OSError as error:
            raise SourceUnreadableError(f"FileSpout: cannot read {path}: {error.strerror or error}") from error
