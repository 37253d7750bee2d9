"""An idle topology stays as it was: no attempts used up, no busier polling, its first batch like any other."""

import threading
import time
from typing import Any

import pyarrow as pa

from tests.run.test_coordinator import attempt, made, of, planned
from trident import Count, TridentTopology
from trident.run import events as on
from trident.run.coordinator import Coordinator
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing import PAUSE, ManualClock, TestSource
from trident.testing.local import start_local
from trident_spouts.executor import Metadata, SpoutKind


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


class Counting(FeederBatchSpout):
    """A feeder that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__("word string")
        self.asked = 0

    def _plan(self, previous: Metadata) -> Metadata:
        self.asked += 1
        return super()._plan(previous)


def test_waiting_for_an_idle_topology_again_and_again_does_not_make_it_poll_more() -> None:
    spout = Counting()
    assert spout.kind is SpoutKind.NON_TRANSACTIONAL
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="idle") as running:
        for _ in range(60):
            running.processAllAvailable(timeout=10)
        time.sleep(1.0)
        before = spout.asked
        time.sleep(2.0)
        assert spout.asked - before <= 8  # twice a second
