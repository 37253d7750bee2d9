"""Entries of a Redis stream into a count: read by ranges of ids, against the plain client that reads the same.

The embedded engine is compared with a loop over the client, Spark with workers that read the same ranges by the client.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import redis
from pyspark.sql import SparkSession

from benchmarks.bench import FULL, Bench
from benchmarks.check import check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Count, TridentTopology
from trident.plan.topology_protocol import EngineName
from trident.spouts import RedisStreamSpout
from trident.state import MemoryMapState

ENTRIES = 400_000
BATCH = 100_000
PAGE = 1000
"""The entries of each XRANGE of the plain client, as many as a page of the spout has."""
SHARE = 10
"""The pages that one task reads."""


def redis_streams(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both engines and what each is compared with, in turn."""
    entries = ENTRIES if bench.scale == FULL else ENTRIES // 50
    against: dict[EngineName, str] = {"spark": "workers", "embedded": "loop"}
    took: dict[str, list[float]] = {name: [] for pair in against.items() for name in pair}
    for number in bench.scale.turns:
        folders = {engine: bench.fresh() for engine in against}
        expected = _fill(bench.server.client, entries)
        ranges = _ranges(bench.server.client)
        seconds = {
            "loop": _loop(bench.server.client, expected),
            "workers": _workers(bench.spark, bench.server.url, ranges, expected),
        }
        for engine in against:
            seconds[engine] = _ours(bench, engine, str(folders[engine]), expected)
            bench.drop(folders[engine])
        for name, value in seconds.items():
            print(f"    round {number or 'to warm up'}: {name} {value:.2f} s", flush=True)
            if number:
                took[name].append(value)
    others = {"spark": "workers that read the same ranges by redis-py, no state", "embedded": "redis-py and a Counter"}
    for engine, other in against.items():
        what = f"Redis stream into a count, {engine} engine, opaque memory state; against {others[engine]}"
        ours, theirs = (entries / median(took[name]) for name in (engine, other))
        yield Row(f"streams.{engine}", what, ours, theirs, "entries/s", 0.9)


def _fill(client: Any, entries: int) -> Counter[str]:
    """Add the entries, and return how often each word is in them."""
    counts: Counter[str] = Counter()
    for start in range(0, entries, 10_000):
        pipe = client.pipeline(transaction=False)
        for n in range(start, min(entries, start + 10_000)):
            word = f"w{n * 7919 % 5003}"
            counts[word] += 1
            pipe.xadd("entries", {"word": word, "page": f"/p/{n % 50}", "n": n})
        pipe.execute()
    return counts


def _ranges(client: Any) -> list[tuple[str, str]]:
    """Return the ranges of ids that hold a page each, ends included."""
    ranges: list[tuple[str, str]] = []
    after = "-"
    while entries := client.xrange("entries", after, "+", PAGE):
        first, last = entries[0][0].decode(), entries[-1][0].decode()
        ranges.append((first, last))
        after = f"({last}"
    return ranges


def _workers(spark: SparkSession, url: str, ranges: list[tuple[str, str]], expected: Counter[str]) -> float:
    counts: Counter[str] = Counter()
    with Timed() as timed:
        for at in range(0, len(ranges), BATCH // PAGE):
            part = tuple(ranges[at : at + BATCH // PAGE])
            shares = spark.range(0, len(part), SHARE, -(-len(part) // SHARE))
            words = shares.mapInArrow(_PlainReader(url, part), "word string")
            for row in words.groupBy("word").count().toArrow().to_pylist():
                counts[row["word"]] += row["count"]
    check_counts("workers with the plain client", counts, expected)
    return timed.seconds


@dataclass(frozen=True)
class _PlainReader:
    """The function by which a worker reads the ranges of its share, as a careful user would write it."""

    url: str
    ranges: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with redis.Redis.from_url(self.url) as client:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for first, last in self.ranges[number : number + SHARE]:
                        entries = client.xrange("entries", first, last, PAGE)
                        words = [fields[b"word"].decode() for _, fields in entries]
                        yield pa.RecordBatch.from_pydict({"word": pa.array(words, pa.string())})


def _loop(client: Any, expected: Counter[str]) -> float:
    counts: Counter[str] = Counter()
    after = "-"
    with Timed() as timed:
        while entries := client.xrange("entries", after, "+", PAGE):
            counts.update([fields[b"word"].decode() for _, fields in entries])
            after = f"({entries[-1][0].decode()}"
    check_counts("plain client", counts, expected)
    return timed.seconds


def _ours(bench: Bench, engine: EngineName, folder: str, expected: Counter[str]) -> float:
    topology = TridentTopology()
    spout = RedisStreamSpout(bench.server.url, "entries", "word string")
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    spark = bench.spark if engine == "spark" else None
    with Timed() as timed:
        running = topology.start(spark, engine=engine, name="streams", checkpointLocation=folder)
        running.processAllAvailable()
    got = running.state("counts").toArrow()
    running.stop()
    counts = dict(zip(got["word"].to_pylist(), got["count"].to_pylist(), strict=True))
    check_counts(f"{engine} engine", counts, expected)
    return timed.seconds
