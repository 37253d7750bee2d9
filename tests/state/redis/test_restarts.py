"""The server is killed, between and inside batches, with and without its last writes: what the log then gives again
heals it, and every count is right."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

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
from tests.support.server import RedisServer
from trident.base.attempt import Lease
from trident.base.errors import StateBehindError, StateRecoveringError, StateUnavailableError
from trident_state.redis import RedisStore

Result = TypeVar("Result")

SHAPES = {"server": SHAPE, "python": PYTHON}


def heal(store: RedisStore, lease: Lease, given: list[dict[int, int]]) -> None:
    """Bring a store up to the last of these batches, as the runtime does: acquire or create, then apply again."""
    try:
        once_up(lambda: store.acquire(lease))
    except StateBehindError as error:
        assert error.marker == -1
        store.create(lease, 0)
    at = min(group.marker for group in store.groups_of() if group.marker is not None)
    for txid in range(at + 1, len(given) + 1):
        store.apply(lease, update(txid, given[txid - 1]))


def once_up(use: Callable[[], Result]) -> Result:
    """Connections from before a restart are gone: the first use of each says so."""
    for _ in range(5):
        try:
            return use()
        except StateUnavailableError:
            continue
    return use()


def test_a_look_goes_on_over_a_new_connection_where_the_last_one_is_gone(redis_server: RedisServer) -> None:
    with opened(redis_server.url) as store:
        store.check_server()
        redis_server.restart()
        store.check_server()


@pytest.mark.parametrize("combined", SHAPES)
def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, combined: str) -> None:
    """AOF always: what was acknowledged is there; what was not is repeated."""
    given, drawn = batches(15, 4_000, 3_000), random.Random(3)
    with RedisServer(tmp_path, "always") as server, started(server.url, SHAPES[combined]) as store:
        interrupted = 0
        for txid, batch in enumerate(given, start=1):
            killer = threading.Timer(drawn.uniform(0, 0.02), server.kill)
            killer.start()
            while True:
                try:
                    store.apply(LEASE, update(txid, batch))
                    break
                except StateUnavailableError:
                    interrupted += 1
                    killer.join()
                    if not server.running:
                        server.start()
            killer.join()
            if not server.running:
                server.start()
        assert interrupted > 0
        assert contents(store, len(given)) == sums(given)


@pytest.mark.parametrize("combined", SHAPES)
def test_a_server_that_lost_its_last_writes_is_healed(tmp_path: Path, combined: str) -> None:
    """Snapshots at random batches, kills at random moments: the server falls back by several batches each time."""
    given, drawn = batches(30, 800, 500), random.Random(5)
    lease = Lease(7, "tok")
    with RedisServer(tmp_path, "none") as server, started(server.url, SHAPES[combined], lease=lease) as store:
        server.client.save()
        behind = 0
        for txid, batch in enumerate(given, start=1):
            if drawn.random() < 0.2:
                server.client.save()
            if drawn.random() < 0.3:
                server.restart()
            while True:
                try:
                    store.apply(lease, update(txid, batch))
                    break
                except StateBehindError as error:
                    assert error.marker < txid - 1
                    behind += 1
                    heal(store, lease, given[: txid - 1])
                except StateUnavailableError:
                    pass
        assert behind > 3
        assert contents(store, len(given)) == sums(given)


def test_a_server_that_lost_everything_is_founded_again_and_healed(tmp_path: Path) -> None:
    given = batches(5, 300, 200)
    with RedisServer(tmp_path, "none") as server, started(server.url) as store:
        for txid in (1, 2, 3):
            store.apply(LEASE, update(txid, given[txid - 1]))
        server.restart()
        with pytest.raises(StateBehindError, match="state 'counts': the server does not have this state") as caught:
            once_up(lambda: store.apply(LEASE, update(4, given[3])))
        assert caught.value.marker == -1
        with pytest.raises(StateRecoveringError, match="state 'counts'"):
            contents(store, 3)
        heal(store, LEASE, given)
        assert contents(store, 5) == sums(given)


@pytest.mark.parametrize("stored", [{}, {1: 1}], ids=["nothing is left", "something is left"])
def test_pages_of_a_server_that_fell_back_are_refused(shared_redis: RedisServer, stored: dict[int, int]) -> None:
    """Pages without entries as well: they would pass for pages of a state that has none."""
    with started(shared_redis.url, buckets=2, groups=2) as store:
        store.apply(LEASE, update(1, stored))
        pages = list(store.scan_by_page(1))
        assert {txid for txid, _ in pages} == {1} and sum(page.num_rows for _, page in pages) == len(stored)
        with pytest.raises(StateRecoveringError, match="is at txid 1, so a read as of 2 has to wait"):
            list(store.scan_by_page(2))


def test_a_server_that_fell_back_before_the_last_driver_says_so(tmp_path: Path) -> None:
    given = batches(4, 300, 200)
    with RedisServer(tmp_path, "none") as server, started(server.url) as store:
        store.apply(LEASE, update(1, given[0]))
        server.client.save()
        store.acquire(SECOND)
        store.apply(SECOND, update(2, given[1]))
        server.restart()
        with opened(server.url) as other:
            with pytest.raises(StateBehindError, match=r"went back to epoch 1 \(this driver has 2\)") as caught:
                other.apply(SECOND, update(3, given[2]))
            assert caught.value.marker == 1
        with pytest.raises(StateRecoveringError, match="lost the lease of this driver"):
            once_up(lambda: contents(store, 1))
        heal(store, SECOND, given)
        assert contents(store, 4) == sums(given)


@pytest.mark.parametrize("combined", SHAPES)
def test_a_restart_inside_a_batch_that_lost_some_of_its_chunks(tmp_path: Path, combined: str) -> None:
    """The put of a batch is under way when the server saves, and done when it is killed: the count of moved keys falls
    back with the keys."""
    given = batches(2, 60_000, 50_000)
    with RedisServer(tmp_path, "none") as server, started(server.url, SHAPES[combined]) as store:
        store.apply(LEASE, update(1, given[0]))
        server.client.save()
        saved = threading.Thread(target=_save_while_open, args=(server,))
        saved.start()
        store.apply(LEASE, update(2, given[1]))
        saved.join()
        server.restart()
        status = once_up(store.groups_of)[0]
        assert (status.marker, status.opened) == (1, 2), "the snapshot fell into the batch"
        applied = once_up(lambda: store.apply(LEASE, update(2, given[1])))
        assert 0 < applied.written < 50_000
        assert contents(store, 2) == sums(given)


def _save_while_open(server: RedisServer) -> None:
    """A snapshot as soon as some keys, and not all of them, have moved."""
    client = server.connect()
    while True:
        opened, moved = client.hmget("trident:{wordcount/counts}:m", "open", "moved")
        if opened == b"2" and moved is not None and 2_000 < int(moved) < 49_000:
            client.save()
            return
        time.sleep(0.0005)


@pytest.mark.parametrize("combined", SHAPES)
def test_groups_that_fell_back_by_different_amounts_are_healed(shared_redis: RedisServer, combined: str) -> None:
    """As the nodes of a cluster do. What is ahead is skipped, what is behind gets the older batches again."""
    given = batches(6, 3_000, 2_000)
    with started(shared_redis.url, SHAPES[combined], groups=4, buckets=16) as store:
        for txid, batch in enumerate(given[:3], start=1):
            store.apply(LEASE, update(txid, batch))
        names = shared_redis.client.keys("trident:{wordcount/counts/2}:*")
        kept = {name: shared_redis.client.dump(name) for name in names}
        for txid in (4, 5):
            store.apply(LEASE, update(txid, given[txid - 1]))
        for name, value in kept.items():
            assert value is not None
            shared_redis.client.restore(name, 0, value, replace=True)
        assert [group.marker for group in store.groups_of()] == [5, 5, 3, 5]
        assert store.durable() == 3
        with pytest.raises(StateBehindError) as caught:
            store.apply(LEASE, update(6, given[5]))
        assert caught.value.marker == 3
        with pytest.raises(StateRecoveringError):
            contents(store, 5)
        written = [store.apply(LEASE, update(txid, given[txid - 1]), values=False) for txid in (4, 5, 6)]
        assert all(0 < applied.written < 1_000 for applied in written[:2]), "only the keys of one group"
        assert written[2].written + written[2].skipped == 2_000
        assert contents(store, 6) == sums(given)


def test_a_driver_that_dies_between_the_groups_commits_is_followed_by_one_that_finishes(
    shared_redis: RedisServer,
) -> None:
    given = batches(3, 400, 300)
    with started(shared_redis.url, groups=4, buckets=16) as store:
        store.apply(LEASE, update(1, given[0]))
        names = [n for g in (0, 3) for n in shared_redis.client.keys(f"trident:{{wordcount/counts/{g}}}:*")]
        kept = {name: shared_redis.client.dump(name) for name in names}
        store.apply(LEASE, update(2, given[1]))
        for name, value in kept.items():
            assert value is not None
            shared_redis.client.restore(name, 0, value, replace=True)
        assert [group.marker for group in store.groups_of()] == [1, 2, 2, 1]
        with opened(shared_redis.url, groups=4, buckets=16) as follower:
            follower.acquire(SECOND)
            assert contents(follower, 1) == sums(given[:1]), "the groups differ by one: prev serves what is common"
            applied = follower.apply(SECOND, update(2, given[1]), values=True)
            assert 0 < applied.written < 300
            assert applied.values is not None
            expected = sums(given[:2])
            assert applied.values.to_pylist() == [expected[f"w{key}"] for key in given[1]]
            follower.apply(SECOND, update(3, given[2]))
            assert contents(follower, 3) == sums(given)


def test_a_driver_that_dies_over_creating_groups_is_followed_by_one_that_creates_them(
    shared_redis: RedisServer,
) -> None:
    with started(shared_redis.url, groups=4, buckets=16, birth=5) as store:
        pass
    for group in (0, 1):
        shared_redis.client.delete(f"trident:{{wordcount/counts/{group}}}:m")
    with opened(shared_redis.url, groups=4, buckets=16) as store:
        assert store.report().identity is None
        store.create(SECOND, 5)
        store.acquire(SECOND)
        store.apply(SECOND, update(6, {1: 1}))
        assert contents(store, 6) == {"w1": 1}
