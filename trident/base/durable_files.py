"""Durable files: a checksum of the bytes that are written, and folders that are synced to disk."""

import os
import zlib
from pathlib import Path
from typing import Any

from trident.base.errors import FilesError


class Summed:
    """A file object for Arrow, around another file. It counts the written bytes and keeps their CRC-32."""

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
    """Create a folder and its missing parents, durably. Only the user of this process may read the new folders.

    Raises FilesError if something else has its name.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:
            text = f"{folder} is not a folder: move it away, or choose another location"
            raise FilesError(text) from error
        fsync_folder(folder.parent)


def fsync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable. A synced file can still lose its name in a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
