"""20M words: ours on Redis and in memory, against Spark alone, one query over all, foreachBatch, and its own state."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.competitors.bare_plan import bare_plan, one_query
from benchmarks.competitors.foreach_batch import foreach_batch
from benchmarks.competitors.structured_streaming import structured_streaming
from benchmarks.ours import ours
from benchmarks.rounds import Engine, median_seconds
from benchmarks.row import Row
from benchmarks.words import Splitter, Way
from benchmarks.workload import Workload
from trident.state import MemoryMapState, RedisMapState

TARGETS = {"bare": 0.9, "one": 0.35, "foreach": 2.0, "structured": 2.0}

WHAT = {
    "bare": "the DataFrame plan batch after batch, no state",
    "one": "one Spark query over all words at once",
    "foreach": "hand-written foreachBatch with the same Redis update",
    "structured": "Structured Streaming's stateful count (RocksDB)",
}


def word_count(bench: Bench, load: Workload, way: Way) -> Iterator[Row]:
    """Measure all engines in turn, round after round, so that a slow minute of the machine affects all of them."""
    seconds = median_seconds(bench, _engines(bench, load, way), load.expected)
    rates = {name: load.words / each for name, each in seconds.items()}
    how = "split by expr" if way == "native" else "split by a Python function"
    for name, target in TARGETS.items():
        what = f"word count, {how}, opaque Redis state; against {WHAT[name]}"
        yield Row(f"words.{way}.{name}", what, rates["redis"], rates[name], "words/s", target)
    what = f"word count, {how}, memory state; against ours on Redis"
    yield Row(f"words.{way}.memory", what, rates["memory"], rates["redis"], "words/s", 1.0)


def _engines(bench: Bench, load: Workload, way: Way) -> dict[str, Engine]:
    spark, client, splitter = bench.spark, bench.server.client, Splitter(way)
    redis = RedisMapState.opaque(bench.server.url)
    return {
        "bare": lambda folder: bare_plan(spark, load, splitter),
        "one": lambda folder: one_query(spark, load, splitter),
        "foreach": lambda folder: foreach_batch(spark, load, splitter, client, folder),
        "structured": lambda folder: structured_streaming(spark, load, splitter, folder),
        "redis": lambda folder: ours(spark, load, way, redis, folder),
        "memory": lambda folder: ours(spark, load, way, MemoryMapState.opaque(), folder),
    }
