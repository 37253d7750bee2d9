"""The memory that this process and Spark's JVM hold."""

import gc
import os
import subprocess
from pathlib import Path

from pyspark.sql import SparkSession


def resident_mb(pid: int | None = None) -> float:
    """Return the resident set of a process (this one) in MB."""
    gc.collect()
    pid = pid or os.getpid()
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    return int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True).stdout) / 1024


def live_heap_mb(spark: SparkSession) -> float:
    """Return the live part of the JVM's heap after a collection, in MB, which its resident set does not show."""
    jvm = spark._jvm  # noqa: SLF001 (PySpark has no public way to the JVM)
    assert jvm is not None
    for _ in range(3):  # what Spark's cleaner lets go after one collection, the next one takes
        jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)
