"""Spark's jobs that do not end, in the commit turn: cancelled, and done again."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from trident import Count, TridentTopology
from trident.compiler.spark.engine import SparkEngine
from trident.run.running import RunningTopology
from trident.run.start import start_on
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

pytestmark = pytest.mark.spark


def started(topology: TridentTopology, spark: SparkSession, seconds: float = 300.0) -> RunningTopology:
    return start_on(lambda settings: SparkEngine(spark, settings.files), topology, name="t", messageTimeoutSecs=seconds)


def failed_commits(running: RunningTopology) -> list[str]:
    return [event["error"] for event in running.recentProgress if event.get("phase") == "commit"]


def words() -> tuple[TridentTopology, Any]:
    topology = TridentTopology()
    return topology, topology.newStream("words", FixedBatchSpout("word string", [["a"], ["b"]]))


@pytest.mark.soak
def test_the_jobs_of_an_output_that_hangs_are_cancelled_and_it_is_called_again(spark: SparkSession) -> None:
    attempts = []

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(600)
        yield from batches

    def send(df: DataFrame, txid: int, attempt: int) -> None:
        attempts.append((txid, attempt))
        (df.mapInArrow(slowly, df.schema) if attempts == [(1, 0)] else df).count()

    topology, stream = words()
    stream.foreachBatch(send)
    with started(topology, spark, 10) as running:
        running.processAllAvailable(timeout=120)
        assert attempts == [(1, 0), (1, 1), (2, 0)]
        (error,) = failed_commits(running)
        assert "foreachBatch(send), batch 1 ran longer than 10 s" in error


def test_a_function_behind_a_state_that_hangs_on_a_worker_is_cancelled_and_called_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    once = tmp_path / "once"

    def seen(count: int) -> int:
        if not once.exists():
            once.touch()
            time.sleep(600)
        return count

    topology, stream = words()
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    later = counts.newValuesStream(everyChange=True).each("count", seen, "seen long")
    later.groupBy("seen").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="seen")
    with started(topology, spark, 10) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("seen").items()) == {1: 2}
        (error,) = failed_commits(running)
        assert "of stage 2 ran longer than 10 s" in error and "seen (test_limits_spark.py" in error


@pytest.mark.soak
def test_stop_cancels_a_later_stage_that_hangs_on_a_worker(spark: SparkSession, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def seen(count: int) -> int:
        begun.touch()
        time.sleep(600)
        return count

    topology, stream = words()
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    counts.newValuesStream(everyChange=True).each("count", seen, "seen long").groupBy("seen").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="seen"
    )
    running = started(topology, spark)
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 25 and not running.isActive
