"""SourceVerbs of lines, and bytes as lines: wherever the bytes are cut, the lines are those of the file."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.errors import MalformedInputError
from trident_spouts.files import lines
from trident_spouts.files.lines import (
    BOM,
    check_encoding,
    count_lines,
    line_start,
    read_whole_lines,
    to_lines,
    whole_lines_end,
)

CONTENT = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bc", "\u00e9".encode(), b"\r", b" "]), max_size=40).map(
    b"".join
)


def plainly(data: bytes) -> list[str]:
    """Return the lines of a file by the simplest code that there is."""
    parts = data.decode().split("\n")
    if parts[-1] == "":
        parts.pop()
    return [part.removesuffix("\r") for part in parts]


@given(CONTENT)
def test_bytes_become_the_lines_that_python_sees(data: bytes) -> None:
    assert to_lines(data).to_pylist() == plainly(data)
    assert count_lines(data, 0) == count_lines(BOM + data, 0) == len(plainly(data))


@given(CONTENT, st.lists(st.integers(0, 100), max_size=6), st.integers(1, 9), st.integers(1, 9))
def test_any_cuts_reassemble_the_exact_lines(data: bytes, wanted: list[int], scan: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SCAN", scan)
        patch.setattr(lines, "_CHUNK", chunk)
        file = io.BytesIO(data)
        cuts = sorted({0, len(data), *(line_start(file, at, len(data)) for at in wanted if at <= len(data))})
        found: list[str] = []
        for start, end in zip(cuts, cuts[1:], strict=False):
            at = start
            for offset, part in read_whole_lines(file, start, end):
                assert offset == at
                at += len(part)
                found += to_lines(part).to_pylist()
            assert at == end
    assert found == plainly(data)


@given(CONTENT, st.integers(0, 60), st.integers(1, 9))
def test_a_line_start_is_the_next_one_and_reads_no_further(data: bytes, position: int, scan: int) -> None:
    position = min(position, len(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SCAN", scan)
        found = line_start(io.BytesIO(data), position, len(data))
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    assert found == next((start for start in starts if start >= position), len(data))


@given(CONTENT, st.integers(0, 60), st.integers(1, 9))
def test_whole_lines_end_behind_the_last_newline(data: bytes, start: int, scan: int) -> None:
    start = min(start, len(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SCAN", scan)
        found = whole_lines_end(io.BytesIO(data), start, len(data))
    assert found == max(start, data.rfind(b"\n") + 1)


def test_the_planner_reads_only_around_the_cut() -> None:
    class Counting(io.BytesIO):
        bytes_read = 0

        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            self.bytes_read += len(found)
            return found

    file = Counting(b"0123456789\n" * 1_000_000)
    assert line_start(file, 5_000_000, 11_000_000) == 5_000_006
    assert file.bytes_read <= 64 << 10


def test_a_byte_order_mark_is_no_text() -> None:
    assert check_encoding(b"\xef\xbb\xbfthe\n", "f", 0, "strict") == b"the\n"
    assert check_encoding(b"\xef\xbb\xbfthe\n", "f", 10, "strict") == b"\xef\xbb\xbfthe\n"


def test_invalid_utf8_is_named_with_its_byte_in_the_file() -> None:
    with pytest.raises(MalformedInputError) as caught:
        check_encoding(b"cow \xff moon", "/data/a.txt", 100, "strict")
    assert str(caught.value) == (
        "/data/a.txt: invalid UTF-8 at byte 104 (ff: invalid start byte); "
        'convert the file, or read it with encodingErrors="replace"'
    )
    with pytest.raises(MalformedInputError, match="invalid UTF-8 at byte 5 "):
        check_encoding(b"\xef\xbb\xbfab\xc3", "f", 0, "strict")


def test_invalid_utf8_may_be_replaced() -> None:
    assert to_lines(check_encoding(b"a\xffb\n", "f", 0, "replace")).to_pylist() == ["a\ufffdb"]


def test_a_file_that_became_shorter_is_noticed() -> None:
    with pytest.raises(EOFError):
        list(read_whole_lines(io.BytesIO(b"abc\n"), 0, 10))
