"""Facts about the workers and their sessions, found alike in classic and in Connect mode."""

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
"""The environment variable that, set to 1, leaves the workers' garbage collectors as they are."""


@functools.cache
def settle() -> None:
    """Hide all loaded modules from the garbage collector, once in each worker.

    Spark collects after every task. To walk pyarrow's and pandas' modules each time costs more than a small task.
    """
    if os.environ.get(KEEP_GC) != "1":
        gc.collect()
        gc.freeze()


def parallelism(spark: "SparkSession") -> int:
    """Return the number of partitions to cut a source into: Spark's setting, else its cores, else 8."""
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
    """Return whether all workers run on the driver's machine, and so see its disk."""
    return conf(spark, "spark.master").startswith("local")


def conf(spark: "SparkSession", key: str) -> str:
    """Return a setting of the session; "" if it has none."""
    return str(spark.conf.get(key, None) or "")  # "" as default is refused for keys that Spark knows to be numbers


def numbers_frame(spark: "SparkSession", count: int) -> "DataFrame":
    """Return a DataFrame of `count` partitions, each with one row: its number."""
    return spark.range(0, count, 1, count)


def numbers_of(batches: "Iterable[pa.RecordBatch]") -> Iterator[int]:
    """Yield the numbers of a task's shares: the rows of `numbers_frame` that are the task's input."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
