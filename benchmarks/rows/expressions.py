"""Expressions of both engines: against the same steps as SQL of Spark, and as Python functions."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import SEED, Workload
from trident import Stream, Sum, TridentTopology, col, expr, when
from trident import functions as F
from trident.plan.topology_protocol import EngineName
from trident.spouts import FileSpout
from trident.state import MemoryMapState

AS_SQL, AS_FUNCTIONS = 0.9, 2.0
"""The least speed of an expression, as a multiple of SQL of Spark, and of Python functions on the embedded engine."""

_SHOPS = 500


def expressions(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each way in turn, round after round, and compare every sum."""
    folder, rows = bench.folder / "bids", bench.scale.lines * 5
    expected = _make_bids(folder, bench.scale.files, rows)
    ways: dict[str, tuple[EngineName, Callable[[Stream], Stream]]] = {
        "expressions on Spark": ("spark", _by_expressions),
        "SQL on Spark": ("spark", _by_sql),
        "expressions embedded": ("embedded", _by_expressions),
        "functions embedded": ("embedded", _by_functions),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in bench.scale.turns:
        for name, (engine, steps) in ways.items():
            took, sums = _run(bench, folder, engine, steps)
            check_counts(name, sums, expected)
            print(f"    round {number or 'to warm up'}: {name} {took:.2f} s", flush=True)
            if number:
                seconds[name].append(took)
    speed = {name: bench.scale.files * rows / median(each) for name, each in seconds.items()}
    shown = "two fields, a condition, a sum into memory"
    spark, embedded = speed["expressions on Spark"], speed["expressions embedded"]
    yield Row("expressions.spark", f"{shown}; against expr", spark, speed["SQL on Spark"], "rows/s", AS_SQL)
    other = speed["functions embedded"]
    yield Row("expressions.embedded", f"{shown}; against functions", embedded, other, "rows/s", AS_FUNCTIONS)


def _make_bids(folder: Path, files: int, rows: int) -> Counts:
    """Write the files, and return the sum of cents by shop."""
    folder.mkdir()
    random = np.random.default_rng(SEED)
    sums: dict[str, int] = {}
    for number in range(files):
        shops = [f" shop{shop}" for shop in random.integers(0, _SHOPS, rows)]
        table = pa.table({"shop": shops, "cents": random.integers(1, 10_000, rows), "n": random.integers(0, 5, rows)})
        pq.write_table(table, folder / f"batch-{number:03d}.parquet")
        for shop, cents, n in zip(shops, table["cents"].to_pylist(), table["n"].to_pylist(), strict=True):
            total = cents * n + 1
            if n and total % 7 != 0:
                key = shop.strip(" ").upper()
                sums[key] = sums.get(key, 0) + total
    assert pc.sum(pa.array(sums.values())).as_py() > 0
    return sums


def _by_expressions(bids: Stream) -> Stream:
    total = when(col("n") > 0, col("cents") * col("n") + 1)
    return bids.each({"total": total, "key": F.upper(F.trim("shop"))}).filter(col("total") % 7 != 0)


def _by_sql(bids: Stream) -> Stream:
    total = bids.each(expr("CASE WHEN n > 0 THEN cents * n + 1 END"), "total long")
    return total.each(expr("upper(trim(shop))"), "key string").filter(expr("total % 7 != 0"))


def _by_functions(bids: Stream) -> Stream:
    total = bids.each("cents, n", lambda cents, n: cents * n + 1 if n > 0 else None, "total long")
    named = total.each("shop", lambda shop: shop.strip(" ").upper(), "key string")
    return named.filter("total", lambda total: total is not None and total % 7 != 0)


def _run(bench: Bench, files: Path, engine: EngineName, steps: Callable[[Stream], Stream]) -> tuple[float, Counts]:
    folder, topology = bench.fresh(), TridentTopology()
    schema = "shop string, cents long, n long"
    bids = topology.newStream("bids", FileSpout(str(files / "*.parquet"), "parquet", schema, maxFilesPerBatch=1))
    state = MemoryMapState.opaque()
    steps(bids).groupBy("key").persistentAggregate(state, "total", Sum(), "sum", name="sums")
    with Timed() as timed:
        spark = bench.spark if engine == "spark" else None
        running = topology.start(spark, engine=engine, name="expressions", checkpointLocation=str(folder))
        running.processAllAvailable()
    with running:
        sums = dict(running.state("sums").items())
    bench.drop(folder)
    return timed.seconds, sums
