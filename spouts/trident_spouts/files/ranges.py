"""The part of a file that one batch reads, and the checks that the file is still the planned one."""

import platform
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.compression import Content
from trident_spouts.files.places import FilePlace, ListedFile, OpenFile

_CHECKED_BYTES = 1 << 10
_BLOCK = 1 << 20


def checksum(file: BinaryIO, end: int) -> int:
    """Return a checksum of a file's content before byte `end`: of the first and the last kilobyte of that content.

    It identifies a file even on another disk, where the file has another inode. To read a kilobyte costs no more than
    to open the file.
    """
    crc = 0
    for start in (0, max(0, end - _CHECKED_BYTES)):
        file.seek(start)
        crc = zlib.crc32(file.read(min(_CHECKED_BYTES, end)), crc)
    return crc


def tag_checksum(tag: str) -> int:
    """Return the checksum of an object's entity tag, which replaces a checksum of its content."""
    return zlib.crc32(tag.encode())


def identity(file: OpenFile, end: int) -> int:
    """Return the number that identifies the content of an opened file before byte `end`."""
    tag = file.status().tag
    return tag_checksum(tag) if tag else checksum(file, end)


def content_checksums(content: Content, ends: Iterable[int]) -> tuple[dict[int, int], int]:
    """Return the result of `checksum` for each end of a content that can be read only once, and the content's size.

    There is no checksum for an end beyond the content.

    >>> import io
    >>> found, size = content_checksums(io.BytesIO(b"the cow"), [3, 9])
    >>> found == {3: checksum(io.BytesIO(b"the cow"), 3)}, size
    (True, 7)
    """
    waiting, found = sorted(set(ends)), dict[int, int]()
    head, last, size = b"", b"", 0
    while block := content.read(_BLOCK):
        head += block[: max(0, _CHECKED_BYTES - len(head))]
        last, size = last[-_CHECKED_BYTES:] + block, size + len(block)
        while waiting and waiting[0] <= size:
            end = waiting.pop(0)
            until = len(last) - (size - end)
            tail = last[max(0, until - _CHECKED_BYTES) : until]
            found[end] = zlib.crc32(tail, zlib.crc32(head[:end]))
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
    """A file that a batch reads, as it was when the batch was emitted. It is picklable, because it is sent to workers.

    When a worker reads, the path may belong to another file: when a log is rotated by renaming, a new file gets its
    name. So every reader checks the file that it has opened.
    """

    place: FilePlace
    file: ListedFile
    """The file as it was when the batch was emitted."""
    end: int
    check: int | None
    grows: bool
    host: str

    @property
    def path(self) -> str:
        """Return the path or URL of the file, for messages."""
        return self.place.path(self.file.name)

    def __str__(self) -> str:
        return self.path

    def open(self) -> OpenFile:
        """Open the file that the path names now, or an object with its planned content."""
        return self.place.open(self.file)

    def check_same_file(self, file: OpenFile) -> None:
        """Raise SourceUnreadableError unless an opened file is the planned file.

        Reads the file up to `end` if the plan has a checksum. The error fails the attempt, and the next attempt looks
        for the planned file again. On another machine the same file may have another device and inode: there only size
        and content are compared. An object with a tag needs no check: no read of it can be of another content.
        """
        if self.file.tag:
            return
        now = file.status()
        here = (self.host, self.file.device) == (platform.node(), now.device)
        long_enough = now.size >= self.end if self.grows else now.size == self.file.size
        same = long_enough and (not here or now.inode == self.file.inode)
        if not same or (self.check is not None and checksum(file, self.end) != self.check):
            raise self._replaced()

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError unless the path still names the planned file, and the file has not changed.

        Spark opens the files that it scans itself, so only the path can be checked.
        """
        try:
            with self.open() as file:
                now = file.status()
        except OSError as error:
            raise self._replaced() from error
        if now != self.file:
            raise self._replaced()

    def _replaced(self) -> SourceUnreadableError:
        return SourceUnreadableError(
            f"FileSpout: {self.path} was renamed, replaced or changed while the batch was read; nothing of this "
            f"attempt counts"
        )


FileRef = str | PlannedFile
"""A file that a reader opens: the planned file, or a path of the local disk at which any file will do."""


def opening_bytes(path: FileRef) -> int:
    """Return how many bytes can be read in the time that it takes to open a file."""
    return 0 if isinstance(path, str) else path.place.opening_bytes


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `start` (inclusive) to `end` (exclusive) of a file, with its size and time (ns) at the plan."""

    name: str
    size: int
    mtime: int
    start: int
    end: int
    check: int | None = None
    """The checksum of the file's content before byte `end`, by the function `checksum`; None in old logs."""
    inode: int = 0
    tag: str = ""

    @property
    def listed(self) -> ListedFile:
        """Return the file as it was at the plan."""
        return ListedFile(self.mtime, self.name, self.size, self.inode, tag=self.tag)

    def to_json(self) -> list[Any]:
        """Return the range as JSON, for the metadata of a batch."""
        tag = [self.tag] if self.tag else []
        return [self.name, self.size, self.mtime, self.start, self.end, self.check, self.inode, *tag]


def check_unchanged(range_: FileRange, place: FilePlace, name: str, txid: int, *, grows: bool) -> PlannedFile:
    """Check that the planned file still holds the planned bytes, and return it.

    `name` is the name that the file has now.

    Raises SourceUnreadableError if the file cannot be read, SpoutContractError if it has changed. With `grows`, a file
    that has only grown has not changed. An object with a tag is checked when it is read.
    """
    planned = f"FileSpout: txid {txid} was planned to read {place.path(name)} ({range_.size} bytes, modified "
    planned += f"{iso_time(range_.mtime)})"
    way_out = "bring the old file back, or start the topology anew: it then plans the batch anew"
    try:
        with place.open(range_.listed._replace(name=name)) as file:
            now = file.status()
            untouched = (now.size, now.mtime) == (range_.size, range_.mtime)
            same = (untouched and range_.inode in (0, now.inode)) or checksum(file, range_.end) == range_.check
    except OSError as error:
        raise SourceUnreadableError(
            f"{planned}, which cannot be read now: {error.strerror or error}; {way_out}"
        ) from error
    if not same or now.size < range_.end or (now.size > range_.size and not grows):
        raise SpoutContractError(
            f"{planned}, and it has changed since ({now.size} bytes, modified {iso_time(now.mtime)}); "
            f"a replay must read the same: {way_out}"
        )
    return PlannedFile(place, now, range_.end, range_.check, grows, platform.node())
