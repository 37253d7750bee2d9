"""How many tasks a Spark runs at once, in classic and in Connect mode."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNKNOWN = 8


def parallelism(spark: "SparkSession") -> int:
    """The number of partitions worth cutting a source into: what Spark was told, else its cores, else 8."""
    for key in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        told = _conf(spark, key)
        if told.isdigit() and int(told) > 0:
            return int(told)
    cores = re.fullmatch(r"local\[(\d+).*\]", _conf(spark, "spark.master"))
    if cores is not None:
        return int(cores[1])
    executors, each = _conf(spark, "spark.executor.instances"), _conf(spark, "spark.executor.cores")
    if executors.isdigit() and each.isdigit():
        return max(1, int(executors) * int(each))
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else _UNKNOWN


def _conf(spark: "SparkSession", key: str) -> str:
    return str(spark.conf.get(key, None) or "")  # "" as default is refused for keys that Spark knows to be numbers
