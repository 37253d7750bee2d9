"""The emission of a table's data files. Spark's workers read them, or the driver does on the embedded engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, WorkerReader
from trident_spouts.spark_workers import numbers_frame, parallelism
from trident_spouts.tables.data_files import DataFile, Part, ShareReader, Storage, read_part, shares

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, eq=False)
class DataFilesEmission(Emission):
    """The rows of data files, in their order."""

    verified = True

    files: tuple[DataFile, ...]
    storage: Storage
    schema: StructType
    cheap = True

    @property
    def rows(self) -> int | None:
        """Return the number of rows; None if the table's log does not have the number for every file."""
        rows = [file.rows for file in self.files if file.rows is not None]
        return sum(rows) if len(rows) == len(self.files) else None

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.size for file in self.files)

    def arrow(self) -> pa.Table:
        """Return the rows, read into the driver's memory."""
        batches = (batch for file in self.files for batch in read_part(Part(file), self.storage, self.schema))
        return pa.Table.from_batches(batches, arrow_schema(self.schema))

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame of the rows, which the workers read. No row passes through the driver."""
        read = self.reader(spark, self.schema.names)
        if read is None:
            return ArrowEmission(self.arrow()).dataframe(spark, scratch)
        return read.numbers.mapInArrow(read.read, self.schema)

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether there is a file to read."""
        return bool(self.files)

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return a reader of the named fields for workers; None if there are no files."""
        if not self.files:
            return None
        cut = shares(self.files, parallelism(spark))
        fields = StructType([field for field in self.schema.fields if field.name in names])
        read = ShareReader(cut, self.storage, fields)
        return WorkerReader(numbers_frame(spark, len(cut)), read, arrow_schema(fields), self.schema.names)
