"""One expression over the same tuples in each of its forms: tuple by tuple, by Arrow, and by Spark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, IntegerType, StructField, StructType

from tests.expressions.drawing import SCHEMA
from trident.base.spark_types import arrow_schema, parse_schema, type_ddl
from trident.base.value_conversion import to_python
from trident.expressions.binding import Bound, Fields, Unbound, bound, inputs_of
from trident.expressions.column_evaluation import columns_of
from trident.expressions.rules import ExpressionError
from trident.expressions.sql_text import sql_text
from trident.expressions.tree import ColumnExpression
from trident.expressions.tuple_evaluation import row_function

FIELDS = parse_schema(SCHEMA)
FAILED = "failed"


@dataclass(frozen=True)
class Drawn:
    """An expression that fits the fields, and its value for each tuple, or FAILED."""

    expression: ColumnExpression
    bound: Bound
    inputs: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def kind(self) -> DataType:
        return self.bound.kind


def table_of(tuples: Sequence[dict[str, Any]]) -> pa.Table:
    """Return tuples as a table."""
    return pa.Table.from_pylist(list(tuples), schema=arrow_schema(FIELDS))


def drawn(expression: ColumnExpression, table: pa.Table) -> Drawn | None:
    """Return an expression with its values tuple by tuple; None if it does not fit the fields."""
    try:
        inputs = inputs_of([expression], FIELDS)
        part = bound(expression, Fields(FIELDS, inputs))
    except Unbound:
        return None
    function = row_function(part)
    lists = [to_python(table[name]) for name in inputs]
    values = []
    for row in zip(*lists, strict=True) if lists else [()] * table.num_rows:
        try:
            values.append(function(row))
        except ExpressionError:
            values.append(FAILED)
    return Drawn(expression, part, inputs, tuple(values))


def by_arrow(one: Drawn, table: pa.Table, times: int = 1) -> list[Any]:
    """Return the values of an expression by Arrow, over the tuples for which it does not fail, repeated `times`."""
    kept = pa.array([value != FAILED if isinstance(value, str) else True for value in one.values])
    part = pa.concat_tables([table.filter(kept)] * times).combine_chunks()
    made = columns_of([one.bound], [part[name].combine_chunks() for name in one.inputs], part.num_rows)
    assert made is not None, f"{one.expression!r} fails as columns, and for no tuple"
    return to_python(made[0])


def fails_by_arrow(one: Drawn, table: pa.Table) -> bool:
    """Return whether an expression by Arrow asks for the function of one tuple."""
    inputs = [table[name].combine_chunks() for name in one.inputs]
    return columns_of([one.bound], inputs, table.num_rows) is None


def by_spark(session: SparkSession, many: Sequence[Drawn], table: pa.Table) -> list[list[Any]]:
    """Return the values of expressions by Spark, each over the tuples for which it does not fail."""
    schema = StructType([*FIELDS.fields, StructField("row", IntegerType())])
    frame = session.createDataFrame(table.append_column("row", pa.array(range(table.num_rows), pa.int32())), schema)
    items = []
    for at, one in enumerate(many):
        good = [str(row) for row, value in enumerate(one.values) if not failed(value)]
        text = sql_text(one.bound, [f"`{name}`" for name in one.inputs])
        items.append(f"CASE WHEN row IN ({', '.join(good)}) THEN {text} END AS c{at}" if good else f"NULL AS c{at}")
    result = frame.coalesce(1).selectExpr("row", *items)
    for at, one in enumerate(many):
        actual = result.schema[f"c{at}"].dataType
        if not all(map(failed, one.values)):
            assert type_ddl(actual) == type_ddl(one.kind), f"{one.expression!r}: Spark gives {type_ddl(actual)}"
    made = result.toArrow().sort_by("row")
    return [
        [v for v, own in zip(to_python(made[f"c{at}"].combine_chunks()), one.values, strict=True) if not failed(own)]
        for at, one in enumerate(many)
    ]


def failed(value: Any) -> bool:
    """Return whether a value marks a tuple for which an expression fails."""
    return isinstance(value, str) and value == FAILED


def alike(a: Any, b: Any) -> bool:
    """Return whether two values are the same, also in the sign of a zero and as NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return type(a) is type(b) and a == b


def fails_on_spark(session: SparkSession, one: Drawn, table: pa.Table, row: int) -> bool:
    """Return whether Spark fails on an expression for one tuple."""
    frame = session.createDataFrame(table.slice(row, 1), FIELDS)
    try:
        frame.selectExpr(sql_text(one.bound, [f"`{name}`" for name in one.inputs])).collect()
    except PySparkException:
        return True
    return False
