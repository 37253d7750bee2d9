"""A Python combiner reads, combines and puts: where something else stands by then, it reads again."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.state.redis.states import LEASE, SECOND, SHAPE, batches, contents, opened, started, sums, update
from tests.support.server import RedisServer
from trident.base.errors import StateUnavailableError, UserFunctionError
from trident_state.records.forms import records_of
from trident_state.redis.command_routing import Link
from trident_state.redis.scripts import COMMIT
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


def test_where_another_txid_stands_than_was_read_it_is_read_and_combined_again(shared_redis: RedisServer) -> None:
    meddling = Meddling(lambda: overwrite(shared_redis, "w1", 1, 100), times=0)
    with started(shared_redis.url, meddling.shape, buckets=1) as store:
        store.apply(LEASE, update(1, {1: 1, 2: 2}))
        store.apply(LEASE, update(2, {1: 1, 2: 2}))
        meddling.times = 1
        applied = store.apply(LEASE, update(3, {1: 5, 2: 5}), values=True)
        assert applied.values is not None
        assert applied.values.to_pylist() == [105, 9]
        assert contents(store, 3) == {"w1": 105, "w2": 9}


def test_where_it_never_holds_still_the_commit_is_left_to_be_repeated(shared_redis: RedisServer) -> None:
    at = iter(range(2, 10_000))
    meddling = Meddling(lambda: overwrite(shared_redis, "w1", next(at), 100), times=0)
    with started(shared_redis.url, meddling.shape, buckets=1, birth=50_000) as store:
        store.apply(LEASE, update(50_001, {1: 1}))
        meddling.times = 1_000_000
        with pytest.raises(StateUnavailableError, match="state 'counts': another client keeps changing the keys"):
            store.apply(LEASE, update(50_002, {1: 5}))
        meddling.times = 0
        store.apply(LEASE, update(50_002, {1: 5}))
        assert contents(store, 50_002) == {"w1": 105}


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
