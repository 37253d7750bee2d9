"""Two kinds of emissions, the tuples that a spout emits for an attempt: a table in memory, and a union of emissions."""

import functools
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema, spark_schema
from trident_spouts.digests import digest_of
from trident_spouts.driver_rows import rows_in_plan
from trident_spouts.executor import Emission, Metadata, WorkerReader
from trident_spouts.source_times import SourceSpan
from trident_spouts.spark_workers import on_this_machine, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES_IN_PLAN = 512 << 10
"""The largest table that is sent inside Spark's plan. A larger table is written as Parquet files: for 1M short strings
that takes 0.03 s instead of 1 s."""

PART_BYTES = 1 << 20
"""The least number of bytes that justifies one more Spark partition, and so one more Python task."""

_GLOB_SIGNS = re.compile(r"([\\{}\[\]*?])")


def spark_path(path: str) -> str:
    r"""Return a local path in a form that Spark takes literally: a URL of the local disk without globs.

    >>> spark_path("/data/a[1].txt")
    'file:///data/a\\[1\\].txt'
    """
    return "file://" + _GLOB_SIGNS.sub(r"\\\1", path)


def scan_in_order(spark: "SparkSession", paths: Sequence[str], schema: StructType) -> "DataFrame":
    """Return a DataFrame of the rows of Parquet files, in the order of `paths`, each from `spark_path`.

    One scan of several files would give the largest file first: Spark sorts the files, and parts of files, by their
    lengths. A union keeps the order of its scans. A scan of one file keeps the order of its rows, because all its parts
    have the same length, except the last one, which may be shorter.
    """
    scans = [spark.read.schema(schema).parquet(path) for path in paths]
    return functools.reduce(lambda left, right: left.unionAll(right), scans)


