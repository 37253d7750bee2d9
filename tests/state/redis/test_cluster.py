"""A Redis Cluster loses a master, loses writes on some of them, and moves keys about: every count stays right."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    words,
)
from tests.state.redis.test_restarts import heal, once_up
from tests.support.cluster import RedisCluster
from tests.support.server import RedisServer, free_port
from trident import openState
from trident.base.errors import StateBehindError, StateError, StateUnavailableError
from trident_state.redis import RedisStore

SHAPES = {"server": SHAPE, "python": PYTHON}
COMBINED = ["server", pytest.param("python", marks=pytest.mark.soak)]
GROUPS: dict[str, Any] = {"groups": 12, "buckets": 48}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path) as cluster:
        yield cluster


def tag(group: int) -> str:
    return f"wordcount/counts/{group}"


def groups_at(cluster: RedisCluster, number: int) -> list[int]:
    """The groups of the test's state that one of the masters holds."""
    found = [group for group in range(12) if cluster.holder(tag(group)) is cluster.servers[number]]
    assert found, "the names of the tests' groups spread over all masters"
    return found


def until_done(store: RedisStore, txid: int, deltas: dict[int, int]) -> None:
    """Repeat a commit as the runtime does."""
    deadline = time.monotonic() + 30
    while True:
        try:
            store.apply(LEASE, update(txid, deltas))
            return
        except StateUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def test_a_state_spreads_over_all_masters_and_a_group_lies_on_one(shared_cluster: RedisCluster) -> None:
    with started(shared_cluster.url, **GROUPS) as store:
        store.apply(LEASE, update(1, {n: n for n in range(2_000)}))
        for group in range(12):
            holder = shared_cluster.holder(tag(group))
            names = {name for server in shared_cluster.servers for name in server.client.keys(f"*{{{tag(group)}}}*")}
            assert len(names) == 5 and names == set(holder.client.keys(f"*{{{tag(group)}}}*"))
        assert all(server.client.dbsize() for server in shared_cluster.servers)
        store.drop()
        assert shared_cluster.keys() == set()


def test_a_state_in_one_group_lies_on_one_master(shared_cluster: RedisCluster) -> None:
    with started(shared_cluster.url, buckets=16) as store:
        store.apply(LEASE, update(1, {n: n for n in range(100)}))
        assert contents(store, 1) == {f"w{n}": n for n in range(100)}
    assert sorted(server.client.dbsize() for server in shared_cluster.servers) == [0, 0, 17]


@pytest.mark.parametrize("combined", COMBINED)
def test_a_master_that_is_killed_loses_and_doubles_nothing(cluster: RedisCluster, combined: str) -> None:
    """Some groups have committed, those of the dead master have not; the repeat moves only the rest."""
    given = batches(4, 3_000, 2_000)
    with started(cluster.url, SHAPES[combined], **GROUPS) as store:
        store.apply(LEASE, update(1, given[0]))
        for txid in range(2, 5):
            victim = cluster.servers[txid % 3]
            killer = threading.Timer(0.003 * (txid - 2), victim.kill)
            killer.start()
            interrupted = False
            try:
                store.apply(LEASE, update(txid, given[txid - 1]))
            except StateUnavailableError as error:
                interrupted = True
                assert f":{victim.port}" in str(error)
            killer.join()
            if interrupted:
                with pytest.raises(StateUnavailableError):
                    store.groups_of()
            victim.start()
            cluster.settle()
            until_done(store, txid, given[txid - 1])
            assert {group.marker for group in once_up(store.groups_of)} == {txid}
        assert contents(store, 4) == sums(given)


def test_a_dead_master_is_told_by_its_address_and_read_again_when_it_is_back(cluster: RedisCluster) -> None:
    with started(cluster.url, **GROUPS) as store:
        store.apply(LEASE, update(1, {n: n for n in range(100)}))
        cluster.servers[0].kill()
        dead = f"127.0.0.1:{cluster.servers[0].port} does not answer"
        with opened(cluster.url, **GROUPS) as other, pytest.raises(StateUnavailableError, match=dead):
            contents(other, 1)
        cluster.servers[0].start()
        cluster.settle()
        assert once_up(lambda: contents(store, 1)) == {f"w{n}": n for n in range(100)}


