"""``engine="auto"`` against the better of the two engines, for batches of each size, and while the size changes."""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.check import check_counts
from benchmarks.row import Row
from benchmarks.rows.small_batches import ROWS, WARM_UP, committed
from benchmarks.timing import median, percentile
from benchmarks.workload import Workload, small_tables
from trident import Count, TridentTopology
from trident.plan.topology_protocol import EngineName
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

Way = Literal["columns", "python"]

KEYS = 1_000
LEARNS = 3
"""Batches of each size after which the choice has to be good."""
BATCHES = 6
"""Batches of each size that are measured."""
BOTH: tuple[EngineName, ...] = ("embedded", "spark")


def auto(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure small batches and a first commit, then each size on each engine, then sizes that change."""
    yield from _small(bench, load)
    yield _first(bench)
    for way in ("columns", "python"):
        yield from _sizes(bench, way)
    yield _changing(bench)


def _small(bench: Bench, load: Workload) -> Iterator[Row]:
    states: dict[str, tuple[StateFactory, float]] = {
        "memory": (MemoryMapState.opaque(), 3.0),
        "redis": (RedisMapState.opaque(bench.server.url), 4.0),
    }
    for name, (state, most) in states.items():
        took: list[float] = []
        for _ in range(bench.scale.rounds):
            tables = small_tables(load, WARM_UP + max(1, bench.scale.small_batches // bench.scale.rounds), ROWS)
            took += committed(bench, tables, state, "auto")[WARM_UP:]
        for share, target in ((50, most), (99, 10.0)):
            what = f"auto engine: {ROWS} rows a batch, opaque {name} state: p{share} from emit to commit"
            yield Row(f"auto.small.{name}.p{share}", what, percentile(took, share), None, "ms", target, "at most")


_FIRST = """
import json, sys, time
began = time.perf_counter()
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [[f"word{n % 7}" for n in range(100)]]))
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
with topology.start(engine="auto", name="first", checkpointLocation=sys.argv[1]) as running:
    while running.lastProgress is None:
        time.sleep(0.001)
    print(json.dumps(time.perf_counter() - began))
    assert sum(count for _, count in running.state("counts").items()) == 100
"""


def _first(bench: Bench) -> Row:
    """Return the row of a fresh process: from before the import of the library to its first commit."""
    took = []
    for _ in range(bench.scale.rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _FIRST, folder]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        took.append(float(json.loads(ran.stdout.splitlines()[-1])))
    what = "auto engine: a fresh process, from the import of the library to the first commit of 100 rows"
    return Row("auto.first", what, median(took), None, "s", 0.5, "at most")


def _sizes(bench: Bench, way: Way) -> Iterator[Row]:
    """For each size: the median batch on each engine alone, and on both by choice."""
    largest = (7 if way == "columns" else 6) if bench.scale.warm else 4
    for exponent in range(2, largest + 1):
        table = _table(10**exponent)
        took = {
            engine: median(_run(bench, [table] * (LEARNS + BATCHES), way, engine, MemoryMapState.opaque())[LEARNS:])
            for engine in (*BOTH, "auto")
        }
        better = min(BOTH, key=took.__getitem__)
        others = ", ".join(f"{engine} {took[engine]:.1f} ms" for engine in BOTH)
        what = f"auto engine: 1e{exponent} rows a batch by {way}, against the better engine alone ({others})"
        yield Row(f"auto.{way}.1e{exponent}", what, took["auto"], took[better], "ms", 1.1, "at most")


def _changing(bench: Bench) -> Row:
    """Return the row of sizes that change: the batches that took over 1.5 times the better engine's median."""
    sizes, seconds = ((2, 3, 4, 5, 6), 120.0) if bench.scale.warm else ((2, 3), 5.0)
    tables = {size: _table(10**size) for size in sizes}
    best = {
        size: min(
            median(_run(bench, [table] * (LEARNS + BATCHES), "python", engine, MemoryMapState.opaque())[LEARNS:])
            for engine in BOTH
        )
        for size, table in tables.items()
    }
    order, draw, planned = list[int](), random.Random(7), 0.0
    while planned < seconds * 1000:
        size = draw.choice(sizes)
        block = max(1, min(20, round(1000 / best[size])))
        order += [size] * block
        planned += block * best[size]
    took = _run(bench, [tables[size] for size in order], "python", "auto", MemoryMapState.opaque())
    late = [(at, size) for at, size in enumerate(order) if order[:at].count(size) >= LEARNS]
    slow = [(size, took[at]) for at, size in late if took[at] > 1.5 * best[size] + 5]
    what = (
        f"auto engine: sizes of {', '.join(f'1e{size}' for size in sizes)} rows in turn for {seconds:.0f} s: share of "
        f"{len(late)} batches that took over 1.5 times the better engine's median (and 5 ms)"
    )
    return Row("auto.changing", what, 100 * len(slow) / len(late), None, "%", 5, "at most")


def _table(rows: int) -> pa.Table:
    """Return a batch of words, of which there are at most `KEYS`."""
    drawn = np.random.default_rng(rows).integers(0, KEYS, rows)
    return pa.table({"word": pa.array([f"word{n}" for n in range(KEYS)]).take(pa.array(drawn))})


def louder(word: str) -> str:
    """Return the word in capital letters: a Python function for each tuple."""
    return word.upper()


def _run(bench: Bench, tables: Sequence[pa.Table], way: Way, engine: EngineName, state: StateFactory) -> list[float]:
    """Return the milliseconds of each batch from emit to commit."""
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", tables))
    keyed = words.groupBy("word") if way == "columns" else words.each("word", louder, "loud string").groupBy("loud")
    keyed.persistentAggregate(state, Count(), "count", name="counts")
    folder, took = bench.fresh(), dict[int, float]()
    spark = None if engine == "embedded" else bench.spark
    options: dict[str, Any] = {"name": "auto", "checkpointLocation": str(folder), "maxSpoutPending": 1}
    with topology.start(spark, engine=engine, **options) as running:
        running.progress.listen(lambda event: took.update({event["txid"]: event["durationMs"]["total"]}))
        running.processAllAvailable()
        counted = sum(count for _, count in running.state("counts").items())
    check_counts("auto", {"rows": counted}, {"rows": sum(table.num_rows for table in tables)})
    bench.drop(folder)
    return [took[txid] for txid in sorted(took)]
