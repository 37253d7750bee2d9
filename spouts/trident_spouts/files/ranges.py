"""The part of a file that belongs to one batch, and the check that the file is still the planned one."""

import os
from dataclasses import dataclass
from typing import Any

from trident.base.errors import SourceUnreadableError, SpoutContractError


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `start` (inclusive) to `end` (exclusive) of a file that had `size` bytes and `mtime` (ns) when planned."""

    name: str
    size: int
    mtime: int
    start: int
    end: int

    @property
    def bytes(self) -> int:
        """How many."""
        return self.end - self.start

    def to_json(self) -> list[Any]:
        """As metadata."""
        return [self.name, self.size, self.mtime, self.start, self.end]


def check_unchanged(range_: FileRange, path: str, txid: int, *, grows: bool) -> None:
    """Raise unless the file at `path` still holds what txid was planned to read."""
    planned = f"FileSpout: txid {txid} was planned to read {path} ({range_.size} bytes, modified {range_.mtime})"
    try:
        status = os.stat(path)
    except OSError as error:
        raise SourceUnreadableError(
            f"{planned}, which cannot be read now: {error.strerror or error}; "
            f"bring the file back, or reset the topology"
        ) from error
    same = (status.st_size, status.st_mtime_ns) == (range_.size, range_.mtime)
    if not same and not (grows and status.st_size > range_.size):
        raise SpoutContractError(
            f"{planned}, and it has changed since ({status.st_size} bytes, modified {status.st_mtime_ns}); "
            f"a replay must read the same: bring the old file back, or reset the topology"
        )
