"""Parts of frozen files for tasks, which put the rows into a state or read them as inputs of a later stage."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.compiler.states.queries import Question, Reads, compile_question
from trident.files.store import FileStore
from trident.frozen.files import read_frozen
from trident.frozen.results import FrozenFiles
from trident_spouts.shared_reading import SharesEmission
from trident_state.store import SharedSnapshot

PART_ROWS = 1 << 18
"""The most rows of a part. A worker holds them in memory in several forms at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file, for one task: the number of the file, the first row, and the number of rows."""

    file: int
    start: int
    rows: int


def parts_of(frozen: FrozenFiles) -> tuple[Part, ...]:
    """Divide the files into parts, so that a batch occupies several workers even if Spark wrote one file.

    >>> from trident.frozen.results import FrozenFile
    >>> parts_of(FrozenFiles("", (FrozenFile("a", 1, PART_ROWS + 1, 0),), pa.schema([])))
    (Part(file=0, start=0, rows=262144), Part(file=0, start=262144, rows=1))
    """
    return tuple(
        Part(number, start, min(PART_ROWS, file.rows - start))
        for number, file in enumerate(frozen.files)
        for start in range(0, file.rows, PART_ROWS)
    )


@dataclass(frozen=True, slots=True)
class ReadPart:
    """The function by which a worker reads a part of a frozen file. `frozen.folder` is relative to `files`."""

    files: FileStore
    frozen: FrozenFiles

    def __call__(self, part: Part) -> pa.Table:
        """Return the rows of a part. Raises LogCorruptError if the part's file is missing or damaged."""
        one = FrozenFiles(self.frozen.folder, (self.frozen.files[part.file],), self.frozen.schema)
        (table,) = read_frozen(self.files, one)
        return table.slice(part.start, part.rows)


@dataclass(frozen=True, slots=True)
class AskPart:
    """The function by which a worker reads a part and queries a state for the part's rows."""

    read: ReadPart
    question: Question
    snapshot: SharedSnapshot

    def __call__(self, part: Part) -> pa.Table:
        """Return the rows of a part with their answers. Raises the errors of the question and of the state."""
        reads = Reads(lambda state, keys: self.snapshot.read(keys), self._scan)
        return compile_question(self.question)(self.read(part), reads)

    def _scan(self, state: object) -> Iterator[pa.Table]:
        return self.snapshot.scan()


def carried(files: FileStore, frozen: FrozenFiles, schema: StructType, where: str) -> SharesEmission:
    """Return the rows of frozen files as the input of a later stage, which the workers read."""
    return SharesEmission(parts_of(frozen), ReadPart(files, frozen), schema, frozen.num_rows, where)


def files_of(tuples: object) -> FrozenFiles | None:
    """Return the frozen files from which `carried` made this emission; None for any other tuples."""
    return tuples.read.frozen if isinstance(tuples, SharesEmission) and isinstance(tuples.read, ReadPart) else None


def answered(
    files: FileStore, frozen: FrozenFiles, question: Question, snapshot: SharedSnapshot, schema: StructType
) -> SharesEmission:
    """Return the rows of frozen files, each with its answer from a state. The workers query the state."""
    read = AskPart(ReadPart(files, frozen), question.detached(), snapshot)
    return SharesEmission(parts_of(frozen), read, schema, None, question.step)
