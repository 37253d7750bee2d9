"""What kind of operation something is; ready Columns and udfs are known without asking a JVM."""

import functools
from typing import Any

import pandas
import pyarrow
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.topologies import node, stream
from trident.base.callsite import CallSite
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.spark_types import ddl
from trident.base.verb_call import Step
from trident.operations.callables import call_of, is_generator, operation_kind
from trident.operations.functions import Call

STEP = Step("s/1:each", CallSite("each", "here.py", 1))


def generator(a: Any) -> Any:
    yield a


class Generates:
    def __call__(self, a: Any) -> Any:
        yield a

    def method(self, a: Any) -> Any:
        yield a


@pytest.mark.parametrize(
    "target",
    [generator, functools.partial(generator, 1), Generates(), Generates().method, functools.partial(Generates(), 1)],
)
def test_a_generator_is_known_behind_whatever_calls_it(target: Any) -> None:
    assert is_generator(target)


@pytest.mark.parametrize("target", [len, str.upper, lambda a: [a], Generates, functools.partial(print), object()])
def test_other_things_are_no_generators(target: Any) -> None:
    assert not is_generator(target)


def test_classes_of_python_s_own_are_plain_callables() -> None:
    import datetime

    for target in (str, int, datetime.datetime, dict.fromkeys, Generates):
        assert operation_kind(target) == ""
        assert call_of(target, STEP, Call.VALUES) is Call.VALUES


@pytest.mark.spark
def test_a_ready_udf_is_called_with_columns_and_knows_its_type(spark: SparkSession) -> None:
    plain = F.udf(lambda line: len(line), "int")

    @F.pandas_udf("double")
    def vectorised(a: pandas.Series) -> pandas.Series:
        return a

    @F.arrow_udf("string")
    def by_arrow(a: pyarrow.Array) -> pyarrow.Array:
        return a

    for target, kind in ((plain, "int"), (vectorised, "double"), (by_arrow, "string")):
        each = stream().each("line", target, "out")
        assert node(each).function.call is Call.UDF
        assert ddl(each.schema) == f"line string, out {kind}"
    with pytest.raises(TypeDeclarationError, match="the udf returns int; a filter returns a bool"):
        stream().filter("line", plain)
    with pytest.raises(TopologyError, match="a udf returns one value per row; use map, or expr"):
        stream().flatMap("line", plain, "out")
    with pytest.raises(
        TopologyError, match=r"takes the wrong arguments: it is called with one Column for each field \(line, n\)"
    ):
        stream("line string, n long").each(plain, "out")


@pytest.mark.spark
def test_a_udf_over_groups_is_no_operation_of_a_verb(spark: SparkSession) -> None:
    @F.pandas_udf("double")
    def grouped(a: pandas.Series) -> float:
        return float(a.sum())

    with pytest.raises(
        TopologyError, match="it is a udf over groups or whole batches; expected a udf that returns a value"
    ):
        stream("n double").each("n", grouped, "total double")


@pytest.mark.spark
def test_a_ready_column_needs_its_type_written(spark: SparkSession) -> None:
    each = stream().each(F.upper("line"), "up string")
    assert (node(each).function.call, node(each).step) == (Call.COLUMN, "lines/1:each(Column)")
    assert node(stream().filter(F.col("line") > "a")).predicate.call is Call.COLUMN
    with pytest.raises(
        TypeDeclarationError, match="is known only to Spark, which is not used while a topology is built:"
    ):
        stream().each(F.upper("line"), "up")
    with pytest.raises(TopologyError, match="is not an aggregator; give a CombinerAggregator"):
        stream().aggregate("line", F.max("line"), "most")
