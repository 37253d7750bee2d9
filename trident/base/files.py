"""Files that last: what is written is summed up, and names are made durable with their folders."""

import os
import zlib
from pathlib import Path
from typing import Any


class Summed:
    """A file that counts and sums up what is written to it, for Arrow to write to."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.bytes = 0
        self.checksum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.checksum = zlib.crc32(view, self.checksum)
        self.bytes += view.nbytes
        self._file.write(view)
        return view.nbytes

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def make_folder(folder: Path) -> None:
    """The folder, if need be with those above it, durably; nobody else may look into it."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        fsync_folder(folder.parent)


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
