"""Compressed files of lines.

A batch reads such a file as a whole, because lines cannot be found in compressed bytes.
"""

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


class _Bz2Streams:
    """The content of all streams of a .bz2 file, of which pbzip2 and lbzip2 write one for each 900 kB.

    Python's reader treats everything after the first stream that is not itself a stream as padding, even a damaged
    stream. Here only zeros are padding, as in .gz files.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._unpacker = file, bz2.BZ2Decompressor()

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._unpacker.eof:
                data = self._next_stream()
                if not data:
                    return b""
                self._unpacker = bz2.BZ2Decompressor()
            elif self._unpacker.needs_input:
                data = self._file.read(_BLOCK)
                if not data:
                    raise EOFError("the compressed data is incomplete: the file ends too early")
            if block := self._unpacker.decompress(data, size):
                return block

    def _next_stream(self) -> bytes:
        """Return the first bytes of the next stream; nothing if there is none."""
        data = self._unpacker.unused_data.lstrip(b"\0")
        while not data:
            block = self._file.read(_BLOCK)
            if not block:
                return b""
            data = block.lstrip(b"\0")
        return data


_BLOCK = 64 << 10
_READERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": _Bz2Streams,
    ".zst": lambda file: pa.CompressedInputStream(pa.PythonFile(_NotClosed(file), "r"), "zstd"),
}

UNREADABLE = (".xz", ".lz4", ".snappy", ".zip", ".deflate")
"""The suffixes of compressed files that cannot be read."""

_MAGIC = {
    b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip", b"\xfd7zXZ": ".xz", b"\x04\x22\x4d\x18": ".lz4",
}  # fmt: skip


def hint_of_compression(data: bytes) -> str:
    """Return a hint for an error about a file that begins with `data`, if these bytes look compressed.

    >>> hint_of_compression(bytes([0x1F, 0x8B, 8]))
    '; it looks compressed: give its name the suffix .gz, because FileSpout recognizes compression by the suffix'
    >>> hint_of_compression(b"the cow")
    ''
    """
    suffix = next((suffix for sign, suffix in _MAGIC.items() if data.startswith(sign)), None)
    if suffix is None:
        return ""
    if suffix in UNREADABLE:
        return f"; it looks like a {suffix} file, which is not supported: compress it again as .gz, .bz2 or .zst"
    return (
        f"; it looks compressed: give its name the suffix {suffix}, because FileSpout recognizes compression by the "
        f"suffix"
    )


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
        except SpoutError:  # the file was replaced or cannot be read, but its bytes are not damaged
            raise
        except (EOFError, OSError, zlib.error, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk or the network failed
            raise MalformedInputError(
                f"{self._name}: cannot decompress the file: {error}. If a program is still writing the file, let that "
                f"program move finished files into the folder, or set Watch(completeAfterSecs=...) to longer than its "
                f"pauses"
            ) from error


def _suffix(name: str) -> str:
    return name[name.rfind(".") :].lower() if "." in name else ""
