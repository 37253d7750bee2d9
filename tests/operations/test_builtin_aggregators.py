"""Count, Sum, Min and Max by themselves; and the types of what aggregators give."""

import functools
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from trident import Average, Count, Max, Min, Sum
from trident.base.spark_types import parse_schema, type_ddl
from trident.operations.aggregates.base import BuiltinAggregator


def fold(aggregator: Any, values: list[Any]) -> Any:
    return functools.reduce(aggregator.combine, [aggregator.init((value,)) for value in values], aggregator.zero())


@pytest.mark.parametrize(
    ("aggregator", "some", "nulls", "nothing"),
    [(Count(), 4, 2, 0), (Sum(), 6, 0, 0), (Min(), 1, None, None), (Max(), 3, None, None)],
)
def test_nulls_are_counted_and_else_skipped(
    aggregator: BuiltinAggregator, some: object, nulls: object, nothing: object
) -> None:
    assert fold(aggregator, [2, None, 1, 3]) == some
    assert fold(aggregator, [None, None]) == nulls
    assert fold(aggregator, []) == nothing


def test_nan_is_greater_than_every_number_as_in_spark() -> None:
    assert fold(Min(), [math.nan, 1.0, math.nan]) == 1.0
    assert fold(Min(), [1.0, math.nan]) == 1.0
    assert math.isnan(fold(Max(), [math.nan, 1.0]))
    assert math.isnan(fold(Max(), [1.0, math.nan, math.inf]))
    assert math.isnan(fold(Min(), [math.nan, None]))


def test_decimals_are_added_to_the_last_digit() -> None:
    """Python's own arithmetic rounds to 28 digits, a decimal has up to 38."""
    values = [Decimal(10**28 - 1), None, Decimal("-3.25"), None, Decimal("1e-10")]
    assert fold(Sum(), values) == Decimal("9999999999999999999999999995.7500000001")
    assert fold(Average(), values) == (Decimal("9999999999999999999999999995.7500000001"), 3)
    assert Average().gathered([(value,) for value in values]) == fold(Average(), values)


@pytest.mark.parametrize("aggregator", [Count(), Sum(), Min(), Max()])
@given(st.lists(st.none() | st.integers()), st.lists(st.none() | st.integers()))
def test_parts_meet_in_any_grouping(aggregator: BuiltinAggregator, first: list[Any], second: list[Any]) -> None:
    parts = aggregator.combine(fold(aggregator, first), fold(aggregator, second))
    assert parts == fold(aggregator, [*first, *second])


@pytest.mark.parametrize(
    ("aggregator", "field", "gives"),
    [
        (Sum(), "n byte", "bigint"),
        (Sum(), "n int", "bigint"),
        (Sum(), "n long", "bigint"),
        (Sum(), "n float", "double"),
        (Sum(), "n double", "double"),
        (Sum(), "n decimal(10,2)", "decimal(20,2)"),
        (Sum(), "n decimal(35,2)", "decimal(38,2)"),
        (Min(), "n smallint", "smallint"),
        (Max(), "n timestamp", "timestamp"),
        (Max(), "n boolean", "boolean"),
    ],
)
def test_the_output_type_follows_from_the_input(aggregator: BuiltinAggregator, field: str, gives: str) -> None:
    schema = parse_schema(field)
    assert aggregator.problem(schema) == ""
    assert type_ddl(aggregator.type_of(schema)) == gives


@pytest.mark.spark
def test_spark_gives_a_sum_the_same_type(spark: SparkSession) -> None:
    text = "a byte, b short, c int, d long, e float, f double, g decimal(10,2), h decimal(35,2)"
    frame = spark.createDataFrame([], text)
    found = frame.selectExpr(*[f"sum({name}) as {name}" for name in frame.columns]).schema
    for field in parse_schema(text).fields:
        assert Sum().type_of(t.StructType([field])) == found[field.name].dataType, field


def test_they_are_equal_by_value_and_travel_by_pickle() -> None:
    for aggregator in (Count(), Sum(), Min(), Max()):
        assert pickle.loads(pickle.dumps(aggregator)) == aggregator  # noqa: S301
    assert Count() != Sum()
    assert repr(Count()) == "Count()"
