"""Parquet objects on an S3 server to counts: against workers that read the same objects with the plain client."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import S3Store

from benchmarks.bench import Bench
from benchmarks.check import Counts, counts_of
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.timing import Timed
from benchmarks.words import EXPRESSION, Splitter
from benchmarks.workload import Workload
from tests.support.s3 import BUCKET, KEY, SECRET, S3Server, out_of_reach
from trident import Count, TridentTopology, expr
from trident.spouts import FileSpout
from trident.state import MemoryMapState

FILES_PER_BATCH = 4


def objects(bench: Bench, load: Workload) -> Iterator[Row]:
    """Put the files of the workload into a bucket once, and count their words in each way, round after round."""
    if reason := out_of_reach():
        print(f"    left out: {reason}", flush=True)
        return
    folder = bench.folder / "s3"
    folder.mkdir()
    with S3Server(folder, options=["-Xmx1g"]) as server:
        for path in load.files:
            server.put(path.name, path.read_bytes())
        ways = _Ways(bench, load, server)
        seconds = median_seconds(bench, {"plain": ways.plain, "ours": ways.ours}, load.expected)
    rates = {name: load.lines / each for name, each in seconds.items()}
    text = "Parquet on an S3 server to word counts, memory state; against the plain client in Spark's workers, no state"
    yield Row("objects.plain", text, rates["ours"], rates["plain"], "lines/s", 0.9)


class _Ways:
    """The ways to count. Each returns its seconds and its counts."""

    def __init__(self, bench: Bench, load: Workload, server: S3Server) -> None:
        self._bench = bench
        self._server = server
        self._names = [path.name for path in load.files]

    def ours(self, folder: Path) -> tuple[float, Counts]:
        topology = TridentTopology()
        spout = FileSpout(
            f"s3://{BUCKET}/*",
            format="parquet",
            schema="line string",
            maxFilesPerBatch=FILES_PER_BATCH,
            orderBy="name",
            storage=self._server.storage,
        )
        words = topology.newStream("lines", spout).each(expr(EXPRESSION), "word string").groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        with Timed() as timed:
            running = topology.start(
                self._bench.spark, name="objects", checkpointLocation=str(folder), maxSpoutPending=3
            )
            running.processAllAvailable()
        with running:
            counts = running.state("counts").toArrow()
        return timed.seconds, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))

    def plain(self, folder: Path) -> tuple[float, Counts]:
        spark, splitter = self._bench.spark, Splitter("native")
        with Timed() as timed:
            tables = []
            for at in range(0, len(self._names), FILES_PER_BATCH):
                read = _PlainReader(self._server.endpoint, tuple(self._names[at : at + FILES_PER_BATCH]))
                numbers = spark.range(
                    0, len(read.names), 1, min(len(read.names), spark.sparkContext.defaultParallelism)
                )
                tables.append(splitter.counts(numbers.mapInArrow(read, "line string")).toArrow())
        return timed.seconds, counts_of(tables)


@dataclass(frozen=True)
class _PlainReader:
    """The function by which a worker reads whole objects, as a careful user would write it."""

    endpoint: str
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = S3Store(
            BUCKET,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )
        for batch in batches:
            for number in batch.column(0).to_pylist():
                content = memoryview(obstore.get(store, self.names[number]).bytes())
                yield from pq.read_table(pa.BufferReader(content)).to_batches(10_000)
