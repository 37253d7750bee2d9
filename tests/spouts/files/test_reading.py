"""Batches cut into shares for the workers: each line is in one share."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.base.types import parse_schema
from trident_spouts.files.reading import ShareCounter, ShareReader, Stretch, read_stretch, shares
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
    lines = [table.column(0).to_pylist() for table in read_stretch(stretch, FORM)]
    assert lines == [["two", "three"]]
