"""What a start refuses, before it writes anything: states that are lost, ahead, someone else's, or of other code."""

import shutil
from pathlib import Path

import pytest

from tests.support.server import RedisServer
from trident import Count, Sum, TridentTopology, dropState
from trident.base.errors import (
    CodeChangedError,
    StateAheadError,
    StateLostError,
    StateOwnedError,
    StateShapeError,
    StateUnavailableError,
)
from trident.run import registry
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counting(feeder: FeederBatchSpout, url: str, **redis: object) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", feeder).groupBy("word")
    words.persistentAggregate(RedisMapState.opaque(url, **redis), Count(), "count", name="counts")  # type: ignore[arg-type]
    return topology


def fed(url: str, checkpoint: Path, *words: str, name: str = "wc", **redis: object) -> dict[str, int]:
    """One run that counts these words and ends."""
    feeder = FeederBatchSpout("word string")
    with start_local(counting(feeder, url, **redis), name=name, checkpointLocation=checkpoint) as running:
        for word in words:
            feeder.feed([word])
        running.processAllAvailable(timeout=20)
        return dict(running.state("counts").items())


@pytest.mark.parametrize("declared", [{"groups": 4}, {"values": "json"}])
def test_a_state_that_is_declared_otherwise_than_it_was_created_can_be_reset(
    tmp_path: Path, shared_redis: RedisServer, declared: dict[str, object]
) -> None:
    fed(shared_redis.url, tmp_path, "a")
    with pytest.raises(StateShapeError, match=r"declare it as before, or give .* or reset the topology"):
        fed(shared_redis.url, tmp_path, "b", **declared)
    counting(FeederBatchSpout("word string"), shared_redis.url, **declared).reset("wc", tmp_path)
    assert shared_redis.client.dbsize() == 0
    assert fed(shared_redis.url, tmp_path, "b", **declared) == {"b": 1}


def test_a_state_that_was_flushed_is_lost_and_said_so(tmp_path: Path, shared_redis: RedisServer) -> None:
    assert fed(shared_redis.url, tmp_path, "a", "b") == {"a": 1, "b": 1}
    shared_redis.client.flushall()
    with pytest.raises(
        StateLostError,
        match=r"'counts' is missing.*txid 2 says that it was created at "
        r"0.*topology\.reset",
    ):
        fed(shared_redis.url, tmp_path, "c")
    with pytest.raises(
        StateLostError, match=r"RedisMapState\.opaque\('redis.*other'\).*If it is elsewhere.*dropState.*force=True"
    ):
        fed(shared_redis.url, tmp_path, "c", prefix="other")
    dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
    assert fed(shared_redis.url, tmp_path, "c") == {"c": 1}
    shared_redis.client.flushall()
    assert shared_redis.client.dbsize() == 0


