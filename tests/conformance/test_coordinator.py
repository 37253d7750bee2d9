"""The life of batches: what starts, fails, commits, in which order."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conformance.kit import Case, Seen, conforms, ran
from trident import Count, DeadLetter, FailedException, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import BatchFailedError
from trident.batches import coordinator_events as on
from trident.batches.coordinator import Coordinator, Status
from trident.batches.coordinator_settings import CoordinatorSettings
from trident.log.group_records import AttemptRecord, History
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

EPOCH = 1


class Master:
    """The coordinator with a source and a log that answer at once. What runs and what commits is for the test to end.

    Its words are Trident's: "batch" when an attempt is set to work, "commit", and "success".
    """

    def __init__(self, pending: int = 3, history: History | None = None) -> None:
        self.coordinator = Coordinator(CoordinatorSettings(pending=pending), EPOCH, history or History())
        self.living: dict[int, TransactionAttempt] = {}

    def start(self) -> list[str]:
        return self._all(self.coordinator.start())

    def ran(self, name: str) -> list[str]:
        """All tuples of an attempt are worked on."""
        return self.hears(on.Ran(_attempt(name)))

    def committed(self, name: str) -> list[str]:
        """The states hold a batch."""
        return self.hears(on.Committed(_attempt(name).txid))

    def hears(self, event: on.Event) -> list[str]:
        return self._all(self.coordinator.handle(event))

    def _all(self, actions: Sequence[on.Action]) -> list[str]:
        """What is told, with everything that follows from it by itself."""
        told: list[str] = []
        waiting: deque[on.Event] = deque()

        def take(actions: Sequence[on.Action]) -> None:
            for action in actions:
                match action:
                    case on.Plan(attempt=attempt):
                        waiting.append(on.Planned(attempt, {"s": {"end": attempt.txid}}))
                    case on.Run(attempt=attempt):
                        self.living[attempt.txid] = attempt
                        told.append(f"batch {attempt}")
                    case on.Freeze(attempt=attempt):
                        waiting.append(on.Frozen(attempt, {"s": {"end": attempt.txid}}))
                    case on.Commit(txid=txid):
                        told.append(f"commit {self.living[txid]}")
                    case on.Succeed(txid=txid):
                        told.append(f"success {self.living[txid]}" if txid in self.living else "")
                        waiting.append(on.Succeeded(txid))

        take(actions)
        while waiting:
            take(self.coordinator.handle(waiting.popleft()))
        return [each for each in told if each]


def _attempt(name: str) -> TransactionAttempt:
    txid, number = map(int, name.split(":"))
    return TransactionAttempt(txid, number, EPOCH)


def words(emits: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(each) for each in emits]


@conforms("mbc-pipeline")
def test_batches_overlap_and_commit_in_order(case: Case) -> None:
    master = Master()
    found = [master.start(), master.ran("2:0"), master.ran("1:0"), master.committed("1:0")]
    assert master.coordinator.committed + 1 == case.expected["stored_currtx_after_commit_1"]
    found.append(master.ran("3:0"))
    assert found == words(case.expected["emits"])


def attempted(committed: int, **numbers: int) -> History:
    """A log that knows attempts of the batches after the committed ones."""
    attempts = {int(txid[1:]): AttemptRecord(number) for txid, number in numbers.items()}
    return History(committed, {"s": {"end": committed}}, (), attempts)


@conforms("mbc-deactivate")
def test_an_inactive_topology_commits_what_is_under_way_and_begins_nothing(case: Case) -> None:
    master = Master(history=attempted(1, t2=1, t3=0, t4=0))
    assert master.start() == ["batch 2:2", "batch 3:1", "batch 4:1"]
    found = [master.hears(on.DeactivateAsked()), master.ran("2:2"), master.committed("2:2")]
    found.append(master.hears(on.ActivateAsked()))
    assert found == words(case.expected["emits"])


def test_stopping_commits_what_is_frozen_and_starts_nothing() -> None:
    master = Master()
    master.start()
    assert master.ran("1:0") == ["commit 1:0"]
    assert master.hears(on.StopAsked()) == []
    assert not master.coordinator.finished
    assert master.committed("1:0") == ["success 1:0"]
    assert master.coordinator.finished


@conforms("mbc-restart", differs=True)
@pytest.mark.parametrize("pending", [3, 1])
def test_a_restart_goes_on_with_later_attempts(case: Case, pending: int) -> None:
    """All of them, as soon as there is room: Trident forgets the last one's number."""
    master = Master(pending, attempted(2, t3=1, t4=1, t5=0))
    found = master.start()
    for name in ("3:2", "4:2"):
        found += [told for each in (master.ran(name), master.committed(name)) for told in each]
    begun = [told for told in found if told.startswith("batch")]
    assert begun[:3] == case.ideal["emits"][0]
    assert all(told.endswith(":0") for told in begun[3:])


