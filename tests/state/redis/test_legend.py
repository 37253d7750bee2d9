"""A bucket of many keys is a hash table on the server, whatever the server would make of it by itself."""

from dataclasses import replace
from typing import Any

import pytest

from tests.state.redis.states import LEASE, PYTHON, SECOND, SHAPE, contents, opened, started, update
from tests.state.redis.storage import RedisStorage
from tests.support.server import RedisServer
from trident.base.errors import StateLostError
from trident.testing.contracts.stores.fixtures import Setting, entries
from trident_state.redis.layout import LEGEND
from trident_state.state_shape import replacing

SHAPES = {"server": SHAPE, "python": PYTHON}
OPTIONS: dict[str, dict[str, Any]] = {"packed": {}, "json": {"values": "json"}, "groups": {"groups": 2}}
FEW = {n: 1 for n in range(4 * 12)}
MANY = {n: 1 for n in range(4 * 100)}
"""Fewer than a server keeps in a list (512 a bucket)."""


def encodings(server: RedisServer) -> set[Any]:
    return {server.client.object("encoding", name) for name in server.client.scan_iter("*:b:*")}


@pytest.mark.parametrize("combined", SHAPES)
@pytest.mark.parametrize("layout", OPTIONS)
def test_a_bucket_is_a_list_while_it_is_small_and_then_a_hash_table(
    shared_redis: RedisServer, layout: str, combined: str
) -> None:
    options = OPTIONS[layout] | {"buckets": 4}
    with started(shared_redis.url, SHAPES[combined], **options) as store:
        store.apply(LEASE, update(1, FEW))
        assert encodings(shared_redis) in ({b"listpack"}, {b"ziplist"}), "Redis 7, 6"
        store.apply(LEASE, update(2, MANY))
        assert encodings(shared_redis) == {b"hashtable"}
        expected = {f"w{n}": 2 if n in FEW else 1 for n in MANY}
        assert contents(store, 2) == expected, "the legend is no key"
        store.apply(LEASE, update(3, MANY))
        assert contents(store, 3) == {key: value + 1 for key, value in expected.items()}
        for name in shared_redis.client.keys("*:b:*"):
            shared_redis.client.restore(name, 0, shared_redis.client.dump(name), replace=True)
        assert encodings(shared_redis) == {b"hashtable"}, "also when the server has loaded it again"
    with opened(shared_redis.url, SHAPES[combined], **options) as again:
        again.acquire(SECOND)  # counts the keys
        bucket = next(shared_redis.client.scan_iter("*:b:*"))
        key = next(field for field in shared_redis.client.hkeys(bucket) if field != LEGEND)
        shared_redis.client.hdel(bucket, key)
        with pytest.raises(StateLostError, match="holds"):
            again.acquire(SECOND)


def test_a_legend_is_no_key_that_passes_away(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, ttlSecs=1.0, buckets=4) as store:
        for txid, batch, time in ((1, MANY, 1000.0), (2, {}, 1064.0), (3, {1: 5}, 1065.0)):
            store.apply(LEASE, replace(update(txid, batch), time=time))
        for _ in range(20):
            store.groups_of()
        (bucket,) = shared_redis.client.scan_iter("*:b:*")
        assert set(shared_redis.client.hkeys(bucket)) == {b"sw1", LEGEND}, "the last key takes it along"
        assert contents(store, 3) == {"w1": 5}
    with opened(shared_redis.url, ttlSecs=1.0, buckets=4) as again:
        again.acquire(SECOND)
        again.drop()
    assert not list(shared_redis.client.scan_iter("*"))


def test_the_last_key_that_is_removed_takes_the_legend_along(shared_redis: RedisServer) -> None:
    setting = Setting(RedisStorage(shared_redis.url, {"buckets": 4}), combine=replacing())
    store = setting.started()
    setting.apply(store, 1, dict.fromkeys(range(400), 7))
    setting.apply(store, 2, dict.fromkeys(range(1, 400)))
    setting.apply(store, 3, {})
    store.groups_of()
    (bucket,) = shared_redis.client.scan_iter("*:b:*")
    assert shared_redis.client.hlen(bucket) == 2 and entries(store, 3) == {("w0",): 7}
    setting.apply(store, 4, {0: None})
    setting.apply(store, 5, {})
    store.groups_of()
    assert not list(shared_redis.client.scan_iter("*:b:*"))
    setting.open().acquire(SECOND)  # counts the keys
    store.close()
