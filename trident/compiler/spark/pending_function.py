"""A Python function over a DataFrame that is not yet part of one: more may run in the same worker behind it."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident.base.types import spark_schema
from trident.compiler.spark.worker_functions import Batches, Then


@dataclass(frozen=True, slots=True)
class Tail:
    """`function` over the partitions of `source`; `leaving` are the fields that it gives."""

    source: DataFrame
    function: Callable[[Batches], Batches]
    leaving: pa.Schema

    def frame(self) -> DataFrame:
        """The DataFrame that it makes."""
        return in_arrow(self.source, self.function, spark_schema(self.leaving))

    def then(self, function: Callable[[Batches], Batches], leaving: pa.Schema) -> "Tail":
        """With another function behind this one, in the same worker."""
        return Tail(self.source, Then(self.function, function), leaving)


def in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """``frame.mapInArrow``, of fields of any name. Spark looks its columns up by their names, and reads a dot in one as
    a struct's field; functions read them by position, so those of such a frame may be called otherwise."""
    names = frame.columns
    if any("." in name or "`" in name or name == "*" for name in names):
        frame = frame.toDF(*(f"c{at}" for at in range(len(names))))
    return frame.mapInArrow(function, schema)
