"""Four Python functions in a row: ours, against the same functions in one loop written by hand for ``mapInArrow``."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts, counts_of
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.words import split
from benchmarks.workload import Workload
from trident import Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

LEAST = 500_000
"""Words a second on two cores."""


def kept(word: str) -> bool:
    return len(word) > 2


def ending(word: str) -> str:
    return word[-2:]


def marked(end: str, word: str) -> str:
    return end + str(len(word))


def functions(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both in turn, round after round, and compare every count."""
    expected = Counter[str]()
    for word, count in load.expected.items():
        if kept(word):
            expected[marked(ending(word), word)] += count
    seconds: dict[str, list[float]] = {"ours": [], "by hand": []}
    for number in bench.scale.turns:
        for name, run in (("ours", _ours), ("by hand", _by_hand)):
            folder = bench.fresh()
            took, counts = run(bench, load, folder)
            check_counts(name, counts, expected)
            bench.drop(folder)
            if number:
                seconds[name].append(took)
    ours, other = (load.words / median(seconds[name]) for name in ("ours", "by hand"))
    what = "four Python functions in a row, then a count into memory"
    yield Row(
        "functions.hand", f"{what}; against the same in one mapInArrow by hand, no state", ours, other, "words/s", 0.9
    )
    yield Row("functions.rate", what, ours, None, "words/s", LEAST)


def _ours(bench: Bench, load: Workload, folder: Path) -> tuple[float, Counts]:
    topology = TridentTopology()
    spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema="line string", maxFilesPerBatch=1)
    (
        topology.newStream("lines", spout)
        .each("line", split, "word string")
        .filter("word", kept)
        .each("word", ending, "end string")
        .each("end, word", marked, "mark string")
        .groupBy("mark")
        .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    )
    with Timed() as timed:
        running = topology.start(bench.spark, name="functions", checkpointLocation=str(folder))
        running.processAllAvailable()
    with running:
        counts = running.state("counts").toArrow()
    return timed.seconds, dict(zip(counts["mark"].to_pylist(), counts["count"].to_pylist(), strict=True))


def _by_hand(bench: Bench, load: Workload, folder: Path) -> tuple[float, Counts]:
    with Timed() as timed:
        marks = (bench.spark.read.parquet(str(file)).mapInArrow(_marks, "word string") for file in load.files)
        tables = [mark.groupBy("word").count().toArrow() for mark in marks]
    return timed.seconds, counts_of(tables)


def _marks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        words = (word for line in batch.column(0).to_pylist() for word in split(line))
        yield pa.record_batch({"word": [marked(ending(word), word) for word in words if kept(word)]})
