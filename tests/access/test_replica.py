"""The copy of a state in memory that follows its driver from outside."""

from contextlib import closing
from operator import add
from pathlib import Path

from tests.access.small_topologies import Fed
from trident import Average, CollectSet, Last, MaxBy, Median, StdDev, TopK, TridentTopology, openState
from trident.access.locations import read_location
from trident.access.replica import MemoryReplica
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_state.state_shape import Combine


def test_a_copy_that_falls_behind_the_log_begins_again_from_a_snapshot_it_knew(tmp_path: Path) -> None:
    driver = Fed(checkpointLocation=str(tmp_path))
    for word in ("dog", "cat", "dog"):
        driver.feed(word)
    location = read_location(str(tmp_path), None, None, "trident")
    log = location.open_log_to_read("wc")
    replica = MemoryReplica(log, location.place("wc", log), "counts", Combine("Count", add, "sum"))
    assert replica.follow(1) == 1
    driver.running.stop()  # writes a snapshot at txid 3
    assert replica.follow(1) == 1  # the copy has read that there is one
    with closing(location.open_log_to_write("wc")) as writing:
        writing.trim(writing.take(), "words", 3, 0, 0)
    assert replica.follow(2) == 3
    entries = {row["word"]: row["value"] for page in replica.scan(None) for row in page.to_pylist()}
    assert entries == {"dog": 2, "cat": 1}
    replica.close()


def test_a_copy_goes_on_after_the_next_driver_has_written_a_snapshot_that_is_no_newer(tmp_path: Path) -> None:
    first = Fed(checkpointLocation=str(tmp_path))
    first.feed("dog")
    location = read_location(str(tmp_path), None, None, "trident")
    log = location.open_log_to_read("wc")
    replica = MemoryReplica(log, location.place("wc", log), "counts", Combine("Count", add, "sum"))
    assert replica.committed() == 1
    first.running.stop()
    second = Fed(checkpointLocation=str(tmp_path))
    second.feed("cat")
    assert replica.committed() == 2
    assert second.running._context.begun.stores["counts"].snapshot() == 2
    assert replica.committed() == 2  # the copy has read that there is one
    second.feed("dog")
    assert replica.committed() == 3
    second.running.stop()
    replica.close()


def test_a_copy_combines_batches_as_the_driver_does(tmp_path: Path) -> None:
    """Without a snapshot the copy combines every batch from the log, in the columns of the built-in aggregators."""
    several = {"mean": Average("n"), "spread": StdDev("n"), "last": Last("n"), "top": MaxBy("k", "n")}
    several |= {"set": CollectSet("n"), "middle": Median("n"), "best": ("n", TopK(2))}
    batches = [[("a", 1), ("b", 2)], [("a", 5), ("a", None)], [("a", 3), ("c", None)]]
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("k string, n long", batches)).groupBy("k")
    rows.persistentAggregate(MemoryMapState.opaque(), several, name="held")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        expected = dict(running.state("held").items())
        with openState("t", "held", tmp_path, aggregator=dict(several, best=TopK(2))) as opened:
            assert dict(opened.items()) == expected
    assert (expected["a"].mean, expected["a"].last, expected["a"].set, expected["a"].best) == (
        3.0,
        3,
        [1, 3, 5],
        [5, 3],
    )
