"""Values that expire in a server: commits that break off meanwhile, and the room they leave."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from tests.state.redis.states import LEASE, PYTHON, SECOND, SHAPE, contents, opened, started, update, words
from tests.support.buckets import stored_keys
from tests.support.request_proxy import Cut, RequestProxy
from tests.support.server import RedisServer
from trident.base.errors import StateUnavailableError
from trident.testing.contracts.stores.expiring import TTL
from trident_state.redis import RedisMapState, RedisStore
from trident_state.redis.dead_keys import ExpiredValues
from trident_state.redis.layout import Layout
from trident_state.state_shape import StateIdentity, StateKind
from trident_state.store_messages import Update

SHAPES = {"server": SHAPE, "python": PYTHON}
OPTIONS: dict[str, dict[str, Any]] = {"hash": {}, "groups": {"groups": 4, "buckets": 64}, "json": {"values": "json"}}


def at(time: float, given: Update) -> Update:
    return replace(given, time=time)


def until_done(store: RedisStore, given: Update) -> list[int]:
    for _ in range(10):
        try:
            applied = store.apply(LEASE, given, values=True)
        except StateUnavailableError:
            continue
        assert applied.values is not None
        return list(applied.values.to_pylist())
    raise AssertionError("the commit never came through")


@pytest.mark.parametrize("layout", OPTIONS)
def test_another_process_reads_for_the_next_batch_what_the_driver_reads(shared_redis: RedisServer, layout: str) -> None:
    """What expires with the batch is gone; as of the batch before it is still there."""
    with started(shared_redis.url, PYTHON, ttlSecs=TTL, **OPTIONS[layout]) as store:
        store.apply(LEASE, at(1000.0, update(1, {n: 1 for n in range(20)})))
        store.apply(LEASE, at(1010.0, update(2, {n: 1 for n in range(10)})))
        keys = words(range(20))
        for time, living in ((1063.0, 20), (1064.0, 10), (1080.0, 0)):
            read = cloudpickle.loads(cloudpickle.dumps(store.open_snapshot(2, time))).read(keys)  # type: ignore[no-untyped-call]
            assert read == store.read_for(keys, 3, time)
            assert len(read) - read.null_count == living
            assert sum(page.num_rows for page in store.open_snapshot(2, time).scan()) == living
        assert store.open_snapshot(2).read(keys).null_count == 0


@pytest.mark.parametrize("combined", SHAPES)
@pytest.mark.parametrize("layout", OPTIONS)
def test_a_commit_cut_off_at_any_command_finds_the_same_values_gone(
    shared_redis: RedisServer, layout: str, combined: str
) -> None:
    """A third of the keys has expired, and the batch is sent again whatever of it arrived."""
    first, second = {n: 1 for n in range(2_000)}, {n: 5 for n in range(1_000, 3_000)}
    living = {f"w{n}": 1 for n in range(1_500, 2_000)}
    for whole in range(6):
        cuts = list[int]()

        def ask(commands: Any, cuts: list[int] = cuts) -> Cut | None:
            if not any(b"EVALSHA" in command for command in commands):
                return None
            return Cut(min(cuts.pop(), len(commands))) if cuts else None

        shared_redis.client.flushall()
        with (
            RequestProxy(shared_redis.port, ask) as proxy,
            started(f"redis://127.0.0.1:{proxy.port}/0", SHAPES[combined], ttlSecs=TTL, **OPTIONS[layout]) as store,
        ):
            store.apply(LEASE, at(1000.0, update(1, first)))
            store.apply(LEASE, at(1010.0, update(2, {n: 0 for n in range(1_500, 2_000)})))
            cuts.append(whole)
            values = until_done(store, at(1064.0, update(3, second)))
            assert values == [6 if 1_500 <= n < 2_000 else 5 for n in range(1_000, 3_000)]
            assert contents(store, 2) == {f"w{n}": 1 for n in range(2_000)}, f"cut off after {whole} commands"
            assert contents(store, 3) == {f"w{n}": 5 for n in range(1_000, 3_000)} | dict.fromkeys(living, 6)
            assert store.groups_of()[0].marker == 3 and not cuts


@pytest.mark.parametrize("layout", OPTIONS)
def test_the_room_of_what_passed_away_is_taken_back_bit_by_bit(shared_redis: RedisServer, layout: str) -> None:
    """With each look at the state; reads see no difference, and the number of keys is kept."""
    with started(shared_redis.url, ttlSecs=TTL, **OPTIONS[layout]) as store:
        store.apply(LEASE, at(1000.0, update(1, {n: 1 for n in range(3_000)})))
        store.apply(LEASE, at(1001.0, update(2, {n: 1 for n in range(2_900, 3_000)})))
        store.apply(LEASE, at(1064.0, update(3, {})))
        for _ in range(40):
            store.groups_of()
        assert stored_keys(shared_redis) == 3_000, "as of the batch before, they are there"
        store.apply(LEASE, at(1064.5, update(4, {1: 7})))
        expected = {f"w{n}": 2 for n in range(2_900, 3_000)} | {"w1": 7}
        looks = 0
        while stored_keys(shared_redis) > 101:
            store.groups_of()
            looks += 1
            assert contents(store, 4) == expected or looks > 3
            assert looks <= 40
        assert contents(store, 4) == expected and contents(store, 3) == {k: v for k, v in expected.items() if v == 2}
        metas = [shared_redis.client.hget(key, "keys") for key in shared_redis.client.scan_iter("*:m")]
        assert sum(map(int, metas)) == 101
        assert looks > 1
    with opened(shared_redis.url, ttlSecs=TTL, **OPTIONS[layout]) as again:
        again.acquire(SECOND)
        assert contents(again, 4) == expected


def test_a_driver_that_was_taken_over_takes_nothing_away(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, ttlSecs=TTL) as store, opened(shared_redis.url, ttlSecs=TTL) as later:
        store.apply(LEASE, at(1000.0, update(1, {n: 1 for n in range(100)})))
        store.apply(LEASE, at(1064.0, update(2, {})))
        store.apply(LEASE, at(1065.0, update(3, {})))
        later.acquire(SECOND)
        for _ in range(70):
            store.groups_of()
        assert stored_keys(shared_redis) == 100
        for _ in range(70):
            later.groups_of()
        assert stored_keys(shared_redis) == 0


def test_a_sweep_visits_every_bucket_and_never_more_than_a_second_allows() -> None:
    state = RedisMapState(StateKind.OPAQUE, "redis://localhost", buckets=1024, ttlSecs=3600)
    expired = ExpiredValues(None, "packed", 3600.0)  # type: ignore[arg-type]
    layout = Layout(state.prefix, StateIdentity("t", "s", "log"), 1024, 1)
    assert {expired._next_bucket(layout) for _ in range(1024)} == set(range(1024))
    assert expired.calls_due(layout, 1_000_000) == 3, "four times in an hour: 2,000 calls in 900 seconds"
    assert expired.calls_due(layout, 10**9) == 256


def test_a_reader_from_outside_sees_what_passed_away_as_the_driver_does(shared_redis: RedisServer) -> None:
    """It knows nothing of the time to live: the state says what is gone."""
    with started(shared_redis.url, ttlSecs=TTL) as store, opened(shared_redis.url) as reader:
        store.apply(LEASE, at(1000.0, update(1, {1: 1, 2: 2})))
        store.apply(LEASE, at(1030.0, update(2, {1: 1})))
        store.apply(LEASE, at(1064.0, update(3, {})))
        assert reader.read(words([1, 2]), 3).values.to_pylist() == [2, None]
        assert reader.read(words([1, 2]), 2).values.to_pylist() == [2, 2]
        assert contents(reader, 3) == {"w1": 2}


@pytest.mark.parametrize("wrong", [0, -1, "60", True, float("nan"), float("inf")])
def test_a_time_to_live_that_means_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"ttlSecs=.*(: expected|is not a duration; write .5 minutes., .5m.)"):
        RedisMapState.opaque("redis://localhost", ttlSecs=wrong)


def test_a_non_transactional_state_cannot_tell_the_age_of_its_values(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ttlSecs=60: a nonTransactional state stores no txid.*use opaque or trans"):
        RedisMapState.nonTransactional("redis://localhost", ttlSecs=60)


def test_a_server_that_fell_back_loses_nothing_to_a_look_that_was_made_before(shared_redis: RedisServer) -> None:
    """What has expired as of a batch that the server lost may be what that batch, applied again, begins from."""
    with started(shared_redis.url, ttlSecs=TTL) as store:
        store.apply(LEASE, at(1000.0, update(1, {1: 1})))
        store.apply(LEASE, at(1001.0, update(2, {2: 2})))
        fallen = store.groups_of()[0].marker
        assert fallen == 2
        layout, expired = store._layout(), ExpiredValues(store._link, "packed", TTL)
        for _ in range(layout.buckets):  # as if this had been told at batch 4, when what batch 1 wrote was gone
            expired.sweep(layout, LEASE, 4, 1, 1)
        assert stored_keys(shared_redis) == 2
        for _ in range(layout.buckets):
            expired.sweep(layout, LEASE, 2, 1, 1)
        assert stored_keys(shared_redis) == 1
