"""What one batch costs: by its number of rows, and over many batches of one run; measured, and drawn.

``python -m benchmarks.batch_cost`` writes ``batch_cost.json`` and ``batch_cost.svg`` into ``benchmarks/results``;
``--quick`` only shows that everything runs.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from pyspark.sql import functions as F

from benchmarks.bench import FULL, Bench
from benchmarks.check import WrongAnswerError
from benchmarks.report import results_folder, save_picture
from benchmarks.session import bench_spark
from benchmarks.timing import Timed, percentile
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

KEYS = 1_000
SIZES = tuple(10**power for power in range(2, 8))
BATCHES, SMALL, SLICE = 10_000, 100, 500
"""The long run: its batches, the rows of each, and over how many batches a point of the picture is the median."""

TURNS, ROUNDS, WARM_UP = 3, 5, 1
"""The number of turns of all sizes, the batches of each turn that count, and those before them that do not."""

FIRST = 500
"""Batches of a new process before all others. The JVM compiles its hot code meanwhile: the first batches take up to
twice the time of later ones."""


@dataclass(frozen=True)
class Costs:
    """Medians in milliseconds, from emit to commit: for each size, and for each slice of the long run."""

    sizes: Sequence[int]
    plan: list[float]
    """The same files counted by Spark alone, by ``toArrow()``, without state."""
    redis: list[float]
    memory: list[float]
    slices: list[int]
    """The number of the first batch of each slice."""
    over_time: list[float]


def measure(bench: Bench, sizes: Sequence[int], batches: int) -> Costs:
    """Measure all. Raises WrongAnswerError if a state does not hold every row once."""
    first = FIRST if len(sizes) > 2 else 1
    states: dict[str, StateFactory] = {
        "redis": RedisMapState.opaque(bench.server.url),
        "memory": MemoryMapState.opaque(),
    }
    for state in states.values():
        _committed(bench, _small(first), state, SMALL * first)
    files = {rows: _write(bench.fresh(), rows, WARM_UP + ROUNDS) for rows in sizes}
    took: dict[str, dict[int, list[float]]] = {
        name: {rows: [] for rows in sizes} for name in ("plan", "redis", "memory")
    }
    for _ in range(TURNS):
        for rows in sizes:
            took["plan"][rows] += [_bare(bench, file) for file in files[rows]][WARM_UP:]
            pattern = str(files[rows][0].parent / "*.parquet")
            spout = FileSpout(pattern, format="parquet", schema="key long", maxFilesPerBatch=1)
            for name, state in states.items():
                took[name][rows] += _committed(bench, spout, state, rows * len(files[rows]))[WARM_UP:]
    by_size = {name: [percentile(measured[rows], 50) for rows in sizes] for name, measured in took.items()}
    print(by_size, flush=True)
    run = _committed(bench, _small(batches), RedisMapState.opaque(bench.server.url), SMALL * batches)
    slices = [*range(0, batches, SLICE)]
    over_time = [percentile(run[at : at + SLICE], 50) for at in slices]
    return Costs(sizes, **by_size, slices=slices, over_time=over_time)


def _small(batches: int) -> FixedBatchSpout:
    """Return a source of batches of `SMALL` rows."""
    return FixedBatchSpout("key long", [pa.table({"key": np.arange(SMALL) % KEYS})] * batches)


def _write(folder: Path, rows: int, files: int) -> list[Path]:
    random = np.random.default_rng(7)
    paths = [folder / f"{number:03d}.parquet" for number in range(files)]
    for path in paths:
        pq.write_table(pa.table({"key": random.integers(0, KEYS, rows)}), path)
    return paths


def _bare(bench: Bench, file: Path) -> float:
    """Return the milliseconds in which Spark alone counts one file."""
    spark = bench.spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with Timed() as timed:
        spark.read.schema("key long").parquet(str(file)).groupBy("key").agg(F.count("*")).toArrow()
    return timed.seconds * 1000


def _committed(bench: Bench, spout: FileSpout | FixedBatchSpout, state: StateFactory, rows: int) -> list[float]:
    """Return the milliseconds of each batch, one at a time, from its progress event."""
    topology = TridentTopology()
    topology.newStream("keys", spout).groupBy("key").persistentAggregate(state, Count(), "count", name="counts")
    folder, took = bench.fresh(), dict[int, float]()
    with topology.start(bench.spark, name="cost", checkpointLocation=str(folder), maxSpoutPending=1) as running:
        running.progress.listen(lambda event: took.update({event["txid"]: event["durationMs"]["total"]}))
        running.processAllAvailable()
        counted = sum(running.state("counts").toArrow()["count"].to_pylist())
    bench.drop(folder)
    if counted != rows:
        raise WrongAnswerError(f"the state holds {counted} rows, the source had {rows}")
    return [took[txid] for txid in sorted(took)]


def draw(costs: Costs, path: Path) -> None:
    """Draw both pictures side by side."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    by_size, over_time = figure.subplots(1, 2)
    for label, values in (
        ("Redis state", costs.redis),
        ("memory state", costs.memory),
        ("Spark's plan alone", costs.plan),
    ):
        by_size.loglog(costs.sizes, values, marker="o", label=label)
    by_size.set_ylim(bottom=10)
    by_size.set(xlabel="rows in a batch", ylabel="milliseconds from emit to commit, median", title="By size")
    by_size.legend()
    over_time.plot(costs.slices, costs.over_time, marker="o")
    over_time.set(xlabel="batch of one run", ylabel="milliseconds, median of 500 batches", title=f"{SMALL} rows, Redis")
    over_time.set_ylim(bottom=0)
    for axes in (by_size, over_time):
        axes.grid(visible=True, alpha=0.3)
    save_picture(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument("--out", type=Path, help="folder for the figures and the picture")
    asked = parser.parse_args()
    sizes, batches = (SIZES[:2], SLICE) if asked.quick else (SIZES, BATCHES)
    out = results_folder(asked.out, asked.quick)
    with (
        tempfile.TemporaryDirectory(prefix="trident-cost-") as name,
        RedisServer(Path(name, "redis"), "everysec") as server,
    ):
        spark = bench_spark(Path(name))
        costs = measure(Bench(spark, server, Path(name), replace(FULL, rounds=ROUNDS)), sizes, batches)
        spark.stop()
    (out / "batch_cost.json").write_text(json.dumps(asdict(costs), indent=1) + "\n")
    draw(costs, out / "batch_cost.svg")


if __name__ == "__main__":
    main()
