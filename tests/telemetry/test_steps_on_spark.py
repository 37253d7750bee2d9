"""The steps of a run on Spark: as many tuples as on the embedded engine, and the time of each Python function."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trident import Count, DeadLetter, Sum, TridentTopology, TumblingCountWindow, col
from trident.base.callsite import CallSite
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.kernels import Work
from trident.compiler.spark.step_meter import Measure, StepMeter, TaskReport
from trident.compiler.spark.step_work import StepReports, _measures
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

LINES = [[(f"a b c {n % 7}", n) for n in range(40)], [("a", 1), ("b c", 2)]]


def lines(topology: TridentTopology) -> Any:
    return topology.newStream("lines", FixedBatchSpout("line string, n long", LINES))


def split(line: str) -> list[str]:
    return line.split()


def words(topology: TridentTopology) -> None:
    even = lines(topology).filter("n", lambda n: n % 2 == 0)
    by_word = even.flatMap("line", split, "word string").groupBy("word")
    by_word.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")


def shared(topology: TridentTopology) -> None:
    """Two states read the words; one of the ways has a step of Spark's own, a shuffle and Python behind it."""
    words = lines(topology).flatMap("line", split, "word string")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    upper = words.project("word").map("word", str.upper, "upper string").shuffle()
    often = upper.groupBy("upper").aggregate("upper", Count(), "n").filter("n", lambda n: n > 1)
    often.groupBy("upper").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")


def failing(topology: TridentTopology) -> None:
    """Tuples become dead letters, others are skipped; the function that fails is called once in each attempt."""

    def third(n: int) -> int:
        if n % 3 == 0:
            raise ValueError("a third")
        return n

    def fifth(n: int) -> int:
        if n % 5 == 0:
            raise ValueError("a fifth")
        return n

    numbers = lines(topology).each("n", third, "m long", onError=DeadLetter(attempts=0))
    numbers = numbers.each("n", fifth, "k long", onError="skip").each("k", lambda k: k + 1, "next long")
    numbers.groupBy("next").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    topology.deadLetterState(MemoryMapState.opaque())


def merged(topology: TridentTopology) -> None:
    numbers = lines(topology).project("n")
    small = numbers.filter("n", lambda n: n < 10).each("n", lambda n: -n, "m long").project("m")
    large = numbers.filter("n", lambda n: n >= 30).map("n", lambda n: n, "m long")
    small.merge(large).peek("m", lambda m: None).groupBy("m").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="counts"
    )


def windowed(topology: TridentTopology) -> None:
    """The window's results are the input of a later stage."""
    sums = lines(topology).window(TumblingCountWindow(10), MemoryMapState.opaque(), "n", Sum(), "sum", name="tens")
    sums.each("sum", lambda n: n + 1, "more long").groupBy("more").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="counts"
    )


def steps(topology: TridentTopology, *spark: SparkSession, **options: Any) -> list[dict[str, dict[str, Any]]]:
    with topology.start(*spark, name="steps", driverRows=0, **options) as running:
        running.processAllAvailable(timeout=120)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
    return [{step["name"]: step for step in event["steps"]} for event in events]


def numbers(step: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(step.get(key) for key in ("in", "out", "failed", "skipped"))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:topology")
@pytest.mark.parametrize("build", [words, shared, failing, merged, windowed])
def test_steps_on_spark_have_the_numbers_of_the_embedded_engine(
    spark: SparkSession, build: Callable[[TridentTopology], None]
) -> None:
    on_spark, embedded = TridentTopology(), TridentTopology()
    build(on_spark)
    build(embedded)
    expected = steps(embedded, engine="embedded")
    found = steps(on_spark, spark)
    assert [{name: numbers(step) for name, step in batch.items()} for batch in found] == [
        {name: numbers(step) for name, step in batch.items()} for batch in expected
    ]
    python = [step for batch in found for name, step in batch.items() if "lambda" in name or "split" in name]
    assert python and all(step["seconds"] > 0 for step in python if step["in"])


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:topology")
def test_a_number_that_nobody_knows_is_left_out(spark: SparkSession) -> None:
    topology = TridentTopology()
    even = lines(topology).filter(col("n") % 2 == 0)
    even.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    first, _ = steps(topology, spark)
    condition, aggregate = first.values()
    assert {key: condition[key] for key in condition if key != "name"} == {"in": 40, "failed": 0, "skipped": 0}
    assert {key: aggregate[key] for key in aggregate if key != "name"} == {"out": 20, "failed": 0, "skipped": 0}


@pytest.mark.spark
def test_a_partition_that_was_computed_twice_counts_once(spark: SparkSession) -> None:
    reports, topology = StepReports(spark), TridentTopology()
    words(topology)
    first, last = (TaskReport(0, (Measure("s", 1.0, 5, 3), Measure("t", 2.0, 3, left))) for left in (7, 8))
    for report in (first, last, TaskReport(1, (Measure("s", 1.0, 10, 10), Measure("t", 1.0, 10, 10)))):
        reports._hear(report)
    by_step = _measures(reports._reports.values())
    assert dict(by_step) == {"s": [Measure("s", 2.0, 15, 13)], "t": [Measure("t", 3.0, 13, 18)]}
    reports.begin()
    assert not _measures(reports._reports.values())


def test_time_counts_for_one_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("trident.compiler.spark.step_meter.perf_counter", lambda: now)

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    meter, sent = StepMeter(b""), []
    monkeypatch.setattr("trident.compiler.spark.step_meter.send", lambda accumulator, report: sent.append(report))
    empty = pa.record_batch({"n": [1, 2]})

    def source() -> Any:
        for _ in range(3):
            wait(100)
            yield empty

    def slow(columns: Columns) -> Columns:
        wait(10)
        return columns

    work = Work("peek", Where("each", CallSite("f", "", 1)), None, pa.schema([]))
    apply = meter.measured(work, slow)

    def chain() -> Any:
        for batch in meter.timed(None, source()):
            apply(Columns.of(batch, batch.schema))
            yield batch

    def fold() -> Any:
        batches = [wait(1) or batch for batch in chain()]
        wait(0.5)
        yield batches[-1]

    for _ in meter.timed("fold", fold()):
        wait(1000)  # Spark writes the rows
    meter.send(3)
    assert sent == [TaskReport(3, (Measure("each", 30.0, 6, 6), Measure("fold", 3.5)))]
