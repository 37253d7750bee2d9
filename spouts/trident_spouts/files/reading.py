"""Stretches of text and JSON files read where they are: on the workers, one Spark partition a share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident.base.types import arrow_schema
from trident_spouts.emission import INLINE_BYTES, PART_BYTES, ArrowEmission
from trident_spouts.executor import Metadata
from trident_spouts.files.lines import line_start, read_whole_lines
from trident_spouts.files.ranges import PlannedFile
from trident_spouts.workers import numbers_of, on_this_machine, parallelism, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LineFormat(Protocol):
    """The way in which lines become tuples. Picklable: it travels to the workers."""

    @property
    def schema(self) -> StructType: ...

    @property
    def driver_bytes(self) -> int:
        """Return up to how many bytes the driver reads sooner than a Python task on a worker has started."""
        ...

    def parse(self, data: bytes, path: str, offset: int) -> pa.Table:
        """Return the tuples of whole lines that begin at byte `offset` of the file."""
        ...

    def count(self, data: bytes, offset: int) -> int:
        """Count the tuples that `parse` would give."""
        ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one file. `start` and `end` begin lines; `first` and `last` cut anywhere between them: this stretch
    has the lines that begin at or after `first` and before `last`."""

    path: str
    start: int
    end: int
    first: int
    last: int
    planned: PlannedFile | None = None
    """The file that the path must lead to; None where nobody planned it."""


def shares(stretches: Sequence[Stretch], count: int) -> list[list[Stretch]]:
    """Cut the stretches into at most `count` shares of about equal bytes, in order."""
    total = sum(stretch.last - stretch.first for stretch in stretches)
    size = max(1, -(-total // count))
    found: list[list[Stretch]] = [[]]
    room = size
    for stretch in stretches:
        first = stretch.first
        while first < stretch.last:
            if not room:
                found.append([])
                room = size
            last = min(stretch.last, first + room)
            found[-1].append(replace(stretch, first=first, last=last))
            room -= last - first
            first = last
    return found


def read_stretch(stretch: Stretch, form: LineFormat) -> Iterator[pa.Table]:
    """Read the stretch's tuples, a few megabytes at a time."""
    for offset, data in _lines_of(stretch):
        yield form.parse(data, stretch.path, offset)


def _lines_of(stretch: Stretch) -> Iterator[tuple[int, bytes]]:
    """Read the stretch's bytes in chunks of whole lines, each with the byte of the file where it begins."""
    try:
        with open(stretch.path, "rb") as file:
            if stretch.planned is not None:
                stretch.planned.check_opened(file)
            first, last = (
                edge if edge in (stretch.start, stretch.end) else line_start(file, edge, stretch.end)
                for edge in (stretch.first, stretch.last)
            )
            yield from read_whole_lines(file, first, last)
            if stretch.planned is not None:  # written anew in its place meanwhile
                stretch.planned.check_opened(file)
    except EOFError as error:
        raise SpoutContractError(
            f"FileSpout: {stretch.path} ends at byte {error}, the batch was planned to byte {stretch.end}; "
            f"a file must not change after it was listed, only grow"
        ) from None
    except SourceUnreadableError:
        raise
    except OSError as error:
        raise SourceUnreadableError(f"FileSpout: cannot read {stretch.path}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class ShareReader:
    """The function that a worker runs. A row of its input is the number of a share."""

    shares: tuple[tuple[Stretch, ...], ...]
    form: LineFormat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tuples of the shares whose numbers come."""
        settle()
        for number in numbers_of(batches):
            for stretch in self.shares[number]:
                for table in read_stretch(stretch, self.form):
                    yield from table.to_batches()


COUNTED = pa.schema([pa.field("rows", pa.int64())])


@dataclass(frozen=True, slots=True)
class ShareCounter:
    """The function by which a worker counts the tuples that the reader gives. It counts lines, which is far cheaper."""

    shares: tuple[tuple[Stretch, ...], ...]
    form: LineFormat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row with the count of each stretch of the shares whose numbers come."""
        for number in numbers_of(batches):
            for stretch in self.shares[number]:
                counted = sum(self.form.count(data, offset) for offset, data in _lines_of(stretch))
                yield pa.record_batch([pa.array([counted])], schema=COUNTED)


@dataclass(slots=True)
class LinesEmission:
    """Stretches of text files, read by the workers. `rows` is known once somebody has counted them."""

    stretches: tuple[Stretch, ...]
    form: LineFormat
    after: Metadata = None
    digest: None = None
    rows: int | None = field(default=None, init=False, compare=False)

    def arrow(self) -> pa.Table:
        """Return the tuples in the driver's memory."""
        tables = [table for stretch in self.stretches for table in read_stretch(stretch, self.form)]
        found = pa.concat_tables([arrow_schema(self.form.schema).empty_table(), *tables])
        self.rows = int(found.num_rows)
        return found

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame that the workers read in as many partitions as there are cores, or megabytes. What is
        small is read here."""
        read = self.reader(spark)
        if read is None:
            return ArrowEmission(self.arrow()).dataframe(spark, scratch)
        numbers, reader = read
        return numbers.mapInArrow(reader, self.form.schema)

    def reader(self, spark: "SparkSession") -> "tuple[DataFrame, ShareReader] | None":
        """Return the partitions that the workers read and the function that reads them. What follows can run behind it
        in the same worker. None where the driver reads sooner."""
        cut = self._cut(spark)
        return None if cut is None else (_numbers(spark, cut), ShareReader(cut, self.form))

    def counter(self, spark: "SparkSession") -> "tuple[DataFrame, ShareCounter] | None":
        """Return the same partitions and the function that only counts their tuples; None where `rows` says it, or
        will."""
        cut = self._cut(spark) if self.rows is None else None
        return None if cut is None else (_numbers(spark, cut), ShareCounter(cut, self.form))

    def _cut(self, spark: "SparkSession") -> tuple[tuple[Stretch, ...], ...] | None:
        total = sum(stretch.last - stretch.first for stretch in self.stretches)
        if total <= (self.form.driver_bytes if on_this_machine(spark) else INLINE_BYTES):
            return None
        count = max(1, min(-(-total // PART_BYTES), parallelism(spark)))
        return tuple(tuple(share) for share in shares(self.stretches, count))


def _numbers(spark: "SparkSession", cut: Sequence[object]) -> "DataFrame":
    """Return a DataFrame with a row, and a partition, for each share."""
    return spark.range(0, len(cut), 1, len(cut))
