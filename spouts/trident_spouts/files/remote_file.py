"""A file that is read over a network by ranges of bytes, with read-ahead if the reads are sequential."""

import io
from collections.abc import Callable

BUFFER = 64 << 10
"""The size of the buffer through which a RangeReader is read."""

_LEAST = 64 << 10
_MOST = 8 << 20
"""The least and the most bytes that one request reads ahead of the reader."""


class RangeReader(io.RawIOBase):
    """The bytes of a file of known size. `fetch` returns the bytes from one position up to (not including) another.

    A request that continues the previous request is twice as long. So a seek costs little, and a sequential read needs
    few requests.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], memoryview]) -> None:
        self._size = size
        self._fetch = fetch
        self._at = 0
        self._start, self._block = 0, memoryview(b"")
        self._ahead = _LEAST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def readinto(self, buffer: object) -> int:
        """Read the next bytes into `buffer`; return how many, 0 at the end of the file."""
        into = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        wanted = min(len(into), self._size - self._at)
        if wanted <= 0:
            return 0
        offset = self._at - self._start
        if not 0 <= offset < len(self._block):
            self._load(wanted)
            offset = 0
        part = self._block[offset : offset + wanted]
        into[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _load(self, wanted: int) -> None:
        in_order = self._at == self._start + len(self._block)
        self._ahead = min(_MOST, self._ahead * 2) if in_order else _LEAST
        # A long read asks for whole buffers first, and then for the rest: one more buffer here saves a second request.
        end = min(self._size, self._at + max(wanted + BUFFER if wanted >= BUFFER else 0, self._ahead))
        self._start, self._block = self._at, self._fetch(self._at, end)
        if len(self._block) != end - self._start:
            raise EOFError(self._start + len(self._block))
