"""A Python function that is to run over a DataFrame: other functions can still be added, to run in the same worker."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident.base.types import spark_schema
from trident.compiler.spark.worker_functions import Batches, Composed


@dataclass(frozen=True, slots=True)
class PendingFunction:
    """A `function` over the partitions of `source` that gives the fields `leaving`."""

    source: DataFrame
    function: Callable[[Batches], Batches]
    leaving: pa.Schema

    def frame(self) -> DataFrame:
        """Return the DataFrame of the function's results."""
        return in_arrow(self.source, self.function, spark_schema(self.leaving))

    def then(self, function: Callable[[Batches], Batches], leaving: pa.Schema) -> "PendingFunction":
        """Return this function followed by another one, in the same worker."""
        return PendingFunction(self.source, Composed(self.function, function), leaving)


def in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """Return ``frame.mapInArrow`` for fields of any name.

    Spark looks columns up by their names and reads a dot in one as a struct's field. Functions read columns by
    position, so the columns of such a frame may get other names.
    """
    names = frame.columns
    if any("." in name or "`" in name or name == "*" for name in names):
        frame = frame.toDF(*(f"c{at}" for at in range(len(names))))
    return frame.mapInArrow(function, schema)
