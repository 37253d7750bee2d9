"""Rows of a table to counts: against Spark's own JDBC reader over the same ranges, into the same count, no state."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.check import Counts, counts_of
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.timing import Timed
from benchmarks.words import EXPRESSION, Splitter
from benchmarks.workload import Workload
from tests.support.postgres import PASSWORD, PostgresServer, driver_jar, out_of_reach
from trident import Count, TridentTopology, expr
from trident.spouts import JdbcSpout
from trident.state import MemoryMapState

PARTITIONS = 4
BATCHES = 20


def jdbc(bench: Bench, load: Workload) -> Iterator[Row]:
    """Put the lines of the workload into a table once, and count their words in each way, round after round."""
    if reason := out_of_reach() or driver_jar()[1]:
        print(f"    left out: {reason}", flush=True)
        return
    with PostgresServer() as server:
        _fill(server, load)
        ways = _Ways(bench, load, server)
        seconds = median_seconds(bench, {"plain": ways.plain, "ours": ways.ours}, load.expected)
    rates = {name: load.lines / each for name, each in seconds.items()}
    text = "PostgreSQL to word counts, memory state; against Spark's JDBC reader over the same ranges, no state"
    yield Row("jdbc.plain", text, rates["ours"], rates["plain"], "rows/s", 0.9)


def _fill(server: PostgresServer, load: Workload) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("create table lines (id bigint primary key, line text not null)")
        with cursor.copy("copy lines from stdin") as copy:
            number = 0
            for path in load.files:
                for line in pq.read_table(path)["line"].to_pylist():
                    number += 1
                    copy.write_row((number, line))
        cursor.execute("analyze lines")


class _Ways:
    """The ways to count. Each returns its seconds and its counts."""

    def __init__(self, bench: Bench, load: Workload, server: PostgresServer) -> None:
        self._bench, self._server = bench, server
        self._lines, self._batch = load.lines, -(-load.lines // BATCHES)

    def ours(self, folder: Path) -> tuple[float, Counts]:
        topology = TridentTopology()
        spout = JdbcSpout(
            self._server.url,
            "lines",
            "line string",
            orderBy="id",
            maxRowsPerBatch=self._batch,
            numPartitions=PARTITIONS,
        )
        words = topology.newStream("lines", spout).each(expr(EXPRESSION), "word string").groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        with Timed() as timed:
            running = topology.start(self._bench.spark, name="jdbc", checkpointLocation=str(folder), maxSpoutPending=3)
            running.processAllAvailable()
        with running:
            counts = running.state("counts").toArrow()
        return timed.seconds, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))

    def plain(self, folder: Path) -> tuple[float, Counts]:
        splitter = Splitter("native")
        with Timed() as timed:
            tables = [
                splitter.counts(self._range(at + 1, min(at + self._batch, self._lines))).toArrow()
                for at in range(0, self._lines, self._batch)
            ]
        return timed.seconds, counts_of(tables)

    def _range(self, first: int, last: int) -> DataFrame:
        step = -(-(last - first + 1) // PARTITIONS)
        ranges = [f"id between {at} and {min(at + step - 1, last)}" for at in range(first, last + 1, step)]
        properties = {"user": "postgres", "password": PASSWORD, "driver": "org.postgresql.Driver", "fetchsize": "10000"}
        url = f"jdbc:postgresql://{self._server.place}"
        return self._bench.spark.read.jdbc(url, "lines", predicates=ranges, properties=properties).select("line")
