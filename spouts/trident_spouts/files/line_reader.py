"""Reading of text and JSON files in Spark's workers: each Spark partition reads a share of line ranges."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import MalformedInputError, SourceUnreadableError, SpoutContractError, SpoutError
from trident.base.spark_types import arrow_schema
from trident_spouts.emission import MOST_BYTES_IN_PLAN, PART_BYTES, ArrowEmission
from trident_spouts.executor import Emission, Metadata, WorkerReader
from trident_spouts.files.compression import is_compressed, unpacked
from trident_spouts.files.file_ranges import FileRef, opening_bytes, unreadable_error
from trident_spouts.files.lines import (
    BOM,
    LONGEST_LINE,
    LineTooLongError,
    all_lines,
    first_of,
    line_start,
    lines_before,
    read_whole_lines,
)
from trident_spouts.files.read_ahead import read_in_order
from trident_spouts.source_times import SourceSpan, divided
from trident_spouts.spark_workers import numbers_frame, numbers_of, on_this_machine, parallelism, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_UNPACKED = 8
"""The approximate number of bytes to which a compressed byte unpacks."""


class LineFormat(Protocol):
    """A file format that converts lines to tuples. It is picklable, because it is sent to workers."""

    @property
    def schema(self) -> StructType: ...

    @property
    def driver_bytes(self) -> int:
        """Return the most bytes that the driver can read in the time that a Python task needs to start on a worker."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether a file must be read at once."""
        ...

    @property
    def longest(self) -> int | None:
        """Return the most bytes of a file that is read at once; None if there is no limit."""
        ...

    @property
    def head_lines(self) -> int:
        """Return how many lines at the beginning of a file `bind` needs."""
        ...

    def bind(self, head: Callable[[], bytes], path: object) -> "LineFormat":
        """Return the format of one file.

        `head` returns the beginning of its content: at least `head_lines` lines, or all lines up to the end of the line
        range if there are fewer.
        """
        ...

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Parse `data`, whole lines of the file `path`, and return their tuples.

        `offset` is the byte of the file at which `data` begins. At 0, a header or byte order mark is skipped. Errors
        use `offset` to find line numbers.
        """
        ...

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of tuples that `parse` would return."""
        ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """The lines of one file that begin at or after byte `first` and before byte `last`.

    Lines begin at `start` and `end`, the bounds of the planned range. `first` and `last` may be anywhere between these
    two, so that shares can be cut without reading the file.
    """

    path: FileRef
    """The planned file, or a path on the local disk, which is read without a check."""
    start: int
    end: int
    first: int
    last: int
    whole: bool = False
    """True if the file is read as a whole, and unpacked if it is compressed. It is never cut."""
    name: str = ""
    """The name that the file had in the plan, whose suffix shows its compression; the file may have a new name now."""

    @property
    def weight(self) -> int:
        """Return the approximate bytes of the lines, plus the bytes that could be read in the time to open the file."""
        size = (self.last - self.first) * (_UNPACKED if self.whole and is_compressed(self.name) else 1)
        return size + (opening_bytes(self.path) if self.first == self.start else 0)


