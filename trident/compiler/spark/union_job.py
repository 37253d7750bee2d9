"""Several results of one stage from one Spark job. Its rows carry the number of the branch that they belong to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from trident.base.spark_types import spark_schema, type_ddl
from trident.compiler.spark.joins import union
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import selected
from trident.compiler.spark.sql_names import quoted
from trident.compiler.spark.worker_functions import REPORT
from trident.compiler.spark.worker_reports import Reports, tuples_of

_TAG = "branch"

Finish = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True)
class Receiver:
    """The driver's end of a branch: `finish`, which the driver calls on the rows. They have the columns of `schema`."""

    schema: StructType
    finish: Finish


@dataclass(frozen=True, slots=True)
class Branch(Receiver):
    """One result of a job: a DataFrame with the columns of `schema`, in their order, and its receiver."""

    frame: DataFrame

    @classmethod
    def of_function(cls, tail: PendingFunction, finish: Finish, reports: Reports, name: str) -> "Branch":
        """Return the branch of a Python function whose rows only the driver reads, so they may include reports.

        If `reports` has a failure signal, a failure becomes a report; otherwise the function raises, because the driver
        would notice the failure only when the slowest task has ended. `name` is the name of the edge to the driver in
        the ledger, different for each branch.
        """
        if reports.signal is None and not tail.catches and reports.ledger is None:
            return cls(spark_schema(tail.leaving), finish, tail.frame())
        edge = reports.sink(name)
        reports.entering(tail.root)
        reporting = tail.reporting(reports.signal, edge)

        def read_and_finish(rows: pa.Table) -> None:
            reports.read(rows)
            finish(reports.arrived(edge, tuples_of(rows)))

        return cls(spark_schema(reporting.leaving), read_and_finish, reporting.frame())

    @classmethod
    def of_reports(cls, frames: Sequence[DataFrame], reports: Reports) -> "Branch":
        """Return the branch for frames whose rows are all reports."""
        return cls(_REPORTS, reports.read, union(frames))


_REPORTS = StructType([StructField(REPORT, StringType())])


def joined(branches: Sequence[Branch]) -> tuple[DataFrame, StructType]:
    """Return the rows of all branches, at least one, as one frame, with the frame's schema."""
    if len(branches) == 1:
        return branches[0].frame, branches[0].schema
    fields, offsets = [field for branch in branches for field in branch.schema.fields], _offsets(branches)
    tagged = [_tagged(branch, number, offsets[number], fields) for number, branch in enumerate(branches)]
    columns = [StructField(f"c{at}", field.dataType) for at, field in enumerate(fields, 1)]
    return union(tagged), StructType([StructField(_TAG, IntegerType()), *columns])


def receive(receivers: Sequence[Receiver], all_rows: pa.Table) -> None:
    """Call `finish` of each receiver with its rows. `all_rows` are those of the frame of `joined`."""
    if len(receivers) == 1:
        receivers[0].finish(all_rows)
        return
    tags = all_rows.column(0)
    for number, (receiver, offset) in enumerate(zip(receivers, _offsets(receivers), strict=True)):
        own_columns = range(offset, offset + len(receiver.schema.fields))
        rows = all_rows.select(list(own_columns)).filter(pc.equal(tags, number))
        receiver.finish(rows.rename_columns(receiver.schema.names))


def _offsets(receivers: Sequence[Receiver]) -> list[int]:
    """Return the number of the first column of each receiver among the columns of all of them."""
    widths = [len(receiver.schema.fields) for receiver in receivers]
    return [1 + sum(widths[:at]) for at in range(len(widths))]


def _tagged(branch: Branch, number: int, offset: int, fields: Sequence[StructField]) -> DataFrame:
    """Return a branch's rows in the columns of all branches: its values from column `offset` on, nulls elsewhere."""
    own = {offset + at: field.name for at, field in enumerate(branch.schema.fields)}
    items = [f"{number} AS {_TAG}"]
    for at, field in enumerate(fields, 1):
        what = quoted(own[at]) if at in own else f"CAST(NULL AS {type_ddl(field.dataType)})"
        items.append(f"{what} AS c{at}")
    return selected(branch.frame, items)
