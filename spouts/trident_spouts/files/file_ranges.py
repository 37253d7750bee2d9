"""The part of a file that one batch reads, and the checks that the file is still the planned file."""

import platform
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.compression import Content
from trident_spouts.files.storage import FileStorage, ListedFile, OpenFile

_CHECKED_BYTES = 1 << 10
_BLOCK = 1 << 20

LONG = 1 << 10
"""The length (bytes) from which two files with equal beginnings are considered the same."""


def checksum(file: BinaryIO, end: int) -> int:
    """Return a checksum of a file's content before byte `end`: of the first and the last kilobyte of that content.

    It differs for most other files, and costs no more than opening the file. Only an equal `digest` proves that all
    bytes are equal.
    """
    crc = 0
    for start in (0, max(0, end - _CHECKED_BYTES)):
        file.seek(start)
        crc = zlib.crc32(file.read(min(_CHECKED_BYTES, end)), crc)
    return crc


def digest(file: BinaryIO, start: int, end: int, before: int = 0) -> int:
    """Return the checksum of all bytes of a file from `start` to `end`, after content with the checksum `before`.

    >>> import io
    >>> digest(io.BytesIO(b"the cow"), 3, 7, digest(io.BytesIO(b"the cow"), 0, 3)) == zlib.crc32(b"the cow")
    True
    """
    file.seek(start)
    while start < end and (block := file.read(min(_BLOCK, end - start))):
        before, start = zlib.crc32(block, before), start + len(block)
    return before


def tag_checksum(tag: str) -> int:
    """Return the checksum of an object's entity tag, which replaces a checksum of its content."""
    return zlib.crc32(tag.encode())


def identity(file: OpenFile, end: int) -> int:
    """Return the number that identifies the content of an opened file before byte `end`."""
    tag = file.status().tag
    return tag_checksum(tag) if tag else checksum(file, end)


def content_checksums(content: Content, ends: Iterable[int]) -> tuple[dict[int, tuple[int, int]], int]:
    """Return `checksum` and `digest` for each end of a content that can be read only once, and the content's size.

    There are no checksums for an end beyond the content.

    >>> import io
    >>> found, size = content_checksums(io.BytesIO(b"the cow"), [3, 9])
    >>> found == {3: (checksum(io.BytesIO(b"the cow"), 3), zlib.crc32(b"the"))}, size
    (True, 7)
    """
    waiting, found = sorted(set(ends)), dict[int, tuple[int, int]]()
    head, last, size, before = b"", b"", 0, 0
    while block := content.read(_BLOCK):
        head += block[: max(0, _CHECKED_BYTES - len(head))]
        last, size = last[-_CHECKED_BYTES:] + block, size + len(block)
        while waiting and waiting[0] <= size:
            end = waiting.pop(0)
            until = len(last) - (size - end)
            tail = last[max(0, until - _CHECKED_BYTES) : until]
            all_ = zlib.crc32(block[: len(block) - (size - end)], before)
            found[end] = zlib.crc32(tail, zlib.crc32(head[:end])), all_
        before = zlib.crc32(block, before)
    return found, size


def unreadable_error(path: str, error: OSError) -> SourceUnreadableError:
    """Return the error for a file that cannot be read."""
    return SourceUnreadableError(f"FileSpout: cannot read {path}: {error.strerror or error}")


