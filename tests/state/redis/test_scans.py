"""A scan is complete if another server process answers in the middle of a bucket, and returns no key twice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.state.redis.states import LEASE, started, update
from tests.support.cluster import RedisCluster
from tests.support.server import RedisServer
from trident import listStates
from trident.base.errors import StateError
from trident.base.redis_address import Address
from trident_state.redis import RedisStore, state_discovery
from trident_state.redis.bucket_scans import BucketScans, Place
from trident_state.redis.layout import LEGEND, Layout
from trident_state.redis.reader import Reader
from trident_state.state_shape import StateIdentity

KEYS = 6_000
TAG = "wordcount/counts"
LAYOUT = Layout("trident", StateIdentity("wordcount", "counts", "log-1"), 4, 2)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of reads in the requests of scans."""
    sent, snapshot = list[int](), Reader.snapshot

    def counted(self: Reader, layout: Layout, reads: Any) -> Any:
        sent.append(len(reads))
        return snapshot(self, layout, reads)

    monkeypatch.setattr(Reader, "snapshot", counted)
    return sent


def scanned(store: RedisStore, meanwhile: Callable[[], object]) -> Iterator[str]:
    """Yield all words of a scan in small tables, with an event after the first table, and one much later."""
    for number, page in enumerate(store.scan(1, 100)):
        yield from page["word"].to_pylist()
        if number in (0, 25):
            meanwhile()


def check(store: RedisStore, meanwhile: Callable[[], object]) -> None:
    found = list(scanned(store, meanwhile))
    assert len(found) == len(set(found)), "a key comes twice"
    assert set(found) == {f"w{n}" for n in range(KEYS)}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path, masters=1, replicated=True) as cluster:
        yield cluster


@pytest.mark.parametrize("buckets", [1, 4])
def test_a_server_that_is_restarted_within_a_bucket(redis_server: RedisServer, buckets: int) -> None:
    with started(redis_server.url, buckets=buckets) as store:
        store.apply(LEASE, update(1, {n: n for n in range(KEYS)}))
        check(store, redis_server.restart)


def test_a_slot_that_moves_within_a_bucket(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, masters=2) as cluster, started(cluster.url, buckets=2) as store:
        store.apply(LEASE, update(1, {n: n for n in range(KEYS)}))
        source = cluster.holder(TAG)
        target = next(server for server in cluster.servers if server is not source)

        def move() -> None:
            if source.client.dbsize():
                cluster.begin_moving(TAG, target)
                assert cluster.move_keys(TAG, target) == 3
                cluster.end_moving(TAG, target)

        check(store, move)
        assert target.client.dbsize() == 3


def test_a_replica_that_takes_over_within_a_bucket(pair: RedisCluster) -> None:
    with started(pair.url, buckets=2) as store:
        store.apply(LEASE, update(1, {n: n for n in range(KEYS)}))
        pair.servers[0].client.wait(1, 10_000)
        over = iter([lambda: pair.fail_over(0)])
        check(store, lambda: next(over, lambda: None)())


def test_another_connection_to_the_same_process_continues_the_scan(
    redis_server: RedisServer, requests: list[int]
) -> None:
    with started(redis_server.url, buckets=2) as store:
        store.apply(LEASE, update(1, {n: n for n in range(KEYS)}))
        requests.clear()
        check(store, lambda: None)
        undisturbed = len(requests)
        check(store, lambda: redis_server.client.client_kill_filter(_type="normal", skipme=True))
        assert len(requests) == 2 * undisturbed


# --- the rule itself -----------------------------------------------------------------------------------------------


def reply(following: bytes, *fields: bytes) -> list[Any]:
    return [following, [part for field in fields for part in (field, b"v")]]


def process(name: str) -> bytes:
    return f"# Server\r\nredis_version:7.2.4\r\nrun_id:{name}\r\n".encode()


def test_a_cursor_counts_for_the_process_that_returned_it() -> None:
    scans = BucketScans("state 'counts'", LAYOUT, [0])
    assert scans.entries(scans.take(9), [reply(b"7", b"a", b"b"), process("one")]) == [
        (0, [(b"a", b"v"), (b"b", b"v")])
    ]
    places = scans.take(9)
    assert places == [Place(0, b"7", b"one")]
    assert scans.entries(places, [reply(b"0", b"z"), process("two")]) == [(0, [])], "it may have passed over fields"
    places = scans.take(9)
    assert places == [Place(0)]
    assert scans.entries(places, [reply(b"0", b"b", b"c", LEGEND, b"a"), process("two")]) == [(0, [(b"c", b"v")])]
    assert not scans


def test_each_group_is_asked_once_for_its_process() -> None:
    scans = BucketScans("state 'counts'", LAYOUT, range(4))
    places = scans.take(3)
    assert [bucket for bucket, _ in scans.reads(places)] == [0, 1, 2, 0, 2]
    scans.entries(places, [reply(b"5"), reply(b"0"), reply(b"6"), process("one"), process("two")])
    assert scans.take(9) == [Place(2, b"6", b"two"), Place(0, b"5", b"one"), Place(3)]


def test_a_server_without_a_name_of_its_process_is_refused_for_large_buckets() -> None:
    scans = BucketScans("state 'counts'", LAYOUT, [0, 1])
    assert scans.entries(scans.take(1), [reply(b"0", b"a"), b"redis_version:7.2.4\r\n"]) == [(0, [(b"a", b"v")])]
    with pytest.raises(StateError, match="state 'counts': the server has no run_id in its INFO"):
        scans.entries(scans.take(1), [reply(b"5", b"a"), b"redis_version:7.2.4\r\n"])


# --- lists of states -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside another state"])
def test_a_state_that_moves_to_a_server_that_was_already_read_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    """The state is on the second of two servers until the first one has been read."""
    scan_server, read = state_discovery._scan_server, list[Address]()
    with RedisCluster(tmp_path, masters=2) as cluster:
        on_second = [n for n in range(40) if cluster.holder(f"t{n}/counts") is cluster.servers[1]]
        names = [f"t{n}" for n in on_second[: 1 + other]]
        for name in names:
            with started(cluster.url, identity=StateIdentity(name, "counts", "log-1"), buckets=2):
                pass

        def moving(server: Address, where: str, pattern: str) -> Iterator[bytes]:
            read.append(server)
            if len(read) == 2:
                tag = f"{names[0]}/counts"
                cluster.begin_moving(tag, cluster.servers[0])
                assert cluster.move_keys(tag, cluster.servers[0]) == 1
                cluster.end_moving(tag, cluster.servers[0])
            return scan_server(server, where, pattern)

        monkeypatch.setattr(state_discovery, "_scan_server", moving)
        assert [state.topology for state in listStates(url=cluster.url)] == names
