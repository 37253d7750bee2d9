"""A source that is at its limit, or has not answered yet, is not empty: no run ends or rests because of it."""

import queue
import re
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.batches.test_coordinator import attempt, made, of, planned
from tests.spouts.messages.queue_spout import Queue, QueueSpout
from trident import TridentTopology
from trident.batches import coordinator_events as on
from trident.errors import SpoutContractError, TopologyError
from trident.log.group_records import History
from trident.spouts import (
    BatchCoordinator,
    BatchSpout,
    Collector,
    Emitter,
    FixedBatchSpout,
    IterableSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    RichSpout,
    SpoutKind,
    TransactionSpout,
    TridentSpout,
)
from trident.testing import SpoutContract, TestOutput
from trident.testing.contracts.spouts import MakeSpout
from trident.testing.local import start_local
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.executor import SpoutExecutor, WaitingExecutor

WORDS = [f"word{n}" for n in range(6)]


# --- the state machine ------------------------------------------------------------------------------------------------


def test_a_source_that_waits_is_no_rest_and_ends_no_drain() -> None:
    coordinator = made()
    coordinator.start()
    coordinator.handle(on.DrainAsked())
    actions = coordinator.handle(on.NothingThere(attempt(1), "its answer"))
    assert [type(action) for action in actions] == [on.Sleep]
    assert coordinator.waits_for == "its answer"
    coordinator.handle(on.Woken())
    actions = coordinator.handle(on.NothingThere(attempt(1)))
    assert of(on.Rest, actions) and of(on.Finish, actions)
    assert coordinator.waits_for is None


def test_a_source_that_has_rows_waits_no_more() -> None:
    coordinator = made()
    coordinator.start()
    coordinator.handle(on.NothingThere(attempt(1), "its answer"))
    coordinator.handle(on.Woken())
    coordinator.handle(planned(1))
    assert coordinator.waits_for is None


@pytest.mark.parametrize("history", [None, History(3, {"s": {"end": 30}})], ids=["same-run", "restarted"])
def test_a_source_that_has_not_heard_of_the_last_commit_is_not_asked_for_the_last_time(history: Any) -> None:
    coordinator = made(history=history)
    coordinator.start()
    txid = 1 if history is None else 4
    if history is None:
        coordinator.handle(planned(1))
        for event in (on.Ran(attempt(1)), on.Frozen(attempt(1), {"s": {"end": 10}}), on.Committed(1)):
            coordinator.handle(event)
        txid = 2
    coordinator.handle(on.DrainAsked())
    actions = coordinator.handle(on.NothingThere(attempt(txid)))
    assert of(on.Rest, actions) == [] and of(on.Finish, actions) == []
    (plan,) = of(on.Plan, coordinator.handle(on.Succeeded(txid - 1)))
    actions = coordinator.handle(on.NothingThere(plan.attempt))
    assert of(on.Rest, actions) and of(on.Finish, actions)


# --- every contract of a user's spout ---------------------------------------------------------------------------------


class Slow:
    """Gives its words at every third call only, and says so in between."""

    outputFields = "word string"
    _calls = count()
    late = False

    def answers(self) -> bool:
        self.late = next(self._calls) % 3 != 0
        return not self.late

    def waitsFor(self) -> str | None:
        return "the third call" if self.late else None


class SlowBatches(Slow, BatchSpout):
    def emitBatch(self, batchId: int) -> Any:
        return WORDS[batchId * 2 - 2 : batchId * 2] if self.answers() else None


