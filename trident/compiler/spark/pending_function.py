"""A Python function that will run over a DataFrame. Functions that run in the same worker can still be added."""

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident.base.spark_types import spark_schema
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.plan_calls import names_of
from trident.compiler.spark.plan_functions import mapped
from trident.compiler.spark.step_meter import StepMeter
from trident.compiler.spark.worker_functions import (
    AfterReports,
    Composed,
    Metered,
    OnChain,
    Reporting,
    Timed,
    WorkerFunction,
    catches,
    meter_of,
)
from trident.compiler.tracking.ledger import Root
from trident.compiler.tracking.row_paths import Way
from trident.compiler.tracking.tokens import Edge


@dataclass(frozen=True, slots=True)
class PendingFunction:
    """A `function` over the partitions of `source`, with the fields `leaving` in its output."""

    source: DataFrame
    function: WorkerFunction
    leaving: pa.Schema

    def frame(self) -> DataFrame:
        """Return the DataFrame of the function's results."""
        meter = meter_of(self.function)
        function = self.function if meter is None else Metered(self.function, meter)
        return in_arrow(self.source, function, spark_schema(self.leaving))

    def then(self, function: WorkerFunction, leaving: pa.Schema) -> "PendingFunction":
        """Return this function followed by another one, in the same worker."""
        return PendingFunction(self.source, Composed(self.function, function), leaving)

    def timed(self, step: str, meter: StepMeter | None) -> "PendingFunction":
        """Return this function with its time counted for a step; unchanged without a meter."""
        return self if meter is None else replace(self, function=Timed(self.function, step, meter))

    @property
    def catches(self) -> bool:
        """Return whether the function has operations that leave out the tuples on which they fail."""
        return catches(self.function)

    @property
    def root(self) -> Root | None:
        """The ledger's root for the source of the function's tuples; None without a ledger."""
        return self.function.root if isinstance(self.function, OnChain) else None

    def reporting(self, signal: FailureSignal | None, edge: Edge | None = None, ids: bool = True) -> "PendingFunction":
        """Return this function, extended so that its rows also include reports, in an added field.

        With `ids`, a second added field holds ids.

        `edge` is the edge over which the rows are sent, if the batch has a ledger.
        """
        function = Reporting(self.function, self.leaving, signal, Way(edge, ids))
        return PendingFunction(self.source, function, function.leaving)

    def behind_reports(self, edge: Edge | None = None) -> "PendingFunction":
        """Return this function for a source whose rows are tuples and reports, as in the output of `reporting`."""
        return PendingFunction(self.source, AfterReports(self.function, Way(edge)), self.leaving)


def in_arrow(frame: DataFrame, function: WorkerFunction, schema: StructType) -> DataFrame:
    """Return ``frame.mapInArrow`` for fields of any name.

    Spark looks columns up by name, and reads a dot in a name as access to a struct's field. Functions read columns by
    position, so the columns of such a frame may get other names.
    """
    names = names_of(frame)
    if any("." in name or "`" in name or name == "*" for name in names):
        frame = frame.toDF(*(f"c{at}" for at in range(len(names))))
    return mapped(frame, function, schema)
