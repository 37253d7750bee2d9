"""A Python combiner reads, combines and puts. If another write comes in between, it reads again."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.state.redis.states import LEASE, SECOND, SHAPE, batches, contents, opened, started, sums, update, words
from tests.support.one_by_one import OneByOne
from tests.support.server import RedisServer
from trident.base.errors import StateError, StateUnavailableError, UserFunctionError
from trident_state.records.forms import records_of
from trident_state.redis import writer
from trident_state.redis.command_routing import Link
from trident_state.redis.scripts import COMMIT, PUT
from trident_state.state_shape import Combine, StateShape


class Meddling:
    """Adds; before it adds for the first time, and as often as `times` says, it meddles."""

    def __init__(self, meddle: Callable[[], Any], times: int = 1) -> None:
        self.meddle, self.times = meddle, times

    def __call__(self, stored: int, delta: int) -> int:
        if self.times:
            self.times -= 1
            self.meddle()
        return stored + delta

    @property
    def shape(self) -> StateShape:
        return StateShape(SHAPE.keys, SHAPE.value, Combine("Meddling", self))


def overwrite(server: RedisServer, word: str, txid: int, value: int) -> None:
    """What a server that lost its last writes shows."""
    (record,) = records_of(pa.int64(), "packed", False).pack(txid, pa.array([value]), pa.array([0])).to_pylist()
    server.client.hset("trident:{wordcount/counts}:b:0", f"s{word}", record)


def test_a_part_reads_and_combines_again_if_a_key_has_another_txid_than_was_read(shared_redis: RedisServer) -> None:
    meddling = Meddling(lambda: overwrite(shared_redis, "w1", 1, 100), times=0)
    with started(shared_redis.url, meddling.shape, buckets=1) as store:
        store.apply(LEASE, update(1, {1: 1, 2: 2}))
        store.apply(LEASE, update(2, {1: 1, 2: 2}))
        batch = store.open_batch(LEASE, update(3, {}))
        meddling.times = 1
        put = batch.put([(words([1, 2]), pa.array([5, 5]))])
        store.commit_batch(batch, update(3, {}), [put])
        assert contents(store, 3) == {"w1": 105, "w2": 9}


def test_a_batch_is_read_and_combined_again_if_the_server_lost_a_part_of_it_since(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt reads a key that the first one put, and puts the others; this key is lost in between."""
    saved, cuts, exchange = dict[bytes, dict[bytes, bytes]](), [True], Link.exchange

    def cutting(link: Link, commands: Iterable[bytes]) -> list[Any]:
        packed = list(commands)
        if packed and PUT.sha in packed[0] and cuts:
            cuts.clear()
            exchange(link, packed[:1])
            raise StateUnavailableError("the connection was lost after the first put")
        return exchange(link, packed)

    def all_hashes() -> dict[bytes, dict[bytes, bytes]]:
        return {name: shared_redis.client.hgetall(name) for name in shared_redis.client.keys("trident:*")}

    meddling = Meddling(lambda: saved.update(all_hashes()), times=0)
    monkeypatch.setattr(writer, "PUT_KEYS", 1)
    with started(shared_redis.url, meddling.shape, buckets=1) as store:
        store.apply(LEASE, update(1, {1: 1, 2: 2, 3: 3}))
        monkeypatch.setattr(Link, "pipeline", lambda link: OneByOne(partial(cutting, link)))
        meddling.times = 1
        with pytest.raises(StateUnavailableError, match="after the first put"):
            store.apply(LEASE, update(2, {1: 5, 2: 5, 3: 5}))

        def lose() -> None:
            shared_redis.client.delete(*saved)
            for name, fields in saved.items():
                shared_redis.client.hset(name, mapping=fields)

        meddling.meddle, meddling.times = lose, 1
        assert store.apply(LEASE, update(2, {1: 5, 2: 5, 3: 5})).written == 3
        assert contents(store, 2) == {"w1": 6, "w2": 7, "w3": 8}
        assert contents(store, 1) == {"w1": 1, "w2": 2, "w3": 3}


def test_a_commit_whose_puts_are_always_refused_is_left_to_be_repeated(shared_redis: RedisServer) -> None:
    meta = "trident:{wordcount/counts}:m"
    meddling = Meddling(lambda: shared_redis.client.hincrby(meta, "moved", 10), times=0)
    with started(shared_redis.url, meddling.shape, buckets=1) as store:
        store.apply(LEASE, update(1, {1: 1}))
        meddling.times = 1_000_000
        with pytest.raises(StateUnavailableError, match="state 'counts': another client keeps changing the keys"):
            store.apply(LEASE, update(2, {1: 5}))
        assert contents(store, 1) == {"w1": 1}
        shared_redis.client.hset(meta, "moved", 0)
        meddling.times = 0
        store.apply(LEASE, update(2, {1: 5}))
        assert contents(store, 2) == {"w1": 6}


