"""Plans that Spark executes again: each batch gets its own result, and no plan is kept that could give another's."""

import gc
import logging
import os
import random
import resource
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.compiler.stage_runner import STATE, OnSpark, rows, stream
from trident import Average, Count, Max, Min, Sum, TridentTopology, expr
from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, UserFunctionError
from trident.base.spark_types import arrow_schema, parse_schema
from trident.compiler.program import Group
from trident.compiler.spark import cached_plans
from trident.compiler.spark.engine import SparkEngine, SparkSlot
from trident.compiler.spark.plan_leaf import PlanLeaf
from trident.compiler.spark.repeatable_plans import EXPRESSIONS, why_not_repeatable
from trident.compiler.stages import cut

pytestmark = pytest.mark.spark
FIELDS = "line string, n long, price decimal(12,2), at timestamp"
Rows = list[tuple[Any, ...]]
Build = Callable[[Any], None]


@dataclass
class Runner:
    """A slot for stage 1 of a topology over one stream of `FIELDS`."""

    slot: SparkSlot
    group: Group
    folder: Path
    txid: int = 0

    def __call__(self, table: pa.Table) -> dict[str, Rows]:
        """Run the next batch, and return the rows of each output."""
        self.txid += 1
        stage, attempt = self.group.stages[0], TransactionAttempt(self.txid, 0)
        results = self.slot.run(stage, {self.group.spouts[0]: table}, attempt, self.folder).results
        return {name: rows(result) for name, result in results.items()}

    @property
    def plans(self) -> list[Any]:
        """The plans that the slot keeps."""
        return [entry.plan for entry in self.slot._plans._entries.values() if entry.plan is not None]


@pytest.fixture
def run_of(on_spark: OnSpark, tmp_path: Path) -> Callable[[Build], Runner]:
    """Give a function that returns the runner of a topology, which `build` makes of its stream."""

    def made(build: Build, fields: str = FIELDS) -> Runner:
        topology = TridentTopology()
        build(stream(topology, fields, []))
        (group,) = cut(topology).groups
        slot = on_spark.slot(group)
        assert isinstance(slot, SparkSlot)
        return Runner(slot, group, tmp_path)

    return made


def drawn(draw: random.Random, count: int) -> pa.Table:
    """Return a batch of drawn tuples."""
    words = ["the", "cow", "the moon", "", "ö ü", "x" * 50]
    columns: dict[str, list[Any]] = {
        "line": [draw.choice([None, " ".join(draw.choices(words, k=draw.randint(0, 6)))]) for _ in range(count)],
        "n": [draw.choice([None, draw.randint(-9, 9)]) for _ in range(count)],
        "price": [draw.choice([None, round(draw.random() * 100, 2)]) for _ in range(count)],
        "at": [draw.choice([None, draw.randint(0, 2_000_000_000_000_000)]) for _ in range(count)],
    }
    schema = arrow_schema(parse_schema(FIELDS))
    price = pa.array(columns["price"], pa.float64()).cast(pa.decimal128(12, 2), safe=False)
    at = pa.array(columns["at"], pa.int64()).cast(pa.timestamp("us", "UTC")).cast(schema.field("at").type)
    arrays = [pa.array(columns["line"], schema.field("line").type), pa.array(columns["n"], pa.int64()), price, at]
    return pa.Table.from_arrays(arrays, schema=schema)


# --- each batch gets its own result ---------------------------------------------------------------------------------


def words_of(s: Any) -> Any:
    return s.each("line", expr("explode(split(line, ' '))"), "word string")


def counted(s: Any) -> None:
    words_of(s).groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")


def totals(s: Any) -> None:
    dear = s.filter("price", expr("price > 20 AND n IS NOT NULL")).each("n", expr("n % 3"), "rest long")
    dear.groupBy("rest").persistentAggregate(STATE, "price", Sum(), "total", name="totals")


def several(s: Any) -> None:
    totals(s)
    words_of(s).groupBy("word").persistentAggregate(STATE, "n", Max(), "most", name="most")
    s.groupBy("n").persistentAggregate(STATE, "price", Average(), "mean", name="means")


