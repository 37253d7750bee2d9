"""Facts about Spark's workers and a session's settings, for classic Spark and for Spark Connect."""

import functools
import gc
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_PARALLELISM = 8

KEEP_GC = "TRIDENT_WORKER_GC"
"""The name of an environment variable. If it is 1, `settle` does not touch the garbage collector of a worker."""


@functools.cache
def settle() -> None:
    """Exempt all loaded modules from Python's garbage collector, once in each worker.

    Spark runs the garbage collector after every task. Walking the modules of pyarrow and pandas each time would cost
    more than a small task.
    """
    if os.environ.get(KEEP_GC) != "1":
        gc.collect()
        gc.freeze()


def parallelism(spark: "SparkSession") -> int:
    """Return the number of partitions for a source: Spark's setting, otherwise the cores, otherwise 8."""
    for key in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        setting = conf(spark, key)
        if setting.isdigit() and int(setting) > 0:
            return int(setting)
    local = re.fullmatch(r"local\[(\d+).*\]", conf(spark, "spark.master"))
    if local is not None:
        return int(local[1])
    executors, cores_each = conf(spark, "spark.executor.instances"), conf(spark, "spark.executor.cores")
    if executors.isdigit() and cores_each.isdigit():
        return max(1, int(executors) * int(cores_each))
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else _DEFAULT_PARALLELISM


def on_this_machine(spark: "SparkSession") -> bool:
    """Return whether all workers run on the driver's machine, and so see the same disk."""
    return conf(spark, "spark.master").startswith("local")


def conf(spark: "SparkSession", key: str) -> str:
    """Return a setting of the session; "" if it is not set."""
    return str(spark.conf.get(key, None) or "")  # Spark refuses "" as default for a setting that is a number


def numbers_frame(spark: "SparkSession", count: int) -> "DataFrame":
    """Return a DataFrame of `count` partitions. Each has one row with the partition's number."""
    return spark.range(0, count, 1, count)


def numbers_of(batches: "Iterable[pa.RecordBatch]") -> Iterator[int]:
    """Yield the numbers of the shares that a task must read. Its input `batches` are rows of `numbers_frame`."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
