"""DRPC functions as plain functions over tables: many requests in one pass, each answered as if it were alone."""

from collections.abc import Callable

import pyarrow as pa

from trident.base.types import arrow_schema
from trident.compiler.arrow.evaluation import Evaluation, Native, Run
from trident.compiler.columns.columns import Columns
from trident.compiler.program import RequestPlan
from trident.compiler.states.queries import Read

Answer = Callable[[pa.Table, Read], pa.Table]

_HIDDEN = "\0request"
"""The field that tells requests apart while they run; users cannot give a field this name."""


def compile_request(plan: RequestPlan, native: Native | None = None) -> Answer:
    """Return a function that answers requests.

    It takes a reader of states and a table, one row for each request: a leading request number (any name, no number
    twice) and the function's arguments. It gives the leaf's tuples behind the number of the request that they answer.
    An aggregate is one of its request. `native` runs the steps that only Spark can run; without it such a plan is
    refused with MissingSessionError.
    """
    arguments, leaf = arrow_schema(plan.source.schema), arrow_schema(plan.leaf.schema)
    evaluation = Evaluation({plan.leaf: leaf.names}, [plan.source], (_HIDDEN,), native)
    source, end = id(plan.source), id(plan.leaf)

    def answer(args: pa.Table, read: Read) -> pa.Table:
        number = args.schema.field(0)
        entering = Columns.of(args, pa.schema([pa.field(_HIDDEN, number.type), *arguments]))
        answers = evaluation.run(Run({source: entering}, read, entering.select([_HIDDEN])))[end]
        leaving = answers.select([_HIDDEN, *leaf.names])
        schema = pa.schema([number, *leaf])
        return pa.Table.from_arrays([leaving[name].array() for name in leaving.names], schema=schema)

    return answer
