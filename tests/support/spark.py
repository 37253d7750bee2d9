"""The Spark that tests share: small, local, classic or Connect."""

import os
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

CONNECT = os.environ.get("SPARK_API_MODE", "classic").lower() == "connect"
"""Whether the engine's tests run through Spark Connect."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives for minutes: its second compiler takes more than it gives, nearly half of the engine's tests."""


def small_spark(folder: Path, master: str = "local[2]") -> SparkSession:
    """Return a session on `master` without a UI, in the mode of SPARK_API_MODE; its files go to `folder`."""
    if CONNECT:
        _take_a_free_connect_port()
        # It tries to set the static ones once more on the client's side, in vain.
        warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
    spark = (
        SparkSession.builder.master(master)
        .appName("trident-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    if not CONNECT:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _take_a_free_connect_port() -> None:
    """Let PySpark's local Connect server listen on a free port.

    It does so only if SPARK_TESTING is set. The JVM starts before that, because it would turn its own test checks on.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    os.environ["SPARK_TESTING"] = "1"
