"""The emission of sources that Spark cannot read itself: a Python function reads shares of the batch in workers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, WorkerReader
from trident_spouts.rows import RowsLike, table_of
from trident_spouts.source_times import SourceSpan
from trident_spouts.spark_workers import numbers_frame, numbers_of, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ReadShare = Callable[[Any], RowsLike]
"""A picklable function that returns or yields the rows of one share. It opens the resources that it needs, and closes
them."""


@dataclass(frozen=True, slots=True)
class SharesEmission(Emission):
    """An emission of shares, such as ranges of offsets, each of which a Python worker reads by a function.

    With the Spark engine each share is a partition, the workers call `read`, and no row passes through the driver. The
    embedded engine and queries call `read` in the driver's process.

    Parameters
    ----------
    shares
        The arguments of the function: picklable values, one for each share. An emission without shares has no tuples.
    read
        A picklable function (of a module, not a lambda). It returns the rows of a share in any form that a spout
        may emit. It must return the same rows at every call, because Spark may run a task twice.
    schema
        The fields of the tuples. Every row is checked against them in the worker.
    rows
        The number of tuples of all shares, if it is known before they are read.
    where
        The beginning of the message if a row does not fit, such as "MySpout, batch 7".
    after
        The position after the batch, if the spout does not plan ahead.
    verified
        Whether `read` raises if the source no longer has the planned rows.
    source_times
        The times that the source gave the tuples, for the latency of messages.

    Examples
    --------
    >>> from trident.base.spark_types import parse_schema
    >>> emission = SharesEmission((range(0, 2), range(2, 4)), list, parse_schema("n long"))
    >>> emission.arrow().to_pylist()
    [{'n': 0}, {'n': 1}, {'n': 2}, {'n': 3}]
    """

    shares: tuple[Any, ...]
    read: ReadShare
    schema: StructType
    rows: int | None = None
    where: str = "spout"
    after: Metadata = None
    verified: bool = False
    source_times: Sequence[SourceSpan] = ()

    def arrow(self) -> pa.Table:
        """Return the tuples of all shares, read into the driver's memory."""
        tables = [self.table(number) for number in range(len(self.shares))]
        return pa.concat_tables([arrow_schema(self.schema).empty_table(), *tables])

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame with a partition for each share, which a worker reads."""
        if not self.shares:
            return ArrowEmission(self.arrow()).dataframe(spark, scratch)
        return numbers_frame(spark, len(self.shares)).mapInArrow(self._read_numbered, self.schema)

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether there is a share to read."""
        return bool(self.shares)

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return a reader of the shares for workers, with all fields; None if there are no shares."""
        if not self.shares:
            return None
        numbers, schema = numbers_frame(spark, len(self.shares)), arrow_schema(self.schema)
        return WorkerReader(numbers, self._read_numbered, schema, schema.names)

    def _read_numbered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for number in numbers_of(batches):
            yield from self.table(number).to_batches()

    def table(self, number: int) -> pa.Table:
        """Return the tuples of the share with this number."""
        share = self.shares[number]
        return table_of(self.read(share), self.schema, f"{self.where}, share {share!r:.80}")
