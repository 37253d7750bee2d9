"""Batches of 100 rows, one at a time: from emit to commit, against the same plan's bare ``toArrow()``."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.check import check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, percentile
from benchmarks.words import EXPRESSION, Splitter, Way, split
from benchmarks.workload import Workload, small_tables
from trident import Count, TridentTopology, expr
from trident.plan.topology_protocol import EngineName
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

ROWS = 100
WARM_UP = 10
"""Batches of each round that are run but not counted."""

TARGETS = {"redis": 0.75, "memory": 0.55, "python": 0.8}
"""The largest ratio of each row."""


def small_batches(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure bare plan, Redis and memory in turn; the rows are the p50 of all batches."""
    share = max(1, bench.scale.small_batches // bench.scale.rounds)
    bare: dict[Way, list[float]] = {"native": [], "python": []}
    ours: dict[str, list[float]] = {"redis": [], "memory": [], "python": []}
    for _ in range(bench.scale.rounds):
        tables = small_tables(load, WARM_UP + share, ROWS)
        bare["native"] += _bare(bench, tables, "native")[WARM_UP:]
        ours["redis"] += committed(bench, tables, RedisMapState.opaque(bench.server.url))[WARM_UP:]
        ours["memory"] += committed(bench, tables, MemoryMapState.opaque())[WARM_UP:]
        bare["python"] += _bare(bench, tables, "python")[WARM_UP:]
        ours["python"] += committed(bench, tables, MemoryMapState.opaque(), way="python")[WARM_UP:]
    for name, samples in ours.items():
        state: str = "Redis" if name == "redis" else "memory"
        way: Way = "python" if name == "python" else "native"
        split_by = " a Python function," if way == "python" else ""
        what = f"{ROWS} rows a batch,{split_by} opaque {state} state: p50 from emit to commit; against bare toArrow()"
        p50, other = percentile(samples, 50), percentile(bare[way], 50)
        yield Row(f"small.{name}", what, p50, other, "ms", TARGETS[name], "at most")


def _bare(bench: Bench, tables: list[pa.Table], way: Way) -> list[float]:
    """Return the milliseconds of each batch, with one shuffle partition, which is fastest for so few rows."""
    splitter, took = Splitter(way), []
    spark = bench.spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    for table in tables:
        with Timed() as timed:
            splitter.counts(spark.createDataFrame(table, "line string")).toArrow()
        took.append(timed.seconds * 1000)
    return took


def committed(
    bench: Bench, tables: list[pa.Table], state: StateFactory, engine: EngineName = "spark", way: Way = "native"
) -> list[float]:
    """Return the milliseconds of each batch, from its progress events."""
    topology = TridentTopology()
    stream = topology.newStream("lines", FixedBatchSpout("line string", tables))
    words = stream.each("line", expr(EXPRESSION) if engine == "spark" and way == "native" else split, "word string")
    words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    folder = bench.fresh()
    took: dict[int, float] = {}
    spark = bench.spark if engine == "spark" else None
    options: dict[str, Any] = {"name": "small", "checkpointLocation": str(folder), "maxSpoutPending": 1}
    with topology.start(spark, engine=engine, **options) as running:
        running.progress.listen(lambda event: took.update({event["txid"]: event["durationMs"]["total"]}))
        running.processAllAvailable()
        got = running.state("counts").toArrow()
    expected = Counter(word for table in tables for line in table["line"].to_pylist() for word in line.split(" "))
    check_counts("small batches", dict(zip(got["word"].to_pylist(), got["count"].to_pylist(), strict=True)), expected)
    bench.drop(folder)
    return [took[txid] for txid in sorted(took)]
