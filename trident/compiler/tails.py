"""A Python function over a DataFrame that is not yet part of one: more may run in the same worker behind it."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from trident.base.types import spark_schema
from trident.compiler.worker import Batches, Then


@dataclass(frozen=True, slots=True)
class Tail:
    """`function` over the partitions of `source`; `leaving` are the fields that it gives."""

    source: DataFrame
    function: Callable[[Batches], Batches]
    leaving: pa.Schema

    def frame(self) -> DataFrame:
        """The DataFrame that it makes."""
        return self.source.mapInArrow(self.function, spark_schema(self.leaving))

    def then(self, function: Callable[[Batches], Batches], leaving: pa.Schema) -> "Tail":
        """With another function behind this one, in the same worker."""
        return Tail(self.source, Then(self.function, function), leaving)
