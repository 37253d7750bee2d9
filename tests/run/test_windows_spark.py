"""Windows behind the work of Spark: what leaves them is what leaves them in this process."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compiler.window_runner import FIELDS, at
from trident import (
    Count,
    Max,
    SessionWindow,
    SlidingEventTimeWindow,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
)
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

pytestmark = pytest.mark.spark


class Listed:
    """The tuples' numbers in order."""

    def init(self) -> list[int]:
        return []

    def reduce(self, curr: list[int], tuple: Any) -> list[int]:
        return [*curr, tuple.n]


def batches() -> list[list[Any]]:
    chance, time = random.Random(5), 0
    found = []
    for size in (40, 0, 67):
        rows = []
        for n in range(size):
            time += chance.randint(0, 2)
            behind = at(time - chance.randint(0, 12)) if chance.random() < 0.95 else None
            rows.append((chance.choice(["a", "b", "c", None]), behind, n))
        found.append(rows)
    return [*found, [("a", at(10_000), 0)]]


def topology(noted: Callable[[str], Any]) -> TridentTopology:
    """Native panes, panes behind Python, tuples, sessions, counts in two partitions, and windows over windows."""
    made = TridentTopology()
    rows = made.newStream("s", FixedBatchSpout(FIELDS, batches()))
    twice = rows.each("n", lambda n: 2 * n, "twice long")
    by_key = rows.groupBy("k")
    streams = {
        "native": by_key.window(TumblingEventTimeWindow(10, "at", lateness=5), "n", Sum(), "x", name="native"),
        "python": twice.window(SlidingEventTimeWindow(10, 4, "at", lateness=5), "twice", Max(), "x", name="python"),
        "listed": by_key.window(SlidingEventTimeWindow(10, 5, "at"), "n", Listed(), "x array<long>", name="listed"),
        "sessions": by_key.window(SessionWindow(6, "at", lateness=20), Count(), "x", name="sessions"),
        "counted": rows.partition("n", lambda n, of: n % of)
        .parallelismHint(2)
        .window(TumblingCountWindow(5), "n", Sum(), "x", name="counted"),
    }
    streams["late"] = streams["native"].late()  # type: ignore[attr-defined]
    ends = streams["native"].map(lambda t: (t.windowEnd, t.x), "at timestamp, x long")
    streams["again"] = ends.window(TumblingEventTimeWindow(40, "at", lateness=10), "x", Sum(), "x", name="again")
    for name, stream in streams.items():
        stream.foreachArrow(noted(name), name=f"{name}.out")
    return made


def left(start: Callable[[TridentTopology], RunningTopology]) -> dict[str, list[Any]]:
    """What leaves each window."""
    found: dict[str, list[Any]] = {}

    def noted(name: str) -> Any:
        rows = found.setdefault(name, [])
        return lambda table, txid, attempt: rows.extend((txid, *row.values()) for row in table.to_pylist())

    with start(topology(noted)) as running:
        running.processAllAvailable(timeout=200)
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def test_windows_behind_spark_are_the_windows_of_this_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What enters every other stage comes as files."""
    turns = itertools.count()

    def large(self: Any, name: str, stage: Any) -> frozenset[str]:
        return frozenset(output.name for output in stage.outputs) if next(turns) % 2 else frozenset()

    here = left(lambda made: start_local(made, name="t", checkpointLocation=tmp_path / "here"))
    monkeypatch.setattr("trident.compiler.spark.sessions.Sizes.large", large)
    on_spark = left(lambda made: made.start(spark, name="t", checkpointLocation=tmp_path / "spark"))
    assert all(here.values()), {name: len(rows) for name, rows in here.items()}
    assert on_spark == here
