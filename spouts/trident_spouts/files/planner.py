"""The choice of files for the next batch, and of the bytes of long text files."""

import os
import shlex
from dataclasses import dataclass, replace

from trident.base.errors import SpoutContractError
from trident_spouts.budget import NO_LIMIT, Budget
from trident_spouts.files.compression import is_compressed, unpacked
from trident_spouts.files.lines import line_start, whole_lines_end
from trident_spouts.files.places import FilePlace, ListedFile, OpenFile
from trident_spouts.files.ranges import FileRange, content_checksums, identity, iso_time, unreadable_error
from trident_spouts.files.read_files import REMEMBERED, Entry, ReadFiles

MOST_FILES = 1_000
"""The most files in one batch, unless the user has set another limit."""

_LONG = 1 << 10
"""The length (bytes) from which two contents with the same beginning cannot be equal by chance."""


class StaleListingError(Exception):
    """A listed file is gone, or another file has its name now."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most bytes and files in one batch, and the age (seconds) from which a file counts as complete."""

    bytes: int
    files: int | None
    complete_after: float


@dataclass(frozen=True, slots=True)
class Planner:
    """The planner of one source's batches.

    With `by_lines`, a file may be cut where lines begin, and may grow by whole lines after it was read, if files of the
    place can grow. Both do not hold for compressed files of a format that `unpacks` them.
    """

    place: FilePlace
    limits: Limits
    by_lines: bool
    by_name: bool = False
    """True if files are read in the order of their names, and not of their modification times."""
    unpacks: bool = False

    def packed(self, name: str) -> bool:
        """Return whether a file of this name is compressed, so that it is unpacked when it is read."""
        return self.unpacks and is_compressed(name)

    def cuts(self, name: str) -> bool:
        """Return whether a file of this name may be cut where lines begin."""
        return self.by_lines and not self.packed(name)

    def grows(self, name: str) -> bool:
        """Return whether a file of this name may grow, by whole lines, after it was read."""
        return self.place.grows and self.cuts(name)

    # --- recognition of files that were read ----------------------------------------------------------------------

    def recognize(self, seen: ReadFiles, listing: list[ListedFile]) -> ReadFiles:
        """Return the record of the files that were read, `seen`, with the names that these files have in the listing.

        A renamed file is recognized by its inode and its content, and a file that differs from its entry in size or
        time by its content. Raises SpoutContractError if the name of a file that was read now belongs to another or
        rewritten file, of which it is not known which part is unread.
        """
        seen = self._in_order(seen)
        root = self.place.address
        moved = seen.root not in (None, root)
        if moved and not listing:
            return seen
        if moved:
            seen = self._rebased(seen, root, listing)
        entries = self._renamed(seen.entries, listing)
        for file in listing:
            entry = entries.get(file.name)
            if entry is not None and (moved or entry.check is None or not entry.fits(file)):
                entries[file.name] = self._verified(file, entry)
        return replace(seen, entries=entries, root=root)

    def _in_order(self, seen: ReadFiles) -> ReadFiles:
        """Return the record of the files that were read, sorted in the order in which files are read now.

        Raises SpoutContractError if files that were read are known only by their place in the other order.
        """
        if seen.by_name == self.by_name or seen.cutoff is None:
            return replace(seen, by_name=self.by_name)
        was, now = ("name", "time") if seen.by_name else ("time", "name")
        raise SpoutContractError(
            f"FileSpout: this stream has read more than {REMEMBERED:,} files in the order of orderBy={was!r}, and of "
            f"the older ones it remembers only the last one in that order; with orderBy={now!r} it could not tell "
            f"which files are unread. Put orderBy={was!r} back, or give the stream another name, with "
            f"newStream(..., anew=True)"
        )

    def _rebased(self, seen: ReadFiles, root: str, listing: list[ListedFile]) -> ReadFiles:
        """Return the record of the files that were read, with names relative to the present root.

        Either the spout's path covers more or fewer folders now, or the folder was moved. Raises SpoutContractError if
        neither is the case, because none of the files that were read is there.
        """
        rebased = seen.below(root)
        if self._any_present(rebased, listing):
            self._check_old_files(seen, rebased, listing)
            return rebased
        if self._any_present(seen, listing):
            return seen
        raise SpoutContractError(
            f"FileSpout: this stream has read {seen.root}, and {root} is another folder: it has none of the files that "
            f"were read last. If the folder was moved, bring one of these back. To read {root} from its beginning too, "
            f"keep this stream as it was and add a second one. To read it instead, give the stream another name, with "
            f"newStream(..., anew=True)"
        )

    def _any_present(self, seen: ReadFiles, listing: list[ListedFile]) -> bool:
        """Return whether at least one file that was read is listed with the name and content that it had."""
        return any(file.name in seen.entries and self._same_content(file, seen.entries[file.name]) for file in listing)

    def _check_old_files(self, seen: ReadFiles, rebased: ReadFiles, listing: list[ListedFile]) -> None:
        """Raise SpoutContractError if an unread folder has a file that is so old that it would count as read."""
        for file in listing:
            from_old_root = os.path.relpath(os.path.join(rebased.root or "", file.name), seen.root)
            if rebased.is_past(file) and from_old_root.startswith(os.pardir + os.sep):
                raise SpoutContractError(
                    f"FileSpout: this stream has read {seen.root}, of which only the files that were read last are "
                    f"remembered by name; {file.name} in {rebased.root} is older than these, and would count as read. "
                    f"Keep this stream as it was, and read the other folders by a second one"
                )

    def _renamed(self, entries: dict[str, Entry], listing: list[ListedFile]) -> dict[str, Entry]:
        """Return the entries. Those of renamed files have the new names."""
        names = {entry.inode: name for name, entry in entries.items() if entry.inode}
        present = {file.name: file.inode for file in listing if file.name in entries}
        moves: dict[str, str] = {}
        for file in listing:
            name = names.get(file.inode, file.name)
            if name != file.name and present.get(name) != file.inode:
                # An equal inode alone proves nothing: a new file may have got the inode of a deleted one.
                entry = entries[name]
                rewritten = file.size == entry.end and file.mtime != entry.mtime
                if not rewritten and self._same_birth(file, entry) and self._same_content(file, entry):
                    moves[name] = file.name
        kept = {name: entry for name, entry in entries.items() if name not in moves}
        return {**kept, **{new: entries[name] for name, new in moves.items()}}

    def _same_content(self, file: ListedFile, entry: Entry) -> bool:
        """Return whether a file begins with the content that was read, and is longer only if it may grow."""
        if file.size < entry.end or (file.size > entry.end and not (entry.more or self.grows(file.name))):
            return False
        if entry.check is None:
            return file.size > entry.end or entry.fits(file)
        return self._checksum(file, entry.end) == entry.check

    def _same_birth(self, file: ListedFile, entry: Entry) -> bool:
        """Return whether a file has the creation time of the file that was read; True if either is not known."""
        born = self._birth(file)
        return born == entry.born or not (born and entry.born)

    def _birth(self, file: ListedFile) -> int:
        with self._open(file) as opened:
            return opened.birth()

    def _checksum(self, file: ListedFile, end: int) -> int:
        with self._open(file) as opened:
            return identity(opened, end)

    def _verified(self, file: ListedFile, entry: Entry) -> Entry:
        """Return the entry with the file's inode, creation time and checksum, and its mtime unless the file grew.

        Raises SpoutContractError if the file does not have the content that was read.
        """
        if not self._same_content(file, entry):
            raise SpoutContractError(
                f"FileSpout: {file.name} was read to byte {entry.end} (modified {iso_time(entry.mtime)}) and is "
                f"another file now, or was written anew ({file.size} bytes, modified {iso_time(file.mtime)}); a file "
                f"must not change after it was read{', only grow by whole lines' if self.grows(file.name) else ''}. "
                f"Give the new content another name to have it read, or remove it to leave it out. Logs that are "
                f"rotated by renaming are followed if the path matches the new names too, such as app.log*"
            )
        mtime = file.mtime if file.size == entry.end else entry.mtime
        check = self._checksum(file, entry.end) if entry.check is None else entry.check
        return Entry(entry.end, mtime, entry.more and file.size > entry.end, file.inode, check, self._birth(file))

    # --- the next batch -------------------------------------------------------------------------------------------

    def next(
        self, seen: ReadFiles, listing: list[ListedFile], time: float, budget: Budget = NO_LIMIT
    ) -> tuple[list[FileRange], ReadFiles]:
        """Return the ranges that the next batch reads, and the record of read files after that batch.

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
            if listed.size <= (0 if entry is None else entry.end) or seen.is_past(listed):
                continue
            if entry is None and self.packed(listed.name):
                self._check_not_packed_since(listed, seen, listing)
            full = bool(ranges) and (left <= 0 or len(ranges) >= (self.limits.files or MOST_FILES))
            planned = None if full else self._range(listed, entry, time, left, first=not ranges)
            if planned is None or planned[1].more:
                waiting = waiting or seen.place(listed.mtime, listed.name)
            if planned is None:
                break
            range_, after = planned
            if entry is not None or range_.end > range_.start:  # a file read before gets a new entry in any case
                read.append((range_.name, after))
            if range_.end > range_.start:
                ranges.append(range_)
                left -= range_.end - range_.start
        return ranges, seen.after(read, waiting) if ranges else seen

    def _check_not_packed_since(self, file: ListedFile, seen: ReadFiles, listing: list[ListedFile]) -> None:
        """Raise SpoutContractError if a compressed file unpacks to a file that was read: its lines would count twice.

        Tools that rotate logs make such files. The file is compared with files that were read and are gone, and with
        the file of the same name without the suffix. A short common beginning does not count. Objects are not compared:
        they are not renamed or packed in place, and to unpack each new one here would read all of them twice.
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
        with self._open(file) as opened:
            content = unpacked(opened, self.place.path(file.name))
            checks, size = content_checksums(content, [entry.end for entry in read.values()])
        for name, entry in read.items():
            sure = entry.end >= _LONG or entry.end == size or _is_stem(name, file.name)
            if sure and checks.get(entry.end) == entry.check:
                raise SpoutContractError(
                    f"FileSpout: {file.name} unpacks to what was read as {name} (to byte {entry.end}), and would "
                    f"count once more. Rotate logs without compressing them, or let the path match only one of the two "
                    f"forms, such as '*.log' or '*.gz'; or remove {file.name}"
                )

    def _range(
        self, listed: ListedFile, entry: Entry | None, time: float, left: int, *, first: bool
    ) -> tuple[FileRange, Entry] | None:
        """Return the part of a file that the batch reads, and the file's entry after that; None if the batch is full.

        `left` is the number of bytes for which the batch has room, `first` whether the batch has no range yet. The file
        may have grown since it was listed. The range is empty if the file is not complete yet.
        """
        with self._open(listed) as file:
            now = file.status()
            if now.inode != listed.inode or now.size < listed.size:
                raise StaleListingError(listed.name)
            start = 0 if entry is None else self._next_line(file, now, entry.end)
            end = self._readable_end(file, now, start, time)
            stop = end if end - start <= left else self._cut(file, now, start, end, left, first)
            if stop is None:
                return None
            check = identity(file, stop)
            after = Entry(stop, now.mtime, stop < now.size, now.inode, check, file.birth())
            return FileRange(now.name, now.size, now.mtime, start, stop, check, now.inode, now.tag), after

    def _readable_end(self, file: OpenFile, now: ListedFile, start: int, time: float) -> int:
        if self.limits.complete_after <= 0 or time - now.mtime / 1e9 >= self.limits.complete_after:
            return now.size
        return whole_lines_end(file, start, now.size) if self.grows(now.name) else start

    def _next_line(self, file: OpenFile, now: ListedFile, end: int) -> int:
        """Return the byte at which the next line begins in a file that was read up to byte `end` and has grown since.

        The last line may have had no newline when it was read; then its newline may follow, and is skipped. Raises
        SpoutContractError if that line itself goes on, because a part of the line was read as a whole line.
        """
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
            f"line and counts as one; the rest is not a line of its own. To read on behind it, cut the rest out while "
            f"nothing writes to the file: {{ head -c {end} {old}; echo; tail -c +{rest + 1} {old}; }} > {new} && "
            f"mv {new} {old}. To prevent it, let the writer write whole lines, or set completeAfterSecs to more than "
            f"its pauses within a line"
        )

    def _cut(self, file: OpenFile, now: ListedFile, start: int, end: int, left: int, first: bool) -> int | None:
        """Return the byte up to which a batch reads a file that does not fit into it; None if it reads nothing.

        The room is `left` bytes. `first` says whether the batch has no range yet.
        """
        if not self.cuts(now.name):
            return end if first else None
        if not first and left < self.limits.bytes // 8:
            return None  # so small a range is not worth opening a file
        return line_start(file, start + left, end)

    def _open(self, file: ListedFile) -> OpenFile:
        try:
            return self.place.open(file)
        except FileNotFoundError:
            raise StaleListingError(file.name) from None
        except OSError as error:
            raise unreadable_error(self.place.path(file.name), error) from error


def _is_stem(name: str, packed: str) -> bool:
    return packed.startswith(f"{name}.")
