"""A topology as text, in golden files."""

from pathlib import Path

import pytest

from tests.picture.examples import visits, word_count
from tests.picture.window_example import hours
from tests.support.golden import check_golden
from tests.support.topologies import stream

HERE = Path(__file__).parent


@pytest.mark.parametrize("make", [word_count, visits, hours])
def test_a_topology_is_explained(make, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    make().explain()
    check_golden(HERE, f"{make.__name__}.explain.txt", capsys.readouterr().out)


def test_a_stream_is_explained_by_what_leads_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    lines = stream("line string")
    lines.each("line", len, "unseen long")
    lines.project("line").explain()
    assert capsys.readouterr().out == (
        "stream lines\n"
        "  lines/0:newStream(FixedBatchSpout)  line string  transactional\n"
        "  lines/2:project                     line string\n"
    )


def test_merge_and_join_say_that_they_stay_within_one_batch(capsys: pytest.CaptureFixture[str]) -> None:
    visits().explain()
    said = capsys.readouterr().out
    assert "users-joiners/0:merge" in said and "within ONE batch; <- users/0, joiners/0" in said
    assert "on (user) = (id), within ONE batch; <- clicks/0, users-joiners/2" in said


def test_a_grouped_stream_and_a_state_are_explained_too(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = stream("word string").groupBy("word")
    grouped.explain()
    assert "lines/0:newStream(FixedBatchSpout)  word string" in capsys.readouterr().out
