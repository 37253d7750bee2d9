"""The embedded engine, in rows of its own: no figure here is Spark's, and none of Spark's rows uses this engine."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.check import check_counts
from benchmarks.ours import ours, wordcount
from benchmarks.row import Row
from benchmarks.rows.small_batches import ROWS, WARM_UP, committed
from benchmarks.timing import Timed, median, percentile
from benchmarks.workload import Workload, small_tables
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory


def embedded(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure a start, small batches and a word count, each on the embedded engine alone."""
    yield _start(bench, load)
    yield from _small(bench, load)
    yield _words(bench, load)


def _start(bench: Bench, load: Workload) -> Row:
    """Return the row of the time from ``start`` to the first commit, of as many rows as a small batch has."""
    (table,) = small_tables(load, 1, ROWS)
    took = []
    for number in range(2 * bench.scale.rounds + 1):
        topology = wordcount(load, "python", MemoryMapState.opaque(), FixedBatchSpout("line string", [table]))
        folder = bench.fresh()
        with Timed() as timed:
            running = topology.start(engine="embedded", name="first", checkpointLocation=str(folder))
            running.processAllAvailable()
        running.stop()
        bench.drop(folder)
        if number:  # the first imports what a start needs
            took.append(timed.seconds * 1000)
    what = f"embedded engine: from start to the first commit, {ROWS} rows, a new checkpoint"
    return Row("embedded.start", what, median(took), None, "ms", None)


def _small(bench: Bench, load: Workload) -> Iterator[Row]:
    states: dict[str, StateFactory] = {
        "memory": MemoryMapState.opaque(),
        "redis": RedisMapState.opaque(bench.server.url),
    }
    for name, state in states.items():
        took: list[float] = []
        for _ in range(bench.scale.rounds):
            tables = small_tables(load, WARM_UP + max(1, bench.scale.small_batches // bench.scale.rounds), ROWS)
            took += committed(bench, tables, state, "embedded")[WARM_UP:]
        what = f"embedded engine: {ROWS} rows a batch, opaque {name} state"
        yield Row(
            f"embedded.small.{name}.p50", f"{what}: p50 from emit to commit", percentile(took, 50), None, "ms", None
        )
        yield Row(
            f"embedded.small.{name}.p99", f"{what}: p99 from emit to commit", percentile(took, 99), None, "ms", None
        )


def _words(bench: Bench, load: Workload) -> Row:
    took = []
    for number in bench.scale.turns:
        folder = bench.fresh()
        seconds, counts = ours(None, load, "python", MemoryMapState.opaque(), folder, "embedded")
        check_counts("embedded engine", counts, load.expected)
        bench.drop(folder)
        if number:
            took.append(seconds)
    what = "embedded engine: word count, split by a Python function, opaque memory state"
    return Row("embedded.words", what, load.words / median(took), None, "words/s", None)
