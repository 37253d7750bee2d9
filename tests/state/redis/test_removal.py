"""Keys that were removed leave the server once no read can see what they held."""

from typing import Any

import pyarrow as pa
import pytest

from tests.state.redis.storage import RedisStorage
from tests.support.buckets import stored_keys
from tests.support.server import RedisServer
from trident.testing.contracts.stores.fixtures import SECOND, Combine, Setting, entries, every_kind
from trident_state.redis import store as module
from trident_state.state_shape import StateKind, replacing

OPTIONS: dict[str, dict[str, Any]] = {"packed": {}, "groups": {"groups": 4, "buckets": 64}, "json": {"values": "json"}}
VALUES: dict[str, tuple[pa.DataType, Any]] = {"number": (pa.int64(), 7), "text": (pa.string(), "N")}
NONE_IF_EVEN = Combine("NoneIfEven", lambda stored, delta: None if delta % 2 == 0 else stored + delta)


def stored(server: RedisServer) -> int:
    """Keys in the buckets, which must be what the meta hashes count."""
    there = stored_keys(server)
    counted = sum(int(server.client.hget(key, "keys") or 0) for key in server.client.scan_iter("*}:m"))  # type: ignore[arg-type]
    assert there == counted
    return there


@every_kind
@pytest.mark.parametrize("layout", OPTIONS)
@pytest.mark.parametrize("values", VALUES)
def test_a_removed_key_is_deleted_with_the_first_look_after_the_batch_behind_it(
    shared_redis: RedisServer, kind: StateKind, layout: str, values: str
) -> None:
    value, one = VALUES[values]
    setting = Setting(RedisStorage(shared_redis.url, OPTIONS[layout]), kind, value=value, combine=replacing())
    store = setting.started()
    setting.apply(store, 1, {n: one for n in range(3_000)})
    setting.apply(store, 2, {n: None for n in range(2_500)})
    store.groups_of()
    assert stored(shared_redis) == 3_000, "as of the batch before they are there"
    if kind is not StateKind.NON_TRANSACTIONAL:
        assert len(entries(store, 1)) == 3_000 and len(entries(store, 2)) == 500
    setting.apply(store, 3, {0: one, 4_000: None})
    store.groups_of()
    assert stored(shared_redis) == 502, "the one that came back, and what batch 3 removed"
    assert len(entries(store, None)) == 501 and setting.read(store, [0, 1, 2_999], None) == [one, None, one]
    if kind is not StateKind.NON_TRANSACTIONAL:
        assert len(entries(store, 2)) == 500
    setting.open().acquire(SECOND)  # counts the keys


def test_what_a_combiner_of_ones_own_makes_nothing_of_goes_too(shared_redis: RedisServer) -> None:
    setting = Setting(RedisStorage(shared_redis.url), combine=NONE_IF_EVEN)
    store = setting.started()
    setting.apply(store, 1, dict.fromkeys(range(10), 1))
    setting.apply(store, 2, {n: n for n in range(10)})
    setting.apply(store, 3, {})
    store.groups_of()
    assert stored(shared_redis) == 5 and len(entries(store, 3)) == 5


def test_a_driver_that_is_never_looked_at_clears_in_its_batches(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLEARED_LATER", 100)
    setting = Setting(RedisStorage(shared_redis.url), combine=replacing())
    store = setting.started()
    for txid in range(1, 20):
        setting.apply(store, txid, {200 * txid + n: None for n in range(200)})
    assert stored(shared_redis) <= 400


def test_a_later_driver_s_keys_are_left_alone(shared_redis: RedisServer) -> None:
    setting = Setting(RedisStorage(shared_redis.url), combine=replacing())
    store = setting.started()
    setting.apply(store, 1, {1: None})
    setting.apply(store, 2, {2: 2})
    setting.open().acquire(SECOND)
    store.groups_of()
    assert stored(shared_redis) == 2
