"""The memory of ten thousand tiny batches, which must not grow."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.check import check_counts
from benchmarks.memory_use import live_heap_mb, resident_mb
from benchmarks.row import Row
from benchmarks.workload import Workload
from trident import Count, TridentTopology
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState

WORDS = tuple(f"word{n}" for n in range(100))
SETTLED = 0.2
"""By this share of the batches everything that is held on purpose (logs, caches, recent events) is there."""

FLAT = 1.1
"""The memory at the end is at most this many times that."""


def memory(bench: Bench, load: Workload) -> Iterator[Row]:
    """Rows for the embedded engine and for Spark: this process, and the JVM's live heap."""
    count = bench.scale.tiny_batches
    folder = bench.fresh()
    topology, spout = _topology()
    with topology.start(engine="embedded", name="tiny", checkpointLocation=str(folder)) as running:
        (python, _), (python_end, _) = _feed(bench, running, spout, count, spark=False)
    yield Row(
        "memory.embedded.python",
        f"embedded engine: {count} tiny batches, resident",
        python_end,
        python,
        "MB",
        FLAT,
        "at most",
    )
    bench.drop(folder)

    count, folder = bench.scale.tiny_batches_on_spark, bench.fresh()
    topology, spout = _topology()
    with topology.start(bench.spark, name="tiny", checkpointLocation=str(folder)) as running:
        (python, jvm), (python_end, jvm_end) = _feed(bench, running, spout, count, spark=True)
    what = f"{count} tiny batches on Spark"
    yield Row("memory.spark.python", f"{what}: resident, Python", python_end, python, "MB", FLAT, "at most")
    yield Row("memory.spark.jvm", f"{what}: live heap, JVM", jvm_end, jvm, "MB", FLAT, "at most")
    bench.drop(folder)


def _topology() -> tuple[TridentTopology, FeederBatchSpout]:
    topology, spout = TridentTopology(), FeederBatchSpout("word string")
    counts = topology.newStream("words", spout).groupBy("word")
    counts.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology, spout


def _feed(
    bench: Bench, running: RunningTopology, spout: FeederBatchSpout, count: int, spark: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (Python MB, JVM MB) after the warm-up, and at the end."""
    settled = max(1, int(count * SETTLED))
    seen = []
    for number in range(1, count + 1):
        spout.feed(list(WORDS), wait=True)
        if number in (settled, count):
            seen.append((resident_mb(), live_heap_mb(bench.spark) if spark else 0.0))
    check_counts("tiny batches", dict(running.state("counts").items()), dict.fromkeys(WORDS, count))
    return seen[0], seen[-1]
