"""One value under a key of its own, in a state that is a map: read and written by an updater for one value."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trident import Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import CombinerValueUpdater, MapState, MemoryMapState, Snapshottable, SnapshottableMap
from trident.testing.local import start_local


def add(total: Snapshottable, numbers: Sequence[int]) -> int:
    """Written for one value."""
    result: int = total.update(CombinerValueUpdater(Sum(), sum(numbers)))
    return result


def update(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
    total = SnapshottableMap(state, "$total")
    assert isinstance(total, Snapshottable)
    assert add(total, [t.n for t in tuples]) == total.get()
    largest = SnapshottableMap(state, "$last")
    largest.set(tuples[-1].n)
    state.multiUpdate([t.k for t in tuples], [CombinerValueUpdater(Sum(), t.n) for t in tuples])


def test_a_map_keeps_values_of_their_own_beside_its_keys(tmp_path: Path) -> None:
    topology = TridentTopology()
    spout = FixedBatchSpout("k string, n long", [[("a", 1), ("b", 2)], [("a", 5)]])
    topology.newStream("s", spout).partitionPersist(
        MemoryMapState.opaque(), update, keyFields="k", valueType="long", name="sums"
    )
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("sums").items()) == {"a": 6, "b": 2, "$total": 8, "$last": 5}
