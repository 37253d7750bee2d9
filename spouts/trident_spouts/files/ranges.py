"""The part of a file that one batch reads, and the checks that the file is still the one that was planned."""

import os
import platform
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident_spouts.files.compression import Content

_CHECKED_BYTES = 1 << 10
_BLOCK = 1 << 20


def checksum(file: BinaryIO, end: int) -> int:
    """Return a checksum of a file's content before byte `end`: of the first and the last kilobyte of that content.

    The content identifies a file on another disk too, where the file has another inode. To read a kilobyte costs no
    more than to open the file.
    """
    crc = 0
    for start in (0, max(0, end - _CHECKED_BYTES)):
        file.seek(start)
        crc = zlib.crc32(file.read(min(_CHECKED_BYTES, end)), crc)
    return crc


def content_checksums(content: Content, ends: Iterable[int]) -> tuple[dict[int, int], int]:
    """Return what `checksum` returns for each end of a content that is read only once, and the content's size.

    There is no checksum for an end behind the content.

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

    When a worker reads, the path may lead to another file: a log that is rotated by renaming leaves its name to a new
    file. So every reader checks the file that it has opened.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    end: int
    check: int | None
    grows: bool
    host: str

    def check_same_file(self, file: BinaryIO) -> None:
        """Raise SourceUnreadableError unless an opened file is the planned file.

        Reads the file up to `end` if the plan has a checksum. The error fails the attempt, and the next attempt looks
        for the planned file anew. On another machine the same file may have another device and inode: there only size
        and content are compared.
        """
        status = os.fstat(file.fileno())
        here = (self.host, self.device) == (platform.node(), status.st_dev)
        long_enough = status.st_size >= self.end if self.grows else status.st_size == self.size
        same = long_enough and (not here or status.st_ino == self.inode)
        if not same or (self.check is not None and checksum(file, self.end) != self.check):
            raise self._replaced()

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError unless the path still leads to the planned file, and that has not changed.

        Spark opens the files that it scans itself, so only the path can be checked.
        """
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise self._replaced() from error
        now = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if now != (self.device, self.inode, self.size, self.mtime):
            raise self._replaced()

    def _replaced(self) -> SourceUnreadableError:
        return SourceUnreadableError(
            f"FileSpout: {self.path} was renamed, replaced or changed while the batch was read; nothing of this "
            f"attempt counts"
        )


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

    def to_json(self) -> list[Any]:
        """Return the range as JSON, for the metadata of a batch."""
        return [self.name, self.size, self.mtime, self.start, self.end, self.check, self.inode]


def check_unchanged(range_: FileRange, path: str, txid: int, *, grows: bool) -> PlannedFile:
    """Return the planned file at `path`, after a check that it still holds the bytes that `txid` was planned to read.

    Raises SourceUnreadableError if the file cannot be read, SpoutContractError if it has changed. With `grows`, a file
    that has only grown has not changed.
    """
    planned = f"FileSpout: txid {txid} was planned to read {path} ({range_.size} bytes, modified "
    planned += f"{iso_time(range_.mtime)})"
    way_out = "bring the old file back, or start the topology anew: it then plans the batch anew"
    try:
        with open(path, "rb") as file:
            now = os.fstat(file.fileno())
            untouched = (now.st_size, now.st_mtime_ns) == (range_.size, range_.mtime)
            same = (untouched and range_.inode in (0, now.st_ino)) or checksum(file, range_.end) == range_.check
    except OSError as error:
        raise SourceUnreadableError(
            f"{planned}, which cannot be read now: {error.strerror or error}; {way_out}"
        ) from error
    if not same or now.st_size < range_.end or (now.st_size > range_.size and not grows):
        raise SpoutContractError(
            f"{planned}, and it has changed since ({now.st_size} bytes, modified {iso_time(now.st_mtime_ns)}); "
            f"a replay must read the same: {way_out}"
        )
    identity = now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns
    return PlannedFile(path, *identity, range_.end, range_.check, grows, platform.node())
