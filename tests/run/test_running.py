"""A running topology, on the driver-side engine: what it does, tells, refuses, and how it ends."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import trident
from trident import Count, FailedException, FilterNull, MapGet, Sum, TridentTopology
from trident.base.errors import (
    BatchFailedError,
    BatchTimeoutError,
    CodeChangedError,
    FencedError,
    LogCorruptError,
    LogMismatchError,
    StateError,
    StateShapeError,
    TopologyActiveError,
    TopologyError,
    UserFunctionError,
)
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

LINES = [["the cat sat", "the dog"], ["the man"], ["four score and the"]]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def split(line: str) -> Any:
    yield from line.split()


def word_count(spout: Any = None, state: Any = None, function: Any = split) -> TridentTopology:
    topology = TridentTopology()
    counts = (
        topology.newStream("sentences", spout or FixedBatchSpout("line string", LINES))
        .each("line", function, "word string")
        .groupBy("word")
        .persistentAggregate(state or MemoryMapState.opaque(), Count(), "count", name="counts")
    )
    (
        topology.newDRPCStream("words")
        .each("args", split, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    return topology


def test_counts_are_readable_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    with start_local(word_count(), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["the"] == 4
        assert running.drpc.execute("words", "cat dog the man unicorn") == [(7,)]
        assert trident.active() == [running]
    assert not running.isActive and trident.active() == []
    assert running.state("counts")["the"] == 4


def test_a_restart_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    with start_local(word_count(feeder), name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(["a b"])
        running.processAllAvailable(timeout=10)
        first = running.id
    feeder = FeederBatchSpout("line string")
    with start_local(word_count(feeder), name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(["b c"])
        running.processAllAvailable(timeout=10)
        assert dict(running.state("counts").items()) == {"a": 1, "b": 2, "c": 1}
        assert running.id == first and running.state("counts").asOfTxid == 2


def test_progress_tells_of_every_batch(tmp_path: Path) -> None:
    with start_local(word_count(), name="wc") as running:
        running.processAllAvailable(timeout=10)
        events = running.recentProgress
    assert [(e["txid"], e["attempt"], e["numInputRows"]) for e in events] == [(1, 0, 2), (2, 0, 1), (3, 0, 1)]
    assert events[0]["states"] == {
        "counts": {"keys": 4, "written": 4, "hottest": {"key": {"word": "the"}, "tuples": 2}}
    }
    assert set(events[0]["durationMs"]) == {"plan", "run", "freeze", "commit", "total"}
    assert running.lastProgress == events[-1]


def test_available_now_ends_by_itself() -> None:
    running = start_local(word_count(), name="wc", availableNow=True)
    assert running.awaitTermination(timeout=10) is True
    assert running.state("counts")["the"] == 4


def test_processing_time_makes_a_batch_an_interval() -> None:
    began = time.monotonic()
    with start_local(word_count(), name="wc", processingTime="200 milliseconds") as running:
        running.processAllAvailable(timeout=10)
    assert time.monotonic() - began >= 0.5


def test_a_function_that_raises_stops_the_topology_after_maxAttempts_with_the_cause() -> None:
    def broken(line: str) -> Any:
        raise ValueError("cannot split")

    running = start_local(word_count(function=broken), name="wc", maxAttempts=2, maxSpoutPending=1)
    with pytest.raises(
        BatchFailedError, match=r"batch 1 failed 2 times.*broken \(test_running\.py:\d+\).*cannot split"
    ):
        running.processAllAvailable(timeout=10)
    assert isinstance(running.exception(), BatchFailedError)
    assert isinstance(running.exception().__cause__, UserFunctionError)  # type: ignore[union-attr]
    assert not running.isActive
    assert [e["event"] for e in running.recentProgress] == ["failed", "failed"]


def test_a_failed_batch_is_tried_again_and_counts_once() -> None:
    left = [2]

    def sometimes(line: str) -> Any:
        if left[0]:
            left[0] -= 1
            raise FailedException("not yet")
        yield from line.split()

    with start_local(word_count(function=sometimes), name="wc") as running:
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["the"] == 4
        assert running.recentProgress[-1]["txid"] == 3


def test_with_raises_what_the_topology_failed_with() -> None:
    def broken(line: str) -> Any:
        raise ValueError("no")

    with pytest.raises(BatchFailedError), start_local(word_count(function=broken), name="wc", maxAttempts=1) as running:
        running.awaitTermination()


def test_work_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    slow, over = [True], threading.Event()

    def hang(line: str) -> Any:
        if slow[0]:
            slow[0] = False
            over.wait(30)
        yield from line.split()

    with start_local(word_count(function=hang), name="wc", messageTimeoutSecs=0.2, maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["the"] == 4
        over.set()
    failed = [e for e in running.recentProgress if e["event"] == "failed"]
    assert any(event["txid"] == 1 for event in failed)


def test_a_timeout_is_told_as_one() -> None:
    def hang(line: str) -> Any:
        time.sleep(0.3)
        yield line

    running = start_local(word_count(function=hang), name="wc", messageTimeoutSecs=0.05, maxAttempts=1)
    with pytest.raises(BatchFailedError, match=r"attempt 1:0 ran longer than 0\.05 s"):
        running.processAllAvailable(timeout=10)
    assert isinstance(running.exception().__cause__, BatchTimeoutError)  # type: ignore[union-attr]
    running.stop()


def test_a_name_is_active_once_unless_it_is_replaced() -> None:
    feeder = FeederBatchSpout("line string")
    with start_local(word_count(feeder), name="wc") as first:
        with pytest.raises(TopologyActiveError, match=r"'wc' is already active.*replace=True"):
            start_local(word_count(), name="wc")
        with start_local(word_count(), name="wc", replace=True) as second:
            assert not first.isActive and second.isActive


def test_a_later_driver_fences_an_earlier_one_out(tmp_path: Path) -> None:
    from trident.run import registry

    feeder = FeederBatchSpout("line string")
    first = start_local(word_count(feeder), name="wc", checkpointLocation=tmp_path)
    feeder.feed(["a"])
    first.processAllAvailable(timeout=10)
    registry.release("wc", first)  # as if it ran in another process
    with start_local(word_count(FeederBatchSpout("line string")), name="wc", checkpointLocation=tmp_path):
        feeder.feed(["b"])
        with pytest.raises(FencedError, match="taken over by another driver"):
            first.processAllAvailable(timeout=10)
        with pytest.raises(FencedError):
            first.state("counts")["a"]


def test_a_removed_checkpoint_with_the_state_kept_is_refused_with_the_way_out(
    tmp_path: Path, redis_server: Any
) -> None:
    from trident.state import RedisMapState

    state = RedisMapState.opaque(redis_server.url)
    with start_local(word_count(state=state), name="wc", checkpointLocation=tmp_path / "a") as running:
        running.processAllAvailable(timeout=10)
    with pytest.raises(LogMismatchError, match=r"checkpoint was removed.*topology\.reset\('wc'"):
        start_local(word_count(state=state), name="wc", checkpointLocation=tmp_path / "b")
    topology = word_count(state=state)
    with pytest.raises(LogMismatchError, match=r"belongs to another log .* force=True if that log is gone"):
        topology.reset("wc", tmp_path / "b")
    topology.reset("wc", tmp_path / "b", force=True)
    with start_local(topology, name="wc", checkpointLocation=tmp_path / "b") as running:
        running.processAllAvailable(timeout=10)
        assert running.state("counts")["the"] == 4


def test_a_state_that_outlives_the_process_needs_a_checkpoint(redis_server: Any) -> None:
    from trident.state import RedisMapState

    with pytest.raises(TopologyError, match="give start\\(..., checkpointLocation="):
        start_local(word_count(state=RedisMapState.opaque(redis_server.url)), name="wc")


def test_a_corrupt_log_is_refused(tmp_path: Path) -> None:
    with start_local(word_count(), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=10)
    for rest in ("-wal", "-shm"):
        (tmp_path / "wc" / f"log.sqlite{rest}").unlink(missing_ok=True)
    (tmp_path / "wc" / "log.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(LogCorruptError, match=r"is damaged.*Nothing was written.*topology\.reset"):
        start_local(word_count(), name="wc", checkpointLocation=tmp_path)


def test_another_aggregator_under_the_same_name_is_refused(tmp_path: Path) -> None:
    with start_local(word_count(), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=10)
    other = TridentTopology()
    stream = other.newStream("sentences", FixedBatchSpout("line string, n double", []))
    stream.groupBy("line").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="counts")
    with pytest.raises(StateShapeError, match=r"'counts' has .*, but the topology declares .*"):
        start_local(other, name="wc", checkpointLocation=tmp_path)
    with pytest.raises(StateShapeError, match="is opaque, but the topology declares it transactional"):
        start_local(word_count(state=MemoryMapState.transactional()), name="wc", checkpointLocation=tmp_path)


def test_a_state_that_moves_to_another_batch_group_is_refused(tmp_path: Path) -> None:
    with start_local(word_count(), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=10)
    other = TridentTopology()
    stream = other.newStream("lines", FixedBatchSpout("word string", []))
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with pytest.raises(CodeChangedError, match=r"the positions of the streams 'sentences', .* it has 'lines'"):
        start_local(other, name="wc", checkpointLocation=tmp_path)


def test_groups_fail_alone() -> None:
    def broken(line: str) -> Any:
        raise ValueError("no")

    topology = word_count()
    other = topology.newStream("others", FixedBatchSpout("line string", [["x"]])).each("line", broken, "word string")
    other.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="others")
    running = start_local(topology, name="wc", maxAttempts=1)
    with pytest.raises(BatchFailedError):
        running.processAllAvailable(timeout=10)
    deadline = time.monotonic() + 5
    while running.state("counts").get("the") != 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.isActive and running.state("counts")["the"] == 4
    running.stop()


def test_an_empty_batch_moves_every_state_and_a_global_count_is_zero() -> None:
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [[], ["a"], []]))
    lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with start_local(topology, name="wc") as running:
        running.processAllAvailable(timeout=10)
        assert running.state("n").value == 1 and running.state("n").asOfTxid == 3
        assert [e["numInputRows"] for e in running.recentProgress] == [0, 1, 0]


def test_the_first_empty_batch_writes_zero_to_a_global_count() -> None:
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [[]]))
    lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with start_local(topology, name="wc") as running:
        running.processAllAvailable(timeout=10)
        assert running.state("n").value == 0


def test_new_values_feed_a_second_state_in_the_same_batch() -> None:
    topology = TridentTopology()
    counts = (
        topology.newStream("sentences", FixedBatchSpout("word string", [["a", "a", "b"], ["a"]]))
        .groupBy("word")
        .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    )
    counts.newValuesStream(everyChange=True).groupBy("count").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="seen"
    )
    with start_local(topology, name="wc") as running:
        running.processAllAvailable(timeout=10)
        assert dict(running.state("seen").items()) == {2: 1, 1: 1, 3: 1}


def test_an_unknown_state_lists_those_there_are() -> None:
    with start_local(word_count(), name="wc") as running, pytest.raises(StateError, match="no state 'count'.*counts"):
        running.state("count")


def test_stop_returns_while_a_function_is_busy() -> None:
    began, release = threading.Event(), threading.Event()

    def busy(line: str) -> Any:
        began.set()
        release.wait(20)
        yield line

    running = start_local(word_count(function=busy), name="wc")
    assert began.wait(5)
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    stopper.join(timeout=5)
    release.set()
    assert not stopper.is_alive() and not running.isActive


def test_debug_output_is_in_the_handle() -> None:
    topology = TridentTopology()
    stream = topology.newStream("lines", FixedBatchSpout("line string", [["a"], ["b"]]))
    stream.each("line", trident.Debug("seen"))
    with start_local(topology, name="wc", maxSpoutPending=1) as running:  # else the second may be through first
        running.processAllAvailable(timeout=10)
        assert running.debugOutput == ["DEBUG(seen) 1:0: ['a']", "DEBUG(seen) 2:0: ['b']"]


def test_a_topology_without_a_stream_is_refused() -> None:
    with pytest.raises(TopologyError, match="no stream from a spout"):
        start_local(TridentTopology(), name="wc")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxSpoutPending": 0}, "maxSpoutPending=0: expected a whole number of at least 1"),
        ({"processingTime": "soon"}, "processingTime='soon' is not a duration; write '5 minutes'"),
        ({"name": "_mine"}, "_mine"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        start_local(word_count(), **options)
