"""States that are found on a server by their names alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import counting, fixed
from tests.state.redis.states import LEASE, started, update
from tests.support.cluster import RedisCluster
from tests.support.server import RedisServer
from trident import listStates, openState
from trident.errors import StateCorruptError, StateError, StateOwnedError, StateShapeError
from trident.log import RedisLog
from trident.state import RedisMapState
from trident.testing.local import start_local

READER = "%R~trident:* -@all +@connection -@dangerous +hmget +hscan +type +multi +exec +info +cluster|slots"


def test_a_cluster_is_asked_on_all_its_masters(tmp_path: Path, shared_cluster: RedisCluster) -> None:
    topology = counting(fixed(["a"]), RedisMapState.opaque(shared_cluster.url, groups=4, buckets=64, prefix="listed"))
    for name in ("a", "b", "c", "d", "e"):
        with start_local(topology, name=name, checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
    found = listStates(url=shared_cluster.url, prefix="listed")
    assert [each.topology for each in found] == ["a", "b", "c", "d", "e"]
    with openState("c", "counts", url=shared_cluster.url, prefix="listed") as counts:
        assert dict(counts.items()) == {"a": 1} and counts.toPandas().attrs == {"asOfTxid": 1}


def test_a_readers_rights_are_enough_to_open_and_one_more_to_list(redis_server: RedisServer) -> None:
    with started(redis_server.url, groups=2) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(3000)}))
    acl = ["ACL", "SETUSER", "reader", "reset", "on", ">secret", *READER.split()]
    redis_server.client.execute_command(*acl)  # type: ignore[no-untyped-call]
    url = redis_server.url.replace("redis://", "redis://reader:secret@")
    with openState("wordcount", "counts", url=url) as counts:
        assert counts["w1"] == 1 and len(counts.toArrow()) == 3000
    with pytest.raises(StateError, match="denies permission.*scan"):
        listStates(url=url)
    redis_server.client.execute_command("ACL", "SETUSER", "reader", "+scan")  # type: ignore[no-untyped-call]
    assert [(each.topology, each.name, each.txid) for each in listStates(url=url)] == [("wordcount", "counts", 1)]


def test_three_more_are_enough_to_follow_a_state_in_memory_by_its_log(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    assert f"`{MORE}`" in (Path(__file__).parents[3] / "docs" / "guide" / "operations.md").read_text()
    with start_local(
        counting(fixed(["a"], ["a"])), name="wc", checkpointLocation=tmp_path, log=RedisLog(redis_server.url)
    ) as running:
        running.processAllAvailable(timeout=20)
        acl = ["ACL", "SETUSER", "reader", "reset", "on", ">secret", *READER.split(), *MORE.split()]
        redis_server.client.execute_command(*acl)  # type: ignore[no-untyped-call]
        log = RedisLog(redis_server.url.replace("redis://", "redis://reader:secret@"))
        with openState("wc", "counts", tmp_path, log=log) as counts:
            assert counts["a"] == 2
        assert [each.name for each in listStates(tmp_path, topology="wc", log=log)] == ["counts"]


MORE = "+hget +hgetall +hexists"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "9"}, StateShapeError, "has format 9, this version reads format 2"),
        ({"kind": "odd"}, StateCorruptError, "lacks a field, or holds an invalid one"),
        ({"values": "pickle"}, StateCorruptError, "lacks a field, or holds an invalid one"),
        ({"buckets": "-1"}, StateCorruptError, "is not valid"),
        ({"marker": "x"}, StateCorruptError, "is not a number"),
        ({"fingerprint": "__import__('os')"}, StateShapeError, "cannot parse the stored types .* from character 0 on"),
    ],
)
def test_a_meta_hash_that_cannot_be_is_refused(
    shared_redis: RedisServer, change: dict[str, str], error: Any, message: str
) -> None:
    with started(shared_redis.url):
        shared_redis.client.hset("trident:{wordcount/counts}:m", mapping=change)
        with pytest.raises(error, match=message):
            openState("wordcount", "counts", url=shared_redis.url)


def test_what_is_no_state_is_not_taken_for_one(shared_redis: RedisServer) -> None:
    shared_redis.client.hset("trident:{a/b}:m", "marker", 1)
    shared_redis.client.set("trident:{c/d}:m", "text")
    with pytest.raises(StateOwnedError, match="'trident:{a/b}:m' is a hash that this library did not write"):
        openState("a", "b", url=shared_redis.url)
    with pytest.raises(StateOwnedError, match="another program wrote a key"):
        openState("c", "d", url=shared_redis.url)
