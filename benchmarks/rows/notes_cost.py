"""The cost of counters and warnings in user code: a word count with them, and the same without."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.check import Counts
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.timing import Timed
from benchmarks.words import split
from benchmarks.workload import Workload
from trident import Count, TridentTopology, addToCounter, warn
from trident.plan.topology_protocol import EngineName
from trident.spouts import FileSpout
from trident.state import MemoryMapState


def quiet(word: str) -> bool:
    return not word.endswith("77")


def rare(word: str) -> bool:
    """Warn of the words that are left out, with an example."""
    if word.endswith("77"):
        warn("an odd word", word)
        return False
    return True


def each(word: str) -> bool:
    """Count every word."""
    addToCounter("words")
    return not word.endswith("77")


def notes_cost(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure the three in turn, on each engine, and compare every count."""
    expected = Counter({word: count for word, count in load.expected.items() if quiet(word)})
    engines: tuple[EngineName, ...] = ("spark", "embedded")
    for engine in engines:
        ways = {keep.__name__: partial(_counted, bench, load, engine, keep) for keep in (quiet, rare, each)}
        seconds = median_seconds(bench, ways, expected)
        what = f"{engine} engine, a word count in Python functions"
        share = f"a warning for 1 word in {load.words / max(1, load.words - expected.total()):.0f}"
        yield Row(
            f"notes.{engine}.rare",
            f"{what}: {share}, against none",
            seconds["rare"],
            seconds["quiet"],
            "s",
            1.05,
            "at most",
        )
        yield Row(
            f"notes.{engine}.each", f"{what}: a counter for each word, against none", seconds["each"], seconds["quiet"],
            "s", None,
        )  # fmt: skip


def _counted(
    bench: Bench, load: Workload, engine: EngineName, keep: Callable[[str], bool], folder: Path
) -> tuple[float, Counts]:
    topology = TridentTopology()
    spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema="line string", maxFilesPerBatch=1)
    words = topology.newStream("lines", spout).each("line", split, "word string").filter("word", keep).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    spark = [bench.spark] if engine == "spark" else []
    with Timed() as timed:
        running = topology.start(*spark, engine=engine, name="notes", checkpointLocation=str(folder))
        running.processAllAvailable()
    with running:
        counts = running.state("counts").toArrow()
    return timed.seconds, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))
