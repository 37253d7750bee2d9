"""A replica takes its master's place: the state is found again, and every count stays right."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.state.redis.states import LEASE, contents, opened, started, update
from tests.state.redis.test_cluster import groups_at, tag
from tests.state.redis.test_restarts import once_up
from tests.support.cluster import RedisCluster
from tests.support.server import RedisServer
from trident import Count, TridentTopology, openState
from trident.base.errors import StateUnavailableError
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[RedisCluster]:
    """A cluster of one master and its replica."""
    with RedisCluster(tmp_path, masters=1, replicated=True) as cluster:
        yield cluster


def test_masters_that_are_replaced_under_a_running_topology_lose_and_double_nothing(tmp_path: Path) -> None:
    """One by hand, one dies without having replicated its last batches, and it was the only server in the url."""
    feeder, topology, fed = FeederBatchSpout("word string"), TridentTopology(), Counter[str]()
    with RedisCluster(tmp_path / "cluster", "everysec", replicated=True) as cluster:
        url = f"redis://127.0.0.1:{cluster.servers[0].port}"
        state = RedisMapState.opaque(url, groups=12, buckets=48)
        topology.newStream("words", feeder).groupBy("word").persistentAggregate(state, Count(), "count", name="counts")

        def feed(count: int) -> None:
            for n in range(count):
                batch = [f"w{(7 * n + i) % 90}" for i in range(60)]
                fed.update(batch)
                feeder.feed(batch)

        with start_local(topology, name="wordcount", checkpointLocation=tmp_path) as running:
            feed(20)
            running.processAllAvailable(timeout=30)
            feed(20)
            cluster.hand_over(1)
            running.processAllAvailable(timeout=30)
            cluster.cut_off_replica(0)
            feed(20)
            running.processAllAvailable(timeout=30)
            group = groups_at(cluster, 0)[0]
            cluster.servers[0].kill()
            assert marker_at(cluster.replicas[0], group) <= 40, "its replica lacks 20 batches"
            cluster.hand_over(0)
            feed(20)
            running.processAllAvailable(timeout=30)
            cluster.servers[0].start()
            feed(20)
            running.processAllAvailable(timeout=30)
            assert dict(running.state("counts").items()) == dict(fed)
            assert running.lastProgress is not None
        with openState("wordcount", "counts", url=f"redis://127.0.0.1:{cluster.servers[1].port}") as counts:
            assert dict(counts.items()) == dict(fed) and counts.asOfTxid == 100, "a replica leads to the masters"


def test_a_server_that_is_found_to_be_a_replica_is_not_taken_for_the_master_again(pair: RedisCluster) -> None:
    with started(pair.url, buckets=8) as store:
        pair.hand_over(0)
        with pytest.raises(StateUnavailableError, match="is a slave; the url must lead to its master"):
            store.report()
        assert store.report().identity is not None


def test_the_replicas_are_known_when_the_servers_of_the_url_are_gone(pair: RedisCluster) -> None:
    with started(pair.url, buckets=8) as store:
        store.apply(LEASE, update(1, {1: 1}))
        pair.fail_over(0)
        once_up(lambda: store.apply(LEASE, update(2, {1: 1})))
        assert contents(store, 2) == {"w1": 2}


def test_a_server_that_left_the_cluster_is_not_believed_before_those_that_are_in_it(pair: RedisCluster) -> None:
    """It still runs, holds no slot and knows of no other server; it stands first in the url."""
    url = f"{pair.url},127.0.0.1:{pair.replicas[0].port}"
    with started(url, buckets=8) as store, opened(url, buckets=8) as idle:
        store.apply(LEASE, update(1, {1: 1}))
        assert contents(idle, 1) == {"w1": 1}
        pair.hand_over(0)
        pair.take_out(pair.servers[0])
        once_up(lambda: store.apply(LEASE, update(2, {1: 1})))
        assert once_up(lambda: contents(idle, 2)) == {"w1": 2}
        with opened(url, buckets=8) as later:
            assert later.report().identity is not None


def test_a_name_that_leads_to_another_server_by_now_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a cluster: a primary that became a replica, and keeps its connections."""
    at_once = ("--repl-diskless-sync-delay", "0")
    with (
        RedisServer(tmp_path / "a", "everysec", *at_once) as first,
        RedisServer(tmp_path / "b", "everysec", *at_once) as second,
    ):
        monkeypatch.setenv("PRIMARY", first.url)
        with started("env:PRIMARY", buckets=8) as store:
            store.apply(LEASE, update(1, {1: 1}))
            second.client.replicaof("127.0.0.1", str(first.port))
            until(lambda: second.client.dbsize() == first.client.dbsize())
            second.client.replicaof("NO", "ONE")
            first.client.replicaof("127.0.0.1", str(second.port))
            monkeypatch.setenv("PRIMARY", second.url)
            with pytest.raises(
                StateUnavailableError,
                match=r"is unavailable now \(You can't write against a read "
                r"only",
            ):
                store.apply(LEASE, update(2, {1: 1}))
            store.apply(LEASE, update(2, {1: 1}))
            with pytest.raises(StateUnavailableError, match="is a slave"):
                store.report()
            assert store.report().groups[0].marker == 2


def marker_at(replica: RedisServer, group: int) -> int:
    """How far a replica that was paused has come with a group of the test's state."""
    replica.resume()
    with replica.connect(single_connection_client=True) as client:
        client.execute_command("READONLY")  # type: ignore[no-untyped-call]
        return int(str(client.hget(f"trident:{{{tag(group)}}}:m", "marker"), "ascii"))  # type: ignore[arg-type]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
