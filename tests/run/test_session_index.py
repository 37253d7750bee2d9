"""Sessions in Redis whose index of due times the server lost, or that a batch has begun to change."""

from pathlib import Path

from tests.compiler.window_runner import FIELDS, at
from tests.run.test_windows import Seen, bounds, noting
from tests.support.server import RedisServer
from trident import SessionWindow, Sum, TridentTopology
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


def test_sessions_close_on_time_though_the_server_lost_a_part_of_their_index(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """It fell back to a time after a start that built the index had set the fence."""
    seen: Seen = []
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    by_key = topology.newStream("s", feeder).groupBy("k")
    state = RedisMapState.opaque(shared_redis.url, groups=2)
    by_key.window(SessionWindow(10, "at"), state, "n", Sum(), "sum").peek(noting(seen))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([(key, at(0), 1) for key in "abcdef"], wait=True, timeout=20)
        for name in shared_redis.client.keys("*:due"):
            shared_redis.client.hdel(name.decode().removesuffix("due") + "m", "due")
            shared_redis.client.zremrangebyrank(name, 0, 1)
        feeder.feed([("a", at(30), 1)], wait=True, timeout=20)
        running.processAllAvailable(timeout=20)
    assert sorted(bounds(seen)) == [(0.0, 10.0, key, 1) for key in "abcdef"]


def test_sessions_close_though_the_puts_of_their_batch_began_and_the_log_lost_its_result(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """As in a log that was restored from a copy. The index is that of the batch that was begun: keys have left it."""
    seen: Seen = []
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    by_key = topology.newStream("s", feeder).groupBy("k")
    by_key.window(SessionWindow(10, "at"), RedisMapState.opaque(shared_redis.url), "n", Sum(), "sum").peek(noting(seen))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([(key, at(0), 1) for key in "abcdef"], wait=True, timeout=20)
        (index,) = shared_redis.client.keys("*:due")
        meta = index.decode().removesuffix("due") + "m"
        shared_redis.client.hset(meta, "open", 2)
        shared_redis.client.hincrby(meta, "dues", -2)
        shared_redis.client.zremrangebyrank(index, 0, 1)
        for second in (30, 60):
            feeder.feed([("a", at(second), 1)], wait=True, timeout=20)
        running.processAllAvailable(timeout=20)
    assert sorted(bounds(seen)) == [*[(0.0, 10.0, key, 1) for key in "abcdef"], (30.0, 40.0, "a", 1)]
