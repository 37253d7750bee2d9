"""A topology as text, in golden files."""

from pathlib import Path

import pytest

from tests.picture.examples import visits, word_count
from tests.picture.window_example import hours
from tests.support.golden import check_golden
from tests.support.topologies import stream
from trident import Count, SessionWindow, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState

HERE = Path(__file__).parent


@pytest.mark.parametrize("make", [word_count, visits, hours])
def test_a_topology_is_explained(make, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    make().explain()
    check_golden(HERE, f"{make.__name__}.explain.txt", capsys.readouterr().out)


def sessions(writers: str, late: bool) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string, at timestamp", []))
    state = RedisMapState.opaque("redis://localhost", writers=writers)  # type: ignore[arg-type]
    window = SessionWindow("1 minute", "at")
    visits = words.groupBy("word").window(window, Count(), "count", stateFactory=state, name="visits")
    if late:
        visits.late().peek(print)
    return topology


@pytest.mark.parametrize(
    ("writers", "late", "engine", "runner", "said"),
    [
        ("driver", False, "spark", "driver", []),
        ("executors", False, "spark", "Python", ["the executors"]),
        (
            "executors",
            False,
            "embedded",
            "driver",
            ["the executors, which only Spark has; a start on this engine is refused"],
        ),
        ("auto", False, "spark", "driver", ["the executors if the result is in files, else the driver"]),
        (
            "auto",
            True,
            "spark",
            "driver",
            [
                "the driver (the driver computes its values (words/1:window(Count)): only the driver finds late "
                "tuples, and late() is read; leave late() out)"
            ],
        ),
        ("auto", False, "embedded", "driver", []),
    ],
)
def test_who_updates_sessions_is_told(  # type: ignore[no-untyped-def]
    writers: str, late: bool, engine, runner: str, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing of the watermark, which is one value of the driver's."""
    sessions(writers, late).explain(engine)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line.removeprefix("written by: ") for line in lines if line.startswith("written by: ")] == said
    assert [runner in line for line in lines if line.startswith("words/1:window(Count)  ")] == [True]


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


def test_explain_says_which_steps_give_changes(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("id long, v long, kind string", [])).asChanges("kind")
    rows.toTable("id", name="table")
    rows.toStream().map(len, outputFields="n long").groupBy("n").aggregate(Count(), "count").foreachArrow(print)
    topology.explain()
    steps = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  rows/")}
    assert steps["rows/1:asChanges.kinds"].endswith("Spark or Python; of kind; changes")
    assert not next(line for step, line in steps.items() if ":map(" in step).endswith("changes")


def test_explain_says_which_windows_give_early_results(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("id long, at timestamp", []))
    rows.window(SessionWindow("1 hour", "at"), Count(), "n", name="w", emit="changes").foreachArrow(print, name="out")
    topology.explain()
    steps = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  rows/")}
    assert "into state w, emits changes" in steps["rows/1:window(Count)"]
    assert steps["rows/1:window(Count).results"].endswith("_change_type string  driver; changes")
