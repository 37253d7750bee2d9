"""Counts by key in a large state: ours in a Delta table, against a MERGE by hand and Structured Streaming's state."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.bench import Bench
from benchmarks.competitors.delta_merge import delta_merge
from benchmarks.keyed_files import KeyCounts, KeyedFiles, make_keyed_files
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import DeltaMapState, RedisMapState, StateFactory

BATCHES, ROWS, KEYS = 12, 250_000, 2_000_000
"""Each batch changes about 235,000 of 2,000,000 keys."""

OTHERS = {
    "merge": ("foreachBatch with a Delta MERGE by hand (deltalake)", 2.0),
    "structured": ("Structured Streaming's stateful count (RocksDB)", None),
    "redis": ("ours on Redis", None),
}


def delta_state(bench: Bench, load: Workload) -> Iterator[Row]:
    """Run all engines in turn over the same batches, and check each result before its time counts."""
    folder = bench.fresh()
    size = (BATCHES, ROWS, KEYS) if bench.scale.warm else (3, 2_000, 5_000)
    files = make_keyed_files(folder / "load", *size)
    spark, url = bench.spark, bench.server.url
    engines: dict[str, Callable[[Path], tuple[float, KeyCounts]]] = {
        "merge": lambda place: delta_merge(spark, files, place),
        "structured": lambda place: _structured(spark, files, place),
        "redis": lambda place: _ours(spark, files, RedisMapState.opaque(url), place),
        "delta": lambda place: _ours(spark, files, DeltaMapState.opaque(place / "states"), place),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in bench.scale.turns:
        for name, count in engines.items():
            place = bench.fresh()
            took, counts = count(place)
            files.expected.check(name, counts)
            bench.drop(place)
            if number:
                seconds[name].append(took)
            print(f"    round {number or 'to warm up'}: {name} {took:.2f} s", flush=True)
    bench.drop(folder)
    rates = {name: files.rows / median(each) for name, each in seconds.items()}
    for name, (text, target) in OTHERS.items():
        what = f"counts of {size[1]:,} rows a batch by {size[2]:,} keys, DeltaMapState; against {text}"
        yield Row(f"delta-state.{name}", what, rates["delta"], rates[name], "rows/s", target)


def _ours(spark: SparkSession, load: KeyedFiles, state: StateFactory, folder: Path) -> tuple[float, KeyCounts]:
    """Return the seconds from start to the last commit, with three batches in flight, and the state's counts."""
    topology = TridentTopology()
    spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema=load.schema, maxFilesPerBatch=1)
    topology.newStream("rows", spout).groupBy("key").persistentAggregate(state, Count(), "count", name="counts")
    with Timed() as timed:
        running = topology.start(spark, name="keyed", checkpointLocation=str(folder / "checkpoint"), maxSpoutPending=3)
        running.processAllAvailable()
    with running:
        counts: pa.Table = running.state("counts").toArrow()
    return timed.seconds, KeyCounts.of(counts)


def _structured(spark: SparkSession, load: KeyedFiles, folder: Path) -> tuple[float, KeyCounts]:
    """Return the seconds from the query's start to its end, and the counts in its checkpoint."""
    rows = spark.readStream.schema(load.schema).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    writer = rows.groupBy("key").count().writeStream.outputMode("update").format("noop")
    with Timed() as timed:
        started = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        started.awaitTermination()
    stored = spark.read.format("statestore").load(str(folder))
    return timed.seconds, KeyCounts.of(stored.selectExpr("key.key as key", "value.count as count").toArrow())
