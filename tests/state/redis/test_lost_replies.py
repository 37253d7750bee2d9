"""The network fails in the middle of a commit: whatever arrived, repeating it counts everything once."""

import threading
from typing import Any

import pytest
import redis

from tests.state.redis.states import (
    LEASE,
    PYTHON,
    SECOND,
    SHAPE,
    batches,
    contents,
    opened,
    started,
    sums,
    update,
)
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from trident.base.errors import FencedError, StateUnavailableError
from trident_state.redis import RedisStore
from trident_state.state_shape import StateKind
from trident_state.store_messages import Applied, Update

SHAPES = {"server": SHAPE, "python": PYTHON}
OPTIONS: dict[str, dict[str, Any]] = {"hash": {}, "groups": {"groups": 4, "buckets": 64}, "json": {"values": "json"}}


def through(proxy: Proxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"


def until_done(store: RedisStore, given: Update) -> tuple[Applied, int]:
    """Repeat the commit as the runtime does; how often it took."""
    for tries in range(1, 10):
        try:
            return store.apply(LEASE, given, values=True), tries
        except StateUnavailableError:
            continue
    raise AssertionError("the commit never came through")


@pytest.mark.parametrize("combined", SHAPES)
@pytest.mark.parametrize("layout", OPTIONS)
def test_a_commit_whose_reply_was_lost_is_counted_once(shared_redis: RedisServer, layout: str, combined: str) -> None:
    given = batches(3, 3_000, 2_500)
    with Proxy(shared_redis.port) as proxy, started(through(proxy), SHAPES[combined], **OPTIONS[layout]) as store:
        store.apply(LEASE, update(1, given[0]))
        proxy.lose_reply(b"EVALSHA")
        with pytest.raises(StateUnavailableError, match="state 'counts'.*does not answer"):
            store.apply(LEASE, update(2, given[1]))
        assert proxy.struck == 1
        applied, tries = until_done(store, update(2, given[1]))
        assert tries == 1
        assert applied.values is not None
        expected = sums(given[:2])
        assert applied.values.to_pylist() == [expected[f"w{key}"] for key in given[1]]
        store.apply(LEASE, update(3, given[2]))
        assert contents(store, 3) == sums(given)


def test_the_client_never_sends_a_write_twice_by_itself(shared_redis: RedisServer) -> None:
    with Proxy(shared_redis.port) as proxy, started(through(proxy), kind=StateKind.NON_TRANSACTIONAL) as store:
        proxy.lose_reply(b"EVALSHA")
        with pytest.raises(StateUnavailableError):
            store.apply(LEASE, update(1, {1: 5}))
        assert contents(store) == {"w1": 5}, "redis-py with its own retries gives 10 or more"


@pytest.mark.parametrize(("layout", "combined"), [("hash", "server"), ("groups", "python")])
def test_a_commit_cut_off_at_any_byte_is_counted_once(shared_redis: RedisServer, layout: str, combined: str) -> None:
    """From nothing of it to all but the last byte."""
    given = batches(16, 2_600, 2_500)
    with Proxy(shared_redis.port) as proxy, started(through(proxy), SHAPES[combined], **OPTIONS[layout]) as store:
        store.apply(LEASE, update(1, given[0]))
        cuts = [0, 1, 200, 400, 2_000, 9_000, 20_000, 27_000, 33_000, 40_000, 46_000, 52_000, 60_000, 70_000, 90_000]
        repeated = 0
        for txid, after in enumerate(cuts, start=2):
            proxy.cut_request(b"EVALSHA", after)
            applied, tries = until_done(store, update(txid, given[txid - 1]))
            repeated += tries - 1
            assert applied.written + applied.skipped == len(given[txid - 1])
            assert contents(store, txid) == sums(given[:txid]), f"cut after {after} bytes"
        assert proxy.struck >= repeated >= 9


@pytest.mark.parametrize("combined", SHAPES)
def test_a_non_transactional_commit_cut_off_is_repeated_and_counts_at_least_once(
    shared_redis: RedisServer, combined: str
) -> None:
    kind, ones = StateKind.NON_TRANSACTIONAL, dict.fromkeys(range(2_500), 1)
    with Proxy(shared_redis.port) as proxy, started(through(proxy), SHAPES[combined], kind) as store:
        for txid, after in enumerate([300, 30_000, 45_000, 130_000, 160_000, 190_000], start=1):
            proxy.cut_request(b"EVALSHA", after)
            until_done(store, update(txid, ones))
            assert store.groups_of()[0].marker == txid
        counts = set(contents(store).values())
        assert proxy.struck >= 3 and min(counts) >= 6 and max(counts) > 6


def test_a_commit_of_an_older_driver_that_arrives_late_changes_nothing(shared_redis: RedisServer) -> None:
    """A paused driver, a slow network: its whole pipeline arrives when the next driver has gone on."""
    given = batches(3, 200, 150)
    with (
        Proxy(shared_redis.port) as proxy,
        started(through(proxy)) as zombie,
        opened(shared_redis.url) as living,
    ):
        zombie.apply(LEASE, update(1, given[0]))
        proxy.hold()
        errors: list[Exception] = []

        def late() -> None:
            try:
                zombie.apply(LEASE, update(2, given[1]))
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=late)
        thread.start()
        living.acquire(SECOND)
        living.apply(SECOND, update(2, given[2]))
        proxy.release()
        thread.join()
        assert [type(error) for error in errors] == [FencedError]
        assert contents(living, 2) == sums([given[0], given[2]])
        assert {group.lease for group in living.groups_of()} == {SECOND}


def test_a_commit_of_the_same_driver_that_arrives_twice_changes_nothing(shared_redis: RedisServer) -> None:
    """The first try was given up, repeated on a new connection, and arrives after all."""
    given = batches(2, 200, 150)
    with Proxy(shared_redis.port) as proxy, started(through(proxy), socketTimeout=0.3) as store:
        store.apply(LEASE, update(1, given[0]))
        proxy.hold()
        with pytest.raises(StateUnavailableError, match="Timeout"):
            store.apply(LEASE, update(2, given[1]))
        with started(shared_redis.url) as again:
            again.apply(LEASE, update(2, given[1]))
            proxy.release()
            assert until_done(store, update(2, given[1]))[0].written == 0
            assert contents(again, 2) == sums(given)


def test_a_read_survives_that_idle_connections_were_closed(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, {1: 5}))
        assert contents(store, 1) == {"w1": 5}
        killer: redis.Redis = shared_redis.connect()
        assert killer.client_kill_filter(_type="normal", skipme=True) >= 1
        assert contents(store, 1) == {"w1": 5}
        with pytest.raises(StateUnavailableError):
            store.apply(LEASE, update(2, {1: 5}))
        store.apply(LEASE, update(2, {1: 5}))
        assert contents(store, 2) == {"w1": 10}
