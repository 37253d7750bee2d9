"""Our side of the word count: the topology that a user would write, on the same files."""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.check import Counts
from benchmarks.timing import Timed
from benchmarks.words import EXPRESSION, Way, split
from benchmarks.workload import Workload
from trident import Count, FilterNull, MapGet, Sum, TridentTopology, expr
from trident.plan.topology_protocol import EngineName
from trident.spouts import FileSpout
from trident.state import StateFactory
from trident_spouts.executor import Spout


def wordcount(load: Workload, way: Way, state: StateFactory, spout: Spout | None = None) -> TridentTopology:
    """Count words, one file a batch if no `spout` is given, and answer queries for the sum of some words' counts."""
    topology = TridentTopology()
    if spout is None:
        spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema="line string", maxFilesPerBatch=1)
    counts = (
        topology.newStream("lines", spout)
        .each("line", expr(EXPRESSION) if way == "native" else split, "word string")
        .groupBy("word")
        .persistentAggregate(state, Count(), "count", name="counts")
    )
    (
        topology.newDRPCStream("total")
        .each("args", split, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    return topology


def ours(
    spark: SparkSession | None,
    load: Workload,
    way: Way,
    state: StateFactory,
    checkpoint: Path,
    engine: EngineName = "spark",
    ledger: bool = False,
) -> tuple[float, Counts]:
    """Return the seconds from start to the last commit, with three batches in flight, and the state's counts."""
    topology = wordcount(load, way, state)
    with Timed() as timed:
        running = topology.start(
            spark, engine=engine, name="wordcount", checkpointLocation=str(checkpoint), maxSpoutPending=3, ledger=ledger
        )
        running.processAllAvailable()
    with running:
        counts = running.state("counts").toArrow()
    return timed.seconds, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))
