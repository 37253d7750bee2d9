"""Small stages of a run on Spark that the driver computes: which ones, and to the same results."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trident import (
    Average,
    Count,
    Max,
    MaxBy,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TopK,
    TridentTopology,
    col,
    expr,
    functions,
)
from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, BatchFailedError, UserFunctionError
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.spark import small_stages
from trident.compiler.spark.small_stages import SmallStagesSlot, stages_without_user_code
from trident.compiler.stages import cut
from trident.plan.topology_protocol import EngineName
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState

STATE = MemoryMapState.opaque()
Steps = Callable[[Stream], object]


class OwnSum(Sum):
    def init(self, tuple: Any) -> Any:
        return 2 * tuple.n


def qualifying(steps: Steps) -> list[int]:
    topology = TridentTopology()
    steps(topology.newStream("s", FixedBatchSpout("k string, n long", [])))
    (group,) = cut(topology).groups
    return [stage.number for stage in stages_without_user_code(group)]


def sink(stream: Stream) -> object:
    return stream.foreachArrow(lambda table, txid, attempt: None, name="out")


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: sink(s.each({"m": col("n") * 2, "u": functions.upper("k")}).filter(col("m") > 2).project("m", "u")),
        lambda s: s.groupBy("k").persistentAggregate(STATE, "n", Sum(), "sum", name="a"),
        lambda s: s.groupBy("k").persistentAggregate(STATE, {"a": Average("n"), "t": ("n", TopK(3))}, name="a"),
        lambda s: sink(s.groupBy("k").aggregate(MaxBy("k", "n"), "best")),
        lambda s: s.groupBy("k").persistentAggregate(STATE, {"a": Count(where=col("n") > 1), "b": Sum("n")}, name="a"),
        lambda s: sink(s.join(s.groupBy("k").aggregate("n", Max(), "best"), ["k"], ["k2", "n", "best"])),
        lambda s: sink(s.partitionBy("k").project("n").merge(s.project("n"))),
        lambda s: sink(s.maxBy("n", scope="batch")),
    ],
    ids=["expressions", "native", "bundle", "maxBy", "where", "join", "partitions", "greatest tuple"],
)
def test_a_stage_whose_steps_are_all_of_the_library_qualifies(steps: Steps) -> None:
    assert qualifying(steps) == [1]


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: sink(s.each("n", lambda n: n + 1, "m long")),
        lambda s: sink(s.filter("n", lambda n: n > 1)),
        lambda s: sink(s.each("n", expr("n + 1"), "m long")),
        lambda s: sink(s.groupBy("k").aggregate("n", OwnSum(), "sum")),
        lambda s: sink(s.groupBy("k").aggregate(Sum("n", where=lambda n: n > 1), "sum")),
        lambda s: sink(s.partitionAggregate("n", Sum(), "sum")),
        lambda s: sink(s.peek(print)),
        lambda s: sink(s.transform(lambda frame: frame)),
        lambda s: sink(s.partition(lambda tuple, partitions: 0)),
        lambda s: sink(s.maxBy("n", lambda a, b: a - b, scope="batch")),
        lambda s: sink(s.min(lambda a, b: a.n - b.n, scope="batch")),
    ],
    ids=[
        "function",
        "filter",
        "expr",
        "own combiner",
        "own condition",
        "by partition",
        "peek",
        "transform",
        "own partitions",
        "own comparator of values",
        "own comparator of tuples",
    ],
)
def test_a_stage_with_code_of_the_user_or_by_partition_runs_on_spark(steps: Steps) -> None:
    assert qualifying(steps) == []


def test_a_later_stage_qualifies_without_the_first_one() -> None:
    def steps(stream: Stream) -> None:
        counts = stream.each("n", lambda n: n % 7, "m long").groupBy("m").persistentAggregate(STATE, Count(), "c")
        sink(counts.newValuesStream().filter(col("c") > 1))

    assert qualifying(steps) == [2]


def hot(batches: list[list[tuple[int, datetime]]], into: list[Any]) -> TridentTopology:
    """Return a topology that gives for each window its hottest items, as query 5 of Nexmark."""
    topology = TridentTopology()
    bids = topology.newStream("bids", FixedBatchSpout("item long, at timestamp", batches))
    window = SlidingEventTimeWindow("10 seconds", "5 seconds", "at")
    counts = bids.groupBy("item").window(window, Count(), "n", name="hot")
    best = counts.groupBy("windowStart").aggregate("n", Max(), "best")
    both = counts.join(best, ["windowStart"], ["start", "item", "end", "n", "best"])
    hottest = both.filter(col("n") >= col("best")).project("start", "item", "n")
    hottest.foreachArrow(lambda table, txid, attempt: into.extend(table.to_pylist()), name="out")
    return topology


def bids() -> list[list[tuple[int, datetime]]]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [((at * at) % 17, start + timedelta(milliseconds=250 * at)) for at in range(240)]
    return [rows[at : at + 40] for at in range(0, len(rows), 40)]


def engines_of(running: Any) -> list[str]:
    return [event["engine"] for event in running.recentProgress if event["event"] == "committed"]


def run(engine: EngineName, rows: int, spark: SparkSession | None, folder: Path) -> tuple[list[Any], list[str]]:
    taken: list[Any] = []
    options: dict[str, Any] = {"driverRows": rows} if engine == "spark" else {}
    topology = hot(bids(), taken)
    with topology.start(spark, engine=engine, availableNow=True, checkpointLocation=folder, **options) as running:
        running.awaitTermination(timeout=120)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
    return sorted(taken, key=str), [event["engine"] for event in events]


@pytest.mark.spark
def test_small_stages_give_the_same_in_the_driver_and_large_ones_stay_on_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected, _ = run("embedded", 0, None, tmp_path / "embedded")
    assert len(expected) > 10
    assert run("spark", 100, spark, tmp_path / "here") == (expected, ["embedded"] * 6)
    assert run("spark", 0, spark, tmp_path / "there") == (expected, ["spark"] * 6)
    taken, engines = run("spark", 39, spark, tmp_path / "both")
    assert taken == expected
    assert engines == ["spark, embedded"] * 6, "the first stage has 40 tuples, later ones have fewer"


@pytest.mark.spark
def test_a_tuple_on_which_an_expression_fails_gives_the_error_of_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    def failing(rows: int) -> str:
        topology = TridentTopology()
        numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[1, 0]]))
        sink(numbers.each({"m": 10 / col("n")}))
        folder = tmp_path / str(rows)
        started = topology.start(spark, checkpointLocation=folder, driverRows=rows, maxAttempts=1)
        with pytest.raises(BatchFailedError) as raised, started as running:
            running.processAllAvailable(timeout=60)
        assert isinstance(raised.value.__cause__, UserFunctionError)
        return str(raised.value)

    assert failing(10) == failing(0)


@pytest.fixture
def slots(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The slots of engines on Spark that a test makes."""
    made: list[Any] = []
    init = SmallStagesSlot.__init__

    def noted(self: Any, *args: Any) -> None:
        init(self, *args)
        made.append(self)

    monkeypatch.setattr(SmallStagesSlot, "__init__", noted)
    return made


