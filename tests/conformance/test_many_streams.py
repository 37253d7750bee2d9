"""Several streams to one: merge, multiReduce."""

from typing import Any

import pytest

from tests.compiler.stage_runner import Slots
from tests.conformance.kit import Case, check, conforms, emitted, lying, placed, sink
from trident import TridentTopology
from trident.base.errors import TopologyError
from trident.spouts import FixedBatchSpout


@conforms("merge-rename", differs=True)
def test_a_merge_goes_by_position_under_the_first_streams_names(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    a, b = case.stream(topology, "x long, y long", "a"), case.stream(topology, "y long, x long", "b")
    named = topology.merge(a, b, outputFields="p, q")
    with pytest.raises(TopologyError, match="a merge matches fields by position, so 'y' would become 'x'"):
        topology.merge(a, b)
    check(case, engine, topology, out=topology.merge(a, b, outputFields="x, y"), named=named)
    assert named.fields == ("p", "q")


def test_a_stream_that_is_merged_with_itself_comes_twice(engine: Slots) -> None:
    """In Trident such a topology does not start."""
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, 2], []]))
    sink(topology.merge(numbers, numbers.filter("n", lambda n: n > 1), numbers))
    found = emitted(engine, topology, 2)
    assert sorted(found["out@1:0"]) == [(1,), (1,), (2,), (2,), (2,)] and found["out@2:0"] == []


def test_streams_of_other_widths_do_not_merge() -> None:
    """In Trident values are cut off, or missing when they are read."""
    topology = TridentTopology()
    one = topology.newStream("a", FixedBatchSpout("n long", []))
    two = topology.newStream("b", FixedBatchSpout("n long, m long", []))
    told = r"stream 2 has 2 fields: \(n bigint, m bigint\), but stream 1 has \(n bigint\)"
    with pytest.raises(TopologyError, match=told):
        topology.merge(one, two)


class Difference:
    """Of each group the sum of the first stream's values less the second's."""

    def init(self, collector: Any, group: Any) -> list[int]:
        return [0]

    def execute(self, state: list[int], streamIndex: int, group: Any, tuple: Any, collector: Any) -> None:
        state[0] += tuple.n if streamIndex == 0 else -tuple.n

    def complete(self, state: list[int], group: Any, collector: Any) -> None:
        collector.emit([group.k, state[0]])


class CountEach:
    """How many tuples of each stream."""

    def init(self, collector: Any) -> list[int]:
        return [0, 0]

    def execute(self, state: list[int], streamIndex: int, tuple: Any, collector: Any) -> None:
        state[streamIndex] += 1

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit(state)


@conforms("multireduce")
def test_a_reducer_of_several_streams_by_group_and_over_all(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    a, b = (case.stream(topology, "k string, n long", name) for name in "ab")
    grouped = topology.multiReduce([a.groupBy("k"), b.groupBy("k")], "n", Difference(), "k string, left long")
    plain = topology.multiReduce([a, b], None, CountEach(), "a long, b long")
    check(case, engine, topology, grouped=grouped, plain=plain)


def test_without_groups_it_sees_partition_by_partition(engine: Slots) -> None:
    topology = TridentTopology()
    a = placed(topology, "n long", [[[(1,), (2,)], [], []]], "a")
    b = placed(topology, "n long", [[[(1,)], [(2,)], []]], "b")
    counts = topology.multiReduce([a, b], "n", CountEach(), "a long, b long")
    assert lying(engine, topology, counts) == {0: [(2, 1)], 1: [(0, 1)], 2: [(0, 0)]}
