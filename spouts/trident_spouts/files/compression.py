"""Compressed files of lines. A batch reads such a file as a whole: lines cannot be found in compressed bytes."""

import bz2
import gzip
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from trident.base.errors import MalformedInputError, SpoutError


class Content(Protocol):
    """The content of a file, as bytes that are read in order."""

    def read(self, size: int, /) -> bytes: ...


class _NotClosed:
    """A file that Arrow reads without closing it, because its owner must still check that it is the planned file."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def close(self) -> None:
        """Leave the file open."""


_READERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".zst": lambda file: pa.CompressedInputStream(pa.PythonFile(_NotClosed(file), "r"), "zstd"),
}

UNREADABLE = (".xz", ".lz4", ".snappy", ".zip", ".deflate")
"""The suffixes of compressed files that cannot be read."""


def is_compressed(name: str) -> bool:
    """Return whether a file has the suffix of a compression that can be read.

    >>> is_compressed("part-1.csv.GZ"), is_compressed("gz")
    (True, False)
    """
    return _suffix(name) in _READERS


def unpacked(file: BinaryIO, name: str) -> Content:
    """Return the content of an opened file, unpacked if `name` has the suffix of a compression.

    Reading it raises MalformedInputError if it is damaged or ends too early.
    """
    return _Unpacked(file, name) if is_compressed(name) else file


class _Unpacked:
    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        self._content = self._tried(lambda: _READERS[_suffix(name)](file))

    def read(self, size: int, /) -> bytes:
        return bytes(self._tried(lambda: self._content.read(size)))

    def _tried(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except SpoutError:  # the file was replaced, or cannot be read; the bytes are not damaged
            raise
        except (EOFError, OSError, zlib.error, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk or the network failed
            raise MalformedInputError(
                f"{self._name}: cannot unpack it: {error}. If a writer is still at it, let the writer move finished "
                f"files in, or set completeAfterSecs to more than its pauses"
            ) from error


def _suffix(name: str) -> str:
    return name[name.rfind(".") :].lower() if "." in name else ""
