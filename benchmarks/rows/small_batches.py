"""Batches of 100 rows, one at a time: from emit to commit, against the same plan's bare ``toArrow()``."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.check import check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, percentile
from benchmarks.words import EXPRESSION, Splitter, split
from benchmarks.workload import Workload, small_tables
from trident import Count, TridentTopology, expr
from trident.plan.topology_protocol import EngineName
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

ROWS = 100
WARM_UP = 10
"""Batches of each round that are run but not counted."""


def small_batches(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure bare plan, Redis and memory in turn; the rows are the p50 of all batches."""
    share = max(1, bench.scale.small_batches // bench.scale.rounds)
    bare: list[float] = []
    ours: dict[str, list[float]] = {"Redis": [], "memory": []}
    for _ in range(bench.scale.rounds):
        tables = small_tables(load, WARM_UP + share, ROWS)
        bare += _bare(bench, tables)[WARM_UP:]
        ours["Redis"] += committed(bench, tables, RedisMapState.opaque(bench.server.url))[WARM_UP:]
        ours["memory"] += committed(bench, tables, MemoryMapState.opaque())[WARM_UP:]
    for name, samples in ours.items():
        what = f"{ROWS} rows a batch, opaque {name} state: p50 from emit to commit; against the plan's bare toArrow()"
        p50, other = percentile(samples, 50), percentile(bare, 50)
        yield Row(f"small.{name.lower()}", what, p50, other, "ms", 1.3, "at most")


def _bare(bench: Bench, tables: list[pa.Table]) -> list[float]:
    """Return the milliseconds of each batch, with one shuffle partition, which is fastest for so few rows."""
    splitter, took = Splitter("native"), []
    spark = bench.spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    for table in tables:
        with Timed() as timed:
            splitter.counts(spark.createDataFrame(table, "line string")).toArrow()
        took.append(timed.seconds * 1000)
    return took


def committed(bench: Bench, tables: list[pa.Table], state: StateFactory, engine: EngineName = "spark") -> list[float]:
    """Return the milliseconds of each batch, from its progress events."""
    topology = TridentTopology()
    stream = topology.newStream("lines", FixedBatchSpout("line string", tables))
    words = stream.each("line", expr(EXPRESSION) if engine == "spark" else split, "word string")
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
