"""Several aggregates in one state against one; and a combiner for whole columns against the same one for values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.bench import FULL, Bench
from benchmarks.check import WrongAnswerError, check_counts
from benchmarks.hyperloglog import HyperLogLog, HyperLogLogInColumns
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.words import EXPRESSION
from benchmarks.workload import Workload
from trident import Count, Max, Sum, TridentTopology, expr
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState

MOST = 1.2
"""Several aggregates take at most this many times the time of one."""

LEAST = 20.0
"""Whole columns are at least this many times as fast as value by value."""

_SEVERAL = {"count": Count(), "total": Sum("size"), "most": Max("size")}


def aggregates(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure in turn, round after round, and compare every count."""
    yield from _several(bench, load)
    yield from _columns(bench)


def _several(bench: Bench, load: Workload) -> Iterator[Row]:
    seconds: dict[tuple[str, str], list[float]] = {}
    for number in bench.scale.turns:
        for home in ("memory", "redis"):
            for how in ("one", "several"):
                folder = bench.fresh()
                state = MemoryMapState.opaque() if home == "memory" else RedisMapState.opaque(bench.server.url)
                took, table = _run(bench, load, state, how, folder)
                _check(how, table, load)
                bench.drop(folder)
                if number:
                    seconds.setdefault((home, how), []).append(took)
                print(f"    round {number or 'to warm up'}: {how}, {home} {took:.2f} s", flush=True)
    for home in ("memory", "redis"):
        several, one = (median(seconds[home, how]) for how in ("several", "one"))
        what = f"Count, Sum and Max by word in one opaque {home} state; against Sum alone"
        yield Row(f"aggregates.several.{home}", what, several, one, "s", MOST, "at most")


def _run(bench: Bench, load: Workload, state: Any, how: str, folder: Path) -> tuple[float, pa.Table]:
    topology = TridentTopology()
    spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema="line string", maxFilesPerBatch=1)
    words = topology.newStream("lines", spout).each("line", expr(EXPRESSION), "word string")
    grouped = words.each("word", expr("length(word)"), "size int").groupBy("word")
    if how == "one":
        grouped.persistentAggregate(state, Sum("size"), "total", name="totals")
    else:
        grouped.persistentAggregate(state, _SEVERAL, name="totals")
    with Timed() as timed:
        running = topology.start(bench.spark, name="several", checkpointLocation=str(folder), maxSpoutPending=3)
        running.processAllAvailable()
    with running:
        return timed.seconds, running.state("totals").toArrow()


def _check(how: str, table: pa.Table, load: Workload) -> None:
    """Compare every value with what is in the files."""
    words = table["word"].to_pylist()
    expected = {"total": {word: len(word) * count for word, count in load.expected.items()}}
    if how == "several":
        expected |= {"count": dict(load.expected), "most": {word: len(word) for word in load.expected}}
    for name, counts in expected.items():
        check_counts(f"{how}: {name}", dict(zip(words, table[name].to_pylist(), strict=True)), counts)


def _columns(bench: Bench) -> Iterator[Row]:
    tuples = 40_000 if bench.scale == FULL else 4_000
    batch = [(f"k{number % 8}", f"word{number * 7919 % tuples}") for number in range(tuples)]
    seconds: dict[str, list[float]] = {"values": [], "columns": []}
    estimates: dict[str, Any] = {}
    for number in bench.scale.turns:
        for name, aggregator in (("values", HyperLogLog()), ("columns", HyperLogLogInColumns())):
            folder = bench.fresh()
            topology = TridentTopology()
            grouped = topology.newStream("words", FixedBatchSpout("k string, word string", [batch])).groupBy("k")
            grouped.persistentAggregate(MemoryMapState.opaque(), "word", aggregator, "words", name="distinct")
            with Timed() as timed:
                running = topology.start(bench.spark, name="distinct", checkpointLocation=str(folder))
                running.processAllAvailable()
            with running:
                estimates[name] = dict(running.state("distinct").items())
            bench.drop(folder)
            if number:
                seconds[name].append(timed.seconds)
            print(f"    round {number or 'to warm up'}: HyperLogLog by {name} {timed.seconds:.2f} s", flush=True)
        if estimates["values"] != estimates["columns"]:
            raise WrongAnswerError(f"HyperLogLog: {estimates}")
        if any(abs(found - tuples / 8) > tuples / 8 * 0.1 for found in estimates["columns"].values()):
            raise WrongAnswerError(f"HyperLogLog: {estimates['columns']} for {tuples / 8} each")
    ours, other = (tuples / median(seconds[name]) for name in ("columns", "values"))
    what = f"a user's HyperLogLog over {tuples:,} tuples of 8 keys on Spark, from start to commit: by initColumn"
    yield Row("aggregates.columns", f"{what}; against init and combine", ours, other, "tuples/s", LEAST)