@pytest.mark.spark
def test_a_stage_that_the_driver_cannot_compute_runs_on_spark_in_the_same_attempt_and_from_then_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = list[int]()

    def without_memory(*args: object) -> Any:
        calls.append(1)
        raise MemoryError("too many pairs")

    monkeypatch.setattr(ArrowSlot, "run", without_memory)
    topology, feeder = TridentTopology(), FeederBatchSpout("n long")
    topology.newStream("s", feeder).persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    with topology.start(spark, checkpointLocation=tmp_path, driverRows=10, maxAttempts=1, maxSpoutPending=1) as running:
        for n in range(3):
            feeder.feed([(n,)], wait=True, timeout=60)
        assert running.state("sum").value == 3 and len(calls) == 1
        assert engines_of(running) == ["spark"] * 3
    assert "runs on Spark from now on: MemoryError('too many pairs')" in caplog.text


@pytest.mark.spark
def test_a_stage_with_a_large_result_runs_on_spark_from_then_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_stages, "RESULT_BYTES", 100)
    topology, feeder = TridentTopology(), FeederBatchSpout("n long")
    stream = topology.newStream("s", feeder)
    sink(stream.join(stream.project("n"), ["n"], ["n"]))
    with topology.start(spark, checkpointLocation=tmp_path, driverRows=10, maxSpoutPending=1) as running:
        for _ in range(3):
            feeder.feed([(1,)] * 8, wait=True, timeout=60)
        assert engines_of(running) == ["embedded", "spark", "spark"]


class Waiting:
    """A slot that runs until it is cancelled."""

    def __init__(self) -> None:
        self.runs, self.cancelled, self.closed = threading.Event(), threading.Event(), False

    def run(self, *args: object) -> Any:
        self.runs.set()
        assert self.cancelled.wait(20)
        raise AttemptCancelledError("cancelled")

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("rows", [1, 3])
def test_cancel_stops_the_slot_that_runs(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = TridentTopology()
    sink(topology.newStream("s", FixedBatchSpout("n long", [])).filter(col("n") > 1))
    (group,) = cut(topology).groups
    there, here = Waiting(), Waiting()
    monkeypatch.setattr(small_stages, "ArrowSlot", lambda *args: here)
    slot = SmallStagesSlot(group, stages_without_user_code(group), 2, there, None)
    stage, errors = group.stages[0], list[BaseException]()

    def attempt() -> None:
        try:
            slot.run(stage, {stage.inputs[0]: pa.table({"n": [1] * rows})}, TransactionAttempt(1, 0), tmp_path)
        except AttemptCancelledError as error:
            errors.append(error)

    running, other = (here, there) if rows == 1 else (there, here)
    thread = threading.Thread(target=attempt)
    thread.start()
    assert running.runs.wait(20)
    slot.cancel()
    thread.join(20)
    assert len(errors) == 1 and not other.cancelled.is_set()
    slot.close()
    assert here.closed and there.closed
