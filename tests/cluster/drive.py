"""A driver on a Spark with worker processes of their own, as a program: counts words, and kills an executor.

Every task that reads lines fails once, when half its rows have gone on, and gives them in another order when Spark
runs it again.

Usage: python -m tests.cluster.drive FOLDER. Prints the counts as JSON in its last line.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import SHORT_LIVED
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

BATCHES = [[f"word{(batch * 7 + row) % 50} tail{row % 3}" for row in range(200)] for batch in range(6)]
EXECUTOR = b"CoarseGrainedExecutorBackend"
UNDER_FIRE = {
    "spark.shuffle.io.retryWait": "200ms",  # what a dead executor shuffled does not come back by waiting
    "spark.shuffle.io.maxRetries": "1",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.locality.wait": "0s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Confs of a Spark whose executors are killed again and again."""
ONE_CORE_EACH = {"spark.executor.memory": "768m", "spark.cores.max": "2", "spark.executor.cores": "1"}
"""Confs with which a standalone cluster starts an executor on each of its two workers."""


def words(line: str) -> Iterator[str]:
    """In a module, so that workers import it."""
    time.sleep(0.0005)
    yield from line.split()


def failing_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        rows = batch.num_rows
        if context.attemptNumber() == 0:
            yield batch.slice(0, rows // 2)
            raise RuntimeError("this task fails once, on purpose")
        yield batch.take(pa.array(range(rows - 1, -1, -1)))


def retried(lines: DataFrame) -> DataFrame:
    return lines.mapInArrow(failing_once, "line string")


class Length:
    """A combiner that only Python knows."""

    outputType = "long"

    def init(self, tuple: object) -> int:
        return len(tuple.word)  # type: ignore[attr-defined]

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0


def topology() -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("lines", FixedBatchSpout("line string", BATCHES))
    stream = stream.transform(retried).each("line", words, "word string")
    grouped = stream.groupBy("word")
    grouped.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    grouped.persistentAggregate(MemoryMapState.opaque(), "word", Length(), "length", name="lengths")
    return topology


def session(more: Mapping[str, str] | None = None, master: str = "local-cluster[2,1,1024]") -> SparkSession:
    """Two executors of one core each; `more` confs."""
    return (
        SparkSession.builder.master(master)
        .config(map=dict(more or {}))
        .appName("trident-cluster-test")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.extraJavaOptions", SHORT_LIVED)
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        .getOrCreate()
    )


def executors(app: str) -> list[int]:
    """Return the process ids of this application's executors."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if EXECUTOR in line and app.encode() in line and b"java" in line.split(b"\0")[0]:
                found.append(int(entry.name))
    return sorted(found)


def kill_one(app: str, killed: list[int]) -> None:
    victim = executors(app)[0]
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)


def main(folder: str) -> None:
    spark = session()
    killed: list[int] = []
    with topology().start(spark, name="cluster", checkpointLocation=folder) as running:
        while running.lastProgress is None:
            time.sleep(0.02)
        threading.Thread(target=kill_one, args=(spark.sparkContext.applicationId, killed)).start()
        running.processAllAvailable(timeout=240)
        counts, lengths = dict(running.state("counts").items()), dict(running.state("lengths").items())
    print(json.dumps({"counts": counts, "lengths": lengths, "killed": killed}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