@conforms("mbc-two-spouts-one-txid")
def test_a_batch_begins_when_any_of_its_spouts_is_ready(case: Case) -> None:
    assert "ANY" in case.expected["property"]
    topology, seen = TridentTopology(), Seen()
    a, b = FeederBatchSpout("word string"), FeederBatchSpout("word string")
    merged = topology.merge(topology.newStream("a", a), topology.newStream("b", b))
    seen.watch(merged)
    counts = merged.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="conformance") as running:
        for fed in ([b], [a], [a, b]):
            for feeder in fed:
                feeder.feed(["x" if feeder is a else "y"])
            running.processAllAvailable(timeout=30)
        assert dict(running.state(counts.name).items()) == {"x": 2, "y": 2}
    assert seen.batches[:2] == [[("y",)], [("x",)]]
    assert sorted(row for rows in seen.batches[2:] for row in rows) == [("x",), ("y",)]


def master_at_attempt(number: int) -> Master:
    master = Master(pending=1)
    master.start()
    for failed in range(number):
        assert master.hears(on.RunFailed(_attempt(f"1:{failed}"), ValueError("no"))) == [f"batch 1:{failed + 1}"]
    return master


@conforms("bolt-attempt-supersedes")
def test_a_message_of_an_earlier_attempt_changes_nothing(case: Case) -> None:
    assert "dropped silently" in case.expected["property"]
    master = master_at_attempt(1)
    for late in (on.Ran(_attempt("1:0")), on.RunFailed(_attempt("1:0"), ValueError()), on.Frozen(_attempt("1:0"), {})):
        assert master.hears(late) == []
    assert master.coordinator.in_flight == {1: (_attempt("1:1"), Status.RUNNING)}
    assert master.hears(on.RunFailed(_attempt("1:1"), ValueError())) == ["batch 1:2"]
    assert master.ran("1:1") == []
    assert master.ran("1:2") == ["commit 1:2"]


@conforms("spout-stale-commit", differs=True)
def test_a_late_end_of_an_earlier_attempt_is_no_commit(case: Case) -> None:
    """There is no spout that takes part in the commit: what it would write is frozen with the batch."""
    assert "different transaction attempt" in case.expected["error"]
    master = master_at_attempt(1)
    assert master.hears(on.Frozen(_attempt("1:0"), {"s": {"end": 99}})) == []
    assert master.ran("1:1") == ["commit 1:1"]
    assert master.coordinator.positions == {"s": {"end": 1}}


@conforms("bolt-count-mismatch", differs=True)
def test_a_batch_is_whole_or_fails_and_an_empty_one_finishes(case: Case) -> None:
    """Tuples are not counted: an attempt has its whole result or none, and what is frozen has its length and sum."""
    assert "fails" in case.expected["property"]
    failures = [FailedException("a tuple got lost")]

    def loses(n: int) -> int:
        if n == 4 and failures:
            raise failures.pop()
        return n

    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, 2, 3, 4, 5], []])).map("n", loses, "n long")
    numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
    with ran(topology) as running:
        assert running.state("count").value == 5
        assert running.state("count").asOfTxid == 2
        assert [(event["txid"], event["event"]) for event in running.recentProgress] == [
            (1, "failed"),
            (1, "committed"),
            (2, "committed"),
        ]


@conforms("fail-signal", differs=True)
@pytest.mark.parametrize("error", [FailedException("not now"), ValueError("never")], ids=["failed", "other"])
def test_any_error_fails_the_batch_so_often_and_not_for_ever(case: Case, error: Exception) -> None:
    assert "bounded attempts" in case.ideal["note"]
    left: list[Any] = [error]

    def once(n: int) -> int:
        if n == 2 and left:
            raise left.pop()
        return n

    def counted(function: Any) -> TridentTopology:
        topology = TridentTopology()
        numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, 2, 3]])).map("n", function, "n long")
        numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
        return topology

    with ran(counted(once)) as running:
        assert running.state("count").value == 3
        assert [event["attempt"] for event in running.recentProgress] == [0, 1]

    def always(n: int) -> int:
        raise error

    running = start_local(counted(always), name="conformance", maxAttempts=3)
    with pytest.raises(BatchFailedError, match=r"batch 1 failed 3 times.*(not now|never)"):
        running.processAllAvailable(timeout=30)
    assert [event["attempt"] for event in running.recentProgress] == [0, 1, 2]


def test_a_tuple_that_can_never_pass_leaves_as_a_dead_letter_and_its_batch_goes_on() -> None:
    """What the case wishes for: the batch fails once, then it goes on without the tuple."""
    topology, numbers, letters = TridentTopology(), Seen(), Seen()
    lines = topology.newStream("s", FixedBatchSpout("line string", [["1", "two", "3"]]))
    read = lines.each("line", int, "n long", onError=DeadLetter(attempts=1))
    numbers.watch(read.project("n"), "numbers")
    letters.watch(read.deadLetters().project("tuple", "error", "attempt"), "letters")
    with ran(topology) as running:
        assert [event["event"] for event in running.recentProgress] == ["failed", "committed"]
    assert numbers.batches == [[(1,), (3,)]]
    assert letters.batches == [[('{"line":"two"}', "ValueError", 1)]]
