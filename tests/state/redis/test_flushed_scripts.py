"""SCRIPT FLUSH at the most unlucky moments: before each request that calls a script, also if it was just loaded."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark import cloudpickle

from tests.state.redis.states import LEASE, PYTHON, SECOND, SHAPE, contents, opened, started, update
from tests.state.redis.test_due_index import SHAPE as TIMED
from tests.state.redis.test_due_index import UNTIMED, due, puts
from tests.support.buckets import stored_keys
from tests.support.cluster import RedisCluster
from tests.support.flushed_scripts import forget_scripts
from tests.support.server import RedisServer
from trident_state.redis import RedisStore
from trident_state.redis.scripts import ALL, SWEEP
from trident_state.redis.wire import call, command, in_full
from trident_state.state_shape import StateKind

SHAPES = {"server": SHAPE, "python": PYTHON}
GROUPS: dict[str, Any] = {"groups": 4, "buckets": 64}


def by_workers(store: RedisStore, txid: int, deltas: dict[int, int]) -> None:
    without, given = update(txid, {}), update(txid, deltas)
    batch = cloudpickle.loads(cloudpickle.dumps(store.open_batch(LEASE, without)))  # type: ignore[no-untyped-call]
    store.commit_batch(batch, without, [batch.put([(given.keys, given.deltas)])])


def written(url: str, combined: str) -> None:
    """Create, acquire, write and drop a state."""
    with started(url, SHAPES[combined], **GROUPS) as store:
        store.apply(LEASE, update(1, {n: n for n in range(500)}))
        by_workers(store, 2, {n: 1 for n in range(250, 750)})
        store.acquire(LEASE)
        expected = {n: (n if n < 500 else 0) + (1 if n >= 250 else 0) for n in range(750)}
        assert contents(store, 2) == {f"w{n}": value for n, value in expected.items()}
        store.drop(LEASE)
        assert store.report().identity is None


@pytest.mark.parametrize("combined", SHAPES)
def test_a_state_is_created_written_and_dropped(
    shared_redis: RedisServer, combined: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = forget_scripts(monkeypatch)
    written(shared_redis.url, combined)
    assert len(flushes) >= 2 * 8, "each request with scripts missed them twice"


def test_a_state_on_a_cluster_is_too(shared_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = forget_scripts(monkeypatch)
    written(shared_cluster.url, "server")
    assert flushes


def test_an_index_of_due_times_is_built(shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_scripts(monkeypatch)
    with started(shared_redis.url, TIMED, **GROUPS) as store:
        store.apply(LEASE, puts(1, {1: 5, 2: 9}))
    shared_redis.client.delete(*shared_redis.client.keys("*:due"))
    with opened(shared_redis.url, TIMED, **GROUPS) as store:
        store.report()
        store.acquire(SECOND)
        assert due(store, 1, 8) == ["w1"]


def test_expired_and_removed_values_are_deleted(shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_scripts(monkeypatch)
    with started(shared_redis.url, UNTIMED, ttlSecs=1.0, buckets=4) as store:
        for txid, given in enumerate(({1: 1}, {2: 1, 3: 1}, {3: None}, {4: 1}), 1):
            store.apply(LEASE, replace(puts(txid, given), time=1000.0 + max(0, 10 * (txid - 2))))
        assert stored_keys(shared_redis) == 4
        store.groups_of()
        assert stored_keys(shared_redis) == 1


def test_a_state_without_txids_is_written_at_least_once(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(shared_redis.url, SHAPE, StateKind.NON_TRANSACTIONAL) as store:
        forget_scripts(monkeypatch)
        store.apply(LEASE, update(1, {1: 1}))
        assert contents(store) == {"w1": 1}, "a call that found no script has had no effect"


def test_a_call_in_full_differs_in_its_first_words_alone() -> None:
    for script in (*ALL, SWEEP):
        packed = call(script, [b"$3\r\n{a}\r\n"], b"1", b"\r\n$7\r\nEVALSHA\r\n")
        words = [b"EVAL", script.source, b"1", b"{a}", b"1", b"\r\n$7\r\nEVALSHA\r\n"]
        assert in_full(packed, (*ALL, SWEEP)) == command(*words)
    other = command(b"HMGET", b"{a}", b"EVALSHA")
    assert in_full(other, ALL) == other
