"""The log stays small: what every store can do without goes, and a state in memory is made to let go of it."""

from pathlib import Path

from trident import Count, TridentTopology
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BATCHES = [[f"word{batch % 7}"] for batch in range(300)]


def run(folder: Path, rewindBytes: int) -> RunningTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    running = start_local(topology, name="trim", checkpointLocation=folder, rewindBytes=rewindBytes)
    running.processAllAvailable(timeout=60)
    return running


def test_near_rewindBytes_a_memory_state_takes_a_snapshot_and_the_log_lets_go(tmp_path: Path) -> None:
    with run(tmp_path, rewindBytes=40_000) as running:
        group = running._runs["words"]
        assert group._context.committer.stores["counts"].durable() >= 100
        assert group._context.log.kept_since("words") >= 100
    with run(tmp_path, rewindBytes=40_000) as again:
        assert sum(dict(again.state("counts").items()).values()) == len(BATCHES)


def test_below_it_nothing_is_forced(tmp_path: Path) -> None:
    with run(tmp_path, rewindBytes=1 << 30) as running:
        assert running._runs["words"]._context.committer.stores["counts"].durable() == 0