def iso_time(time_ns: int) -> str:
    """Return a modification time (ns since 1970) as text for errors.

    >>> iso_time(1_700_000_000_000_000_000)
    '2023-11-14T22:13:20.000000Z'
    """
    return f"{numpy.datetime64(time_ns // 1_000, 'us')}Z"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a batch reads, with its status when the batch was emitted.

    It is picklable, because it is sent to workers.

    When a worker reads, the path may already belong to another file: log rotation, for example, renames a file and
    gives its name to a new file. So every reader checks the file that it has opened.
    """

    place: FileStorage
    file: ListedFile
    """The file as it was when the batch was emitted."""
    end: int
    check: int | None
    grows: bool
    host: str
    start: int = 0
    digest: int | None = None
    """The checksum of all bytes from `start` to `end`, by the function `digest`; None if the plan has none."""
    folders: tuple[tuple[str, Any], ...] = ()
    """The names and values of fields that the names of folders have."""

    @property
    def path(self) -> str:
        """Return the path or URL of the file, for messages."""
        return self.place.path(self.file.name)

    @property
    def changed(self) -> float:
        """The time of the file's last change, in seconds since 1970."""
        return self.file.mtime / 1_000_000_000

    def __str__(self) -> str:
        return self.path

    def open(self) -> OpenFile:
        """Open the file that the path names now, or an object with its planned content."""
        return self.place.open(self.file)

    def check_same_file(self, file: OpenFile, before: ListedFile | None = None) -> ListedFile:
        """Return the status of an opened file. Raises SourceUnreadableError unless it is the planned file.

        The error fails the attempt, and the next attempt looks for the planned file again. On another machine the same
        file may have another device and inode, so only size and content are compared there. `before` is the result of
        an earlier check. An object with a tag needs no check, because a read cannot return other content.
        """
        if self.file.tag:
            return self.file
        now = file.status()
        here = (self.host, self.file.device) == (platform.node(), now.device)
        long_enough = now.size >= self.end if self.grows else now.size == self.file.size
        same = long_enough and (not here or now.inode == self.file.inode)
        if not same or not self._same_content(file, now, before or self.file):
            raise self._replaced()
        return now

    def _same_content(self, file: OpenFile, now: ListedFile, before: ListedFile) -> bool:
        """Return whether the planned bytes are unchanged: no change since `before`, or the same bytes."""
        if now.changed and now.changed == before.changed:
            return True
        ends = self.check is None or checksum(file, self.end) == self.check
        return ends and self.digest in (None, digest(file, self.start, self.end))

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError unless the path still names the planned file, and the file has not changed.

        Spark opens the files that it scans itself, so only the path can be checked.
        """
        try:
            with self.open() as file:
                now = file.status()
                same = self.file.same_status(now) and self._same_content(file, now, self.file)
        except OSError as error:
            raise self._replaced() from error
        if not same:
            raise self._replaced()

    def _replaced(self) -> SourceUnreadableError:
        return SourceUnreadableError(
            f"FileSpout: {self.path} was renamed, replaced or changed while the batch was read; this attempt is "
            f"discarded"
        )


FileRef = str | PlannedFile
"""A file that a reader opens: the planned file, or a path on the local disk, which is read without a check."""


def opening_bytes(path: FileRef) -> int:
    """Return how many bytes can be read in the time that it takes to open a file."""
    return 0 if isinstance(path, str) else path.place.opening_bytes


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `start` (inclusive) to `end` (exclusive) of a file, with its planned size and time (ns)."""

    name: str
    size: int
    mtime: int
    start: int
    end: int
    check: int | None = None
    """The checksum of the file's content before byte `end`, by the function `checksum`; None if an old version planned
    it."""
    inode: int = 0
    tag: str = ""
    digest: int | None = None
    """The checksum of all bytes of the range; None for an object, or if an old version planned it."""
    changed: int = 0
    """The time of the file's last change (ns) before the plan, if no later change can have the same time."""

    @property
    def listed(self) -> ListedFile:
        """Return the file as it was when the batch was planned."""
        return ListedFile(self.mtime, self.name, self.size, self.inode, tag=self.tag)

    def to_json(self) -> list[Any]:
        """Return the range as JSON, for the metadata of a batch."""
        proof = [self.tag] if self.tag else ["", self.digest, self.changed]
        return [self.name, self.size, self.mtime, self.start, self.end, self.check, self.inode, *proof]


def check_unchanged(range_: FileRange, place: FileStorage, name: str, txid: int, *, grows: bool) -> PlannedFile:
    """Check that the planned file still holds the planned bytes, and return it.

    `name` is the present name of the file.

    Raises SourceUnreadableError if the file cannot be read, SpoutContractError if it has changed. With `grows`, a file
    that has only grown has not changed. An object with a tag is checked when it is read.
    """
    planned = f"FileSpout: txid {txid} was planned to read {place.path(name)} ({range_.size} bytes, modified "
    planned += f"{iso_time(range_.mtime)})"
    way_out = "restore the old file, or restart the topology, which then plans the batch again"
    try:
        with place.open(range_.listed._replace(name=name)) as file:
            now = file.status()
            same = _holds(file, now, range_)
    except OSError as error:
        raise SourceUnreadableError(
            f"{planned}, which cannot be read now: {error.strerror or error}; {way_out}"
        ) from error
    if not same or now.size < range_.end or (now.size > range_.size and not grows):
        raise SpoutContractError(
            f"{planned}, and it has changed since ({now.size} bytes, modified {iso_time(now.mtime)}); "
            f"a replay must read the same: {way_out}"
        )
    return PlannedFile(place, now, range_.end, range_.check, grows, platform.node(), range_.start, range_.digest)


def _holds(file: OpenFile, now: ListedFile, range_: FileRange) -> bool:
    """Return whether an opened file, with the status `now`, has the bytes that were planned."""
    if now.tag:
        return True  # every read demands the planned content
    if now.changed and (now.changed, now.inode, now.size) == (range_.changed, range_.inode, range_.size):
        return True
    if range_.digest is None:
        untouched = (now.size, now.mtime) == (range_.size, range_.mtime) and range_.inode in (0, now.inode)
        return untouched or checksum(file, range_.end) == range_.check
    ends = range_.check is None or checksum(file, range_.end) == range_.check
    return ends and digest(file, range_.start, range_.end) == range_.digest
