"""Servers that fall behind, lose a part, or take their time; and what a driver makes of it."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import redis

from tests.faults.smallest_topology import Small, expected, run, topology
from tests.support.request_proxy import Cut, RequestProxy, words
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import StateFullError, StateLostError
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


class Counting:
    """A topology that counts words in two states on one server, and can be stopped and started."""

    def __init__(self, url: str, checkpoint: Path, **options: object) -> None:
        self.url, self.checkpoint, self.options = url, checkpoint, options

    def started(self) -> RunningTopology:
        self.feeder = FeederBatchSpout("word string")
        topology = TridentTopology()
        stream = topology.newStream("words", self.feeder).groupBy("word")
        for name in ("one", "two"):
            state = RedisMapState.opaque(self.url, buckets=8)
            stream.persistentAggregate(state, Count(), "count", name=name)
        return start_local(topology, name="counting", checkpointLocation=self.checkpoint, **self.options)

    def feed(self, running: RunningTopology, *batches: str) -> None:
        for batch in batches:
            self.feeder.feed(list(batch))
        running.processAllAvailable(timeout=30)

    def counts(self, running: RunningTopology) -> tuple[dict[str, int], dict[str, int]]:
        return dict(running.state("one").items()), dict(running.state("two").items())


def copy_of(server: RedisServer, state: str) -> dict[bytes, bytes]:
    client = server.client
    return {key: client.dump(key) or b"" for key in client.scan_iter(f"*/{state}}}*")}


def restore(server: RedisServer, state: str, copy: dict[bytes, bytes]) -> None:
    for key in list(server.client.scan_iter(f"*/{state}}}*")):
        server.client.delete(key)
    for key, content in copy.items():
        server.client.restore(key, 0, content)


def test_states_that_are_older_by_different_amounts_are_healed_each_from_where_it_is(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """Two stores restored from backups of different days, and a log that is newer than both."""
    counting = Counting(redis_server.url, tmp_path / "checkpoint")
    with counting.started() as running:
        counting.feed(running, "ab", "ac")
        older = copy_of(redis_server, "one")
        counting.feed(running, "ad", "ae", "af")
        old = copy_of(redis_server, "two")
        counting.feed(running, "ag", "ah")
        before = counting.counts(running)
    restore(redis_server, "one", older)
    restore(redis_server, "two", old)
    with counting.started() as running:
        assert counting.counts(running) == before == ({"a": 7, **dict.fromkeys("bcdefgh", 1)},) * 2
        counting.feed(running, "ab")
        assert counting.counts(running)[0] == counting.counts(running)[1]
        assert running.state("one")["b"] == 2


def test_states_that_fall_back_by_different_amounts_while_the_driver_lives_are_healed(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    counting = Counting(redis_server.url, tmp_path / "checkpoint")
    with counting.started() as running:
        counting.feed(running, "ab", "ac")
        older = copy_of(redis_server, "one")
        counting.feed(running, "ad", "ae")
        old = copy_of(redis_server, "two")
        counting.feed(running, "af", "ag")
        restore(redis_server, "one", older)
        restore(redis_server, "two", old)
        counting.feed(running, "ab")
        assert counting.counts(running) == ({"a": 7, "b": 2, **dict.fromkeys("cdefg", 1)},) * 2


def test_a_bucket_that_somebody_deleted_is_told_at_the_next_start_and_a_reset_is_the_way_out(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """As an evicting server, or a foreign DEL or EXPIRE, would leave it: the fence and the marker are there."""
    counting = Counting(redis_server.url, tmp_path / "checkpoint")
    with counting.started() as running:
        counting.feed(running, "abcdefgh", "ab")
    bucket = max(redis_server.client.scan_iter("*/two}:b:*"), key=redis_server.client.hlen)
    lost = redis_server.client.hlen(bucket)
    redis_server.client.delete(bucket)
    with pytest.raises(StateLostError, match=rf"'two': the server holds {8 - lost} of the 8 keys .*evicted some"):
        counting.started()
    topology = TridentTopology()
    stream = topology.newStream("words", FeederBatchSpout("word string")).groupBy("word")
    for name in ("one", "two"):
        stream.persistentAggregate(RedisMapState.opaque(redis_server.url, buckets=8), Count(), "count", name=name)
    topology.reset("counting", checkpointLocation=tmp_path / "checkpoint")
    assert redis_server.client.dbsize() == 0


def test_a_server_that_cannot_save_is_waited_for(tmp_path: Path, redis_server: RedisServer) -> None:
    """By its default a server takes no writes after a snapshot that failed (MISCONF)."""
    client = redis_server.client
    counting = Counting(redis_server.url, tmp_path / "checkpoint")
    with counting.started() as running:
        counting.feed(running, "ab")
        client.config_set("save", "3600 1")
        in_its_way = redis_server.folder / "dump.rdb"
        in_its_way.mkdir()
        _save(client, "err")
        counting.feeder.feed(list("ac"))
        with pytest.raises(TimeoutError, match="it waits for: state '(one|two)'.*MISCONF") as waited:
            running.processAllAvailable(timeout=1.0)
        assert isinstance(waited.value.__cause__, StateFullError)
        in_its_way.rmdir()
        _save(client, "ok")
        running.processAllAvailable(timeout=30)
        assert counting.counts(running) == ({"a": 2, "b": 1, "c": 1},) * 2


def _save(client: redis.Redis, status: str) -> None:
    """A snapshot that ends so."""
    client.bgsave()
    while (info := client.info("persistence"))["rdb_bgsave_in_progress"] or info["rdb_last_bgsave_status"] != status:
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_server_that_takes_twenty_times_as_long_slows_the_count_and_nothing_else(
    kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    requests = 0

    def slowly(commands: Sequence[bytes]) -> Cut | None:
        nonlocal requests
        requests += 1
        time.sleep(0.01)
        return None

    with RequestProxy(shared_redis.port, slowly) as proxy:
        small = Small(kind, "two", "redis", str(tmp_path), f"redis://127.0.0.1:{proxy.port}/0")
        assert run(small) == expected("two")
    assert requests > 50


def test_a_server_that_hangs_now_and_then_is_given_up_and_asked_again(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """A hung server may still do what it was sent, after its client has given up: the commit is repeated meanwhile."""
    hung = 0

    def hanging(commands: Sequence[bytes]) -> Cut | None:
        nonlocal hung
        if hung < 3 and any(words(command)[0] == b"EVALSHA" for command in commands) and len(commands) > 2:
            hung += 1
            time.sleep(0.5)
        return None

    with RequestProxy(shared_redis.port, hanging) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        hurried = Small("opaque", "one", "redis", str(tmp_path), url)
        state = RedisMapState.opaque(url, buckets=4, socketTimeout=0.2)
        with start_local(topology(hurried, state), name="small", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            assert {"sums": dict(running.state("sums").items())} == expected("one")
    assert hung == 3