class SlowOpaque(Slow, OpaquePartitionedSpout):
    def getPartitions(self) -> list[str]:
        return ["all"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at = lastMetadata or 0
        return (WORDS[at : at + 2], at + 2) if at < len(WORDS) and self.answers() else (None, None)


class SlowPartitions(Slow, PartitionedSpout):
    def getPartitions(self) -> list[str]:
        return ["all"]

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at = lastMetadata or 0
        return (WORDS[at : at + 2], at + 2) if self.answers() and at < len(WORDS) else (None, None)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return WORDS[metadata - 2 : metadata]


class SlowCoordinator(Slow, BatchCoordinator):
    last = 0

    def isReady(self, txid: int) -> bool:
        return self.answers() and self.last < len(WORDS)

    def initializeTransaction(self, txid: int, prevMetadata: Any, currMetadata: Any) -> Any:
        self.last = currMetadata or (prevMetadata or 0) + 2
        return self.last


class Words(Emitter):
    def emitBatch(self, attempt: Any, metadata: Any) -> Any:
        return WORDS[metadata - 2 : metadata]


class SlowTrident(TridentSpout):
    outputFields = "word string"

    def getCoordinator(self) -> BatchCoordinator:
        return SlowCoordinator()

    def getEmitter(self) -> Emitter:
        return Words()


class SlowMessages(Slow, RichSpout):
    tracking = "none"

    def __init__(self) -> None:
        self.left = list(WORDS)

    def nextTuple(self, collector: Collector) -> None:
        if self.answers() and self.left:
            collector.emit(self.left.pop(0))


class SlowTransactions(Slow, TransactionSpout):
    at = 0

    def initState(self, checkpoint: Any) -> None:
        self.at = checkpoint or 0

    rollback = initState

    def nextTuple(self, collector: Collector) -> None:
        if self.answers() and self.at < len(WORDS):
            collector.emit(WORDS[self.at])
            self.at += 1

    def finishBatch(self, txid: int) -> Any:
        return self.at


ALL = [SlowBatches, SlowOpaque, SlowPartitions, SlowMessages, SlowTransactions]


@pytest.mark.parametrize("spout", ALL)
class TestSlowSpouts(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return WORDS

    @pytest.fixture
    def make_spout(self, spout: Callable[[], Any]) -> MakeSpout:
        return spout


@pytest.mark.parametrize("spout", [*ALL, SlowTrident])
def test_waiting_for_all_that_is_available_waits_for_a_slow_spout(spout: Callable[[], Any]) -> None:
    output, topology = TestOutput(), TridentTopology()
    topology.newStream("slow", spout()).foreachArrow(output)
    with start_local(topology) as running:
        running.processAllAvailable(timeout=20)
        assert sorted(row.word for row in output.rows) == WORDS


def test_a_reason_that_is_no_text_is_refused() -> None:
    class Odd(SlowBatches):
        def waitsFor(self) -> Any:
            return self.late

    spout = Odd()
    spout.late = True
    executor: Any = as_spout(spout).open()
    with pytest.raises(SpoutContractError, match=r"Odd.waitsFor returned True \(bool\): expected None if the source"):
        executor.waits_for()


def test_a_spout_that_has_the_methods_and_not_the_base_is_empty_if_it_gives_nothing() -> None:
    class Bare:
        outputFields = "word string"
        kind = SpoutKind.TRANSACTIONAL

        def open(self) -> None: ...

        def close(self) -> None: ...

        def emitBatch(self, batchId: int) -> None: ...

    executor: Any = as_spout(Bare()).open()
    assert executor.plan(attempt(1), None, 0.0) is None and executor.waits_for() is None


# --- queues at their limit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pending", [1, 2])
@pytest.mark.parametrize("tracking", ["tracked", "emission"])
class TestAtItsLimit(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return WORDS

    @pytest.fixture
    def make_spout(self, pending: int, tracking: str) -> MakeSpout:
        return lambda: QueueSpout(Queue(dict(enumerate(WORDS))), tracking, maxRows=3, maxPending=pending)


def test_a_merged_stream_at_its_limit_keeps_the_run_from_its_end() -> None:
    output, topology = TestOutput(), TridentTopology()
    queues = [
        QueueSpout(Queue({n: f"{name}{n}" for n in range(20)}), maxPending=limit)
        for name, limit in (("a", 3), ("b", 7))
    ]
    streams = [topology.newStream(name, spout) for name, spout in zip("ab", queues, strict=True)]
    topology.merge(*streams).foreachArrow(output)
    with start_local(topology, availableNow=True) as running:
        assert running.awaitTermination(timeout=20)
    assert sorted(row.word for row in output.rows) == sorted(f"{name}{n}" for name in "ab" for n in range(20))


def test_a_queue_that_gives_only_what_is_known_for_its_time_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of the last run come again, one slowly after the other; new ones are behind them."""
    first, before = Queue({n: f"old{n}" for n in range(3)}), None
    executor: Any = as_spout(QueueSpout(first)).open()
    before = executor.plan(attempt(1), None, 0.0)
    again = Queue({n: f"old{n}" for n in range(3)} | {9: "new"})
    clock = count()
    monkeypatch.setattr("trident_spouts.messages.executor.monotonic", lambda: float(next(clock)))
    executor = as_spout(QueueSpout(again, maxSecs=2)).open()
    assert executor.plan(attempt(2), before, 0.0) is None
    assert executor.waits_for() == "for maxSecs the queue returned only messages that are already in earlier batches"
    plan = executor.plan(attempt(2), before, 0.0)
    assert executor.emit(attempt(2), plan).arrow()["word"].to_pylist() == ["new"]


@pytest.mark.parametrize(
    ("module", "spout"),
    [
        ("trident_spouts.messages.executor", lambda: QueueSpout(Queue({1: "word"}))),
        ("trident_spouts.adapters.transaction_executor", SlowTransactions),
    ],
)
def test_a_thread_that_is_late_asks_at_least_once(
    monkeypatch: pytest.MonkeyPatch, module: str, spout: Callable[[], Any]
) -> None:
    """The time of the batch is over before the first call, as when the process stood still."""
    monkeypatch.setattr(SlowTransactions, "answers", lambda self: True)
    clock = count(step=1000)
    monkeypatch.setattr(f"{module}.monotonic", lambda: float(next(clock)))
    executor: Any = as_spout(spout()).open()
    assert executor.plan(attempt(1), None, 0.0) is not None


def test_a_pause_of_the_run_is_not_the_end_of_a_queue() -> None:
    """A plan that comes to the spout after `deactivate` takes nothing, though the queue has messages."""
    executor: Any = as_spout(QueueSpout(Queue({1: "word"}))).open()
    executor.deactivate()
    assert executor.plan(attempt(1), None, 0.0) is None and executor.waits_for() == "the spout is inactive"
    executor.activate()
    assert executor.plan(attempt(1), None, 0.0) is not None


# --- iterators --------------------------------------------------------------------------------------------------------


def test_an_iterator_that_is_slow_is_read_to_its_end() -> None:
    asked = threading.Event()

    def slow() -> Iterator[str]:
        for word in WORDS[:3]:
            asked.wait(0.15)
            yield word

    output, topology = TestOutput(), TridentTopology()
    topology.newStream("slow", IterableSpout("word string", slow, batchSize=1, maxDelaySecs=0)).foreachArrow(output)
    with start_local(topology, availableNow=True) as running:
        assert running.awaitTermination(timeout=20)
    assert [row.word for row in output.rows] == WORDS[:3]


def test_the_status_and_the_error_name_what_is_waited_for() -> None:
    given: queue.SimpleQueue[str] = queue.SimpleQueue()
    topology = TridentTopology()
    topology.newStream("words", IterableSpout("word string", iter(given.get, "end"), maxDelaySecs=0)).peek(print)
    with start_local(topology) as running:
        with pytest.raises(TimeoutError) as late:
            running.processAllAvailable(timeout=0.5)
        reason = "stream 'words': the iterator has neither returned a row nor ended yet"
        assert str(late.value).endswith(f"did not process everything within 0.5 s; it waits for: {reason}")
        assert [group["waitingFor"] for group in running.status["groups"].values()] == [reason]
        given.put("end")
        running.processAllAvailable(timeout=20)


def test_the_status_and_the_error_name_the_batch_that_fails_again_and_again() -> None:
    away = threading.Event()

    def ask(word: str) -> str:
        if not away.is_set():
            raise ConnectionError("no route to 10.0.0.7")
        return word

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]]))
    words.each("word", ask, "asked string").peek(print)
    with start_local(topology, maxAttempts=None) as running:
        with pytest.raises(TimeoutError) as late:
            running.processAllAvailable(timeout=0.3)
        assert re.search(
            r"within 0.3 s; it waits for: .*batch 1, which failed \d times, the last time with: words/1:each\(ask\): "
            r".*ConnectionError: no route to 10\.0\.0\.7",
            str(late.value),
        )
        (group,) = running.status["groups"].values()
        assert "batch 1, which failed" in group["waitingFor"]
        away.set()
        running.processAllAvailable(timeout=20)
        (group,) = running.status["groups"].values()
        assert group["waitingFor"] is None


# --- previews ---------------------------------------------------------------------------------------------------------


def test_a_preview_waits_for_a_slow_spout() -> None:
    rows = TridentTopology().newStream("slow", SlowBatches()).take(2)
    assert [row.word for row in rows] == WORDS[:2]


def test_a_preview_of_a_source_that_does_not_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident.compiler.preview._PATIENCE_SECS", 0.2)
    monkeypatch.setattr(Slow, "answers", lambda self: setattr(self, "late", True))
    with pytest.raises(
        TopologyError, match="returned no row within 0.2 s, but is not empty: the third call. Try again"
    ):
        TridentTopology().newStream("slow", SlowBatches()).take(2)


def test_the_protocol_is_recognised() -> None:
    executor: SpoutExecutor = as_spout(SlowBatches()).open()
    assert isinstance(executor, WaitingExecutor)
