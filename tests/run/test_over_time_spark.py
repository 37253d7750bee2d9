"""Duplicates, tables and joins by time behind the work of Spark: the same leaves as in this process."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compiler.window_runner import at
from trident import SlidingEventTimeWindow, TridentTopology, expr
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

pytestmark = pytest.mark.spark

FIELDS = "k string, at timestamp, n long"


def batches(seed: int) -> list[list[Any]]:
    chance = random.Random(seed)
    found, time = [], 0
    for size in (40, 0, 60):
        rows = []
        for n in range(size):
            time += chance.randint(0, 3)
            rows.append((chance.choice(["a", "b", None]), at(time - chance.randint(0, 9)), n))
        found.append(rows)
    return [*found, [("z", at(10_000), 0)]]


def topology(noted: Callable[[str], Any], native: bool) -> TridentTopology:
    made = TridentTopology()
    left, right = (made.newStream(name, FixedBatchSpout(FIELDS, batches(at))) for at, name in enumerate(("l", "r")))
    doubled = left.each("n", expr("2 * n") if native else lambda n: 2 * n, "twice long")
    distinct = doubled.dropDuplicates("k", timestampField="at", within=20, lateness=9)
    distinct.project("k, twice").foreachArrow(noted("distinct"), name="distinct")
    distinct.late().project("k, n").foreachArrow(noted("late"), name="late")
    table = right.toTable("k", valueFields="n", name="table")
    left.joinTable(table, joinType="left", outputFields="last").project("k, n, last").foreachArrow(
        noted("joined"), name="joined"
    )
    pairs = doubled.intervalJoin(
        right, "k", (-5, 5), timestampField="at", lateness=9, joinType="full", outputFields="k, at, n, twice, near, m"
    )
    pairs.project("k, n, twice, m").foreachArrow(noted("pairs"), name="pairs")
    windows = doubled.windowJoin(
        right,
        "k",
        SlidingEventTimeWindow("20 seconds", "10 seconds", "at", lateness=9),
        joinType="full",
        outputFields="k, at, n, twice, near, m",
    )
    windows.project("windowStart, k, n, twice, m").foreachArrow(noted("windows"), name="windows")
    pairs.late("right").project("k, n").foreachArrow(noted("lost"), name="lost")
    return made


def outputs(start: Callable[..., RunningTopology], folder: Path, native: bool) -> dict[str, Counter[Any]]:
    """What leaves, by the output's name."""
    seen: dict[str, dict[int, list[Any]]] = {}

    def noted(name: str) -> Any:
        def note(rows: Any, txid: int, attempt: Any) -> None:
            seen.setdefault(name, {})[txid] = [tuple(row.values()) for row in rows.to_pylist()]

        return note

    with start(topology(noted, native), name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=300)
    return {name: Counter(row for rows in by_txid.values() for row in rows) for name, by_txid in seen.items()}


def test_both_engines_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    def on_spark(made: TridentTopology, **options: Any) -> RunningTopology:
        return made.start(spark, **options)

    here = outputs(start_local, tmp_path / "local", False)
    there = outputs(on_spark, tmp_path / "spark", True)
    assert {name: (there[name] - rows, rows - there[name]) for name, rows in here.items() if there[name] != rows} == {}
    assert all(here[name] for name in ("distinct", "joined", "pairs", "windows")), here
