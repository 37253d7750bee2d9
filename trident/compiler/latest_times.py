"""The latest event time of a batch whose tuples are on Spark's workers. Each worker reports one for its parts."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.windows.time_windows import latest_of
from trident_spouts.shared_reading import SharesEmission
from trident_spouts.spark_workers import numbers_of

LATEST = pa.schema([("latest", pa.int64())])


@dataclass(frozen=True, slots=True)
class LatestTimes(OnWorker):
    """A function that takes the numbers of parts and returns the latest time of each (µs since 1970), or null."""

    tuples: SharesEmission
    field: str

    @property
    def tag(self) -> str:
        """The tag of the job in Spark. No other job of the session that runs at the same time has this tag."""
        return f"trident-latest-{id(self.tuples)}-{self.field.replace(',', '_')}"

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers_of(batches):
            latest = latest_of(self.tuples.table(number), self.field)
            yield pa.RecordBatch.from_arrays([pa.array([latest], pa.int64())], schema=LATEST)

    def table(self, reports: pa.Table) -> pa.Table:
        """Return the latest time of all reports as a table of one tuple with one field."""
        kind = arrow_schema(self.tuples.schema).field(self.field).type
        return pa.table({self.field: pa.array([pc.max(reports.column("latest")).as_py()], pa.int64()).cast(kind)})
