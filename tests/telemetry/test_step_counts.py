"""Steps count what enters and leaves them in committed batches, once, whatever attempts failed before."""

from pathlib import Path
from typing import Any

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


def by_name(event: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    assert event is not None
    return {step["name"].partition(":")[2]: step for step in event["steps"]}


def test_steps_count_the_attempt_that_was_committed_and_nothing_twice(tmp_path: Path) -> None:
    attempts: list[int] = []

    def split(line: str) -> list[str]:
        attempts.append(1)
        if len(attempts) == 2:  # the second tuple of the first attempt
            raise OSError("flaky")
        return line.split(" ")

    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [["a b", "c"], ["d e f"]]))
    words = lines.flatMap("line", split, "word string").filter("word", lambda word: word != "b")
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    counts.newValuesStream().each("n", lambda n: n + 1, "more long").toTable("word", name="t")
    with topology.start(engine="embedded", name="steps", checkpointLocation=tmp_path, maxAttempts=3) as running:
        running.processAllAvailable()
        events = [event for event in running.recentProgress if event["event"] == "committed"]
        assert [event["event"] for event in running.recentProgress].count("failed") == 1
    assert [event["attempt"] for event in events] == [1, 0]
    steps = by_name(events[0])
    assert [(name, step["in"], step["out"]) for name, step in steps.items()] == [
        ("flatMap(split)", 2, 3),
        ("filter(<lambda>)", 3, 2),
        ("persistentAggregate(Count)", 2, 2),
        ("each(<lambda>)", 2, 2),
    ]
    labels = {"topology": "steps", "group": "lines", "step": steps["flatMap(split)"]["name"]}
    assert running.metrics.value("trident_step_in_tuples_total", **labels) == 3
    assert running.metrics.value("trident_step_out_tuples_total", **labels) == 6
    failures = {"topology": "steps", "group": "lines", "phase": "run"}
    assert running.metrics.value("trident_failures_total", **failures) == 1


def test_tuples_that_a_step_skips_are_counted_by_the_step(tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[1, 0, 2, 0]]))
    inverse = numbers.each("n", lambda n: 6 // n, "m long", onError="skip")
    inverse.groupBy("m").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with topology.start(engine="embedded", name="skips", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
        (step,) = [step for step in by_name(running.lastProgress).values() if step["skipped"]]
        assert (step["in"], step["out"], step["failed"], step["skipped"]) == (4, 2, 0, 2)
        labels = {"topology": "skips", "group": "numbers", "step": step["name"]}
        assert running.metrics.value("trident_skipped_tuples_total", **labels) == 2
        assert running.metrics.value("trident_step_in_tuples_total", **labels) == 4
        assert running.metrics.value("trident_step_out_tuples_total", **labels) == 2
