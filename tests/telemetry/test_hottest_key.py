"""Skew is told: the key of a batch that most tuples came to."""

import datetime
import json

from trident import Count, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

DAY = datetime.date(2024, 2, 29)


def test_a_state_that_counts_tells_the_key_with_the_most_tuples() -> None:
    rows = [("a", DAY, 1), ("b", DAY, 1), ("b", DAY, 1), (None, None, 1), (None, None, 1), (None, None, 1)]
    topology = TridentTopology()
    sales = topology.newStream("sales", FixedBatchSpout("shop string, day date, n int", [rows, rows[:3], []]))
    sales.groupBy("shop, day").persistentAggregate(MemoryMapState.opaque(), Count(), "c", name="counts")
    sales.groupBy("shop").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "s", name="sums")
    sales.persistentAggregate(MemoryMapState.opaque(), Count(), "c", name="all")
    with start_local(topology, name="shop") as running:
        running.processAllAvailable(timeout=10)
        events = running.recentProgress
    assert [event["states"]["counts"].get("hottest") for event in events[:2]] == [
        {"key": {"shop": None, "day": None}, "tuples": 3},
        {"key": {"shop": "b", "day": "2024-02-29"}, "tuples": 2},
    ]
    assert not any("hottest" in event["states"][name] for event in events for name in ("sums", "all"))
    assert not any("hottest" in event["states"]["counts"] for event in events[2:])
    assert json.loads(json.dumps(events)) == events
