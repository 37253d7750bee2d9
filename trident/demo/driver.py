"""The driver process of the demo. It runs the topology and reports to its parent in lines of JSON on stdout."""

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from trident import Count, FilterNull, MapGet, Stream, Sum, TridentTopology, expr
from trident.compiler.spark.sessions import OWN_SPARK
from trident.demo import CORPUS
from trident.demo.sources import TOPIC
from trident.demo.words import words
from trident.run.running import RunningTopology
from trident.spouts import FileSpout, KafkaSpout
from trident.state import MemoryMapState, RedisMapState

BATCH_BYTES = 64 * 1024
BATCH_MESSAGES = 120
ASKED = "ahab whale sea ship"
ASK_EVERY = 4
"""The number of batches between two queries."""

_reporting = threading.Lock()
"""Held while a line is written, because threads of the run also write reports and lines must not mix."""


def wordcount(redis: str | None, servers: str) -> TridentTopology:
    """Return the demo's topology: a state with the count of each word, in Redis or in memory, and a query over it."""
    topology = TridentTopology()
    counts = (
        _lines(topology, servers)
        .each("line", words, "word string")
        .groupBy("word")
        .persistentAggregate(
            RedisMapState.opaque(redis) if redis else MemoryMapState.transactional(), Count(), "count", name="counts"
        )
    )
    (
        topology.newDRPCStream("occurrences")
        .each("args", words, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    return topology


def _lines(topology: TridentTopology, servers: str) -> Stream:
    """Return the stream of the novel's lines: from files, or from the Kafka brokers `servers`."""
    if not servers:
        return topology.newStream("novel", FileSpout(str(CORPUS / "*.txt"), maxBytesPerBatch=BATCH_BYTES))
    messages = topology.newStream("novel", KafkaSpout(servers, TOPIC, maxOffsetsPerBatch=BATCH_MESSAGES))
    return messages.each(expr("cast(value as string)"), "line string")


def report(kind: str, **details: Any) -> None:
    """Write one report to the parent process, as a line of JSON."""
    with _reporting:
        print(json.dumps({"kind": kind, **details}), flush=True)


class Reporter:
    """A progress listener that reports each committed batch once."""

    def __init__(self) -> None:
        self.last = 0
        self._lock = threading.Lock()

    def hear(self, event: dict[str, Any]) -> None:
        """Report the batch of a progress event, unless it was reported before."""
        with self._lock:
            if event["event"] == "committed" and event["txid"] > self.last:
                self.last = event["txid"]
                keys = event["states"]["counts"]["keys"]
                report("batch", txid=self.last, words=keys, ms=event["durationMs"]["total"])


def run(name: str, folder: Path, redis: str | None, servers: str = "", port: int = 0) -> None:
    """Count the words of the whole novel, with queries in between. Then write all counts to ``counts.json``.

    With a `port`, serve the page of the run on that port, also after the counting, until stdin ends.
    """
    spark = _spark(folder)
    topology = wordcount(redis, servers)
    reporter = Reporter()
    with topology.start(spark, name=name, checkpointLocation=str(folder / "checkpoint")) as running:
        if port:
            running.serve(port)
        running.progress.listen(reporter.hear)
        for event in running.recentProgress:
            reporter.hear(event)
        reader = threading.Thread(target=running.processAllAvailable, daemon=True)
        reader.start()
        asked = 0
        while reader.is_alive():
            if reporter.last >= asked + ASK_EVERY:
                asked = reporter.last
                _ask(running)
            reader.join(0.02)
        if running.exception() is None:
            counts = dict(running.state("counts").items())
            (folder / "counts.json").write_text(json.dumps(counts))
            if port:
                report("counted")
                with suppress(KeyboardInterrupt):  # Ctrl-C is meant for the parent, but this process gets it, too
                    sys.stdin.read()
    topology.reset(name, str(folder / "checkpoint"))
    spark.stop()


def _ask(running: RunningTopology) -> None:
    start = time.perf_counter()
    answer = running.drpc.execute("occurrences", ASKED)
    ms = 1000 * (time.perf_counter() - start)
    report("answer", asked=ASKED, sum=answer[0]["sum"] if answer else 0, asOfTxid=answer.asOfTxid, ms=ms)


def _spark(folder: Path) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("trident-demo")
        .config("spark.ui.enabled", "false")
        .config(map=dict(OWN_SPARK))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    report("spark", version=spark.version)
    return spark


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), os.environ.get("REDIS") or None, sys.argv[3], int(sys.argv[4]))
