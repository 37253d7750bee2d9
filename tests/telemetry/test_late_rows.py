"""Late rows are counted, and the watermark is told, in progress events, in the status and in the display."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trident import (
    Count,
    SessionWindow,
    SlidingEventTimeWindow,
    TridentTopology,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
)
from trident.commits import committer
from trident.display.display import html_of, text_of
from trident.errors import LogError, StateUnavailableError
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.testing import engines, start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")
start = engines()
Start = Callable[..., RunningTopology]
HOURS = [1, 9, 2, 3, 12]


def at(hour: int | None, zone: Any = UTC) -> datetime | None:
    return None if hour is None else datetime(2024, 5, 1, hour, tzinfo=zone)


class Sum3:
    """A reducer: its window keeps every tuple."""

    outputType = "long"

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + 1


def hours(batches: list[list[int | None]], config: Any, aggregator: Any, late: bool = False) -> TridentTopology:
    topology = TridentTopology()
    rows = [[(at(hour), "k") for hour in batch] for batch in batches]
    stream = topology.newStream("s", FixedBatchSpout("at timestamp, key string", rows))
    window = stream.groupBy("key").window(config, aggregator, "n", name="w")
    window.foreachArrow(lambda *_: None, name="out")
    if late:
        window.late().foreachArrow(lambda *_: None, name="late")
    return topology


def told(running: RunningTopology) -> list[tuple[Any, Any]]:
    states = [event["states"]["w"] for event in running.recentProgress if event["event"] == "committed"]
    return [(state["watermark"], state["numRowsDroppedByWatermark"]) for state in states]


TUMBLING = TumblingEventTimeWindow("1 hour", "at")


@pytest.mark.parametrize(
    ("config", "aggregator"),
    [
        (TUMBLING, Count()),
        (TUMBLING, Sum3()),
        (SlidingEventTimeWindow("1 hour", "30 minutes", "at"), Count()),
        (SessionWindow("10 minutes", "at"), Count()),
        (SessionWindow("10 minutes", "at"), Sum3()),
    ],
    ids=["panes", "tuples", "sliding", "sessions", "sessions of tuples"],
)
def test_each_event_counts_the_late_rows_and_tells_the_watermark(start: Start, config: Any, aggregator: Any) -> None:
    with start(hours([[hour] for hour in HOURS], config, aggregator), name="late") as running:
        running.processAllAvailable(120)
        marks = [f"2024-05-01T{hour:02}:00:00.000+00:00" for hour in (1, 9, 9, 9, 12)]
        assert told(running) == list(zip(marks, [0, 0, 1, 1, 0], strict=True))
        assert running.status["groups"]["s"]["windows"] == {
            "w": {"watermark": marks[-1], "numRowsDroppedByWatermark": 2}
        }
        text, shown = text_of(running), html_of(running)
    assert f"watermark of w {marks[-1]}, late rows: 2" in text and "w.watermark" not in text
    assert "<th>watermark</th><th>late rows</th>" in shown and "w.watermark" not in shown


@pytest.mark.parametrize("late", [False, True])
def test_the_log_warns_of_rows_that_were_dropped(late: bool, caplog: pytest.LogCaptureFixture) -> None:
    batches: list[list[int | None]] = [[1], [9], [2], [3], [4], [5], [12]]
    with start_local(hours(batches, TUMBLING, Count(), late), name="late") as running:
        running.processAllAvailable(20)
    texts = [record.getMessage() for record in caplog.records if "has dropped late rows" in record.message]
    numbers = [text.removeprefix("state 'w' has dropped late rows, ").split()[0] for text in texts]
    assert numbers == ([] if late else ["1", "2", "4"])
    assert all("watermark, now 2024-05-01T09:00:00.000+00:00. A greater lateness=" in text for text in texts)


def test_tuples_of_one_pane_and_group_are_one_row_and_a_null_time_is_none() -> None:
    batches: list[list[int | None]] = [[9], [1, 1, 2, None, 9]]
    with start_local(hours(batches, TUMBLING, Count(), late=True), name="late") as running:
        running.processAllAvailable(20)
        assert told(running)[1] == ("2024-05-01T09:00:00.000+00:00", 2)
    with start_local(hours(batches, TUMBLING, Sum3()), name="late") as running:
        running.processAllAvailable(20)
        assert told(running)[1] == ("2024-05-01T09:00:00.000+00:00", 3)


def test_a_time_without_zone_is_told_without_zone_and_none_before_the_first_time() -> None:
    topology = TridentTopology()
    rows = [[(None,)], [(at(9, None),)]]
    stream = topology.newStream("s", FixedBatchSpout("at timestamp_ntz", rows))
    stream.window(TUMBLING, Count(), "n", name="w").foreachArrow(lambda *_: None, name="out")
    with start_local(topology, name="late") as running:
        running.processAllAvailable(20)
        assert told(running) == [(None, 0), ("2024-05-01T09:00:00.000", 0)]


def test_a_window_by_batch_time_has_a_watermark_and_no_late_rows() -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("n long", [[1], [2]]))
    stream.window(TumblingDurationWindow("1 hour"), Count(), "n", name="w").foreachArrow(lambda *_: None, name="out")
    with start_local(topology, name="late") as running:
        running.processAllAvailable(20)
        assert [dropped for _, dropped in told(running)] == [0, 0]
        assert all(mark is not None for mark, _ in told(running))


def test_a_restart_that_moves_no_watermark_still_tells_it(tmp_path: Path) -> None:
    for batches, expected in ([[9]], [("09", 0)]), ([[9], [1]], [("09", 1)]):
        with start_local(hours(batches, TUMBLING, Count()), name="late", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(20)
            assert told(running) == [(f"2024-05-01T{hour}:00:00.000+00:00", late) for hour, late in expected]


@pytest.mark.parametrize("restart", [False, True])
def test_late_rows_that_were_frozen_are_counted_by_whoever_commits_them(
    tmp_path: Path, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit fails after the window's result was frozen; the next try reads the result, and counts it once."""
    reach, reached = committer.reach, list[str]()

    def reach_and_fail(point: str) -> None:
        reach(point)
        if point == "commit.stage.frozen":
            reached.append(point)
            if len(reached) == 3:  # two stages of the first batch, one of the second
                raise LogError("the driver ends here") if restart else StateUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(committer, "reach", reach_and_fail)
        running = start_local(hours([[9], [1, 2]], TUMBLING, Count()), name="late", checkpointLocation=tmp_path)
        if restart:
            with pytest.raises(LogError):
                running.awaitTermination(20)
        else:
            running.processAllAvailable(20)
            assert told(running)[-1] == ("2024-05-01T09:00:00.000+00:00", 2)
        running.stop()
    if restart:
        again = hours([[9], [1, 2]], TUMBLING, Count())
        with start_local(again, name="late", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(20)
            assert told(running) == [("2024-05-01T09:00:00.000+00:00", 2)]


@pytest.mark.parametrize("verb", ["intervalJoin", "windowJoin"])
def test_a_join_by_time_counts_the_late_tuples_of_both_streams(start: Start, tmp_path: Path, verb: str) -> None:
    """Its watermark is the lesser of two, and unknown before each stream had a time."""
    topology = TridentTopology()
    left = topology.newStream("l", FixedBatchSpout("at timestamp, key string", hour_rows([[1], [9], [2, 9], [12]])))
    right = topology.newStream("r", FixedBatchSpout("seen timestamp, key string", hour_rows([[], [8], [3], [1, 2]])))
    if verb == "windowJoin":
        joined = left.windowJoin(right, "key", TUMBLING, otherTimestampField="seen", name="w")
    else:
        times = {"timestampField": "at", "otherTimestampField": "seen"}
        joined = left.intervalJoin(right, "key", ("0 seconds", "1 hour"), name="w", **times)
    joined.foreachArrow(lambda *_: None, name="out")
    with start(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert told(running) == [
            (None, 0),
            ("2024-05-01T08:00:00.000+00:00", 0),
            ("2024-05-01T08:00:00.000+00:00", 2),
            ("2024-05-01T08:00:00.000+00:00", 2),
        ]


def hour_rows(batches: list[list[int]]) -> list[list[tuple[datetime | None, str]]]:
    return [[(at(hour), "k") for hour in batch] for batch in batches]
