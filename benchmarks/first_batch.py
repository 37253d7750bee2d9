"""One first batch in a fresh process: ``python -m benchmarks.first_batch collect|start native|python <folder>``.

Prints the seconds from ``start`` on a running session to the first commit, or of the first ``collect`` of the same
plan, and for a start what took them.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.session import bench_spark
from benchmarks.words import EXPRESSION, Splitter, Way, split
from trident import Count, TridentTopology, expr
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

TABLE = pa.table({"line": [f"word{n % 7} word{n % 11} word{n % 13}" for n in range(100)]})


def collected(spark: SparkSession, way: Way) -> dict[str, Any]:
    """Return the seconds of the first ``collect``."""
    began = time.perf_counter()
    rows = Splitter(way).counts(spark.createDataFrame(TABLE, "line string")).collect()
    seconds = time.perf_counter() - began
    assert sum(row["count"] for row in rows) == 300
    return {"seconds": seconds}


def committed(spark: SparkSession, way: Way, checkpoint: Path) -> dict[str, Any]:
    """Return the seconds from ``start`` to the first commit, those of ``start`` itself, and the batch's own phases."""
    topology, done = TridentTopology(), threading.Event()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [TABLE]))
    words = lines.each("line", expr(EXPRESSION) if way == "native" else split, "word string")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    began = time.perf_counter()
    running = topology.start(spark, name="first", checkpointLocation=checkpoint)
    starting = time.perf_counter() - began
    running.progress.listen(lambda event: done.set())
    assert done.wait(120)
    seconds = time.perf_counter() - began
    assert running.lastProgress is not None
    phases = running.lastProgress["durationMs"]
    with running:
        assert sum(count for _, count in running.state("counts").items()) == 300
    return {"seconds": seconds, "start": starting, "phases": phases}


def main(what: str, way: Way, folder: Path) -> None:
    spark = bench_spark(folder)
    measured = collected(spark, way) if what == "collect" else committed(spark, way, folder / "checkpoint")
    print(json.dumps(measured))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], "native" if sys.argv[2] == "native" else "python", Path(sys.argv[3]))
