"""A batch job of Spark on a cluster, as a program: it reads states of a topology that runs here, beside its commits.

Usage: python -m tests.cluster.reading MASTER FOLDER REDIS. Prints what it found as JSON in its last line.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.cluster.drive import EXECUTOR, ONE_CORE_EACH, UNDER_FIRE, session
from trident import Count, TridentDataSource, TridentTopology
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState, MemoryMapState, RedisMapState
from trident.testing.local import start_local

KEYS = 300


def executor_above() -> int:
    """Return the process id of the executor that this worker of Python belongs to."""
    pid = os.getpid()
    while EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def reads(spark: SparkSession, places: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return for each state what a job finds: the counts, the txids, the sum of a join, the count of one key."""
    keys = spark.range(KEYS).withColumnRenamed("id", "key")
    found: dict[str, Any] = {}
    for name, where in places.items():
        table: DataFrame = spark.read.format("trident").options(txidColumn="txid", **where).load(name)
        rows = table.select("key", "value", "txid", F.udf(executor_above, "long")().alias("executor")).collect()
        one = spark.read.format("trident").options(**where, pushdown="true").load(name).where("key = 7")
        found[name] = {
            "keys": len({row.key for row in rows}),
            "values": sorted({row.value for row in rows}),
            "txids": sorted({row.txid for row in rows}),
            "executors": len({row.executor for row in rows}),
            "partitions": table.rdd.getNumPartitions(),
            "joined": table.join(keys, "key").count(),
            "one": one.count(),
        }
    return found


def main(master: str, folder: str, redis: str) -> None:
    topology, feeder, over = TridentTopology(), FeederBatchSpout("key long"), threading.Event()
    grouped = topology.newStream("keys", feeder).groupBy("key")
    grouped.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="memory")
    grouped.persistentAggregate(RedisMapState.opaque(redis, buckets=8, groups=4), Count(), "n", name="redis")
    grouped.persistentAggregate(DeltaMapState.opaque(f"{folder}/tables"), Count(), "n", name="delta")
    spark = session({**ONE_CORE_EACH, **UNDER_FIRE, "spark.sql.python.filterPushdown.enabled": "true"}, master)
    spark.dataSource.register(TridentDataSource)
    places = {
        "memory": {"checkpoint": f"{folder}/log"},
        "redis": {"url": redis, "topology": "reading", "partitions": "2"},
        "delta": {"delta": f"{folder}/tables", "topology": "reading", "partitions": "2"},
    }

    def feed() -> None:
        while not over.wait(8):  # a read of several partitions has the time of two commits
            feeder.feed(list(range(KEYS)), wait=True, timeout=60)

    with start_local(topology, name="reading", checkpointLocation=f"{folder}/log") as running:
        for _ in range(3):
            feeder.feed(list(range(KEYS)), wait=True, timeout=60)
        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            found = reads(spark, places)
        finally:
            over.set()
            feeding.join()
        print(json.dumps({"found": found, "last": running.asOfTxid["keys"]}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