def ungrouped(s: Any) -> None:
    s.persistentAggregate(STATE, "line", Min(), "least", name="least")


def passed_on(s: Any) -> None:
    named = s.each(("line", "at"), expr("concat_ws('|', line, at)"), "text string").project("text", "at", "n")
    named.groupBy("text", "at").persistentAggregate(STATE, "n", Sum(), "total", name="texts")


BUILDS = [counted, totals, several, ungrouped, passed_on]


def agree(run: Runner, plain: Runner, draw: random.Random, batches: int) -> None:
    """Run drawn batches in a slot that keeps plans, and in one that does not, and compare all results."""
    for _ in range(batches):
        batch = drawn(draw, draw.choice([0, 1, 2, 7, 100, draw.randint(1, 400)]))
        assert run(batch) == plain(batch)


def without_plans(run: Runner) -> Runner:
    """Return a runner whose slot keeps no plan."""
    run.slot._plans._stages.clear()
    return run


@pytest.mark.parametrize("build", BUILDS)
def test_a_plan_that_is_executed_again_gives_the_result_of_each_batch(run_of: Any, build: Build) -> None:
    run, plain = run_of(build), without_plans(run_of(build))
    for batch in (drawn(random.Random(1), 5), drawn(random.Random(2), 9)):
        assert run(batch) == plain(batch)
    (plan,) = run.plans
    agree(run, plain, random.Random(3), 8)
    assert run.plans[0] is plan  # no batch made another


def test_a_larger_batch_gets_a_larger_leaf(run_of: Any) -> None:
    run, draw = run_of(counted), random.Random(4)
    for count in (5, 5, 1500, 5):
        batch = drawn(draw, count)
        assert run(batch) == without_plans(run_of(counted))(batch)
    assert run.plans[0].leaf.capacity > 100_000


def test_another_schema_has_another_plan(run_of: Any) -> None:
    run, batch = run_of(counted), drawn(random.Random(5), 9)
    large = batch.set_column(0, "line", batch.column("line").cast(pa.large_string()))
    expected = without_plans(run_of(counted))(batch)
    for table in (batch, large) * 3:
        assert run(table) == expected
    assert len(run.plans) == 2


def test_a_slot_keeps_the_plans_that_it_used_last(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_plans, "MOST_KEPT", 2)
    run, batch = run_of(counted), drawn(random.Random(6), 9)
    expected = without_plans(run_of(counted))(batch)
    for kind in (pa.int64(), pa.int32(), pa.int16()):
        for _ in range(3):
            assert run(batch.set_column(1, "n", batch.column("n").cast(kind))) == expected
    frames = [weakref.ref(plan.frame) for plan in run.plans]
    run.slot._plans.close()
    gc.collect()
    assert [frame() for frame in frames] == [None, None]


# --- failures, cancels and settings ---------------------------------------------------------------------------------


def divided(s: Any) -> None:
    s.each("n", expr("100 DIV n"), "part long").groupBy("part").persistentAggregate(STATE, Count(), "c", name="parts")


def numbers(*values: int) -> pa.Table:
    count = len(values)
    return drawn(random.Random(7), count).set_column(1, "n", pa.array(values, pa.int64()))


def test_a_batch_that_fails_leaves_no_plan_and_no_rows_behind(run_of: Any) -> None:
    run = run_of(divided)
    for values in ((1, 2), (4, 5), (10, 10)):
        run(numbers(*values))
    assert run.plans
    with pytest.raises((PySparkException, UserFunctionError), match="(?i)divi"):
        run(numbers(1, 0))
    assert not run.plans
    for values, parts in (((20, 50), [(2, 1), (5, 1)]), ((50, 50), [(2, 2)]), ((100,), [(1, 1)])):
        assert run(numbers(*values)) == {"parts": parts}
    assert run.plans