def test_a_foreign_key_that_comes_in_between_is_noticed_before_a_key_is_put(shared_redis: RedisServer) -> None:
    names = [f"trident:{{wordcount/counts}}:b:{bucket}" for bucket in range(2)]

    def replace() -> None:
        shared_redis.client.rename(names[1], "kept")
        shared_redis.client.rpush(names[1], "foreign")

    meddling = Meddling(replace, times=0)
    given = dict.fromkeys(range(9), 1)
    with started(shared_redis.url, meddling.shape, buckets=2) as store:
        store.apply(LEASE, update(1, given))
        before = shared_redis.client.hgetall(names[0])
        meddling.times = 1
        with pytest.raises(StateError, match="state 'counts'.*WRONGTYPE"):
            store.apply(LEASE, update(2, given))
        assert shared_redis.client.hgetall(names[0]) == before
        shared_redis.client.rename("kept", names[1])
        store.apply(LEASE, update(2, given))
        assert contents(store, 2) == sums([given, given])


def test_the_same_batch_done_meanwhile_is_not_done_again(shared_redis: RedisServer) -> None:
    """A first try that was given up and is still under way, under the same lease."""
    given = batches(2, 400, 300)
    with opened(shared_redis.url) as other:
        meddling = Meddling(lambda: other.apply(LEASE, update(2, given[1])), times=0)
        with started(shared_redis.url, meddling.shape) as store:
            store.apply(LEASE, update(1, given[0]))
            meddling.times = 1
            with pytest.raises(
                StateUnavailableError,
                match="state 'counts'.*the server no longer expects writes of txid 2 .*the commit is repeated",
            ):
                store.apply(LEASE, update(2, given[1]))
            assert store.apply(LEASE, update(2, given[1])).written == 0
            assert contents(store, 2) == sums(given)


def test_a_commit_that_was_done_meanwhile_is_done(shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, but between the puts and the commits of several groups."""
    given, exchange = batches(2, 400, 300), Link.exchange
    with opened(shared_redis.url, groups=2) as other, started(shared_redis.url, groups=2) as store:
        store.apply(LEASE, update(1, given[0]))
        meddled = list[bool]()

        def meddling(link: Link, commands: Iterable[bytes]) -> list[Any]:
            packed = list(commands)
            if COMMIT.sha in packed[0] and not meddled:
                meddled.append(True)
                other.apply(LEASE, update(2, given[1]))
            return exchange(link, packed)

        monkeypatch.setattr(Link, "exchange", meddling)
        assert store.apply(LEASE, update(2, given[1])).written == 300
        assert meddled
        assert contents(store, 2) == sums(given)


def test_a_combiner_that_raises_leaves_the_batch_open_and_nothing_put(shared_redis: RedisServer) -> None:
    def fail() -> None:
        raise ZeroDivisionError("no")

    meddling = Meddling(fail, times=0)
    with started(shared_redis.url, meddling.shape) as store:
        store.apply(LEASE, update(1, {1: 1, 2: 2}))
        meddling.times = 1
        with pytest.raises(UserFunctionError, match="state 'counts'.*Meddling.*ZeroDivisionError"):
            store.apply(LEASE, update(2, {1: 1, 2: 2}))
        assert contents(store) == {"w1": 1, "w2": 2}
        assert store.groups_of()[0].opened == 2
        store.acquire(SECOND)
        assert store.groups_of()[0].opened is None
        store.apply(SECOND, update(2, {1: 1, 2: 2}))
        assert contents(store, 2) == {"w1": 2, "w2": 4}


def test_a_combiner_that_raises_in_a_later_slice_leaves_the_former_batch_readable(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slices before it are put, and not counted again when the batch is repeated."""
    given, calls = batches(2, 40, 40), list[int]()

    def combine(stored: int, delta: int) -> int:
        calls.append(delta)
        if len(calls) == 25:
            raise ZeroDivisionError("no")
        return stored + delta

    monkeypatch.setattr(writer, "SLICE_KEYS", 7)
    shape = StateShape(SHAPE.keys, SHAPE.value, Combine("Failing", combine))
    with started(shared_redis.url, shape) as store:
        store.apply(LEASE, update(1, given[0]))
        former = contents(store, 1)
        with pytest.raises(UserFunctionError, match="state 'counts'.*Failing.*ZeroDivisionError"):
            store.apply(LEASE, update(2, given[1]))
        assert contents(store, 1) == former
        assert int(shared_redis.client.hget("trident:{wordcount/counts}:m", "moved")) in range(7, 40)
        store.apply(LEASE, update(2, given[1]))
        assert contents(store, 2) == sums(given)
        assert contents(store, 1) == former


@pytest.mark.parametrize("groups", [1, 4])
def test_a_write_between_two_slices_makes_all_be_read_again(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    given, done = batches(2, 60, 60), list[int]()
    monkeypatch.setattr(writer, "SLICE_KEYS", 6)

    def meddle() -> None:
        done.append(1)
        if len(done) == 30:
            other.apply(LEASE, update(2, given[1]))

    with opened(shared_redis.url, groups=groups) as other:
        meddling = Meddling(meddle, times=0)
        with started(shared_redis.url, meddling.shape, groups=groups) as store:
            store.apply(LEASE, update(1, given[0]))
            meddling.times = 1000
            with pytest.raises(StateUnavailableError, match="the commit is repeated"):
                store.apply(LEASE, update(2, given[1]))
            assert store.apply(LEASE, update(2, given[1])).written == 0
            assert contents(store, 2) == sums(given)
