"""An inactive topology: it commits what it has planned, plans nothing, answers, and keeps its log."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until
from trident import Count, MapGet, TridentTopology
from trident.base.errors import TopologyConditionError, UserFunctionError
from trident.display.display import text_of
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout, PollingSpout, RichSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def more(position: int | None, limit: int) -> tuple[list[str], int]:
    first = position or 0
    return ["dog"] * limit, first + limit


def counting(function: Any = str, spout: Any = None) -> TridentTopology:
    topology = TridentTopology()
    source = spout or PollingSpout("word string", {"words": more}, maxRows=10)
    words = topology.newStream("words", source).map("word", function, "word string")
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "n").project("n")
    return topology


def computing(running: RunningTopology) -> int:
    """Return how many batches are planned, and wait in the function of the stream."""
    return [*running.status["groups"]["words"]["inFlight"].values()].count("running")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Until it is set, no batch is computed."""
    event = threading.Event()
    yield event
    event.set()


def test_what_is_planned_is_committed_and_nothing_new_begins(gate: threading.Event) -> None:
    def slow(word: str) -> str:
        gate.wait(20)
        return word

    endless = FixedBatchSpout("word string", [["dog"] * 10], cycle=True)
    with start_local(counting(slow, endless), name="held", maxSpoutPending=2) as running:
        wait_until(lambda: computing(running) == 2)
        assert not running.deactivate()
        assert running.condition == running.status["condition"] == "INACTIVE" and running.isActive
        gate.set()
        assert running.deactivate(wait=10)
        assert running.asOfTxid == {"words": 2} and running.status["groups"]["words"]["inFlight"] == {}
        assert running.state("counts")["dog"] == 20
        assert [row.n for row in running.drpc.execute("count", "dog")] == [20]
        assert text_of(running).startswith("held (inactive) ") and "inactive: words at txid 2" in repr(running)
        with pytest.raises(TopologyConditionError, match=r"group 'words' is inactive.*call activate\(\) first"):
            running.processAllAvailable(timeout=5)
        running.activate()
        assert running.condition == "ACTIVE"
        wait_until(lambda: running.asOfTxid["words"] > 4)
        running.deactivate(wait=None)
        assert running.state("counts")["dog"] == 10 * running.asOfTxid["words"]


def test_whoever_waits_for_a_rest_hears_that_none_comes(gate: threading.Event) -> None:
    with start_local(counting(lambda word: word if gate.wait(20) else word), name="waits") as running:
        wait_until(lambda: computing(running))
        threading.Timer(0.1, lambda: (running.deactivate(), gate.set())).start()
        with pytest.raises(TopologyConditionError, match="inactive"):
            running.processAllAvailable(timeout=10)


def test_a_topology_that_starts_inactive_holds_its_log_and_answers(tmp_path: Path) -> None:
    with start_local(counting(), name="wc", checkpointLocation=tmp_path) as running:
        wait_until(lambda: running.asOfTxid["words"] > 2)
    counted = running.asOfTxid["words"]
    with start_local(counting(), name="wc", checkpointLocation=tmp_path, active=False) as running:
        assert (running.condition, running.asOfTxid["words"]) == ("INACTIVE", counted)
        assert running.state("counts")["dog"] == 10 * counted
        assert running.status["lease"]["epoch"] == 2
        running.activate()
        wait_until(lambda: running.asOfTxid["words"] > counted)


def test_what_is_available_now_waits_for_the_activation() -> None:
    topology = TridentTopology()
    source = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
    source.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, availableNow=True, active=False) as running:
        assert running.awaitTermination(timeout=0.2) is False and running.state("counts").value is None
        running.activate()
        assert running.awaitTermination(timeout=20) is True


def test_a_run_that_has_ended_cannot_change(tmp_path: Path) -> None:
    with start_local(counting(), name="over") as running:
        pass
    assert running.condition == "STOPPED"
    for call in (running.activate, running.deactivate, lambda: running.rebalance({})):
        with pytest.raises(TopologyConditionError, match="'over': it is STOPPED"):
            call()
    failed = start_local(counting(lambda word: 1 / 0), name="broken", maxAttempts=1)
    wait_until(lambda: not failed.isActive)
    assert failed.condition == "FAILED"
    failed.stop()


class Queue(RichSpout):
    """A queue of messages, and what was called."""

    outputFields = "word string"

    def __init__(self) -> None:
        self.waiting = [f"m{n}" for n in range(4)]
        self.calls: list[str] = []
        self.fails = False

    def open(self) -> None:
        self.calls.append("open")
        if self.fails:
            self.fails = False
            raise ConnectionError("away")

    def activate(self) -> None:
        self.calls.append("activate")

    def nextTuple(self, collector: Any) -> None:
        if self.waiting:
            message = self.waiting.pop(0)
            collector.emit("dog", messageId=message)

    def ack(self, messageId: Any) -> None:
        self.calls.append(f"ack {messageId}")

    def fail(self, messageId: Any, reason: str) -> None:
        self.calls.append(f"fail {messageId}")
        self.waiting.append(messageId)

    def deactivate(self) -> None:
        self.calls.append("deactivate")

    def close(self) -> None:
        self.calls.append("close")


def test_a_rich_spout_opens_when_its_topology_becomes_active_and_hears_of_each_change_once() -> None:
    queue = Queue()
    with start_local(counting(spout=queue), name="queue", active=False) as running:
        running.deactivate(wait=5)
        assert queue.calls == [] and len(queue.waiting) == 4
        running.activate()
        running.activate()
        wait_until(lambda: "ack m3" in queue.calls)
        running.deactivate()
        running.deactivate(wait=5)
        running.activate()
        running.processAllAvailable(timeout=5)
    acks = [f"ack m{n}" for n in range(4)]
    assert queue.calls == ["open", "activate", *acks, "deactivate", "activate", "deactivate", "close"]


def test_messages_under_way_are_acknowledged_while_the_topology_is_inactive(gate: threading.Event) -> None:
    queue = Queue()
    with start_local(counting(lambda word: word if gate.wait(20) else word, queue), name="acks") as running:
        wait_until(lambda: computing(running))
        running.deactivate()
        gate.set()
        assert running.deactivate(wait=10)
        assert [call for call in queue.calls if call.startswith("ack")] == [f"ack m{n}" for n in range(4)]
        queue.waiting.append("late")
        assert running.deactivate(wait=5) and queue.waiting == ["late"]


def test_messages_that_fail_while_the_topology_is_inactive_wait_in_their_queue(gate: threading.Event) -> None:
    failed: list[str] = []

    def once(word: str) -> str:
        gate.wait(20)
        if not failed:
            failed.append(word)
            raise ValueError("once")
        return word

    queue = Queue()
    with start_local(counting(once, queue), name="fails") as running:
        wait_until(lambda: computing(running))
        running.deactivate()
        gate.set()
        assert running.deactivate(wait=10) and len(queue.waiting) == 4 and running.asOfTxid["words"] == 0
        running.activate()
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["dog"] == 4 and queue.waiting == []


def test_an_open_that_fails_at_the_activation_is_tried_again() -> None:
    queue = Queue()
    queue.fails = True
    with start_local(counting(spout=queue), name="late", active=False) as running:
        running.activate()
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["dog"] == 4
    assert queue.calls.count("open") == 2
    queue = Queue()
    queue.fails = True
    with pytest.raises(UserFunctionError, match="away"):
        start_local(counting(spout=queue), name="early")
