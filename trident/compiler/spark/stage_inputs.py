"""The inputs of a stage: rows that Spark has or reads, and sources that Python functions read on the workers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.compiler.engine import check_fields
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import names_of, with_fields
from trident.compiler.spark.union_job import Branch
from trident.compiler.spark.worker_functions import Chain
from trident.compiler.spark.worker_reports import Reports
from trident.plan.nodes import Node
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission


def _no_reader() -> None:
    """Return None: Python cannot read this input on the workers."""


def _no_frame() -> None:
    """Return None: reading the tuples in any order is not faster."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """The tuples that enter a stage at one node.

    `frame` returns the tuples as a DataFrame. `reader` returns a Python function that reads the source, so that the
    Python operations after it can run in the same worker; None if there is none. `python_only`: Spark itself cannot
    read the source. `one_partition`: Spark reads the source in one partition, and aggregates the tuples faster without
    a shuffle. `unordered` returns the tuples in any order, if that costs less, otherwise None.
    """

    frame: Callable[[], DataFrame]
    reader: Callable[[], PendingFunction | None] = _no_reader
    python_only: bool = False
    one_partition: bool = False
    unordered: Callable[[], DataFrame | None] = _no_frame
    rows: int | None = None
    """The number of tuples; None if it is not known before they are read."""

    @classmethod
    def of_frame(cls, frame: DataFrame, rows: int | None = None) -> "StageInput":
        """Return the input for an existing DataFrame."""
        return cls(lambda: frame, rows=rows)

    @classmethod
    def of_reader(cls, reader: PendingFunction, rows: int | None = None) -> "StageInput":
        """Return the input for a source that only Python can read."""
        return cls(reader.frame, lambda: reader, True, rows=rows)


def stage_input(
    node: Node, names: Sequence[str], source: Emission | pa.Table, session: SparkSession, scratch: Path
) -> StageInput:
    """Return the input of a stage at this node. `names` are the fields of the input that are read."""
    emission = ArrowEmission(source) if isinstance(source, pa.Table) else source
    emission.check_planned()
    if emission.python_only(session):
        reader = _reader(node, names, emission, session)
        if reader:
            return StageInput.of_reader(reader, emission.rows)
        return StageInput.of_frame(_rows(node, emission, session, scratch), emission.rows)
    return StageInput(
        lambda: _rows(node, emission, session, scratch),
        lambda: _reader(node, names, emission, session),
        one_partition=emission.one_partition,
        unordered=lambda: _named(node, emission.unordered(session, scratch)),
        rows=emission.rows,
    )


def _reader(node: Node, names: Sequence[str], emission: Emission, session: SparkSession) -> PendingFunction | None:
    reader = emission.reader(session, names)
    if reader is None:
        return None
    check_fields(node, reader.names)
    return PendingFunction(reader.numbers, reader.read, reader.schema)


def _rows(node: Node, emission: Emission, session: SparkSession, scratch: Path) -> DataFrame:
    frame = _named(node, emission.dataframe(session, scratch))
    assert frame is not None
    return frame


def _named(node: Node, frame: DataFrame | None) -> DataFrame | None:
    """Return a DataFrame with the fields of the node, in their order."""
    if frame is None:
        return None
    return with_fields(frame, check_fields(node, names_of(frame)))


def count_branches(step: str, source: Emission | pa.Table, session: SparkSession, reports: Reports) -> Iterator[Branch]:
    """Yield a branch for each part of a source with tuples that only the workers see.

    The branch counts the part's tuples.
    """
    if isinstance(source, pa.Table):
        return
    for number, (counter, counted) in enumerate(source.counters(session)):
        finish = partial(_sum, counted)
        chain = Chain((), counter.schema, counter.schema, counter.read)
        tail = PendingFunction(counter.numbers, chain, counter.schema)
        yield Branch.of_function(tail, finish, reports, f"counter {number} of {step}")


def _sum(counted: Callable[[int], None], table: pa.Table) -> None:
    counted(sum(table.column(0).to_pylist()))
