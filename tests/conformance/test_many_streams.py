"""Several streams to one: merge, multiReduce."""

from tests.compiler.kit import Slots
from tests.compiler.test_multireduces import Balance, CountEach
from tests.conformance.kit import Case, check, conforms, emitted, sink
from trident import TridentTopology
from trident.spouts import FixedBatchSpout


@conforms("merge-rename")
def test_a_merge_goes_by_position_under_the_first_streams_names(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    a, b = case.stream(topology, "x long, y long", "a"), case.stream(topology, "y long, x long", "b")
    named = topology.merge(a, b, outputFields="p, q")
    check(case, engine, topology, out=topology.merge(a, b), named=named)
    assert named.fields == ("p", "q")


def test_a_stream_that_is_merged_with_itself_comes_twice(engine: Slots) -> None:
    """In Trident such a topology does not start."""
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, 2], []]))
    sink(topology.merge(numbers, numbers.filter("n", lambda n: n > 1), numbers))
    found = emitted(engine, topology, 2)
    assert sorted(found["out@1:0"]) == [(1,), (1,), (2,), (2,), (2,)] and found["out@2:0"] == []


@conforms("multireduce")
def test_a_reducer_of_partitions_begins_also_without_a_tuple(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    a, b = case.stream(topology, "k string, n long", "a"), case.stream(topology, "k string, n long", "b")
    grouped = topology.multiReduce([a.groupBy("k"), b.groupBy("k")], "n", Balance(), "k, left")
    plain = topology.multiReduce([a, b], None, CountEach(), "a long, b long")
    check(case, engine, topology, grouped=grouped, plain=plain)
