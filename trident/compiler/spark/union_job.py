"""Several results of one stage from one Spark job: rows of all, each under the number of its branch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from trident.base.errors import UserFunctionError
from trident.base.types import spark_schema, type_ddl
from trident.compiler.columns.failures import decoded
from trident.compiler.spark.failure_signal import Bell
from trident.compiler.spark.pending_function import Tail, in_arrow
from trident.compiler.spark.sql_names import quoted
from trident.compiler.spark.worker_functions import FAILURE, Telling

_TAG = "branch"


Finish = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True)
class Branch:
    """One result: its DataFrame (whose columns are `schema`'s, in order), and what the driver does with the rows."""

    frame: DataFrame
    schema: StructType
    finish: Finish

    @classmethod
    def telling(cls, tail: Tail, finish: Finish, bell: Bell | None) -> "Branch":
        """What a Python function gives, read by nobody but the driver: its failure comes as a row. Without a bell the
        driver would hear of it only when the slowest task has ended, so there the function raises."""
        if bell is None:
            return cls(tail.frame(), spark_schema(tail.leaving), finish)
        function = Telling(tail.function, tail.leaving, bell)
        schema = spark_schema(function.leaving)

        def told(table: pa.Table) -> None:
            _check(table)
            finish(table.drop_columns([FAILURE]))

        return cls(in_arrow(tail.source, function, schema), schema, told)

    @classmethod
    def failing(cls, frames: Sequence[DataFrame]) -> "Branch":
        """Failures that are all the rows of these frames."""
        return cls(reduce(lambda left, right: left.unionAll(right), frames), _FAILURES, _check)


_FAILURES = StructType([StructField(FAILURE, StringType())])


def _check(table: pa.Table) -> None:
    """Raise the first failure that is a row, if there is one."""
    failures = table.column(FAILURE).drop_null()
    if len(failures):
        text = failures[0].as_py()
        raise decoded(text) or UserFunctionError(text)


def collect(branches: Sequence[Branch]) -> None:
    """Run all branches as one job, and finish each with its rows."""
    if len(branches) == 1:
        branches[0].finish(branches[0].frame.toArrow())
        return
    places, width = [], 1
    for branch in branches:
        places.append(width)
        width += len(branch.schema.fields)
    fields = [field for branch in branches for field in branch.schema.fields]
    tagged = [_tagged(branch, number, places[number], fields) for number, branch in enumerate(branches)]
    everything = reduce(lambda left, right: left.unionAll(right), tagged).toArrow()
    tags = everything.column(0)
    for number, branch in enumerate(branches):
        at = range(places[number], places[number] + len(branch.schema.fields))
        rows = everything.select(list(at)).filter(pc.equal(tags, number))
        branch.finish(rows.rename_columns(branch.schema.names))


def _tagged(branch: Branch, number: int, place: int, fields: Sequence[StructField]) -> DataFrame:
    """A branch's rows in the columns of all, its own at their place and nulls elsewhere."""
    own = {place + at: field.name for at, field in enumerate(branch.schema.fields)}
    items = [f"{number} AS {_TAG}"]
    for at, field in enumerate(fields, 1):
        what = quoted(own[at]) if at in own else f"CAST(NULL AS {type_ddl(field.dataType)})"
        items.append(f"{what} AS c{at}")
    return branch.frame.selectExpr(*items)
