"""Several results of one stage from one Spark job. Its rows carry the number of the branch that they belong to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from trident.base.types import spark_schema, type_ddl
from trident.compiler.spark.joins import union
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import selected, to_arrow
from trident.compiler.spark.reports import Reports, tuples_of
from trident.compiler.spark.sql_names import quoted
from trident.compiler.spark.worker_functions import REPORT

_TAG = "branch"

Finish = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True)
class Branch:
    """One result of a job: a DataFrame with the columns of `schema`, and `finish`, which the driver calls on the rows.

    The columns are in the order of `schema`.
    """

    frame: DataFrame
    schema: StructType
    finish: Finish

    @classmethod
    def of_function(cls, tail: PendingFunction, finish: Finish, reports: Reports, name: str) -> "Branch":
        """Return the branch of a Python function for the driver alone. So reports may be among the rows.

        Without a signal the driver would learn of a failure only when the slowest task has ended; so without one the
        function raises. `name` is the ledger's name for the edge to the driver, different for each branch.
        """
        if reports.signal is None and not tail.catches and reports.ledger is None:
            return cls(tail.frame(), spark_schema(tail.leaving), finish)
        edge = reports.sink(name)
        reports.entering(tail.root)
        reporting = tail.reporting(reports.signal, edge)

        def read_and_finish(rows: pa.Table) -> None:
            reports.read(rows)
            finish(reports.arrived(edge, tuples_of(rows)))

        return cls(reporting.frame(), spark_schema(reporting.leaving), read_and_finish)

    @classmethod
    def of_reports(cls, frames: Sequence[DataFrame], reports: Reports) -> "Branch":
        """Return the branch for frames whose rows are all reports."""
        return cls(union(frames), _REPORTS, reports.read)


_REPORTS = StructType([StructField(REPORT, StringType())])


def collect(branches: Sequence[Branch]) -> None:
    """Run all branches as one job, and call `finish` of each branch with its rows."""
    if len(branches) == 1:
        branches[0].finish(to_arrow(branches[0].frame, branches[0].schema))
        return
    offsets, width = [], 1
    for branch in branches:
        offsets.append(width)
        width += len(branch.schema.fields)
    fields = [field for branch in branches for field in branch.schema.fields]
    tagged = [_tagged(branch, number, offsets[number], fields) for number, branch in enumerate(branches)]
    columns = [StructField(f"c{at}", field.dataType) for at, field in enumerate(fields, 1)]
    all_rows = to_arrow(union(tagged), StructType([StructField(_TAG, IntegerType()), *columns]))
    tags = all_rows.column(0)
    for number, branch in enumerate(branches):
        own_columns = range(offsets[number], offsets[number] + len(branch.schema.fields))
        rows = all_rows.select(list(own_columns)).filter(pc.equal(tags, number))
        branch.finish(rows.rename_columns(branch.schema.names))


def _tagged(branch: Branch, number: int, offset: int, fields: Sequence[StructField]) -> DataFrame:
    """Return a branch's rows in the columns of all branches: its values from column `offset` on, nulls elsewhere."""
    own = {offset + at: field.name for at, field in enumerate(branch.schema.fields)}
    items = [f"{number} AS {_TAG}"]
    for at, field in enumerate(fields, 1):
        what = quoted(own[at]) if at in own else f"CAST(NULL AS {type_ddl(field.dataType)})"
        items.append(f"{what} AS c{at}")
    return selected(branch.frame, items)
