"""A state that another log's drivers hold: epochs of two logs say nothing about each other."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.state.redis.states import IDENTITY, LEASE, opened, started, update
from tests.support.server import RedisServer
from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogMismatchError
from trident_state.redis import RedisStore

LATE = Lease(5, "late")
FORMER = replace(IDENTITY, log="log-0")


@pytest.mark.parametrize(
    "take",
    [lambda store: store.acquire(LATE), lambda store: store.create(LATE, 0), lambda store: store.drop(LATE)],
    ids=["acquire", "create", "drop"],
)
@pytest.mark.parametrize("written", [False, True], ids=["empty", "written"])
@pytest.mark.parametrize("groups", [1, 4])
def test_a_driver_that_slept_through_a_reset_takes_nothing_of_the_next_log(
    shared_redis: RedisServer, take: Callable[[RedisStore], None], written: bool, groups: int
) -> None:
    with (
        opened(shared_redis.url, identity=FORMER, groups=groups) as former,
        started(shared_redis.url, groups=groups) as store,
    ):
        if written:
            store.apply(LEASE, update(1, {1: 5}))
        with pytest.raises(
            LogMismatchError, match=r"another log \(uuid log-1\) has taken the state since this driver started:"
        ):
            take(former)
        store.apply(LEASE, update(2 if written else 1, {2: 7}))
        assert sorted(store.scan(None).__next__().column("value").to_pylist()) == ([5, 7] if written else [7])


def test_a_driver_drops_what_an_earlier_one_of_its_log_holds_and_nothing_later(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, {1: 5}))
        store.acquire(LATE)
        with pytest.raises(FencedError):
            store.drop(LEASE)
        store.apply(LATE, update(2, {1: 1}))
        store.drop(Lease(6, "next"))
        assert store.report().identity is None
        assert not shared_redis.client.keys("*counts*")
