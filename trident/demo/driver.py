"""The driver process of the demo: the pipeline itself. It tells its parent how it goes, a JSON object a line."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from trident import Count, FilterNull, MapGet, Sum, TridentTopology
from trident.demo.words import CORPUS, words
from trident.spouts import FileSpout
from trident.state import MemoryMapState, RedisMapState

BATCH_BYTES = 64 * 1024
ASKED = "ahab whale sea ship"
ASK_EVERY = 4
"""A query after every so many batches."""


def wordcount(redis: str | None) -> TridentTopology:
    """The main job: words of the novel, counted once each, and a query over the counts."""
    topology = TridentTopology()
    counts = (
        topology.newStream("novel", FileSpout(str(CORPUS / "*.txt"), maxBytesPerBatch=BATCH_BYTES))
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


def tell(kind: str, **what: Any) -> None:
    """One line to the parent, at once."""
    print(json.dumps({"kind": kind, **what}), flush=True)


def run(name: str, folder: Path, redis: str | None) -> None:
    """Count until the novel is read, telling of every batch and asking now and then; then hand over all counts."""
    spark = _spark(folder)
    topology = wordcount(redis)
    with topology.start(spark, name=name, checkpointLocation=str(folder / "checkpoint")) as running:
        reader = threading.Thread(target=running.processAllAvailable, daemon=True)
        reader.start()
        told = 0
        while True:
            more = reader.is_alive()  # asked before the events are read, so that none is missed
            told = _tell_news(running, told)
            if not more:
                break
            time.sleep(0.02)
        if running.exception() is None:
            counts = dict(running.state("counts").items())
            (folder / "counts.json").write_text(json.dumps(counts))
            tell("done", batches=told)
    topology.reset(name, str(folder / "checkpoint"))
    spark.stop()


def _tell_news(running: Any, told: int) -> int:
    """Tell of every batch committed since `told`, and ask after some of them; the last txid told of."""
    for event in running.recentProgress:
        if event["event"] != "committed" or event["txid"] <= told:
            continue
        told = event["txid"]
        tell("batch", txid=told, rows=event["numInputRows"], ms=event["durationMs"]["total"])
        if told % ASK_EVERY == 0:
            start = time.perf_counter()
            answer = running.drpc.execute("occurrences", ASKED)
            ms = 1000 * (time.perf_counter() - start)
            tell("answer", asked=ASKED, sum=answer[0]["sum"] if answer else 0, asOfTxid=answer.asOfTxid, ms=ms)
    return told


def _spark(folder: Path) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("trident-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    tell("spark", version=spark.version)
    return spark


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), os.environ.get("REDIS") or None)
