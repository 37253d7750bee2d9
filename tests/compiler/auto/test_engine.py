"""Stages that choose their engine. A second engine of this process plays Spark, so that no JVM is needed."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.auto.choice import EngineChoice, Size
from trident.compiler.auto.deferred_spark import DeferredSpark
from trident.compiler.auto.engine import AutoEngine
from trident.compiler.engine import Slot
from trident.compiler.program import Group, Stage
from trident.errors import AttemptCancelledError, BatchFailedError
from trident.frozen.results import StageResult
from trident.plan.nodes import Node
from trident.run.running import RunningTopology
from trident.run.start import start_on
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_options


class Other(ArrowEngine):
    """An engine in the place of Spark. `fails`: raises these errors first, one for each stage."""

    def __init__(self, *fails: Exception) -> None:
        super().__init__()
        self.fails = list(fails)
        self.ran = 0
        self.asked = threading.Event()

    def slot(self, group: Group) -> Any:
        return Failing(super().slot(group), self)


class Failing:
    def __init__(self, slot: Slot, engine: Other) -> None:
        self._slot, self._engine = slot, engine
        self.close, self.cancel = slot.close, slot.cancel

    def run(self, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt, scratch: Path) -> StageResult:
        self._engine.asked.set()
        if self._engine.fails:
            raise self._engine.fails.pop(0)
        self._engine.ran += 1
        return self._slot.run(stage, inputs, attempt, scratch)


def counting(batches: list[list[str]]) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", batches))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def started(topology: TridentTopology, later: DeferredSpark, tuples: int = 10**6, **options: Any) -> RunningTopology:
    options = start_options(topology, options)
    return start_on(lambda settings: AutoEngine(later, EngineChoice(tuples, 10**9), True), topology, **options)


def engines_of(running: RunningTopology) -> list[str]:
    return [event["engine"] for event in running.recentProgress if event["event"] == "committed"]


def later(make: Callable[[], Any]) -> DeferredSpark:
    return DeferredSpark(make)


def test_small_batches_need_no_spark_and_say_where_they_ran(tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError("no batch needs Spark")

    with started(counting([["a"], ["a", "b"]]), later(never), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert engines_of(running) == ["embedded", "embedded"] and running.engine == "auto"
        assert [event["stages"] for event in running.recentProgress] == [{"1": "embedded"}] * 2
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}


def test_an_input_that_does_not_fit_waits_for_spark_and_the_next_one_does_not(tmp_path: Path) -> None:
    other, asked = Other(), threading.Event()

    def slowly() -> Any:
        asked.set()
        time.sleep(0.3)
        return other

    with started(counting([["a"], ["a"] * 3, ["b"]]), later(slowly), 2, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert asked.is_set() and engines_of(running)[:2] == ["embedded", "spark"] and other.ran >= 1
        assert dict(running.state("counts").items()) == {"a": 4, "b": 1}


def test_a_spark_that_does_not_start_fails_only_the_batch_that_needs_it_and_is_tried_again(tmp_path: Path) -> None:
    errors = [OSError("no Java"), OSError("no Java yet")]

    def make() -> Any:
        if errors:
            raise errors.pop(0)
        return Other()

    with started(counting([["a"], ["a"] * 3, ["b"]]), later(make), 2, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        failed = [event["error"] for event in running.recentProgress if event["event"] == "failed"]
        assert [text.partition(": ")[2] for text in failed] == ["no Java", "no Java yet"]
        assert dict(running.state("counts").items()) == {"a": 4, "b": 1}


def test_the_attempt_after_a_failure_of_spark_runs_in_the_driver(tmp_path: Path) -> None:
    feeder, topology, other = FeederBatchSpout("word string"), TridentTopology(), Other(OSError("executor lost"))
    words = topology.newStream("words", feeder)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    up = later(lambda: other)
    up.get()
    choice = EngineChoice(10**6, 10**9)
    for _ in range(3):
        choice.ran("words", 1, "embedded", ONE, 1.0)
        choice.ran("words", 1, "spark", ONE, 0.001)
    options = start_options(topology, {"checkpointLocation": tmp_path})
    with start_on(lambda settings: AutoEngine(up, choice, True), topology, **options) as running:
        feeder.feed([("a",)], wait=True, timeout=20)
        assert [event["engine"] for event in running.recentProgress] == ["auto", "embedded"]
        assert running.state("counts")["a"] == 1


ONE = Size(1, None)


def test_an_attempt_that_waits_for_spark_can_be_cancelled(tmp_path: Path) -> None:
    go = threading.Event()

    def blocked() -> Any:
        go.wait(30)
        return Other()

    with (
        pytest.raises(BatchFailedError, match="0.2"),
        started(
            counting([["a"] * 3]),
            later(blocked),
            2,
            checkpointLocation=tmp_path,
            messageTimeoutSecs=0.2,
            maxAttempts=1,
        ) as running,
    ):
        running.processAllAvailable(timeout=20)
    go.set()


def test_a_run_that_ends_while_spark_comes_up_closes_it_later() -> None:
    go, closed = threading.Event(), threading.Event()

    class Closing(Other):
        def close(self) -> None:
            closed.set()

    def blocked() -> Any:
        go.wait(30)
        return Closing()

    coming = later(blocked)
    coming.begin("asked")
    coming.close()
    with pytest.raises(AttemptCancelledError, match="the run has ended"):
        coming.get()
    go.set()
    assert closed.wait(10)


def test_a_failed_begin_is_not_repeated_by_itself() -> None:
    tries: list[int] = []

    def make() -> Any:
        tries.append(1)
        raise OSError("no Java")

    coming = later(make)
    for _ in range(3):
        coming.begin("asked")
        time.sleep(0.05)
    assert len(tries) == 1 and coming.engine is None
    with pytest.raises(OSError, match="no Java"):
        coming.get()
    assert len(tries) == 2


def test_explain_shows_both_runners(capsys: pytest.CaptureFixture[str]) -> None:
    counting([["a"]]).explain("auto")
    told = capsys.readouterr().out
    assert "engine auto" in told and "driver or Spark" in told


def test_the_attempt_after_a_lack_of_memory_waits_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trident.compiler.arrow.engine import ArrowSlot

    runs, run = list[int](), ArrowSlot.run

    def short(self: ArrowSlot, *args: Any) -> StageResult:
        runs.append(1)
        if len(runs) == 1:
            raise MemoryError("malloc of size 1 failed")
        return run(self, *args)

    monkeypatch.setattr(ArrowSlot, "run", short)
    with started(counting([["a"]]), later(Other), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert [event["engine"] for event in running.recentProgress] == ["auto", "spark"]


def test_an_attempt_that_was_cut_off_counts_with_the_time_that_it_took(tmp_path: Path) -> None:
    """Once the call that was cut off has returned, the stage counts as slow in the driver."""
    topology, calls, other = TridentTopology(), list[str](), Other()

    def slow(word: str) -> str:
        calls.append(threading.current_thread().name)
        if not other.asked.is_set():
            time.sleep(0.4)
        return word

    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"]])).each("word", slow, "same string")
    words.groupBy("same").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    up = later(lambda: other)
    up.get()
    with started(topology, up, checkpointLocation=tmp_path, messageTimeoutSecs=0.3) as running:
        running.processAllAvailable(timeout=20)
        assert engines_of(running) == ["spark"]
