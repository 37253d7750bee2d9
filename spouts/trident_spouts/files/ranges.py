"""The part of a file that belongs to one batch, and how its content is known again."""

import os
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

from trident.base.errors import SourceUnreadableError, SpoutContractError

_EDGE = 1 << 10


def checksum(file: BinaryIO, end: int) -> int:
    """Return what tells the content before byte `end` from another one: of its first and its last kilobyte.

    Content is known again on other disks, where inodes are others; a kilobyte of it costs no more than the opening.
    """
    found = 0
    for start in (0, max(0, end - _EDGE)):
        file.seek(start)
        found = zlib.crc32(file.read(min(_EDGE, end)), found)
    return found


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `start` (inclusive) to `end` (exclusive) of a file that had `size` bytes and `mtime` (ns) when planned."""

    name: str
    size: int
    mtime: int
    start: int
    end: int
    check: int | None = None
    """The checksum of what lies before `end`."""

    def to_json(self) -> list[Any]:
        """As metadata."""
        return [self.name, self.size, self.mtime, self.start, self.end, self.check]


def check_unchanged(range_: FileRange, path: str, txid: int, *, grows: bool) -> None:
    """Raise unless the file at `path` still holds what txid was planned to read."""
    planned = f"FileSpout: txid {txid} was planned to read {path} ({range_.size} bytes, modified {range_.mtime})"
    way_out = "bring the old file back, or start the topology anew: it then plans the batch anew"
    try:
        status = os.stat(path)
        if (status.st_size, status.st_mtime_ns) == (range_.size, range_.mtime):
            return
        with open(path, "rb") as file:
            same = checksum(file, range_.end) == range_.check
    except OSError as error:
        raise SourceUnreadableError(
            f"{planned}, which cannot be read now: {error.strerror or error}; {way_out}"
        ) from error
    if not same or status.st_size < range_.end or (status.st_size > range_.size and not grows):
        raise SpoutContractError(
            f"{planned}, and it has changed since ({status.st_size} bytes, modified {status.st_mtime_ns}); "
            f"a replay must read the same: {way_out}"
        )
