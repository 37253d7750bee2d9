"""Wait strategies: when they are asked, with which streak, and what ends a wait."""

from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError, TopologyError, UserFunctionError
from trident.batches import coordinator_events as on
from trident.batches.coordinator import Coordinator
from trident.batches.coordinator_settings import CoordinatorSettings
from trident.log.group_records import History
from trident.spouts import FixedBatchSpout, WaitStrategy
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Noted(WaitStrategy):
    """Waits as long as it is told, and keeps the streaks."""

    def __init__(self, seconds: Any = 0.25) -> None:
        self.seconds = seconds
        self.streaks: list[int] = []

    def emptyEmit(self, streak: int) -> float:
        self.streaks.append(streak)
        return self.seconds  # type: ignore[no-any-return]


def attempt(txid: int) -> TransactionAttempt:
    return TransactionAttempt(txid, 0, 1)


def started(strategy: WaitStrategy | None, pending: int = 2) -> Coordinator:
    coordinator = Coordinator(CoordinatorSettings(pending, wait=strategy), 1, History())
    coordinator.start()
    return coordinator


def commit(coordinator: Coordinator, txid: int) -> list[on.Action]:
    coordinator.handle(on.Ran(attempt(txid)))
    coordinator.handle(on.Frozen(attempt(txid), {"s": txid}))
    coordinator.handle(on.Committed(txid))
    return coordinator.handle(on.Succeeded(txid))


def nothing(coordinator: Coordinator, txid: int) -> list[on.Action]:
    actions = coordinator.handle(on.NothingThere(attempt(txid)))
    coordinator.handle(on.Woken())
    return actions


def test_the_streak_grows_with_each_empty_turn_and_ends_with_a_batch() -> None:
    strategy = Noted()
    coordinator = started(strategy)
    assert on.Sleep(0.25) in nothing(coordinator, 1)
    nothing(coordinator, 1)
    coordinator.handle(on.Planned(attempt(1), {"s": 1}))
    commit(coordinator, 1)
    nothing(coordinator, 2)
    assert strategy.streaks == [1, 2, 1]


def test_it_is_asked_at_the_pending_limit_and_a_commit_ends_the_wait() -> None:
    strategy = Noted(60)
    coordinator = started(strategy, pending=1)
    assert on.Sleep(60.0) in coordinator.handle(on.Planned(attempt(1), {"s": 1}))
    coordinator.handle(on.Woken())
    coordinator.handle(on.Woken())
    assert strategy.streaks == [1, 2, 3]
    coordinator.handle(on.Ran(attempt(1)))
    coordinator.handle(on.Frozen(attempt(1), {"s": 1}))
    assert [action for action in coordinator.handle(on.Committed(1)) if isinstance(action, on.Plan)] == [
        on.Plan(attempt(2), {"s": 1}, None, 0.0)
    ]
    assert strategy.streaks == [1, 2, 3], "one wait at a time"


def test_without_a_strategy_the_limit_is_not_a_wait() -> None:
    actions = started(None, pending=1).handle(on.Planned(attempt(1), {"s": 1}))
    assert not [action for action in actions if isinstance(action, on.Sleep)]


def test_a_topology_asks_its_strategy_and_counts_as_ever() -> None:
    strategy = Noted(0)
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"], ["b"], ["a"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="t", maxSpoutPending=1, waitStrategy=strategy) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
    assert strategy.streaks[0] == 1 and max(strategy.streaks) > 1


@pytest.mark.parametrize(
    ("strategy", "kind", "expected"),
    [
        (Noted(-1), SpoutContractError, r"Noted.emptyEmit\(1\) returned -1 \(int\); expected the seconds to wait"),
        (Noted("1 s"), SpoutContractError, r"returned '1 s' \(str\)"),
        (Noted(True), SpoutContractError, r"returned True \(bool\)"),
    ],
)
def test_what_is_no_wait_is_refused(strategy: WaitStrategy, kind: type, expected: str) -> None:
    with pytest.raises(kind, match=expected):
        started(strategy).handle(on.NothingThere(attempt(1)))


def test_a_strategy_that_raises_stops_the_topology_with_its_place() -> None:
    class Breaks(WaitStrategy):
        def emptyEmit(self, streak: int) -> float:
            raise ValueError("no idea")

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    running = start_local(topology, name="t", waitStrategy=Breaks())
    with pytest.raises(UserFunctionError, match=r"wait strategy Breaks: .*test_wait_strategy.py:\d+.* no idea"):
        running.awaitTermination(timeout=30)
    running.stop()


def test_another_object_is_no_strategy() -> None:
    topology = TridentTopology()
    topology.newStream("words", FixedBatchSpout("word string", [["a"]])).persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="counts"
    )
    with pytest.raises(TopologyError, match="waitStrategy='fast': expected an object that extends WaitStrategy"):
        start_local(topology, name="t", waitStrategy="fast")