def shares(stretches: Sequence[Stretch], count: int) -> list[list[Stretch]]:
    """Divide line ranges, in order, into at most `count` shares of about equal size."""
    total = sum(stretch.weight for stretch in stretches)
    size = max(1, -(-total // count))
    cut: list[list[Stretch]] = [[]]
    room = size
    for stretch in stretches:
        first = stretch.first
        while first < stretch.last:
            if not room:
                cut.append([])
                room = size
            last = stretch.last if stretch.whole else min(stretch.last, first + room)
            cut[-1].append(replace(stretch, first=first, last=last))
            room = max(0, room - replace(stretch, first=first, last=last).weight)
            first = last
    return cut


def read_stretch(stretch: Stretch, line_format: LineFormat) -> Iterator[pa.Table]:
    """Yield the tuples of a line range in tables, each from a few megabytes of lines."""
    for form, offset, data in _lines_of(stretch, line_format):
        yield form.parse(data, stretch.path, offset)


def first_lines(stretch: Stretch, most: int) -> list[bytes]:
    """Return the whole lines among the first `most` bytes of a line range; none if the file cannot be read or unpacked.

    The later read of the line range raises the error for such a file.
    """
    with (
        suppress(OSError, SpoutError),
        open(stretch.path, "rb") if isinstance(stretch.path, str) else stretch.path.open() as file,
    ):
        content = unpacked(file, stretch.name) if stretch.whole else file
        if not stretch.whole:
            file.seek(stretch.start)
        data = content.read(min(most, stretch.end - stretch.start) if not stretch.whole else most)
        lines = data.removeprefix(BOM).split(b"\n")
        return lines[:-1] or lines
    return []


def read_stretches(stretches: Sequence[Stretch], line_format: LineFormat) -> Iterator[pa.Table]:
    """Yield the tuples of line ranges, in order, in tables."""
    return read_in_order(stretches, partial(read_stretch, line_format=line_format), _worth)


def _worth(stretch: Stretch) -> int:
    return stretch.weight if opening_bytes(stretch.path) else 0


def _lines_of(stretch: Stretch, line_format: LineFormat) -> Iterator[tuple[LineFormat, int, bytes]]:
    """Yield a line range in chunks of whole lines: (format of the file, offset of the chunk, bytes).

    Raises SourceUnreadableError if the file cannot be read or is not the planned file, SpoutContractError if it ends
    too early, MalformedInputError for a line that is too long.
    """
    try:
        with _opened(stretch.path) as file:
            form: LineFormat | None = None
            for offset, data in _chunks(stretch, file, line_format):
                if form is None:
                    head = partial(_head, file, offset, data, line_format.head_lines, stretch.end)
                    form = line_format.bind(head, stretch.path)
                yield form, offset, data
    except LineTooLongError as error:
        raise MalformedInputError(
            f"{stretch.path}:{lines_before(stretch.path, error.offset) + 1}: a line is read at once and has at most "
            f"{LONGEST_LINE:,} bytes, but this one (from byte {error.offset}) has more: end each line with \\n, or "
            f"divide the line"
        ) from None
    except EOFError as error:
        raise SpoutContractError(
            f"FileSpout: {stretch.path} ends at byte {error}, but the batch was planned to byte {stretch.end}; after a "
            f"file was listed it may only grow"
        ) from None
    except SourceUnreadableError:
        raise
    except OSError as error:
        raise unreadable_error(str(stretch.path), error) from error


@contextmanager
def _opened(path: FileRef) -> Iterator[BinaryIO]:
    """Open a file. A planned file is checked now, and again at the end, because it may be rewritten meanwhile."""
    if isinstance(path, str):
        with open(path, "rb") as file:
            yield file
        return
    with path.open() as planned:
        before = path.check_same_file(planned)
        yield planned
        path.check_same_file(planned, before)


def _chunks(stretch: Stretch, file: BinaryIO, line_format: LineFormat) -> Iterator[tuple[int, bytes]]:
    if stretch.whole:
        file.seek(0)
        return all_lines(unpacked(file, stretch.name), line_format.whole, line_format.head_lines, line_format.longest)
    first, last = (
        edge if edge in (stretch.start, stretch.end) else line_start(file, edge, stretch.end)
        for edge in (stretch.first, stretch.last)
    )
    return read_whole_lines(file, first, last, line_format.head_lines)


def _head(file: BinaryIO, offset: int, data: bytes, lines: int, end: int) -> bytes:
    """Return the first `lines` lines of a file, but nothing after byte `end`, where a writer may be writing.

    `data` is the chunk at `offset`, just read; later reads continue after that chunk.
    """
    if not offset:
        return data
    at = file.tell()
    head = first_of(file, lines)[:end]
    file.seek(at)
    return head


@dataclass(frozen=True, slots=True)
class ShareReader:
    """The function by which a worker reads shares of line ranges. Each row of its input is the number of a share."""

    shares: tuple[tuple[Stretch, ...], ...]
    line_format: LineFormat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of the shares that `batches` numbers."""
        settle()
        for number in numbers_of(batches):
            for table in read_stretches(self.shares[number], self.line_format):
                yield from table.to_batches()


COUNTED = pa.schema([pa.field("rows", pa.int64())])


@dataclass(frozen=True, slots=True)
class ShareCounter:
    """The function by which a worker counts the tuples of shares, which is far cheaper than parsing their lines."""

    shares: tuple[tuple[Stretch, ...], ...]
    line_format: LineFormat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield, for each line range of the shares that `batches` numbers, a row with its number of tuples."""
        for number in numbers_of(batches):
            for counted in read_in_order(self.shares[number], self._count, _worth):
                yield pa.record_batch([pa.array([counted])], schema=COUNTED)

    def _count(self, stretch: Stretch) -> Iterator[int]:
        yield sum(form.count(data, at) for form, at, data in _lines_of(stretch, self.line_format))


@dataclass(slots=True)
class LinesEmission(Emission):
    """An emission of line ranges of text or JSON files, which the workers read.

    `rows` is None until the tuples have been read or counted.
    """

    verified = True

    stretches: tuple[Stretch, ...]
    line_format: LineFormat
    after: Metadata = None
    rows: int | None = field(default=None, init=False, compare=False)

    @property
    def bytes(self) -> int:
        """Return the number of bytes of all line ranges on disk."""
        return sum(stretch.last - stretch.first for stretch in self.stretches)

    @property
    def source_times(self) -> Sequence[SourceSpan]:
        """Return when the files changed, as spans of tuples: each file has a share of the tuples by its bytes.

        Call it once the tuples are counted.
        """
        planned = [(each.path, each.last - each.first) for each in self.stretches]
        return divided([(path.changed, size) for path, size in planned if not isinstance(path, str)], self.rows)

    def arrow(self) -> pa.Table:
        """Return the tuples of all line ranges, read into the driver's memory."""
        tables = read_stretches(self.stretches, self.line_format)
        table = pa.concat_tables([arrow_schema(self.line_format.schema).empty_table(), *tables])
        self.rows = int(table.num_rows)
        return table

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame of the tuples, which the workers read in one partition per core, or one per megabyte.

        The smaller number of partitions applies. If the line ranges are small, the driver reads them.
        """
        read = self.reader(spark, self.line_format.schema.names)
        if read is None:
            return ArrowEmission(self.arrow()).dataframe(spark, scratch)
        return read.numbers.mapInArrow(read.read, self.line_format.schema)

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether the workers read the lines. If there are few lines, the driver is faster."""
        return self._cut(spark) is not None

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return a reader of the lines for workers, with all fields; None if the driver can read them sooner."""
        cut = self._cut(spark)
        if cut is None:
            return None
        read, schema = ShareReader(cut, self.line_format), arrow_schema(self.line_format.schema)
        return WorkerReader(numbers_frame(spark, len(cut)), read, schema, schema.names)

    def counters(self, spark: "SparkSession") -> Sequence[tuple[WorkerReader, Callable[[int], None]]]:
        """Return the readers by which workers count the tuples of the lines; empty if they are counted."""
        cut = self._cut(spark) if self.rows is None else None
        if cut is None:
            return ()
        count = ShareCounter(cut, self.line_format)
        return [(WorkerReader(numbers_frame(spark, len(cut)), count, COUNTED, COUNTED.names), self._counted)]

    def _counted(self, rows: int) -> None:
        self.rows = rows

    def _cut(self, spark: "SparkSession") -> tuple[tuple[Stretch, ...], ...] | None:
        total = sum(stretch.weight for stretch in self.stretches)
        if total <= (self.line_format.driver_bytes if on_this_machine(spark) else MOST_BYTES_IN_PLAN):
            return None
        count = max(1, min(-(-total // PART_BYTES), parallelism(spark)))
        return tuple(tuple(share) for share in shares(self.stretches, count))