@pytest.mark.parametrize("combined", COMBINED)
def test_masters_that_lost_different_suffixes_heal_each_by_itself(tmp_path: Path, combined: str) -> None:
    """One keeps everything, one falls back to batch 4, one to batch 2 and the driver before."""
    given = batches(7, 3_000, 2_000)
    with (
        RedisCluster(tmp_path, "none") as cluster,
        started(cluster.url, SHAPES[combined], **GROUPS) as store,
    ):
        for txid in (1, 2):
            store.apply(LEASE, update(txid, given[txid - 1]))
        cluster.servers[2].client.save()
        store.acquire(SECOND)
        for txid in (3, 4):
            store.apply(SECOND, update(txid, given[txid - 1]))
        cluster.servers[1].client.save()
        for txid in (5, 6):
            store.apply(SECOND, update(txid, given[txid - 1]))
        for server in cluster.servers[1:]:
            server.restart()
        cluster.settle()
        markers = [group.marker for group in once_up(store.groups_of)]
        for number, marker in enumerate((6, 4, 2)):
            assert {markers[group] for group in groups_at(cluster, number)} == {marker}
        assert store.durable() == 2
        with pytest.raises(StateBehindError) as caught:
            once_up(lambda: store.apply(SECOND, update(7, given[6])))
        assert caught.value.marker in (2, 4)
        heal(store, SECOND, given[:6])
        store.apply(SECOND, update(7, given[6]))
        assert contents(store, 7) == sums(given)


def test_a_master_that_lost_everything_gets_its_groups_again_though_another_one_fell_back(tmp_path: Path) -> None:
    """What is gone is founded anew; what is there, even under an older lease, is left as it is."""
    given = batches(4, 3_000, 2_000)
    with RedisCluster(tmp_path, "none") as cluster, started(cluster.url, **GROUPS) as store:
        store.apply(LEASE, update(1, given[0]))
        cluster.servers[1].client.save()
        store.acquire(SECOND)
        for txid in (2, 3):
            store.apply(SECOND, update(txid, given[txid - 1]))
        for server in (cluster.servers[0], cluster.servers[1]):
            server.restart()
        cluster.settle()
        markers = [group.marker for group in once_up(store.groups_of)]
        assert {markers[group] for group in groups_at(cluster, 0)} == {None}
        once_up(lambda: store.create(SECOND, 0))
        heal(store, SECOND, given[:3])
        store.apply(SECOND, update(4, given[3]))
        assert contents(store, 4) == sums(given)


# --- slots that move -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combined", COMBINED)
def test_a_slot_that_moved_is_followed(cluster: RedisCluster, combined: str) -> None:
    """The client learns of it by MOVED: a read goes on at once, a commit is repeated and counts once."""
    given = batches(3, 3_000, 2_000)
    with started(cluster.url, SHAPES[combined], **GROUPS) as store:
        store.apply(LEASE, update(1, given[0]))
        assert contents(store, 1) == sums(given[:1])
        group = groups_at(cluster, 0)[0]
        cluster.begin_moving(tag(group), cluster.servers[1])
        cluster.move_keys(tag(group), cluster.servers[1])
        cluster.end_moving(tag(group), cluster.servers[1])
        with pytest.raises(StateUnavailableError, match="the cluster at .* is moving keys of the state"):
            store.apply(LEASE, update(2, given[1]))
        store.apply(LEASE, update(2, given[1]))
        assert contents(store, 2) == sums(given[:2])
        assert {group.marker for group in store.groups_of()} == {2}
        group = groups_at(cluster, 0)[1]
        cluster.begin_moving(tag(group), cluster.servers[2])
        cluster.move_keys(tag(group), cluster.servers[2])
        cluster.end_moving(tag(group), cluster.servers[2])
        assert contents(store, 2) == sums(given[:2]), "a read learns of it by itself"
        store.apply(LEASE, update(3, given[2]))
        assert contents(store, 3) == sums(given)


def test_a_server_that_stood_alone_and_came_back_in_a_cluster_leads_to_the_others(tmp_path: Path) -> None:
    cluster = RedisCluster(tmp_path, "none", masters=2)
    first, clustered = cluster.servers[0], cluster.servers[0].options
    first.options = ()
    with first, started(first.url, **GROUPS) as store:
        store.apply(LEASE, update(1, {1: 1}))
        first.kill()
        first.options = clustered
        with cluster:
            assert {group.marker for group in once_up(store.groups_of)} == {None}  # told by both masters
            heal(store, LEASE, [{1: 1}])
            assert contents(store) == {"w1": 1} and all(server.client.keys("*") for server in cluster.servers)


