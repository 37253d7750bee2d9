"""What can be known of the workers, in classic and in Connect mode."""

import functools
import gc
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_UNKNOWN = 8

KEEP_GC = "TRIDENT_WORKER_GC"
"""Set to 1 in the workers' environment, this leaves their garbage collector as it is."""


@functools.cache
def settle() -> None:
    """Hide what is loaded from the garbage collector, once a worker. Spark collects after every task, and to walk
    pyarrow's and pandas' modules again each time costs more than a small task does."""
    if os.environ.get(KEEP_GC) != "1":
        gc.collect()
        gc.freeze()


def parallelism(spark: "SparkSession") -> int:
    """Return how many partitions are worth cutting a source into: what Spark was told, else its cores, else 8."""
    for key in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        told = conf(spark, key)
        if told.isdigit() and int(told) > 0:
            return int(told)
    cores = re.fullmatch(r"local\[(\d+).*\]", conf(spark, "spark.master"))
    if cores is not None:
        return int(cores[1])
    executors, each = conf(spark, "spark.executor.instances"), conf(spark, "spark.executor.cores")
    if executors.isdigit() and each.isdigit():
        return max(1, int(executors) * int(each))
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else _UNKNOWN


def on_this_machine(spark: "SparkSession") -> bool:
    """Return whether all workers see the driver's disk because they run beside it."""
    return conf(spark, "spark.master").startswith("local")


def conf(spark: "SparkSession", key: str) -> str:
    """Return a setting of the session; "" where there is none."""
    return str(spark.conf.get(key, None) or "")  # "" as default is refused for keys that Spark knows to be numbers


def numbers_of(batches: "Iterable[pa.RecordBatch]") -> Iterator[int]:
    """Return the numbers of a task's shares: the only column of its input."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