def test_an_old_copy_of_the_log_is_refused_because_the_state_is_ahead(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    fed(shared_redis.url, tmp_path, "a")
    shutil.copytree(tmp_path, old := tmp_path.with_name("old"))
    fed(shared_redis.url, tmp_path, "b", "c")
    with pytest.raises(
        StateAheadError, match=r"'counts' is at txid 3, but the log .* has only the batches up to 1.*old copy"
    ):
        fed(shared_redis.url, old, "d")
    assert fed(shared_redis.url, tmp_path, "e") == {"a": 1, "b": 1, "c": 1, "e": 1}


def test_two_drivers_on_copies_of_one_log_do_not_both_write(tmp_path: Path, shared_redis: RedisServer) -> None:
    fed(shared_redis.url, tmp_path, "a")
    shutil.copytree(tmp_path, copy := tmp_path.with_name("copy"))
    feeder = FeederBatchSpout("word string")
    first = start_local(counting(feeder, shared_redis.url), name="wc", checkpointLocation=tmp_path)
    registry.release("wc", first)  # the second one runs as if in another process
    with pytest.raises(Exception, match=r"belongs to|taken over|epoch"):
        fed(shared_redis.url, copy, "b")
    feeder.feed(["c"])
    first.processAllAvailable(timeout=20)
    assert dict(first.state("counts").items()) == {"a": 1, "c": 1}
    first.stop()


def test_the_place_of_another_topology_is_left_alone(tmp_path: Path, shared_redis: RedisServer) -> None:
    fed(shared_redis.url, tmp_path, "a", name="one")
    counts = fed(shared_redis.url, tmp_path, "b", name="two")
    assert counts == {"b": 1}
    assert fed(shared_redis.url, tmp_path, name="one") == {"a": 1}


def test_foreign_keys_under_our_prefix_are_refused_and_not_touched(tmp_path: Path, shared_redis: RedisServer) -> None:
    fed(shared_redis.url, tmp_path, "a")
    before = {key: shared_redis.client.type(key) for key in shared_redis.client.scan_iter()}
    meta = next(key for key in before if key.endswith(b":m"))
    shared_redis.client.flushall()
    shared_redis.client.set(meta, "mine")
    with pytest.raises(StateOwnedError, match=r"'counts': the key .* is a string; nothing was changed"):
        fed(shared_redis.url, tmp_path.with_name("new"), "a")
    assert shared_redis.client.get(meta) == b"mine" and shared_redis.client.dbsize() == 1


def test_a_server_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StateUnavailableError, match=r"127\.0\.0\.1:1/0 does not answer"):
        fed("redis://127.0.0.1:1/0", tmp_path, "a")


def frozen_and_not_committed(server: RedisServer, checkpoint: Path) -> None:
    """Leave a log with a frozen batch that no state has seen."""
    feeder = FeederBatchSpout("word string")
    running = start_local(counting(feeder, server.url), name="wc", checkpointLocation=checkpoint, commitRetrySecs=0.05)
    feeder.feed(["a"])
    running.processAllAvailable(timeout=20)
    server.kill()
    feeder.feed(["b"])
    with pytest.raises(StateUnavailableError):
        running.processAllAvailable(timeout=20)
    running.stop()
    server.start()


def test_a_commit_that_cannot_go_through_leaves_the_batch_frozen_for_the_next_start(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    frozen_and_not_committed(redis_server, tmp_path / "checkpoint")
    assert fed(redis_server.url, tmp_path / "checkpoint") == {"a": 1, "b": 1}


def test_code_that_does_not_fit_a_frozen_batch_is_refused(tmp_path: Path, redis_server: RedisServer) -> None:
    frozen_and_not_committed(redis_server, tmp_path / "checkpoint")
    topology = TridentTopology()
    lines = topology.newStream("words", FeederBatchSpout("word string, n long"))
    lines.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    with pytest.raises(
        CodeChangedError, match=r"batch 2 .* is frozen .*froze state 'counts'.*Start the previous program"
    ):
        start_local(topology, name="wc", checkpointLocation=tmp_path / "checkpoint")
    other = TridentTopology()
    other.newStream("others", FeederBatchSpout("word string"), anew=True).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="others"
    )
    with pytest.raises(CodeChangedError, match=r"batch 2 of the batch group 'words' is frozen but not committed"):
        start_local(other, name="wc", checkpointLocation=tmp_path / "checkpoint")
    assert fed(redis_server.url, tmp_path / "checkpoint") == {"a": 1, "b": 1}


def test_a_state_that_joins_later_counts_from_there_on(tmp_path: Path, shared_redis: RedisServer) -> None:
    fed(shared_redis.url, tmp_path, "a")
    feeder = FeederBatchSpout("word string")
    words = TridentTopology()
    stream = words.newStream("words", feeder).groupBy("word")
    stream.persistentAggregate(RedisMapState.opaque(shared_redis.url), Count(), "count", name="counts")
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="later")
    with start_local(words, name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(["a", "b"])
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
        assert dict(running.state("later").items()) == {"a": 1, "b": 1}
