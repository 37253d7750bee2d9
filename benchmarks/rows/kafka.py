"""Kafka to counts: against plain Spark over the same ranges without state, and against a hand-written foreachBatch."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.check import Counts, counts_of
from benchmarks.competitors.foreach_batch import merge_counts, stored_counts
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.timing import Timed
from benchmarks.words import Splitter
from benchmarks.workload import Workload
from tests.support.kafka import KafkaBroker, out_of_reach
from trident import Count, TridentTopology, expr
from trident.spouts import KafkaSpout, TransactionAttempt
from trident.state import MemoryMapState, RedisMapState, StateFactory

PARTITIONS = 4
BATCHES = 20
TOPIC = "lines"


def kafka(bench: Bench, load: Workload) -> Iterator[Row]:
    """Send the lines of the workload once, and count their words in each way, round after round."""
    if reason := out_of_reach():
        print(f"    left out: {reason}", flush=True)
        return
    with KafkaBroker(bench.folder / "kafka") as broker:
        _send(broker, load)
        ways = _Ways(bench, load, broker.servers)
        engines = {"plain": ways.plain, "memory": ways.memory, "foreach": ways.foreach, "redis": ways.redis}
        seconds = median_seconds(bench, engines, load.expected)
    rates = {name: load.lines / each for name, each in seconds.items()}
    what = f"Kafka to word counts, {PARTITIONS} partitions"
    text = f"{what}, memory state; against plain Spark over the same ranges, no state"
    yield Row("kafka.plain", text, rates["memory"], rates["plain"], "messages/s", 0.9)
    text = f"{what}, opaque Redis state; against Structured Streaming's foreachBatch with the same Redis update"
    yield Row("kafka.foreach", text, rates["redis"], rates["foreach"], "messages/s", 2.0)


def _send(broker: KafkaBroker, load: Workload) -> None:
    broker.create(TOPIC, PARTITIONS)
    for number, path in enumerate(load.files):
        broker.send(TOPIC, pq.read_table(path)["line"].to_pylist(), number % PARTITIONS)


class _Ways:
    """The ways to count. Each returns its seconds and its counts."""

    def __init__(self, bench: Bench, load: Workload, servers: str) -> None:
        self._bench = bench
        self._spark = bench.spark
        self._servers = servers
        self._splitter = Splitter("native")
        self._spout = KafkaSpout(servers, TOPIC, maxOffsetsPerBatch=-(-load.lines // BATCHES))
        self._ranges = self._plan()

    def _plan(self) -> list[Mapping[str, Any]]:
        executor, previous = self._spout.open(), None
        plans: list[Mapping[str, Any]] = []
        while (plan := executor.plan(TransactionAttempt(len(plans) + 1, 0, 1), previous, 0.0)) is not None:
            assert isinstance(plan, dict)
            plans.append(plan[TOPIC])
            previous = plan
        executor.close()
        return plans

    def memory(self, folder: Path) -> tuple[float, Counts]:
        return self._ours(folder, MemoryMapState.opaque())

    def redis(self, folder: Path) -> tuple[float, Counts]:
        return self._ours(folder, RedisMapState.opaque(self._bench.server.url))

    def _ours(self, folder: Path, state: StateFactory) -> tuple[float, Counts]:
        topology = TridentTopology()
        lines = topology.newStream("lines", self._spout).each(expr("cast(value as string)"), "line string")
        words = lines.each(expr("explode(split(line, ' '))"), "word string").groupBy("word")
        words.persistentAggregate(state, Count(), "count", name="counts")
        with Timed() as timed:
            running = topology.start(self._spark, name="kafka", checkpointLocation=str(folder), maxSpoutPending=3)
            running.processAllAvailable()
        with running:
            counts = running.state("counts").toArrow()
        return timed.seconds, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))

    def plain(self, folder: Path) -> tuple[float, Counts]:
        with Timed() as timed:
            tables = [self._splitter.counts(self._lines(plan)).toArrow() for plan in self._ranges]
        return timed.seconds, counts_of(tables)

    def _lines(self, plan: Mapping[str, Any]) -> DataFrame:
        def offsets(name: str) -> str:
            return json.dumps({TOPIC: {str(number): offset for number, offset in enumerate(plan[name])}})

        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("kafka.isolation.level", "read_committed").option("subscribe", TOPIC)
        frame = reader.option("startingOffsets", offsets("from")).option("endingOffsets", offsets("to")).load()
        return frame.selectExpr("cast(value as string) line")

    def foreach(self, folder: Path) -> tuple[float, Counts]:
        client = self._bench.server.client

        def apply(batch: DataFrame, batch_id: int) -> None:
            table = self._splitter.counts(batch).toArrow()
            merge_counts(client, batch_id + 1, table["word"].to_pylist(), table["count"].to_pylist())

        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("kafka.isolation.level", "read_committed").option("subscribe", TOPIC)
        reader = reader.option("startingOffsets", "earliest")
        lines = reader.option("maxOffsetsPerTrigger", self._spout.maxOffsetsPerBatch).load()
        writer = lines.selectExpr("cast(value as string) line").writeStream.foreachBatch(apply)
        writer = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        with Timed() as timed:
            writer.start().awaitTermination()
        return timed.seconds, stored_counts(client)