@pytest.mark.parametrize("combined", COMBINED)
def test_while_a_slot_moves_commits_and_reads_wait_and_then_count_once(cluster: RedisCluster, combined: str) -> None:
    """Key by key: first a bucket, then all of them, then the slot itself (ASK and TRYAGAIN until then)."""
    given = batches(3, 3_000, 2_000)
    group = groups_at(cluster, 0)[0]
    with (
        started(cluster.url, SHAPES[combined], **GROUPS) as store,
        opened(cluster.url, SHAPES[combined], socketTimeout=0.2, **GROUPS) as hasty,
    ):
        store.apply(LEASE, update(1, given[0]))
        cluster.begin_moving(tag(group), cluster.servers[2])
        store.apply(LEASE, update(2, given[1]))
        for _ in range(2):
            assert cluster.move_keys(tag(group), cluster.servers[2], 2) == 2
            with pytest.raises(StateUnavailableError, match="moving keys of the state"):
                store.apply(LEASE, update(3, given[2]))
            with pytest.raises(StateUnavailableError, match="moving keys of the state"):
                contents(hasty, 2)
        assert cluster.move_keys(tag(group), cluster.servers[2]) == 1
        with pytest.raises(StateUnavailableError, match="moving keys of the state"):
            store.apply(LEASE, update(3, given[2]))
        ender = threading.Timer(0.2, lambda: cluster.end_moving(tag(group), cluster.servers[2]))
        ender.start()
        assert contents(store, 2) == sums(given[:2]), "a read waits for the end of it"
        ender.join()
        until_done(store, 3, given[2])
        assert contents(store, 3) == sums(given)


# --- start ---------------------------------------------------------------------------------------------------------


def test_a_start_needs_one_living_server_of_those_in_the_url(shared_cluster: RedisCluster) -> None:
    dead = f"redis://127.0.0.1:{free_port()}"
    with started(f"{dead},127.0.0.1:{shared_cluster.servers[1].port}", **GROUPS) as store:
        store.apply(LEASE, update(1, {1: 1}))
        assert contents(store, 1) == {"w1": 1}
    with (
        opened(f"{dead},127.0.0.1:{free_port()}", **GROUPS) as store,
        pytest.raises(StateUnavailableError, match=f"the server at {dead} does not answer"),
    ):
        store.report()


def test_every_master_is_checked(shared_cluster: RedisCluster) -> None:
    bad = shared_cluster.servers[1]
    bad.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with opened(shared_cluster.url, **GROUPS) as store, pytest.raises(StateError, match=f":{bad.port} may evict"):
            store.report()
    finally:
        bad.client.config_set("maxmemory-policy", "noeviction")
    bad.client.config_set("appendonly", "no")
    try:
        with opened(shared_cluster.url, **GROUPS) as store:
            (warning,) = store.check_server()
            assert f"appendonly is off at 127.0.0.1:{bad.port}" in warning
    finally:
        bad.client.config_set("appendonly", "yes")


def test_a_state_that_is_there_is_found_whatever_becomes_of_slots_that_are_not_its_own(cluster: RedisCluster) -> None:
    with started(cluster.url, buckets=8):
        pass
    cluster.begin_moving(tag(0), cluster.servers[0 if cluster.holder(tag(0)) is not cluster.servers[0] else 1])
    began = time.monotonic()
    with opened(cluster.url, buckets=8) as store:
        assert store.report().identity is not None
    with openState("wordcount", "counts", url=cluster.url) as found:
        assert dict(found.items()) == {}
    assert time.monotonic() - began < 5, "it waited for where the state would be if it had several groups"


def test_a_cluster_whose_slots_nobody_holds_is_waited_for(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path, "none", "--cluster-enabled", "yes") as server,
        opened(server.url) as store,
        pytest.raises(StateUnavailableError, match=r"state 'counts': no server of the cluster at .* serves slot"),
    ):
        store.groups_of()


def test_a_foreign_key_on_any_master_is_found(shared_cluster: RedisCluster) -> None:
    group = groups_at(shared_cluster, 2)[0]
    shared_cluster.holder(tag(group)).client.rpush(f"trident:{{{tag(group)}}}:b:1", "mine")
    with opened(shared_cluster.url, **GROUPS) as store, pytest.raises(StateError, match="is a list; nothing was"):
        store.report()


def test_a_read_over_groups_that_differ_by_one_is_as_of_the_least_marker(shared_cluster: RedisCluster) -> None:
    given = batches(2, 400, 300)
    with started(shared_cluster.url, **GROUPS) as store:
        store.apply(LEASE, update(1, given[0]))
        names = [
            n for g in groups_at(shared_cluster, 1) for n in shared_cluster.servers[1].client.keys(f"*{tag(g)}}}*")
        ]
        kept = {name: shared_cluster.servers[1].client.dump(name) for name in names}
        store.apply(LEASE, update(2, given[1]))
        for name, value in kept.items():
            assert value is not None
            shared_cluster.servers[1].client.restore(name, 0, value, replace=True)
        assert {group.marker for group in store.groups_of()} == {1, 2}
        assert contents(store, 1) == sums(given[:1])
        found = store.read(words([1, 2, 3]), None)
        assert found.asOf == 1
