"""An idle topology stays as it was: no attempts used up, no busier polling, its first batch like any other."""

import queue
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.batches.test_coordinator import attempt, made, of, planned
from tests.support.soak import some_of
from trident import Count, TridentTopology
from trident.batches import coordinator_events as on
from trident.batches.coordinator import Coordinator
from trident.spouts import BatchSpout, FeederBatchSpout, IterableSpout
from trident.state import MemoryMapState
from trident.testing import PAUSE, ManualClock, TestOutput, TestSource
from trident.testing.local import start_local
from trident_spouts.executor import Metadata
from trident_spouts.feeder_batch_spout import _FeederExecutor


def test_asking_an_idle_source_uses_no_attempt_up() -> None:
    coordinator = made()
    action = of(on.Plan, coordinator.start())[0]
    for _ in range(2000):  # a quarter of an hour, at 500 ms
        assert action.attempt == attempt(1)
        coordinator.handle(on.NothingThere(action.attempt))
        action = of(on.Plan, coordinator.handle(on.Woken()))[0]
    assert of(on.Run, coordinator.handle(planned(1)))[0].attempt == attempt(1)


def test_an_attempt_that_failed_stays_counted_while_its_source_is_idle() -> None:
    coordinator = made(replans=True)
    coordinator.start()
    coordinator.handle(planned(1))
    coordinator.handle(on.NothingThere(attempt(2)))
    replan = of(on.Plan, coordinator.handle(on.RunFailed(attempt(1), ValueError("no"))))
    assert [action.attempt for action in replan] == [attempt(1, 1)]
    assert asked(coordinator, attempt(1, 1)) == attempt(1, 2)
    assert asked(coordinator, attempt(1, 2)) == attempt(1, 2)


def asked(coordinator: Coordinator, given: Any) -> Any:
    """The attempt that is planned next, after `given` had nothing."""
    coordinator.handle(on.NothingThere(given))
    return of(on.Plan, coordinator.handle(on.Woken()))[0].attempt


def test_a_sleep_ends_when_nothing_is_in_flight_any_more() -> None:
    """The source had nothing while batch 1 was under way: the plan after its commit tells that the group rests."""
    coordinator = made()
    coordinator.start()
    coordinator.handle(planned(1))
    assert of(on.Sleep, coordinator.handle(on.NothingThere(attempt(2))))
    for event in (on.Ran(attempt(1)), on.Frozen(attempt(1), {"s": {"end": 10}}), on.Committed(1)):
        assert of(on.Rest, coordinator.handle(event)) == []
    (plan,) = of(on.Plan, coordinator.handle(on.Succeeded(1)))
    assert of(on.Rest, coordinator.handle(on.NothingThere(plan.attempt))) == [on.Rest()]


def test_a_clock_that_stands_still_keeps_no_wait_from_its_end() -> None:
    """The plan that finds the PAUSE comes back while batch 1 is under way, and then no time passes."""
    source, paused = TestSource("word string", [["a"], PAUSE, ["b"]]), threading.Event()
    topology = TridentTopology()

    def wait(table: pa.Table, txid: int, attempt: int) -> None:
        assert paused.wait(20)

    topology.newStream("words", source).foreachArrow(wait, name="out")
    with start_local(topology, clock=ManualClock()) as running:
        threading.Timer(0.3, paused.set).start()  # the wait has asked for a plan by then, which found nothing
        running.processAllAvailable(timeout=10)
        assert source.committed == [1]


class Counting(BatchSpout):
    """A source without rows that counts how often it is asked."""

    outputFields = "word string"

    def __init__(self) -> None:
        self.asked = 0

    def emitBatch(self, batchId: int) -> None:
        self.asked += 1


def idle(spout: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def test_waiting_for_an_idle_topology_again_and_again_does_not_make_it_poll_more() -> None:
    spout = Counting()
    with start_local(idle(spout), name="idle") as running:
        for _ in range(60):
            running.processAllAvailable(timeout=10)
        time.sleep(1.0)
        before = spout.asked
        time.sleep(1.5)
        assert 1 <= spout.asked - before <= 6  # twice a second


# --- sources that wake their run --------------------------------------------------------------------------------------


def test_a_source_that_wakes_its_run_is_not_asked_while_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    plan = _FeederExecutor.plan

    def counted(self: Any, *arguments: Any) -> Metadata:
        asked.append(time.monotonic())
        return plan(self, *arguments)

    monkeypatch.setattr(_FeederExecutor, "plan", counted)
    feeder = FeederBatchSpout("word string")
    with start_local(idle(feeder), name="idle") as running:
        time.sleep(1.5)  # the sleeps have grown to a second by now
        for _ in range(3):
            before, began = len(asked), time.monotonic()
            feeder.feed(["cow"], wait=True, timeout=10)
            assert time.monotonic() - began < 0.45, "a run that asks twice a second takes longer sometimes"
            time.sleep(0.3)
            assert len(asked) - before <= 14, "the batch, and the sleeps of 1, 2, 4 ms and so on behind it"
        time.sleep(2.2)  # the sleeps have grown to two seconds
        before = len(asked)
        time.sleep(1.8)
        assert len(asked) - before <= 1
        assert running.state("counts")["cow"] == 3


def test_an_iterator_that_gives_a_row_after_a_pause_wakes_its_run() -> None:
    given: queue.SimpleQueue[str] = queue.SimpleQueue()
    output = TestOutput()
    topology = TridentTopology()
    topology.newStream("words", IterableSpout("word string", iter(given.get, "end"), maxDelaySecs=0)).foreachArrow(
        output
    )
    with start_local(topology, name="idle") as running:
        for word in ("cow", "dog"):
            time.sleep(1.2)  # the sleep that has begun by now ends after the deadline
            given.put(word)
            deadline = time.monotonic() + 0.7
            while word not in [row.word for row in output.rows] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert output.rows[-1].word == word, "the run slept on"
        given.put("end")
        running.processAllAvailable(timeout=10)


def test_rows_that_come_while_their_source_is_asked_are_not_slept_over() -> None:
    coordinator = made()
    coordinator.start()
    assert coordinator.handle(on.RowsCame()) == [], "a plan is under way"
    actions = coordinator.handle(on.NothingThere(attempt(1)))
    assert [type(action) for action in actions] == [on.Plan], "no rest, and no sleep"
    actions = coordinator.handle(on.NothingThere(attempt(1)))
    assert [type(action) for action in actions] == [on.Rest, on.Sleep]
    assert [type(action) for action in coordinator.handle(on.RowsCame())] == [on.Plan]


def test_a_spout_that_was_closed_wakes_nobody() -> None:
    feeder, woken = FeederBatchSpout("word string"), []
    executor: Any = feeder.open()
    executor.on_rows(lambda: woken.append(1))
    feeder.feed(["cow"])
    executor.close()
    feeder.feed(["cow"])  # for a run that begins later
    assert woken == [1]


@pytest.mark.parametrize("waking", some_of([True, False], [False]))
def test_an_idle_topology_takes_less_than_two_percent_of_a_core(waking: bool) -> None:
    with start_local(idle(FeederBatchSpout("word string") if waking else Counting()), name="idle") as running:
        running.processAllAvailable(timeout=10)
        time.sleep(1.5)
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(2.5)
        assert (time.process_time() - cpu) / (time.monotonic() - began) < 0.02
