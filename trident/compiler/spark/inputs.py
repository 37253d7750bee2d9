"""What a stage starts from: rows that Spark has or reads, and sources that a Python function reads in the workers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.errors import SourceUnreadableError
from trident.base.types import arrow_schema, select
from trident.compiler.engine import check_fields
from trident.compiler.spark.failure_signal import Bell
from trident.compiler.spark.pending_function import Tail
from trident.compiler.spark.sql_names import all_quoted
from trident.compiler.spark.union_job import Branch
from trident.compiler.spark.worker_functions import Chain
from trident.plan.nodes import Node
from trident_spouts.emission import ArrowEmission, UnionEmission
from trident_spouts.executor import Emission
from trident_spouts.files.parquet import FilesEmission
from trident_spouts.files.parquet_reader import footer
from trident_spouts.files.reading import COUNTED, LinesEmission


def _no_reader() -> None:
    """What Python cannot read where it runs."""


@dataclass(frozen=True, slots=True)
class Start:
    """What enters a stage at one node. With a `reader`, Python operations that follow read it where they run; `only`
    says that Spark itself does not. `one` says that Spark reads it in one partition."""

    frame: Callable[[], DataFrame]
    reader: Callable[[], Tail | None] = _no_reader
    only: bool = False
    one: bool = False

    @classmethod
    def made(cls, frame: DataFrame) -> "Start":
        """Rows of a DataFrame that is there."""
        return cls(lambda: frame)

    @classmethod
    def read(cls, reader: Tail) -> "Start":
        """What only Python reads."""
        return cls(reader.frame, lambda: reader, True)


def start_of(
    node: Node, names: Sequence[str], given: Emission | pa.Table, session: SparkSession, scratch: Path
) -> Start:
    """What enters the stage at this node, of which these fields are read."""
    _check_rows(given)
    emission = ArrowEmission(given) if isinstance(given, pa.Table) else given
    if isinstance(emission, LinesEmission):
        read = emission.reader(session)
        if read is not None:
            return Start.read(Tail(*read, arrow_schema(node.schema)))
    if isinstance(emission, FilesEmission):
        files = emission
        check_fields(node, files.schema.names)

        def reader() -> Tail | None:
            groups = files.reader(session, names)
            return None if groups is None else Tail(*groups, arrow_schema(select(node.schema, names)))

        return Start(lambda: _rows(node, files, session, scratch), reader, one=files.one)
    return Start.made(_rows(node, emission, session, scratch))


def _rows(node: Node, emission: Emission, session: SparkSession, scratch: Path) -> DataFrame:
    frame = emission.dataframe(session, scratch)
    names = check_fields(node, frame.columns)
    return frame if frame.columns == names else frame.select(*all_quoted(names))


def counting(given: Emission | pa.Table, session: SparkSession, bell: Bell | None) -> Iterator[Branch]:
    """What counts the tuples that only the workers see."""
    if isinstance(given, UnionEmission):
        for part in given.parts:
            yield from counting(part, session, bell)
    if not isinstance(given, LinesEmission):
        return
    lines, counter = given, given.counter(session)
    if counter is not None:
        numbers, function = counter

        def finish(table: pa.Table) -> None:
            lines.rows = sum(table.column(0).to_pylist())

        chain = Chain((), COUNTED, COUNTED, function)
        yield Branch.telling(Tail(numbers, chain, COUNTED), finish, bell)


def _check_rows(given: Emission | pa.Table) -> None:
    """Refuse Parquet files that no longer have the rows that the batch was planned with. Spark then reads all of them
    or fails, because it is not allowed to ignore what is damaged. Raises SourceUnreadableError."""
    if isinstance(given, UnionEmission):
        for part in given.parts:
            _check_rows(part)
    if not isinstance(given, FilesEmission) or given.rows is None:
        return
    rows = sum(footer(path).num_rows for path in given.paths)
    if rows != given.rows:
        shown = ", ".join(given.paths[:3]) + (", ..." if len(given.paths) > 3 else "")
        raise SourceUnreadableError(
            f"{len(given.paths)} Parquet file(s) had {given.rows} rows when the batch was planned, and have {rows} "
            f"now: {shown}; a file is damaged or was replaced, and must not change after it was listed"
        )


def check_scanned(given: Emission | pa.Table) -> None:
    """Refuse what was read where Spark may have opened other files than the planned ones: Spark opens them by their
    names, whenever its tasks run. Raises SourceUnreadableError."""
    if isinstance(given, UnionEmission):
        for part in given.parts:
            check_scanned(part)
    if isinstance(given, FilesEmission):
        for file in given.planned:
            file.check_scanned()


def cheap(given: Emission | pa.Table) -> bool:
    """Whether reading it twice costs less than keeping it."""
    if isinstance(given, UnionEmission):
        return all(map(cheap, given.parts))
    return isinstance(given, pa.Table | ArrowEmission | FilesEmission)
