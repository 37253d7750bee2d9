"""Messages in topologies: counted once, the queue empty at the end, through failures, timeouts, deaths and restarts."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.messages.queue_spout import Queue, QueueSpout
from trident import Count, TridentTopology
from trident.base.errors import FailedException
from trident.plan.guarantee import Promise, guarantees
from trident.state import MemoryMapState
from trident.testing import crash_at, run_through
from trident.testing.local import start_local

WORDS = {number: f"w{number % 3}" for number in range(1, 30)}
EXPECTED = dict(Counter(WORDS.values()))
POINTS = ("plan.made", "emit.after", "freeze.before", "freeze.after", "commit.state.after", "committed.before")
POINTS_OF_ACKS = ("committed.after", "success.before", "success.after", "trim.after")


def counting(spout: Any, function: Any = None) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout)
    if function is not None:
        words = words.each("word", function)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    return topology


@pytest.mark.parametrize("point", [*POINTS, *POINTS_OF_ACKS])
def test_a_driver_that_dies_anywhere_leaves_exact_counts_and_an_empty_queue(tmp_path: Path, point: str) -> None:
    queue = Queue(WORDS)
    topology = counting(QueueSpout(queue, maxRows=4))
    with crash_at(point, 3), run_through(topology, name="t", checkpointLocation=tmp_path) as running:
        assert dict(running.state("counts").items()) == EXPECTED
    assert not queue.waiting and not queue.taken
    assert set(queue.acked) == set(WORDS)


def test_failures_are_told_with_their_reason_and_the_messages_come_again() -> None:
    queue, failures = Queue(WORDS), iter(range(3))

    def fails_three_times(word: str) -> bool:
        if next(failures, None) is not None:
            raise FailedException("the table is locked")
        return True

    topology = counting(QueueSpout(queue, maxRows=4), fails_three_times)
    with start_local(topology, name="t", maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == EXPECTED
    assert not queue.waiting and not queue.taken
    assert sorted(queue.acked) == sorted(WORDS), "each ack comes once in a run"
    assert len(queue.failed) == 3 * 4
    assert all("the table is locked" in reason for _, reason in queue.failed)


@pytest.mark.parametrize(
    ("tracking", "acked", "replayed"),
    [("tracked", "committed", True), ("emission", "emitted", False), ("none", "", False)],
)
def test_a_failing_batch_under_each_way_of_tracking(tracking: Any, acked: str, replayed: bool) -> None:
    queue, at_first_failure = Queue({1: "a", 2: "b"}), []

    def fails_once(word: str) -> bool:
        if not at_first_failure:
            at_first_failure.append(list(queue.acked))
            raise FailedException("no")
        return True

    with start_local(counting(QueueSpout(queue, tracking), fails_once), name="t") as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}
    assert at_first_failure == [[1, 2] if acked == "emitted" else []]
    assert queue.acked == ([1, 2] if acked else [])
    assert bool(queue.failed) is replayed


def test_a_batch_out_of_time_fails_within_its_limit_and_comes_again() -> None:
    queue, slow, failed_at = Queue(WORDS), threading.Event(), []

    class Noted(QueueSpout):
        def fail(self, messageId: Any, reason: str) -> None:
            failed_at.append(time.monotonic())
            super().fail(messageId, reason)

    def sleeps_once(word: str) -> bool:
        if not slow.is_set():
            slow.set()
            time.sleep(2)
        return True

    began = time.monotonic()
    with start_local(counting(Noted(queue), sleeps_once), name="t", messageTimeoutSecs=0.5) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == EXPECTED
    assert {reason.split(":")[0] for _, reason in queue.failed} == {"BatchTimeoutError"}
    assert failed_at[0] - began < 2, "the spout hears of it while the function still sleeps"
    assert not queue.waiting and not queue.taken


def test_all_methods_are_called_on_one_thread_and_open_comes_before_activate() -> None:
    threads: set[str] = set()

    class Noted(QueueSpout):
        def __getattribute__(self, name: str) -> Any:
            if name in ("open", "activate", "nextTuple", "ack", "fail", "deactivate", "close"):
                threads.add(threading.current_thread().name)
            return super().__getattribute__(name)

    spout = Noted(Queue(WORDS), maxRows=4)
    topology = counting(spout)
    threads.clear()  # the topology looks at a spout's methods while it is built
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
    assert spout.calls == ["open", "activate", "deactivate", "close"]
    assert [name for name in threads if "words" not in name] == [], threads


@pytest.mark.parametrize(
    ("tracking", "promise"), [("tracked", Promise.EXACTLY_ONCE), ("emission", None), ("none", None)]
)
def test_the_guarantee_follows_from_the_tracking(tracking: Any, promise: Promise | None) -> None:
    (found,) = guarantees(counting(QueueSpout(Queue({}), tracking)).sinks)
    assert (found.promise is Promise.EXACTLY_ONCE) is (promise is Promise.EXACTLY_ONCE)
