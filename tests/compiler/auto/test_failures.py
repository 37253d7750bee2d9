"""Engines that fail in a run with ``engine="auto"``: what the next attempt does, and what is left for good."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.auto.test_engine import Other, counting, engines_of, later, started
from trident import Count, MapGet, TridentTopology, expr
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.auto.choice import EngineChoice, Size
from trident.compiler.auto.deferred_spark import DeferredSpark
from trident.compiler.auto.engine import AutoEngine
from trident.compiler.program import Group
from trident.errors import AttemptCancelledError, BatchFailedError, SparkSetupError, UserCodeError
from trident.frozen.results import StageResult
from trident.run import engines
from trident.run.running import RunningTopology
from trident.run.start import start_on
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_options


class Slotless(Other):
    """An engine that makes no slot."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def slot(self, group: Group) -> Any:
        raise self.error


def where_spark_seems_sooner(topology: TridentTopology, spark: Other, **options: Any) -> RunningTopology:
    """Start a topology with a Spark that is up, and is expected to be sooner for stage 1 of "words"."""
    choice, up = EngineChoice(10, 10**9), later(lambda: spark)
    up.get()
    for _ in range(3):
        choice.ran("words", 1, "embedded", Size(1, None), 1.0)
        choice.ran("words", 1, "spark", Size(1, None), 0.001)
    return start_on(lambda settings: AutoEngine(up, choice, True), topology, **start_options(topology, options))


def told(running: RunningTopology) -> list[tuple[str, str]]:
    return [(event["event"], event["engine"]) for event in running.recentProgress]


@pytest.mark.parametrize("error", [UserCodeError("it holds a lock"), SparkSetupError("no module in the workers")])
def test_a_group_that_spark_cannot_run_stays_in_the_driver_without_a_failed_attempt(
    error: Exception, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with where_spark_seems_sooner(counting([["a"], ["b"]]), Slotless(error), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert told(running) == [("committed", "embedded")] * 2
    warned = [record.message for record in caplog.records if "cannot run on Spark" in record.message]
    assert warned and str(error) in warned[0]


def test_a_batch_that_does_not_fit_the_driver_then_fails_with_the_reason(tmp_path: Path) -> None:
    spark = Slotless(UserCodeError("it holds a lock"))
    with (
        pytest.raises(BatchFailedError, match="would fail again: it holds a lock"),
        where_spark_seems_sooner(counting([["a"] * 20]), spark, checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)


def test_the_attempt_after_one_that_got_no_slot_of_spark_runs_in_the_driver(tmp_path: Path) -> None:
    spark = Slotless(OSError("the JVM is gone"))
    with where_spark_seems_sooner(counting([["a"]]), spark, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert told(running) == [("failed", "auto"), ("committed", "embedded")]


def test_a_lack_of_memory_in_a_function_moves_the_next_attempt_to_spark(tmp_path: Path) -> None:
    topology, calls = TridentTopology(), list[str]()

    def greedy(word: str) -> str:
        calls.append(word)
        if len(calls) == 1:
            raise MemoryError
        return word

    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]])).each("word", greedy, "same string")
    words.groupBy("same").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with started(topology, later(Other), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert told(running) == [("failed", "auto"), ("committed", "spark")]


def test_after_a_lack_of_memory_the_driver_tries_again_if_spark_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, run = list[int](), ArrowSlot.run

    def short(self: ArrowSlot, *args: Any) -> StageResult:
        runs.append(1)
        if len(runs) == 1:
            raise MemoryError
        return run(self, *args)

    def no_java() -> Any:
        raise OSError("no Java")

    monkeypatch.setattr(ArrowSlot, "run", short)
    with started(counting([["a"]]), later(no_java), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert told(running) == [("failed", "auto"), ("failed", "auto"), ("committed", "embedded")]


# --- Spark comes up -------------------------------------------------------------------------------------------------


def test_a_wait_for_spark_ends_with_the_run() -> None:
    go, errors = threading.Event(), list[Exception]()

    def blocked() -> Any:
        go.wait(30)
        return Other()

    coming = later(blocked)

    def wait() -> None:
        try:
            coming.get()
        except AttemptCancelledError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while coming._future is None:  # noqa: SLF001
        time.sleep(0.01)
    coming.close()
    waiting.join(20)
    assert not waiting.is_alive() and errors
    go.set()


def test_the_session_that_is_active_in_the_starting_thread_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the thread in which Spark comes up, another session is active, with other settings."""
    given = list[Any]()

    def warm(session: Any, *_: Any) -> Other:
        given.append(session)
        return Other()

    monkeypatch.setattr(engines, "is_at_hand", lambda spark: True)
    monkeypatch.setattr(engines, "session_for", lambda spark: threading.current_thread().name)
    monkeypatch.setattr(engines, "_warm_engine", warm)
    with counting([["a"] * 3]).start(engine="auto", checkpointLocation=tmp_path, autoRows=2) as running:
        running.processAllAvailable(timeout=20)
        assert given == [threading.current_thread().name] and engines_of(running) == ["spark"]


def test_a_session_is_left_alone_until_a_stage_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on Spark beside small batches would make them slow."""
    feeder, topology, waits, up = FeederBatchSpout("word string"), TridentTopology(), [0.0], threading.Event()

    def warm(*_: Any) -> Other:
        up.set()
        return Other()

    def slow(word: str) -> str:
        time.sleep(waits[0])
        return word

    words = topology.newStream("words", feeder).each("word", slow, "same string")
    words.groupBy("same").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    monkeypatch.setattr(engines, "is_at_hand", lambda spark: True)
    monkeypatch.setattr(engines, "session_for", lambda spark: None)
    monkeypatch.setattr(engines, "_warm_engine", warm)
    with topology.start(engine="auto", checkpointLocation=tmp_path):
        for _ in range(3):
            feeder.feed([("a",)], wait=True, timeout=20)
        quiet = not up.is_set()
        waits[0] = 1.0
        for _ in range(5):
            feeder.feed([("a",)], wait=True, timeout=20)
        assert quiet and up.wait(20)


@pytest.mark.parametrize("by", ["function", "output", "branch"])
def test_spark_comes_up_at_once_for_a_step_outside_the_stages_that_only_spark_can_run(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request, or the first batch of an output, should not wait for it."""
    topology, why = TridentTopology(), list[str]()
    words = topology.newStream("words", FixedBatchSpout("word string", []))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    if by == "function":
        asked = topology.newDRPCStream("twice", "word string").stateQuery(counts, "word", MapGet(), "count")
        asked.each("count", expr("2 * count"), "twice long")
    elif by == "output":
        words.foreachBatch(lambda frame, txid, attempt: None, name="frames")
    else:
        words.bestEffort().each("word", expr("upper(word)"), "upper string").peek("upper", print)
    monkeypatch.setattr(engines, "is_at_hand", lambda spark: False)
    monkeypatch.setattr(DeferredSpark, "begin", lambda self, reason: why.append(reason))
    with topology.start(engine="auto", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    assert why and why[0].endswith("can only run on Spark")
