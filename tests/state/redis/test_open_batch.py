"""Other processes put the keys of a batch that the driver opened: doubled, late and lost puts change nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from tests.state.redis.states import LEASE, PYTHON, SECOND, SHAPE, batches, contents, started, sums, update
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from trident.base.attempt import Lease
from trident.base.errors import FencedError, StateCorruptError, StateError, StateUnavailableError
from trident_state.redis import RedisStore
from trident_state.redis.open_batch import OpenBatch
from trident_state.state_shape import StateKind
from trident_state.store_messages import Put, Update

SHAPES = {"server": SHAPE, "python": PYTHON}
OPTIONS: dict[str, dict[str, Any]] = {"hash": {}, "groups": {"groups": 4, "buckets": 64}, "json": {"values": "json"}}
GIVEN = batches(3, 3_000, 2_500)

Parts = list[dict[int, int]]


def parts_of(batch: dict[int, int], parts: int = 3) -> Parts:
    rows = list(batch.items())
    return [dict(rows[at::parts]) for at in range(parts)]


def without_keys(txid: int) -> Update:
    return update(txid, {})


def put(batch: OpenBatch, part: dict[int, int]) -> Put:
    """What a worker does with the batch that came to it as bytes."""
    sent: OpenBatch = cloudpickle.loads(cloudpickle.dumps(batch))
    given = update(batch.txid, part)
    return sent.put([(given.keys, given.deltas)])


def written(store: RedisStore, txid: int, parts: Parts) -> int:
    """Write a whole batch as a driver and its workers do; return how many keys moved."""
    batch = store.open_batch(LEASE, without_keys(txid))
    puts = [put(batch, part) for part in parts]
    return store.commit_batch(batch, without_keys(txid), puts).written


@pytest.mark.parametrize("combined", SHAPES)
@pytest.mark.parametrize("layout", OPTIONS)
def test_parts_give_what_one_writer_gives(shared_redis: RedisServer, layout: str, combined: str) -> None:
    with started(shared_redis.url, SHAPES[combined], **OPTIONS[layout]) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        assert written(store, 2, parts_of(GIVEN[1])) == len(GIVEN[1])
        assert store.durable() == 2
        store.apply(LEASE, update(3, GIVEN[2]))
        assert contents(store, 3) == sums(GIVEN)


@pytest.mark.parametrize("combined", SHAPES)
def test_a_put_that_came_twice_is_counted_once(shared_redis: RedisServer, combined: str) -> None:
    with started(shared_redis.url, SHAPES[combined], **OPTIONS["groups"]) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        parts = parts_of(GIVEN[0])
        first, again = [put(batch, part) for part in parts], [put(batch, part) for part in parts]
        assert [one.counts for one in again] == [one.counts for one in first]
        assert sum(one.moved for one in again) == 0
        store.commit_batch(batch, without_keys(1), again)
        assert contents(store, 1) == sums(GIVEN[:1])


@pytest.mark.parametrize("combined", SHAPES)
def test_a_commit_without_all_keys_is_refused_and_the_rest_is_put_again(
    shared_redis: RedisServer, combined: str
) -> None:
    with started(shared_redis.url, SHAPES[combined], **OPTIONS["groups"]) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        parts = parts_of(GIVEN[1])
        batch = store.open_batch(LEASE, without_keys(2))
        puts = [put(batch, part) for part in parts[:2]]
        lost = update(2, parts[2])
        puts.append(replace(puts[0], counts=batch.task(lost.keys, lost.deltas).counts))
        with pytest.raises(StateUnavailableError, match="keys of txid 2 in one group"):
            store.commit_batch(batch, without_keys(2), puts)
        assert store.durable() == 1
        assert contents(store, 1) == sums(GIVEN[:1])
        assert written(store, 2, parts) == len(parts[2])
        assert contents(store, 2) == sums(GIVEN[:2])


def test_a_commit_with_too_many_keys_is_refused_for_good(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        puts = [put(batch, part) for part in parts_of(GIVEN[0])]
        with pytest.raises(StateCorruptError, match="an earlier attempt wrote different content"):
            store.commit_batch(batch, without_keys(1), puts[:2])
        assert store.durable() == 0


@pytest.mark.parametrize("combined", SHAPES)
def test_a_put_whose_reply_was_lost_is_repeated(shared_redis: RedisServer, combined: str) -> None:
    with (
        Proxy(shared_redis.port) as proxy,
        started(f"redis://127.0.0.1:{proxy.port}/0", SHAPES[combined], **OPTIONS["groups"]) as store,
    ):
        batch = store.open_batch(LEASE, without_keys(1))
        parts = parts_of(GIVEN[0])
        puts = [put(batch, part) for part in parts[:2]]
        proxy.lose_reply(b"EVALSHA")
        with pytest.raises(StateUnavailableError):
            put(batch, parts[2])
        assert proxy.struck == 1
        last = put(batch, parts[2])
        assert last.moved < len(parts[2]), "the lost put had arrived"
        store.commit_batch(batch, without_keys(1), [*puts, last])
        assert contents(store, 1) == sums(GIVEN[:1])


@pytest.mark.parametrize("combined", SHAPES)
def test_a_late_put_is_refused_after_its_batch_and_beside_the_next(shared_redis: RedisServer, combined: str) -> None:
    with started(shared_redis.url, SHAPES[combined], **OPTIONS["groups"]) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        parts = parts_of(GIVEN[0])
        store.commit_batch(batch, without_keys(1), [put(batch, part) for part in parts])
        other = {key + 10_000: 1 for key in parts[0]}  # keys that would move, if anything let them
        with pytest.raises(StateUnavailableError, match="no longer expects writes"):
            put(batch, other)
        later = store.open_batch(LEASE, without_keys(2))
        with pytest.raises(StateUnavailableError, match="no longer expects writes"):
            put(batch, other)
        store.commit_batch(later, without_keys(2), [put(later, part) for part in parts_of(GIVEN[1])])
        assert contents(store, 2) == sums(GIVEN[:2])


@pytest.mark.parametrize("combined", SHAPES)
def test_a_zombie_of_a_fenced_driver_puts_and_commits_nothing(shared_redis: RedisServer, combined: str) -> None:
    with started(shared_redis.url, SHAPES[combined], **OPTIONS["groups"]) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        parts = parts_of(GIVEN[0])
        puts = [put(batch, parts[0])]
        store.acquire(SECOND)
        with pytest.raises(FencedError):
            put(batch, parts[1])
        with pytest.raises(FencedError):
            batch.check_reached()
        taken = store.open_batch(SECOND, without_keys(1))
        with pytest.raises(FencedError):
            put(batch, parts[1])
        with pytest.raises(FencedError):
            store.commit_batch(batch, without_keys(1), puts)
        store.commit_batch(taken, without_keys(1), [put(taken, part) for part in parts])
        assert contents(store, 1) == sums(GIVEN[:1])


def test_a_group_that_holds_the_batch_gets_none_of_it(shared_redis: RedisServer) -> None:
    """A turn that died between the commits of two groups is repeated."""
    with started(shared_redis.url, **OPTIONS["groups"]) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        puts = [put(batch, part) for part in parts_of(GIVEN[0])]
        counts = [sum(group) for group in zip(*(one.counts for one in puts), strict=True)]
        with pytest.raises(StateError):
            store.commit_batch(batch, without_keys(1), [replace(puts[0], counts=[*counts[:3], counts[3] + 1])])
        assert [group.marker for group in store.groups_of()] == [1, 1, 1, 0]
        again = store.open_batch(LEASE, without_keys(1))
        assert again.opened == {3}
        store.commit_batch(again, without_keys(1), [put(again, part) for part in parts_of(GIVEN[0])])
        assert contents(store, 1) == sums(GIVEN[:1])


def test_confirmed_puts_that_the_server_lost_are_put_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "none") as server, started(server.url, **OPTIONS["groups"]) as store:
        batch = store.open_batch(LEASE, without_keys(1))
        parts = parts_of(GIVEN[0])
        server.client.save()
        puts = [put(batch, parts[0])]
        server.restart(kill=True)  # it has what it saved: the open record, and none of the put
        puts += [put(batch, part) for part in parts[1:]]
        for why in (
            "the server",
            "confirmed writes and then lost them",
        ):  # the first commit meets the broken connection of the store itself
            with pytest.raises(StateUnavailableError, match=why):
                store.commit_batch(batch, without_keys(1), puts)
        assert written(store, 1, parts) == len(parts[0])
        assert contents(store, 1) == sums(GIVEN[:1])


def test_workers_that_reach_another_server_are_noticed(shared_redis: RedisServer, redis_server: RedisServer) -> None:
    with started(shared_redis.url) as store, started(redis_server.url, lease=Lease(1, "other")) as _:
        batch = store.open_batch(LEASE, without_keys(1))
        batch.check_reached()
        with pytest.raises(StateError, match="a different server from the driver"):
            replace(batch, address=replace(batch.address, url=redis_server.url)).check_reached()


@pytest.mark.parametrize("combined", SHAPES)
def test_a_value_that_expired_before_is_not_combined_with(shared_redis: RedisServer, combined: str) -> None:
    """As where the driver writes: what expires with a batch is frozen in its plan, and sent with the open batch."""
    given = {1: 10, 2: 20}
    with started(shared_redis.url, SHAPES[combined], ttlSecs=60, **OPTIONS["groups"]) as store:
        store.apply(LEASE, timed(1, given, 0.0))
        for txid, time in ((2, 1.0), (3, 100.0)):
            batch, part = store.open_batch(LEASE, timed(txid, {}, time)), {1: 1} if txid == 3 else {}
            keyed = timed(txid, part, time)
            puts = [batch.put([(keyed.keys, keyed.deltas)])]
            store.commit_batch(batch, timed(txid, {}, time), puts)
        assert contents(store, 3) == {"w1": 1}
        assert contents(store, 2) == sums([given])


def timed(txid: int, deltas: dict[int, int], time: float) -> Update:
    return replace(update(txid, deltas), time=time)


def test_a_state_without_txids_is_refused(shared_redis: RedisServer) -> None:
    with (
        started(shared_redis.url, kind=StateKind.NON_TRANSACTIONAL) as store,
        pytest.raises(StateError, match="only the driver may write"),
    ):
        store.open_batch(LEASE, without_keys(1))
