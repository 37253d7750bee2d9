"""Aggregators that go by the order of tuples see them in a window as they came, also within a batch."""

from typing import Any

import pytest

from tests.compiler.window_runner import Windowed, at
from trident import CollectList, First, Last, MaxBy, SessionWindow, TumblingEventTimeWindow
from trident.state import MemoryMapState

IN_ORDER = {"first": First("n"), "last": Last("n"), "all": CollectList("n"), "high": MaxBy("n", "even")}


@pytest.mark.parametrize("config", [TumblingEventTimeWindow(60, "at"), SessionWindow(25, "at", lateness=60)], ids=type)
def test_order_within_a_batch_and_between_batches(config: Any) -> None:
    def build(stream: Any) -> Any:
        even = stream.each("n", lambda n: n % 2 == 0, "even boolean")
        return even.groupBy("k").window(config, MemoryMapState.opaque(), IN_ORDER, name="w")

    windowed = Windowed(build)
    windowed.batch([("a", at(10), 1), ("b", at(20), 9), ("a", at(0), 2), ("a", at(30), 3)])
    windowed.batch([("a", at(25), 4), ("a", at(5), 5), ("b", at(1), 8)])
    closed, _ = windowed.batch([("a", at(9000), 7)])
    assert {row[2]: row[3:] for row in closed} == {"a": (1, 5, [1, 2, 3, 4, 5], 2), "b": (9, 8, [9, 8], 8)}
