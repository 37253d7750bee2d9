"""The warm-up of Spark while a topology starts: once for each Spark, without user code, its failures only logged."""

import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trident import Count, Function, TridentTopology
from trident.base.errors import TopologyError
from trident.compiler.spark import sessions, warm_up
from trident.compiler.spark.warm_up import WarmUp, import_all
from trident.operations.context import OperationContext
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

LOGGER = "trident.compiler.spark.warm_up"


class FakeSpark:
    """A Spark of which nothing works but to be known."""

    def __init__(self) -> None:
        self.began, self.interrupted = threading.Event(), threading.Event()
        self._sc = threading.Event()

    def newSession(self) -> Any:
        raise RuntimeError("the gateway is gone")

    def interruptAll(self) -> None:
        self.interrupted.set()


def words(function: Any = str.upper) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"], ["a"]]))
    stream = stream.each("word", function, "upper string")
    stream.groupBy("upper").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def begun(spark: Any, topology: TridentTopology) -> WarmUp | None:
    return WarmUp.begin(spark, topology.nodes)


def finished(warm: WarmUp | None) -> None:
    assert warm is not None
    warm._thread.join(120)
    assert not warm._thread.is_alive()


def test_a_failure_is_logged_at_debug_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        finished(begun(FakeSpark(), words()))
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG and "the gateway is gone" in str(record.exc_info)
    assert record.message == "Spark was not warmed up; the first batch is slower"


@pytest.mark.parametrize(("setting", "lines"), [("true", 0), ("True", 0), ("false", 1), (None, 1)])
def test_a_spark_that_speaks_to_its_workers_over_tcp_is_named(
    caplog: pytest.LogCaptureFixture, setting: str | None, lines: int
) -> None:
    session: Any = SimpleNamespace(conf={} if setting is None else {sessions.UNIX_SOCKETS: setting})
    with caplog.at_level(logging.INFO, LOGGER):
        warm_up.tell_of_sockets(session)
    text = "start Spark with spark.python.unix.domain.socket.enabled=true: over TCP each task with a Python function"
    assert [record.message for record in caplog.records] == [f"{text} waits 40 ms"] * lines


def test_a_spark_is_warmed_up_once_and_once_more_when_workers_are_needed() -> None:
    spark, native, python = FakeSpark(), TridentTopology(), words()
    assert begun(spark, native) is not None and begun(spark, native) is None
    assert begun(spark, python) is not None and begun(spark, python) is None and begun(spark, native) is None
    assert begun(FakeSpark(), native) is not None
    assert begun("no session", python) is None


def test_an_end_interrupts_its_jobs_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark()

    def hang(self: WarmUp, session: FakeSpark) -> None:
        session.began.set()
        assert session.interrupted.wait(60)

    monkeypatch.setattr(sessions, "run_session", lambda given: given)
    monkeypatch.setattr(WarmUp, "_warm", hang)
    warm = begun(spark, words())
    assert warm is not None and spark.began.wait(60)
    warm.end()
    finished(warm)
    assert spark.interrupted.is_set()


def test_a_start_that_is_refused_ends_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr(WarmUp, "end", lambda self: ended.append(self))
    with pytest.raises(TopologyError, match="start has no option 'maxAttempt'"):
        words().start(FakeSpark(), maxAttempt=3)  # type: ignore[call-arg, arg-type]
    assert len(ended) == 1


def test_the_embedded_engine_warms_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WarmUp, "begin", lambda *given: pytest.fail("a warm-up"))
    with words().start(engine="embedded", name="embedded") as running:
        running.processAllAvailable()
        assert dict(running.state("counts").items()) == {"A": 2, "B": 1}


class Noting(Function):
    """A function that notes each call of its own, and where it was prepared, in a file."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def prepare(self, context: OperationContext) -> None:
        self.note("prepare")

    def execute(self, tuple: Any, collector: Any) -> None:
        self.note(tuple[0])
        collector.emit([tuple[0].upper()])

    def cleanup(self) -> None:
        self.note("cleanup")

    def note(self, text: str) -> None:
        with self.notes.open("a") as notes:
            notes.write(text + "\n")


@pytest.mark.spark
@pytest.mark.parametrize("python", [True, False])
def test_spark_warms_up_and_the_session_stays_as_it_was(
    spark: SparkSession, python: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warm_up, "_warm", {})
    active, confs = SparkSession.getActiveSession(), dict(spark.conf.getAll)
    with caplog.at_level(logging.DEBUG, LOGGER):
        finished(begun(spark, words() if python else TridentTopology()))
    (debug,) = (record.message for record in caplog.records if record.levelno == logging.DEBUG)
    assert debug.startswith("Spark is warm after")
    assert SparkSession.getActiveSession() is active and dict(spark.conf.getAll) == confs


@pytest.mark.spark
def test_a_start_calls_user_code_as_often_as_without_a_warm_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    for name, sparks in (("warm", {}), ("cold", {spark._sc: True} if hasattr(spark, "_sc") else {spark: True})):
        monkeypatch.setattr(warm_up, "_warm", sparks)
        with words(Noting(tmp_path / name)).start(spark, name=name) as running:
            running.processAllAvailable(timeout=120)
            assert dict(running.state("counts").items()) == {"A": 2, "B": 1}
        calls.append(sorted((tmp_path / name).read_text().split()))
    assert calls[0] == calls[1]
    assert calls[0].count("a") == 2 and calls[0].count("b") == 1


def test_a_worker_hands_its_rows_on() -> None:
    batch = pa.record_batch({"line": ["warm up"]})
    assert list(import_all(iter([batch]))) == [batch]
