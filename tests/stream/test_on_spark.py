"""Every family of verbs on Spark, seen through take and show."""

from typing import Any

import pyarrow
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from trident import Count, FilterNull, Function, Max, Stream, Sum, TridentTopology, expr
from trident.spouts import FixedBatchSpout

pytestmark = [pytest.mark.spark, pytest.mark.connect]


class Split(Function):
    outputType = "string"

    def execute(self, tuple: Any, collector: Any) -> None:
        for word in tuple.line.split():
            collector.emit([word])


def upper(line: Any) -> Column:
    return F.upper(line)


def both(line: str) -> tuple[str, int]:
    return line[::-1], len(line)


@pytest.fixture
def lines() -> Stream:
    rows = [("a dog", 1), ("a cat", 2), (None, 3)]
    return TridentTopology().newStream("lines", FixedBatchSpout("line string, n long", [rows, [("unseen", 9)]]))


def rows(stream: Stream, spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in stream.take(100, spark=spark)), key=repr)


def test_each_in_all_its_forms(lines: Stream, spark: SparkSession) -> None:
    some = lines.each("line", FilterNull()).project("line")
    assert rows(some, spark) == [("a cat",), ("a dog",)]
    assert rows(some.each("line", both, "back, size"), spark) == [("a cat", "tac a", 5), ("a dog", "god a", 5)]
    words = [("a cat", "a"), ("a cat", "cat"), ("a dog", "a"), ("a dog", "dog")]
    assert rows(some.each("line", Split(), "word"), spark) == words
    assert rows(some.each(expr("explode(split(line, ' '))"), "word string"), spark) == words
    assert rows(some.each("line", upper, "up string"), spark) == [("a cat", "A CAT"), ("a dog", "A DOG")]
    assert rows(some.each("line", F.udf(lambda line: len(line), "int"), "size"), spark) == [("a cat", 5), ("a dog", 5)]
    assert rows(some.each(F.length("line"), "size int"), spark) == [("a cat", 5), ("a dog", 5)]


def test_a_vectorised_udf(lines: Stream, spark: SparkSession) -> None:
    @F.arrow_udf("long")
    def twice(n: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.compute.multiply(n, 2)

    assert rows(lines.project("n").each("n", twice, "m"), spark) == [(1, 2), (2, 4), (3, 6)]


def test_map_and_flat_map(lines: Stream, spark: SparkSession) -> None:
    some = lines.filter(expr("line is not null"))
    assert rows(some.map(lambda t: (t.line, t.n + 1)), spark) == [("a cat", 3), ("a dog", 2)]
    assert rows(some.flatMap("line", str.split, "word string"), spark) == [("a",), ("a",), ("cat",), ("dog",)]
    assert rows(some.flatMap(lambda t: [(t.line, t.n)] * t.n), spark) == [("a cat", 2), ("a cat", 2), ("a dog", 1)]
    assert rows(some.map(expr("upper(line)"), "up string"), spark) == [("A CAT",), ("A DOG",)]


def test_filters(lines: Stream, spark: SparkSession) -> None:
    assert rows(lines.filter(lambda t: t.n > 1 and t.line is not None), spark) == [("a cat", 2)]
    assert rows(lines.each("n", lambda n: n == 1), spark) == [("a dog", 1)]
    assert rows(lines.filter(F.col("n") > 2), spark) == [(None, 3)]


def test_transform_with_a_static_frame(lines: Stream, spark: SparkSession) -> None:
    names = spark.createDataFrame([(1, "one"), (2, "two")], "n long, name string")

    def named(batch: DataFrame, names: DataFrame) -> DataFrame:
        return batch.join(names, "n").select("n", "name")

    assert rows(lines.transform(named, "n long, name string", names=names), spark) == [(1, "one"), (2, "two")]
    assert rows(lines.transform(lambda batch: batch.limit(0)), spark) == []


def test_aggregates_of_the_batch(lines: Stream, spark: SparkSession) -> None:
    assert rows(lines.aggregate("n", Sum(), "total"), spark) == [(6,)]
    assert rows(lines.groupBy("line").aggregate(Count(), "count"), spark) == [("a cat", 1), ("a dog", 1), (None, 1)]
    assert rows(lines.filter(lambda t: False).aggregate("line", Max(), "most"), spark) == [(None,)]


def test_merge_and_join_within_the_first_batches(lines: Stream, spark: SparkSession) -> None:
    again = lines.map(lambda t: (t.line, t.n * 10), "text string, m long")
    assert len(rows(lines.merge(again), spark)) == 6
    joined = lines.join(again, "line", otherKeys="text")
    assert rows(joined, spark) == [("a cat", 2, 20), ("a dog", 1, 10), (None, 3, 30)]


def test_show_prints_a_table(lines: Stream, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    lines.filter(expr("n < 3")).project("n", "line").show(spark=spark)
    assert capsys.readouterr().out.splitlines()[1] == "|n| line|"
    lines.map("line", lambda line: 30 * "x", "long string").show(1, truncate=8, spark=spark)
    assert capsys.readouterr().out.splitlines()[3] == "|xxxxx...|"


class Placed(Function):
    outputType = "long, boolean"

    def prepare(self, context: Any) -> None:
        self.partitions = context.numPartitions

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([tuple["a.b"], self.partitions == 2])


def test_fields_whose_names_are_no_plain_words(spark: SparkSession) -> None:
    batch = [(1, "x", 2, "u"), (2, "y", 3, "v")]
    fields = "`a.b` long, `c d` string, `e``f` int, `*` string"
    odd = TridentTopology().newStream("odd", FixedBatchSpout(fields, [batch]))
    more = odd.each("a.b, e`f", lambda a, e: a + e, "`g.h` long").filter("*", lambda text: text == "v")
    assert rows(more, spark) == [(2, "y", 3, "v", 5)]
    assert more.take(1, spark=spark)[0]["g.h"] == 5
    summed = odd.groupBy("a.b").aggregate("e`f", Sum(), "`s.t`")
    assert rows(summed.map("s.t", lambda total: total * 2, "`t.t` long"), spark) == [(4,), (6,)]
    placed = odd.shuffle().parallelismHint(2).each(Placed(), "`i.j`, of").project("i.j", "of")
    assert rows(placed, spark) == [(1, True), (2, True)]
    parted = odd.split("c d, *", lambda c, star: ("p", (c + star,)), streams={"p": "`q.q` string"})
    assert rows(parted.p.map("q.q", str.upper, "`r.r` string"), spark) == [("XU",), ("YV",)]


def test_sparks_own_plan_on_demand(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
    counts = words.partitionBy("word").parallelismHint(3).groupBy("word").aggregate(Count(), "count")
    counts.explainSpark(spark=spark)
    plan = capsys.readouterr().out
    assert "Physical Plan" in plan and "hashpartitioning(word" in plan and ", 3), REPARTITION_BY_NUM" in plan
