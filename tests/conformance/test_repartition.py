"""Where tuples go."""

from tests.compiler.stage_runner import Slots
from tests.conformance.kit import Case, check_places, conforms, lying
from trident import Count, Stream, TridentTopology
from trident.spouts import FixedBatchSpout

PARTITIONS = 3


@conforms("part-fields")
def test_equal_fields_meet_in_one_partition_in_every_batch(case: Case, engine: Slots) -> None:
    found = []
    for batch in range(2):
        topology = TridentTopology()
        twice = topology.newStream("s", FixedBatchSpout("k string, n long", case.rows() * 2))
        stream = twice.partitionBy("k").parallelismHint(PARTITIONS)
        found.append(lying(engine, topology, stream, batch))
    first, second = found
    assert sorted(row for rows in first.values() for row in rows) == sorted(case.rows()[0])
    assert [sorted(n for k, n in rows if k == "u") for rows in first.values() if ("u", 1) in rows] == [[1, 3]]
    assert first == second
    assert all(0 <= at < PARTITIONS for at in first)


def everywhere(case: Case, engine: Slots, how: str, attempt: int = 0, batches: int = 4) -> list[int]:
    """The one partition of each batch."""
    found = []
    for batch, rows in enumerate(case.rows()[:batches]):
        topology = TridentTopology()
        stream: Stream = getattr(case.stream(topology, "n long"), how)()
        ((at, there),) = lying(engine, topology, stream.parallelismHint(PARTITIONS), batch, attempt).items()
        assert sorted(there) == rows
        found.append(at)
    return found


@conforms("part-global-vs-batchglobal")
def test_global_is_one_partition_for_all_batches_and_batch_global_one_for_each(case: Case, engine: Slots) -> None:
    assert everywhere(case, engine, "global_") == case.expected["example_partitions"]["global"]
    first = everywhere(case, engine, "batchGlobal")
    assert everywhere(case, engine, "batchGlobal", attempt=1, batches=2) == first[:2]
    assert len(set(first)) > 1, "batches are not spread"


@conforms("part-broadcast")
def test_every_partition_counts_every_tuple_of_a_broadcast(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    everywhere = case.stream(topology, "n long").broadcast().parallelismHint(PARTITIONS)
    counts = everywhere.partitionAggregate(Count(), "count")
    check_places(case.expected["emits_per_partition"], lying(engine, topology, counts))