def slow(s: Any) -> None:
    pairs = s.each("n", expr("explode(sequence(1L, n))"), "a long").each(
        "n", expr("explode(sequence(1L, n))"), "b long"
    )
    pairs.groupBy("a").persistentAggregate(STATE, "b", Sum(), "total", name="pairs")


def test_a_cancelled_batch_leaves_no_plan_and_no_rows_behind(
    run_of: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(slow)
    for _ in range(2):
        assert run(numbers(2)) == {"pairs": [(1, 3), (2, 3)]}
    assert run.plans
    began, to_arrow = threading.Event(), cached_plans.to_arrow

    def noted(*arguments: Any) -> pa.Table:
        began.set()
        return to_arrow(*arguments)

    monkeypatch.setattr(cached_plans, "to_arrow", noted)
    canceller = threading.Thread(target=lambda: (began.wait(60), run.slot.cancel()))
    canceller.start()
    with pytest.raises(AttemptCancelledError):
        run(numbers(6_000))  # 36 million pairs: Spark cannot end a task within a row, and this one soon ends by itself
    canceller.join()
    assert not run.plans
    for _ in range(3):
        assert run(numbers(1, 2)) == {"pairs": [(1, 4), (2, 3)]}


def hours(s: Any) -> None:
    texts = s.each("at", expr("substring(CAST(at AS string), 12, 2)"), "hour string")
    texts.groupBy("hour").persistentAggregate(STATE, Count(), "c", name="hours")


def test_a_plan_is_made_anew_for_other_settings(run_of: Any) -> None:
    run = run_of(hours)
    zone, session = "spark.sql.session.timeZone", run.slot.session
    batch = drawn(random.Random(8), 1).set_column(3, "at", pa.array([0], pa.timestamp("us", "UTC")))
    before = session.conf.get(zone)
    try:
        for name, hour in (("UTC", "00"), ("Asia/Tokyo", "09"), ("UTC", "00")):
            session.conf.set(zone, name)
            for _ in range(3):
                assert run(batch) == {"hours": [(hour, 1)]}
    finally:
        session.conf.set(zone, before)


# --- for long -------------------------------------------------------------------------------------------------------


def megabytes(spark: SparkSession) -> tuple[float, float]:
    """Return what this process and the heap of Spark's JVM hold after a garbage collection."""
    jvm: Any = spark.sparkContext._jvm
    for _ in range(3):  # the first frees objects whose cleaners let go of others
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.5)
    runtime = jvm.java.lang.Runtime.getRuntime()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resident / 2**20, (runtime.totalMemory() - runtime.freeMemory()) / 2**20


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_stays_flat_over_10000_batches_and_200_programs(spark: SparkSession, tmp_path: Path) -> None:
    """All of them, which take some five minutes, only if the soaks may take as long as they like; else a fifth."""
    programs = 200 if os.environ.get("SOAK_MINUTES") == "0" else 40
    engine, draw, held = SparkEngine(spark), random.Random(12), []
    for program in range(programs):
        topology = TridentTopology()
        rests = stream(topology, FIELDS, []).each("n", expr(f"n % {program + 2}"), "rest long")
        rests.groupBy("rest").persistentAggregate(STATE, Count(), "c", name="rests")
        (group,) = cut(topology).groups
        run = Runner(engine.slot(group), group, tmp_path)
        for _ in range(50):
            batch = drawn(draw, 100)
            assert sum(count for _, count in run(batch)["rests"]) == 100
        assert run.plans
        run.slot.close()
        if (program + 1) % (programs // 4) == 0:
            held.append(megabytes(spark))
    print("megabytes of the driver and of the JVM's heap:", held)
    # Spark keeps the last 1,000 jobs and queries, so the first 2,500 batches fill its memory of them
    assert held[-1][0] < held[0][0] + 32 and held[-1][1] < held[0][1] + 32, held


# --- plans that are not kept ----------------------------------------------------------------------------------------


def shuffled(s: Any) -> None:
    counted(s.shuffle())


def shared(s: Any) -> None:
    words = words_of(s)
    for name in ("one", "two"):
        words.groupBy("word").persistentAggregate(STATE, Count(), "c", name=name)


def built(s: Any) -> None:
    def upper(line: Column) -> Column:
        return F.upper(line)

    counted(s.each("line", upper, "up string"))


def transformed(s: Any) -> None:
    def same(frame: DataFrame) -> DataFrame:
        return frame

    counted(s.transform(same, FIELDS))


def with_udf(s: Any) -> None:
    counted(s.each("line", F.udf(lambda line: line, "string")(F.col("line")), "same string"))


def in_python(s: Any) -> None:
    counted(s.each("line", lambda line: line, "same string"))


CHANGING = ["rand()", "uuid()", "current_timestamp()", "current_date()", "CAST('now' AS timestamp)", "timestamp'now'",
            "unix_timestamp()", "current_user()", "(SELECT max(id) FROM range(3))", "monotonically_increasing_id()",
            "CAST(concat('to', 'day') AS date)", "to_timestamp('now')"]  # fmt: skip
"""Expressions of which Spark keeps the value in a plan, or that have another value each time."""


def reason(spark: SparkSession, text: str) -> str | None:
    """Return why a plan over an expression is not repeatable."""
    leaf = PlanLeaf.of(spark, arrow_schema(parse_schema(FIELDS)), 100)
    return why_not_repeatable(leaf.frame.selectExpr(f"CAST({text} AS string) AS made"), leaf.rdd)


@pytest.mark.parametrize("text", CHANGING)
def test_a_plan_of_an_expression_with_changing_values_is_not_repeatable(spark: SparkSession, text: str) -> None:
    assert reason(spark, text) is not None
    assert reason(spark, "concat(line, upper('a'), CAST(n + 1 AS string), CAST(at AS string))") is None


def test_rows_of_another_leaf_are_not_repeatable(spark: SparkSession) -> None:
    mine, other = (PlanLeaf.of(spark, arrow_schema(parse_schema(FIELDS)), 100) for _ in range(2))
    assert why_not_repeatable(mine.frame.unionAll(other.frame), mine.rdd) == "a leaf has rows of its own"


@pytest.mark.parametrize("build", [shuffled, shared, built, transformed, with_udf, in_python])
def test_no_plan_is_kept_that_might_give_another_result(run_of: Any, build: Build) -> None:
    run = run_of(build)
    for number in range(3):
        run(drawn(random.Random(number), 4))
    assert not run.plans


def test_a_plan_with_a_shuffle_gives_the_result_of_its_batch(run_of: Any) -> None:
    """It is not kept. If it were, the shuffle would still hold the batch before."""
    run, plain = run_of(shuffled), without_plans(run_of(shuffled))
    agree(run, plain, random.Random(9), 6)


def test_a_result_is_not_believed_if_the_leaf_was_not_read(
    run_of: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cached_plans, "why_not_repeatable", lambda *_: None)
    run, plain = run_of(shuffled), without_plans(run_of(shuffled))
    with caplog.at_level(logging.WARNING, cached_plans.__name__):
        agree(run, plain, random.Random(10), 6)
    assert "did not read its input" in caplog.text


def test_a_version_of_spark_without_the_private_functions_plans_each_batch(
    run_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> PlanLeaf:
        raise AttributeError("toDataFrame")

    monkeypatch.setattr(PlanLeaf, "of", none)
    run, plain = run_of(counted), without_plans(run_of(counted))
    agree(run, plain, random.Random(11), 4)
    assert not run.plans


def test_an_expression_of_a_kept_plan_reads_its_arguments_alone(spark: SparkSession) -> None:
    of: Any = spark.sparkContext._jvm.java.lang.Class.forName
    package = "org.apache.spark.sql.catalyst.expressions"
    others = [of(f"{package}.{name}") for name in ("PlanExpression", "UserDefinedExpression", "CurrentTimestampLike")]
    for name in EXPRESSIONS:
        kind = of(name)
        assert not any(other.isAssignableFrom(kind) for other in others), name
