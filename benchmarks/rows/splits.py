"""One function for three streams: the number of its calls, and its time against a persisted DataFrame."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench
from benchmarks.check import Counts, WrongAnswerError, check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Count, TridentTopology
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import MemoryMapState

LENGTHS = ("short", "middle", "long")
FEW = 2_000


def kind_of(line: str) -> str:
    """Choose a stream by the length of a line's first word."""
    first = len(line.partition(" ")[0])
    return LENGTHS[0 if first < 6 else 1 if first < 8 else 2]


def by_length(line: str) -> Iterator[tuple[str, str]]:
    """Send a line to the stream of its kind, for our split."""
    yield kind_of(line), line.partition(" ")[0]


def _kinds(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the same over whole batches, as a careful user writes it."""
    for batch in batches:
        lines = batch.column(0).to_pylist()
        words = [line.partition(" ")[0] for line in lines]
        yield pa.record_batch({"kind": [kind_of(line) for line in lines], "word": words})


def splits(bench: Bench, load: Workload) -> Iterator[Row]:
    """Count the calls of a split into three streams, and measure its time."""
    calls = _calls(bench)
    yield Row("split.calls", "calls of a split's function a tuple, three streams read", calls, None, "", 1.0, "at most")
    expected = Counter(kind_of(line) for path in load.files for line in pq.read_table(path)["line"].to_pylist())
    took: dict[str, list[float]] = {"ours": [], "by hand": []}
    for number in bench.scale.turns:
        for name, run in {"by hand": _by_hand, "ours": _ours}.items():
            seconds, counts = run(bench, load)
            check_counts(f"split, {name}", counts, expected)
            if number:
                took[name].append(seconds)
    what = "a split into three streams, the distinct words of each counted; against a DataFrame persisted by hand"
    yield Row("split.time", what, median(took["ours"]), median(took["by hand"]), "s", 1.3, "at most")


class Marking:
    """Call `by_length`, and mark each call in a file."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __call__(self, line: str) -> Any:
        with open(self.file, "a") as marks:
            marks.write("x")
        return list(by_length(line))


def _calls(bench: Bench) -> float:
    """Return the calls for each tuple, over one batch on Spark."""
    folder = bench.fresh()
    function = Marking(folder / "calls")
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [[f"word{n}" for n in range(FEW)]]))
    parts = lines.split("line", function, streams=dict.fromkeys(LENGTHS, "word string"))
    for name, part in zip(LENGTHS, parts, strict=True):
        part.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
    with topology.start(bench.spark, name="split", checkpointLocation=str(folder / "run")) as running:
        running.processAllAvailable()
        counted = sum(running.state(name).value for name in LENGTHS)
    if counted != FEW:
        raise WrongAnswerError(f"split: {counted} tuples of {FEW}")
    calls = (folder / "calls").stat().st_size / FEW
    bench.drop(folder)
    return calls


def _by_hand(bench: Bench, load: Workload) -> tuple[float, Counts]:
    """Return the seconds for all batches: one persisted evaluation, a query for each kind."""
    totals: dict[str, int] = {}
    with Timed() as timed:
        for path in load.files:
            kept = bench.spark.read.parquet(str(path)).mapInArrow(_kinds, "kind string, word string").persist()
            for name in LENGTHS:
                counted = kept.filter(kept["kind"] == name).groupBy("word").count().toArrow()
                totals[name] = totals.get(name, 0) + sum(counted["count"].to_pylist())
            kept.unpersist()
    return timed.seconds, totals


def _ours(bench: Bench, load: Workload) -> tuple[float, Counts]:
    """Return the seconds from start to the last commit, one batch at a time; the states are summed up afterwards."""
    topology = TridentTopology()
    spout = FileSpout(load.folder / "*.parquet", format="parquet", schema="line string", maxFilesPerBatch=1)
    parts = topology.newStream("lines", spout).split("line", by_length, streams=dict.fromkeys(LENGTHS, "word string"))
    for name, part in zip(LENGTHS, parts, strict=True):
        part.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
    folder = bench.fresh()
    with Timed() as timed:
        running = topology.start(bench.spark, name="split", checkpointLocation=str(folder), maxSpoutPending=1)
        running.processAllAvailable()
    with running:
        counts = {name: sum(running.state(name).toArrow()["count"].to_pylist()) for name in LENGTHS}
    bench.drop(folder)
    return timed.seconds, counts
