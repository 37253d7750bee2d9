"""The inputs of a stage: rows that Spark has or reads, and sources that a Python function reads in the workers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.errors import SourceUnreadableError
from trident.base.types import arrow_schema, select
from trident.compiler.engine import check_fields
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.pending_function import PendingFunction
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
    """Return None: there is no reader for an input that Python cannot read on the workers."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """The tuples that enter a stage at one node.

    `frame` returns the tuples as a DataFrame. `reader` returns a Python function that reads the source, so that the
    Python operations behind it can run in the same worker; None where there is none. `python_only`: Spark itself cannot
    read the source. `one_partition`: Spark reads the source in one partition.
    """

    frame: Callable[[], DataFrame]
    reader: Callable[[], PendingFunction | None] = _no_reader
    python_only: bool = False
    one_partition: bool = False

    @classmethod
    def of_frame(cls, frame: DataFrame) -> "StageInput":
        """Return the input of a DataFrame that exists."""
        return cls(lambda: frame)

    @classmethod
    def of_reader(cls, reader: PendingFunction) -> "StageInput":
        """Return the input of a source that only Python reads."""
        return cls(reader.frame, lambda: reader, True)


def stage_input(
    node: Node, names: Sequence[str], source: Emission | pa.Table, session: SparkSession, scratch: Path
) -> StageInput:
    """Return the input of a stage at this node. `names` are the fields that are read of it."""
    _check_rows(source)
    emission = ArrowEmission(source) if isinstance(source, pa.Table) else source
    if isinstance(emission, LinesEmission):
        read = emission.reader(session)
        if read is not None:
            return StageInput.of_reader(PendingFunction(*read, arrow_schema(node.schema)))
    if isinstance(emission, FilesEmission):
        files = emission
        check_fields(node, files.schema.names)
        if files.python_only:
            groups = files.python_reader(session, names)
            return StageInput.of_reader(PendingFunction(*groups, arrow_schema(select(node.schema, names))))

        def reader() -> PendingFunction | None:
            groups = files.reader(session, names)
            return None if groups is None else PendingFunction(*groups, arrow_schema(select(node.schema, names)))

        return StageInput(lambda: _rows(node, files, session, scratch), reader, one_partition=files.one)
    return StageInput.of_frame(_rows(node, emission, session, scratch))


def _rows(node: Node, emission: Emission, session: SparkSession, scratch: Path) -> DataFrame:
    frame = emission.dataframe(session, scratch)
    names = check_fields(node, frame.columns)
    return frame if frame.columns == names else frame.select(*all_quoted(names))


def count_branches(
    source: Emission | pa.Table, session: SparkSession, signal: FailureSignal | None
) -> Iterator[Branch]:
    """Yield a branch for each source whose tuples only the workers see: it counts them."""
    if isinstance(source, UnionEmission):
        for part in source.parts:
            yield from count_branches(part, session, signal)
    if not isinstance(source, LinesEmission):
        return
    lines, counter = source, source.counter(session)
    if counter is not None:
        numbers, function = counter

        def finish(table: pa.Table) -> None:
            lines.rows = sum(table.column(0).to_pylist())

        chain = Chain((), COUNTED, COUNTED, function)
        yield Branch.of_function(PendingFunction(numbers, chain, COUNTED), finish, signal)


def _check_rows(source: Emission | pa.Table) -> None:
    """Check that Parquet files still have as many rows as when the batch was planned.

    If they have, Spark reads all rows or fails, because it may not ignore damaged files. Raises SourceUnreadableError
    if they have not.
    """
    if isinstance(source, UnionEmission):
        for part in source.parts:
            _check_rows(part)
    if not isinstance(source, FilesEmission) or source.rows is None:
        return
    rows = sum(footer(path).num_rows for path in source.paths)
    if rows != source.rows:
        shown = ", ".join(source.paths[:3]) + (", ..." if len(source.paths) > 3 else "")
        raise SourceUnreadableError(
            f"{len(source.paths)} Parquet file(s) had {source.rows} rows when the batch was planned, and have {rows} "
            f"now: {shown}; a file is damaged or was replaced, and must not change after it was listed"
        )


def check_scanned(source: Emission | pa.Table) -> None:
    """Check, after Spark has read a source, that the files are still the planned ones.

    Spark opens files by their names, whenever its tasks run. Raises SourceUnreadableError if Spark may have opened
    other files.
    """
    if isinstance(source, UnionEmission):
        for part in source.parts:
            check_scanned(part)
    if isinstance(source, FilesEmission):
        for file in source.planned:
            file.check_scanned()


def is_cheap(source: Emission | pa.Table) -> bool:
    """Return whether reading a source twice costs less than keeping its tuples."""
    if isinstance(source, UnionEmission):
        return all(map(is_cheap, source.parts))
    return isinstance(source, pa.Table | ArrowEmission | FilesEmission)
