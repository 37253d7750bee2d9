"""Lines of a text file: their beginnings and ends, and the bytes of whole lines as Arrow strings."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import MalformedInputError
from trident_spouts.files.compression import Content, hint_of_compression, unpacked

if TYPE_CHECKING:
    from trident_spouts.files.file_ranges import FileRef

EncodingErrors = Literal["strict", "replace"]

_SCAN = 64 << 10
_CHUNK = 4 << 20
BOM = b"\xef\xbb\xbf"

LONGEST_LINE = 256 << 20
"""The most bytes of a line, which is read at once."""


class LineTooLongError(Exception):
    """A line is longer than `LONGEST_LINE`. It begins at byte `offset` of the unpacked content."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def line_start(file: BinaryIO, position: int, end: int) -> int:
    """Return the first byte at or after `position` at which a line begins; `end` if no line begins before `end`.

    The file is read only up to the newline before that line.
    """
    if position <= 0:
        return 0
    at = position - 1
    file.seek(at)
    while at < end:
        block = file.read(min(_SCAN, end - at))
        if not block:
            break
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return end


def whole_lines_end(file: BinaryIO, start: int, end: int) -> int:
    """Return the offset after the last newline between `start` and `end`; `start` if there is no newline."""
    at = end
    while at > start:
        block_start = max(start, at - _SCAN)
        file.seek(block_start)
        newline = file.read(at - block_start).rfind(b"\n")
        if newline >= 0:
            return block_start + newline + 1
        at = block_start
    return start


def read_whole_lines(file: BinaryIO, start: int, end: int, least: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes from `start` to `end` in chunks of whole lines: (offset, bytes).

    Lines begin at `start` and `end`. The first chunk has at least `least` lines, if there are so many.

    Raises EOFError, with the offset, if the file ends before `end`, and LineTooLongError.
    """
    file.seek(start)
    at, rest = start, b""
    while at + len(rest) < end:
        block = file.read(min(_CHUNK, end - at - len(rest)))
        if not block:
            raise EOFError(at + len(rest))
        rest += block
        cut = len(rest) if at + len(rest) == end else _whole_lines(rest, 1 if at > start else least)
        if cut:
            yield at, rest[:cut]
            at, rest = at + cut, rest[cut:]
        _check_length(at, rest)


def all_lines(
    content: Content, whole: bool = False, least: int = 1, longest: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield all bytes of a content in chunks of whole lines, or in one chunk if `whole`: (offset, bytes).

    The first chunk has at least `least` lines, if there are so many. A content of more than `longest` bytes is not
    read to its end if it is one chunk: a small file may unpack to more than the memory holds. Raises LineTooLongError
    otherwise.
    """
    at, rest = 0, b""
    while (longest is None or len(rest) <= longest) and (block := content.read(_CHUNK)):
        rest += block
        cut = 0 if whole else _whole_lines(rest, 1 if at else least)
        if cut:
            yield at, rest[:cut]
            at, rest = at + cut, rest[cut:]
        if not whole:
            _check_length(at, rest)
    if rest:
        yield at, rest


def first_of(file: BinaryIO, count: int) -> bytes:
    """Return the first `count` lines of a file. Raises LineTooLongError."""
    file.seek(0)
    found = b""
    for _ in range(count):
        line = file.readline(LONGEST_LINE + 2)
        _check_length(len(found), line.removesuffix(b"\n"))
        found += line
    return found


def _check_length(offset: int, data: bytes) -> None:
    """Raise LineTooLongError if the last line of `data`, of which more may follow, is too long already."""
    begin = data.rfind(b"\n") + 1
    if len(data) - begin > LONGEST_LINE:
        raise LineTooLongError(offset + begin)


def _whole_lines(data: bytes, least: int) -> int:
    """Return the number of bytes of the whole lines in `data`; 0 if these are fewer than `least` lines."""
    return 0 if least > 1 and data.count(b"\n") < least else data.rfind(b"\n") + 1


def skip_lines(data: bytes, count: int) -> int | None:
    r"""Return the byte of `data` after its first `count` lines; None if they do not all end in `data`.

    >>> skip_lines(b"\nthe cow\nmoon", 2), skip_lines(b"\nthe cow\nmoon", 3)
    (9, None)
    """
    at = 0
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if not at:
            return None
    return at


def lines_before(path: "FileRef", offset: int) -> int:
    """Return the number of lines before byte `offset` of a file, or of the unpacked content of a compressed file."""
    if not offset:
        return 0
    with open(path, "rb") if isinstance(path, str) else path.open() as file:
        content = unpacked(file, str(path))
        return sum(content.read(min(1 << 20, offset - at)).count(b"\n") for at in range(0, offset, 1 << 20))


def check_encoding(data: bytes, name: object, offset: int, errors: EncodingErrors) -> bytes:
    """Return bytes as valid UTF-8, without the byte order mark with which some editors begin a file.

    `data` begins at byte `offset` of the file `name`. With `errors` "replace", invalid bytes become U+FFFD. With
    "strict" the function raises MalformedInputError, which names the file and the byte.
    """
    if offset == 0 and data.startswith(BOM):
        data, offset = data[len(BOM) :], len(BOM)
    try:
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        packed = offset == 0 and hint_of_compression(data)
        if errors == "replace" and not packed:
            return data.decode("utf-8", "replace").encode()
        raise MalformedInputError(
            f"{name}: invalid UTF-8 at byte {offset + error.start} ({data[error.start : error.start + 1].hex()}: "
            f"{error.reason}){_other_form(data) if offset == 0 else ''}; convert the file, or read it with "
            f'encodingErrors="replace"'
        ) from None
    return data


def _other_form(data: bytes) -> str:
    """Return a hint for the error about a file that begins with `data`, if it is not encoded in UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it looks like UTF-16"
    return hint_of_compression(data)


def count_lines(data: bytes, offset: int) -> int:
    r"""Count the lines of `data`, which begins at byte `offset` of a file; the bytes are not decoded.

    >>> count_lines(b"the cow\r\n\nmoon", 0)
    3
    """
    if offset == 0 and data == BOM:
        return 0
    return data.count(b"\n") + (data[-1:] not in (b"\n", b""))


def to_lines(data: bytes) -> pa.Array:
    r"""Return the lines of `data` as an Arrow string array, without the ``\n`` or ``\r\n`` at the end of each line.

    >>> to_lines(b"the cow\r\n\nmoon").to_pylist()
    ['the cow', '', 'moon']
    """
    if not data:
        return pa.array([], pa.string())
    text = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    text = text[:-1] if text.endswith((b"\n", b"\r")) else text
    offsets = numpy.array([0, len(text)], dtype=numpy.int32)
    whole = pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(text))
    return pc.split_pattern(whole, "\n").values
