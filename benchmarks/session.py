"""The one Spark session that all engines run on, so that none has a conf that the others lack."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from trident.base.java import ensure_java

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that is measured compiles every module anew

CONFS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    # Structured Streaming's store at its best: RocksDB, writing only what changed at each commit.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Spark's settings, the same for every engine."""


def bench_spark(folder: Path, jars: Iterable[Path] = ()) -> SparkSession:
    """Return a session on local[2] with 4 GB, no UI and these jars, whose workers run this Python."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("trident-benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
    )
    if named := ",".join(map(str, jars)):
        builder = builder.config("spark.jars", named)
    spark = builder.config(map=dict(CONFS)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
