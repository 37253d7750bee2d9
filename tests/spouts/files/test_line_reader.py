"""Batches cut into shares for the workers: each line is in one share."""

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plans import planned
from trident.base.spark_types import parse_schema
from trident.errors import MalformedInputError
from trident.spouts import Csv, FileSpout, Json, TransactionAttempt
from trident_spouts.files import lines
from trident_spouts.files.line_reader import LinesEmission, ShareCounter, ShareReader, Stretch, read_stretch, shares
from trident_spouts.files.text import TextFormat

FORM = TextFormat(parse_schema("line string"), "strict")


@given(
    contents=st.lists(st.lists(st.sampled_from(["", "a", "bcd", "é" * 9]), max_size=9), min_size=1, max_size=4),
    count=st.integers(1, 9),
    whole=st.booleans(),
)
def test_every_line_is_in_one_share_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, contents: list[list[str]], count: int, whole: bool
) -> None:
    folder = tmp_path_factory.mktemp("shares")
    stretches = []
    for at, content in enumerate(contents):
        data = ("\n".join(content) + ("\n" if whole and content else "")).encode()
        (folder / f"{at}").write_bytes(data)
        stretches.append(Stretch(str(folder / f"{at}"), 0, len(data), 0, len(data)))
    cut = shares(stretches, count)
    assert 1 <= len(cut) <= count
    one_by_one = [table for stretch in stretches for table in read_stretch(stretch, FORM)]
    shared = [table for share in cut for stretch in share for table in read_stretch(stretch, FORM)]
    expected = [line for table in one_by_one for line in table.column(0).to_pylist()]
    assert [line for table in shared for line in table.column(0).to_pylist()] == expected
    reader = ShareReader(tuple(map(tuple, cut)), FORM)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(cut)))})
    assert [line for batch in reader(iter([numbers])) for line in batch.column(0).to_pylist()] == expected
    counter = ShareCounter(tuple(map(tuple, cut)), FORM)
    assert sum(sum(batch.column(0).to_pylist()) for batch in counter(iter([numbers]))) == len(expected)


def test_shares_hold_about_equal_bytes() -> None:
    stretches = [Stretch("a", 0, 100, 0, 100), Stretch("b", 50, 80, 50, 80)]
    assert [[(s.path, s.first, s.last) for s in share] for share in shares(stretches, 3)] == [
        [("a", 0, 44)],
        [("a", 44, 88)],
        [("a", 88, 100), ("b", 50, 80)],
    ]


def test_a_stretch_in_the_middle_of_a_file_stays_in_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntwo\nthree\nfour\n")
    stretch = Stretch(str(path), 4, 14, 4, 14)
    found = [table.column(0).to_pylist() for table in read_stretch(stretch, FORM)]
    assert found == [["two", "three"]]


FORMATS: dict[str, Any] = {"text": "text", "json": Json("line string"), "csv": Csv("line string", header=False)}


@pytest.mark.parametrize("worker", [False, True], ids=["driver", "worker"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_line_that_is_too_long_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, suffix: str, worker: bool
) -> None:
    """A small file may unpack to more than the memory holds."""
    monkeypatch.setattr(lines, "_CHUNK", 1 << 16)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    data = b'{"line": "a"}\n' + b'"' + b"b" * (24 << 20)
    (tmp_path / f"a{suffix}").write_bytes(gzip.compress(data, 1) if suffix else data + b"\n")
    spout = FileSpout(tmp_path / f"a{suffix}", FORMATS[form])
    (plan,) = planned(spout)
    emission = spout.open().emit(TransactionAttempt(1, 0), plan)
    assert isinstance(emission, LinesEmission)
    reader = ShareReader((tuple(emission.stretches),), emission.line_format)
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    tracemalloc.start()
    says = rf"a{suffix}:2: a line is read at once and has at most .* \(from byte 14\) has more: end each line with \\n"
    with pytest.raises(MalformedInputError, match=says):
        list(reader(iter([numbers]))) if worker else emission.arrow()
    assert tracemalloc.get_traced_memory()[1] < 12 << 20
    tracemalloc.stop()


def test_a_line_of_the_most_bytes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_CHUNK", 1)
    monkeypatch.setattr(lines, "LONGEST_LINE", 9)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" + b"b" * 9 + b"\n" + b"c" * 9))
    spout = FileSpout(tmp_path / "a.gz")
    (plan,) = planned(spout)
    table = spout.open().emit(TransactionAttempt(1, 0), plan).arrow()
    assert table.column(0).to_pylist() == ["a", "b" * 9, "c" * 9]


def test_a_header_that_is_too_long_is_not_read_for_a_later_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 9)
    path = tmp_path / "a"
    path.write_bytes(b"b" * 10 + b"\n1\n")
    form = FileSpout(path, Csv("b string")).open().emit(TransactionAttempt(1, 0), {"files": []}).line_format
    with pytest.raises(MalformedInputError, match=r"a:1: a line is read at once"):
        list(read_stretch(Stretch(str(path), 0, 13, 11, 13), form))
