"""Entries of a Redis stream into a count: read by ranges of ids, against the plain client that reads the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

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
PAGE = 1000
"""The entries of each XRANGE of the plain client, as many as a page of the spout has."""


def redis_streams(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure the plain client and both engines in turn."""
    entries = ENTRIES if bench.scale == FULL else ENTRIES // 50
    took: dict[str, list[float]] = {"plain": [], "spark": [], "embedded": []}
    engines: tuple[EngineName, ...] = ("spark", "embedded")
    for number in bench.scale.turns:
        folders = {engine: bench.fresh() for engine in engines}
        expected = _fill(bench.server.client, entries)
        seconds = {"plain": _plain(bench.server.client, expected)}
        for engine in engines:
            seconds[engine] = _ours(bench, engine, str(folders[engine]), expected)
            bench.drop(folders[engine])
        if number:
            for name, value in seconds.items():
                took[name].append(value)
    plain = entries / median(took["plain"])
    for engine in engines:
        what = f"Redis stream into a count, {engine} engine, opaque memory state; against redis-py and a Counter"
        target = 0.9 if engine == "spark" else None
        yield Row(f"streams.{engine}", what, entries / median(took[engine]), plain, "entries/s", target)


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


def _plain(client: Any, expected: Counter[str]) -> float:
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
