"""Poison on Spark, end to end: dead letters of two stages, and the way back into the stream."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from trident import Count, DeadLetter, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

pytestmark = pytest.mark.spark


def topology(fixed: Path) -> TridentTopology:
    made = TridentTopology()
    batches = [[("1", 0.5), ("x", 1.5)], [("2", 2.5)], [("x", None), ("3", 0.0)]]
    lines = made.newStream("lines", FixedBatchSpout("line string, extra double", batches)).replayable()

    def number(line: str) -> int:
        return 10 if line == "x" and fixed.exists() else int(line)

    numbers = lines.each("line", number, "n long", onError=DeadLetter(attempts=0))
    numbers.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    counts = numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    tens = counts.newValuesStream(everyChange=True).each(
        "n", lambda n: 10 // (n - 2), "tens long", onError="deadLetter"
    )
    tens.persistentAggregate(MemoryMapState.opaque(), Count(), "late", name="late")
    made.deadLetterState(MemoryMapState.opaque())
    return made


def test_dead_letters_of_two_stages_are_kept_and_come_back(spark: SparkSession, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed"
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path / "checkpoint"}
    with topology(fixed).start(spark, **options) as running:
        running.processAllAvailable(timeout=120)
        letters = sorted((v["tuple"], v["error"]) for _, v in running.state("deadLetters").items())
        assert letters == [
            ('{"line":"x","extra":1.5}', "ValueError"),
            ('{"line":"x","extra":null}', "ValueError"),
            ('{"n":2,"count":1}', "ZeroDivisionError"),
        ]
        assert running.state("sum").value == 6 and running.state("late").value == 2
        fixed.touch()
        assert running.replayDeadLetters("lines", lambda letter: letter["error"] == "ValueError") == 2
        running.processAllAvailable(timeout=120)
        assert running.state("sum").value == 26 and dict(running.state("counts").items())[10] == 2
        assert [v["error"] for _, v in running.state("deadLetters").items()] == ["ZeroDivisionError"]