@dataclass(frozen=True, slots=True)
class ArrowEmission(Emission):
    """An emission that is a table in the driver's memory.

    >>> ArrowEmission(pa.table({"n": [1, 2]})).rows
    2
    """

    table: pa.Table
    after: Metadata = None
    source_times: Sequence[SourceSpan] = ()
    cheap = True

    @property
    def rows(self) -> int:
        """Return the number of tuples."""
        return int(self.table.num_rows)

    @property
    def bytes(self) -> int:
        """Return the number of bytes of the table in memory."""
        return int(self.table.nbytes)

    @property
    def digest(self) -> str:
        """Return the digest of the table: its number of rows and a checksum."""
        return digest_of(self.table)

    def arrow(self) -> pa.Table:
        """Return the table itself."""
        return self.table

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame of the table.

        A small table is sent inside Spark's plan. A larger table is sent there, too, if the workers run on other
        machines and do not see the folder `scratch`, or if Parquet cannot hold one of its types. Otherwise the table is
        written to `scratch`, and the workers read it from there.
        """
        schema = spark_schema(self.table.schema)
        if self._in_plan(spark):
            # In one chunk: Spark stops reading at the first chunk without rows, and would lose the chunks after it.
            return rows_in_plan(spark, self.table.combine_chunks(), schema)
        return scan_in_order(spark, self._write(scratch.absolute(), parallelism(spark)), schema)

    def unordered(self, spark: "SparkSession", scratch: Path) -> "DataFrame | None":
        """Return one scan of the written files; None if the table is sent inside the plan."""
        if self._in_plan(spark):
            return None
        paths = self._write(scratch.absolute(), parallelism(spark))
        return spark.read.schema(spark_schema(self.table.schema)).parquet(*paths)

    def _in_plan(self, spark: "SparkSession") -> bool:
        small = self.table.nbytes <= MOST_BYTES_IN_PLAN
        return small or not all(map(_fits_parquet, self.table.schema.types)) or not on_this_machine(spark)

    def _write(self, folder: Path, most: int) -> list[str]:
        """Write the table as up to `most` Parquet files, and return their paths.

        Several files are written because Spark reads a small file in one partition.
        """
        name = uuid.uuid4().hex
        rows = -(-self.table.num_rows // max(1, min(most, self.table.nbytes // PART_BYTES)))
        paths = []
        for start in range(0, self.table.num_rows, rows):
            path = str(folder / f"emission-{name}-{start}.parquet")
            pq.write_table(self.table.slice(start, rows), path, compression="lz4", store_schema=False)
            paths.append(spark_path(path))
        return paths


def _fits_parquet(kind: pa.DataType) -> bool:
    """Return whether Parquet files can hold a type. They cannot hold nulls without a type, and durations."""
    children = (kind.field(at).type for at in range(kind.num_fields))
    return not (pa.types.is_null(kind) or pa.types.is_duration(kind)) and all(map(_fits_parquet, children))


@dataclass(frozen=True, slots=True)
class UnionEmission(Emission):
    """An emission that consists of several emissions with the same fields, one after the other."""

    parts: tuple[Emission, ...]
    after: Metadata = None

    @property
    def rows(self) -> int | None:
        """Return the number of tuples; None if it is not known for every part."""
        return _sum([part.rows for part in self.parts])

    @property
    def most_rows(self) -> int | None:
        """Return the largest possible number of tuples; None if there is a part without a bound."""
        return _sum([part.most_rows for part in self.parts])

    @property
    def bytes(self) -> int | None:
        """Return the number of bytes of all parts; None if it is not known for every part."""
        return _sum([part.bytes for part in self.parts])

    def arrow(self) -> pa.Table:
        """Return the tuples of all parts as one table, in the order of the parts."""
        return pa.concat_tables([part.arrow() for part in self.parts])

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return the union of the parts' DataFrames."""
        return functools.reduce(
            lambda left, right: left.unionAll(right), [part.dataframe(spark, scratch) for part in self.parts]
        )

    def unordered(self, spark: "SparkSession", scratch: Path) -> "DataFrame | None":
        """Return the union of the parts' DataFrames, each in any order of its tuples."""
        frames = [part.unordered(spark, scratch) or part.dataframe(spark, scratch) for part in self.parts]
        return functools.reduce(lambda left, right: left.unionAll(right), frames)

    @property
    def verified(self) -> bool:
        """Return whether every part is verified, as a table in memory is."""
        return all(part.verified or part.digest is not None for part in self.parts)

    @property
    def source_times(self) -> Sequence[SourceSpan]:
        """Return the times of all parts' tuples, as far as they are known."""
        return [span for part in self.parts for span in part.source_times]

    @property
    def cheap(self) -> bool:
        """Return whether reading each part twice costs less than keeping it."""
        return all(part.cheap for part in self.parts)

    def counters(self, spark: "SparkSession") -> Sequence[tuple[WorkerReader, Callable[[int], None]]]:
        """Return the counters of all parts."""
        return [counter for part in self.parts for counter in part.counters(spark)]

    def check_planned(self) -> None:
        """Raise SourceUnreadableError if the source of a part no longer has the planned content."""
        for part in self.parts:
            part.check_planned()

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError if the content that Spark has read may differ from the plan."""
        for part in self.parts:
            part.check_scanned()


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def one_emission(parts: Sequence[Emission], schema: StructType, after: Metadata = None) -> Emission:
    """Return one emission with the tuples of all parts. Tables in memory become one table; other parts stay separate.

    >>> one_emission([], spark_schema(pa.schema([("n", pa.int64())]))).rows
    0
    """
    held = [part for part in parts if isinstance(part, ArrowEmission) and part.rows]
    tables, times = [part.table for part in held], [span for part in held for span in part.source_times]
    others = [part for part in parts if not isinstance(part, ArrowEmission)]
    table = pa.concat_tables([arrow_schema(schema).empty_table(), *tables]).combine_chunks()
    if not others:
        return ArrowEmission(table, after, times)
    return UnionEmission((*others, ArrowEmission(table, source_times=times)) if tables else tuple(others), after)
