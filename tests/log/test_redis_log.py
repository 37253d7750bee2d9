"""The transaction log in Redis: the contract of all logs, what it demands of its server, and what a server may do."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiredis
import pytest

from tests.log.log_contract import TABLE, LogContract, found, frozen, record
from tests.support.cluster import RedisCluster
from tests.support.flushed_scripts import forget_scripts
from tests.support.proxy import Proxy
from tests.support.request_proxy import RequestProxy
from tests.support.server import RedisServer, free_port
from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.log import RedisLog, redis_log
from trident.log.frozen_results import freeze, thaw
from trident.log.group_records import AttemptRecord
from trident.log.log_server import WRITE
from trident.log.protocol import Birth, LogReading
from trident.log.redis_log import RedisTransactionLog


class Server:
    """Where the tests' log is."""

    def __init__(self, url: str, **options: Any) -> None:
        self.log, self.opened = RedisLog(url, **options), list[RedisTransactionLog]()

    def open(self, topology: str = "topology") -> RedisTransactionLog:
        self.opened.append(self.log.open(topology))
        return self.opened[-1]

    def look(self) -> LogReading:
        return self.log.look("topology")

    def close(self) -> None:
        for log in self.opened:
            log.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Iterator[Any]:
    places: list[Server] = []

    def opened(url: str, **options: Any) -> RedisTransactionLog:
        places.append(Server(url, **options))
        return places[-1].open()

    yield opened
    for place in places:
        place.close()


class TestRedisLog(LogContract):
    @pytest.fixture
    def place(self, shared_redis: RedisServer) -> Iterator[Server]:
        place = Server(shared_redis.url, requireDurable=False)
        yield place
        place.close()


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster"), "everysec") as cluster:
        yield cluster


class TestRedisLogOnCluster(LogContract):
    @pytest.fixture
    def place(self, _cluster: RedisCluster) -> Iterator[Server]:
        _cluster.flush()
        place = Server(_cluster.url, requireDurable=False)
        yield place
        place.close()


def upto(log: RedisTransactionLog, txids: int) -> Any:
    lease = log.take()
    for txid in range(1, txids + 1):
        frozen(log, lease, txid)
        log.committed(lease, "g", txid)
    return lease


# --- what is asked of the server -----------------------------------------------------------------------------------


def test_a_server_that_keeps_what_it_confirms_is_accepted(redis_server: RedisServer, opened: Any) -> None:
    upto(opened(redis_server.url), 2)


@pytest.mark.parametrize(("aof", "why"), [("everysec", "appendfsync is everysec"), ("none", "appendonly is off")])
def test_a_server_that_may_lose_what_it_confirmed_is_refused_unless_one_says_so(
    tmp_path: Path, aof: Any, why: str, opened: Any
) -> None:
    with RedisServer(tmp_path, aof) as server:
        with pytest.raises(
            LogError, match=f"the log of topology 'topology': the server at .* may lose .*{why}.*Set app"
        ):
            opened(server.url)
        assert server.client.dbsize() == 0
        upto(opened(server.url, requireDurable=False), 1)


def test_a_server_that_skips_fsyncs_while_it_rewrites_is_refused(redis_server: RedisServer, opened: Any) -> None:
    redis_server.client.config_set("no-appendfsync-on-rewrite", "yes")
    with pytest.raises(LogError, match=r"may lose confirmed writes \(no-appendfsync-on-rewrite is yes\)"):
        opened(redis_server.url)
    upto(opened(redis_server.url, requireDurable=False), 1)


def test_a_cluster_whose_replicas_take_over_is_refused(tmp_path: Path, opened: Any) -> None:
    with RedisCluster(tmp_path / "cluster", "always", replicated=True) as cluster:
        with pytest.raises(LogError, match="a replica in its cluster may replace it without the last writes"):
            opened(cluster.url)
        upto(opened(cluster.url, requireDurable=False), 1)


@pytest.mark.parametrize("durable", [True, False])
def test_a_server_that_evicts_is_refused_in_any_case(redis_server: RedisServer, durable: bool, opened: Any) -> None:
    redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(LogError, match="may evict keys.*noeviction"):
        opened(redis_server.url, requireDurable=durable)
    assert redis_server.client.dbsize() == 0


def test_a_replica_is_refused(redis_server: RedisServer, opened: Any) -> None:
    redis_server.client.replicaof("127.0.0.1", str(free_port()))
    with pytest.raises(LogError, match="is a slave"):
        opened(redis_server.url)


def test_a_server_that_does_not_tell_its_configuration_is_refused_unless_one_says_so(
    redis_server: RedisServer, opened: Any
) -> None:
    redis_server.client.execute_command("ACL", "SETUSER", "w", "on", ">s", "~trident:*", "+@all", "-config")
    url = redis_server.url.replace("redis://", "redis://w:s@")
    with pytest.raises(LogError, match=r"does not say whether.*Grant its user \+config\|get.*requireDurable=False"):
        opened(url)
    upto(opened(url, requireDurable=False), 1)
    redis_server.client.execute_command("ACL", "SETUSER", "w", "+config|get")
    opened(url)


def test_a_server_that_is_not_there_is_told_at_once(opened: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(LogError, match="the log of topology 'topology': the server at redis://.* does not answer"):
        opened(f"redis://127.0.0.1:{free_port()}")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://:secret@host"}, r"url 'http://:\*\*\*@host': expected redis://"),
        ({"prefix": "a b"}, "prefix='a b'"),
        ({"retrySecs": -1}, "retrySecs=-1: expected a non-negative duration"),
    ],
)
def test_options_that_mean_nothing_are_refused_where_they_are_written(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RedisLog(**{"url": "redis://localhost", **options})


# --- replies that are lost, servers that go --------------------------------------------------------------------------


def test_each_write_is_done_once_though_its_reply_was_lost(shared_redis: RedisServer, opened: Any) -> None:
    with Proxy(shared_redis.port) as proxy:
        log = opened(f"redis://127.0.0.1:{proxy.port}", requireDurable=False)
        proxy.lose_reply(b"EVALSHA")
        lease = log.take()
        assert lease.epoch == 1, "the take that was sent again is the same one"
        proxy.lose_reply(b"EVALSHA")
        found(log, lease)
        for txid in (1, 2, 3):
            proxy.lose_reply(b"EVALSHA")
            log.attempted(lease, "g", txid, AttemptRecord(0, 1))
            proxy.lose_reply(b"EVALSHA")
            frozen(log, lease, txid)
            proxy.lose_reply(b"EVALSHA")
            log.committed(lease, "g", txid)
        proxy.lose_reply(b"EVALSHA")
        log.trim(lease, "g", 3, 1, 1 << 30)
        assert proxy.struck == 12
        assert log.history("g").committed == 3 and log.kept_since("g") == 2


def test_the_command_that_creates_a_log_is_sent_once(shared_redis: RedisServer, opened: Any) -> None:
    """After a reset, a late copy would create a log with the uuid of the dropped one, and its states would count as of
    this log."""
    with Proxy(shared_redis.port) as proxy:
        proxy.lose_reply(b"EVALSHA")
        with pytest.raises(LogError):
            opened(f"redis://127.0.0.1:{proxy.port}", requireDurable=False)
        assert proxy.struck == 1


def test_a_late_copy_of_a_write_does_not_undo_a_later_one(shared_redis: RedisServer, opened: Any) -> None:
    """A middlebox holds a request back, the driver sends it again and goes on, and then the first copy arrives: of a
    state's birth, it would drop the manifest that was published since."""
    with recorded(shared_redis) as (url, sent):
        log = opened(url, requireDurable=False)
        lease = log.take()
        log.born(lease, "counts", Birth("g", 0))
        late = sent[-1]
        log.publish(lease, "counts", b"m")
        (told,) = send(shared_redis, [late])
        assert told[0] == b"LATE"
        assert log.manifest("counts") == b"m"
        log.sync(lease)


def test_late_copies_of_any_writes_change_nothing(shared_redis: RedisServer, opened: Any) -> None:
    with recorded(shared_redis) as (url, sent):
        log = opened(url, requireDurable=False)
        upto(log, 1)
        lease = log.take()
        found(log, lease)
        for state in ("counts", "sums"):
            log.born(lease, state, Birth("g", 1))
            log.publish(lease, state, b"m")
        log.forget(lease, "sums")
        for txid in (2, 3):
            log.attempted(lease, "g", txid, AttemptRecord(0, 2))
            frozen(log, lease, txid)
            log.freeze_stage(lease, "g", txid, 2, {"letters": freeze(TABLE)})
        for txid in (2, 3):
            log.committed(lease, "g", txid)
        log.attempted(lease, "g", 4, AttemptRecord(0, 2))
        log.enroll(lease, log.members())
        log.trim(lease, "g", 2, 0, 0)
        log.attempted(lease, "g", 4, AttemptRecord(1, 2))
        log.sync(lease)
        before = everything_on(shared_redis)
        writes = [command for command in sent if WRITE.sha in command]
        assert len(writes) >= 18
        told = [reply[0] for reply in send(shared_redis, writes)]
        assert set(told) == {b"LATE", b"FENCED", b"OK"} and told.index(b"OK") == len(told) - 1
        assert everything_on(shared_redis) == before


@contextmanager
def recorded(server: RedisServer) -> Iterator[tuple[str, list[bytes]]]:
    """A way to the server on which every script that is called is noted, as it was sent."""
    sent: list[bytes] = []

    def ask(commands: Sequence[bytes]) -> None:
        sent.extend(command for command in commands if b"EVALSHA" in command)

    with RequestProxy(server.port, ask) as proxy:
        yield f"redis://127.0.0.1:{proxy.port}", sent


def send(server: RedisServer, commands: list[bytes]) -> list[Any]:
    """Send these commands as they are; their replies."""
    replies, reader = list[Any](), hiredis.Reader()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"".join(commands))
        while len(replies) < len(commands):
            reader.feed(connection.recv(1 << 16))
            while (reply := reader.gets()) is not False:
                replies.append(reply)
    return replies


def everything_on(server: RedisServer) -> dict[bytes, Any]:
    return {key: server.client.hgetall(key) for key in server.client.scan_iter()}


def test_a_server_that_is_killed_is_waited_for_and_has_everything(redis_server: RedisServer, opened: Any) -> None:
    log = opened(redis_server.url)
    lease = upto(log, 3)
    redis_server.kill()
    starter = threading.Timer(0.5, redis_server.start)
    starter.start()
    frozen(log, lease, 4)
    starter.join()
    assert log.history("g").frozen == (4,)
    assert log.lease() == lease


def test_a_server_that_stays_away_ends_it(redis_server: RedisServer, opened: Any) -> None:
    log = opened(redis_server.url, retrySecs=0.3)
    lease = upto(log, 1)
    redis_server.kill()
    begun = time.monotonic()
    with pytest.raises(LogError, match="does not answer"):
        frozen(log, lease, 2)
    assert 0.3 <= time.monotonic() - begun < 5
    redis_server.start()
    frozen(log, lease, 2)
    assert log.history("g").frozen == (2,)


def test_a_full_server_is_waited_for_and_nothing_is_half_written(redis_server: RedisServer, opened: Any) -> None:
    log = opened(redis_server.url, retrySecs=0.2)
    lease = upto(log, 1)
    redis_server.client.config_set("maxmemory", "1")
    with pytest.raises(LogError, match="is full.*Raise its maxmemory"):
        log.freeze(lease, "g", 2, record(2), {}, {"counts": freeze(TABLE)})
    redis_server.client.config_set("maxmemory", "0")
    assert log.history("g").frozen == ()
    frozen(log, lease, 2)


def test_scripts_that_somebody_flushed_are_loaded_again(shared_redis: RedisServer, opened: Any) -> None:
    log = opened(shared_redis.url, requireDurable=False)
    lease = upto(log, 1)
    shared_redis.client.script_flush()
    frozen(log, lease, 2)


def test_scripts_that_are_flushed_before_each_call_cost_nothing_but_time(
    shared_redis: RedisServer, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = forget_scripts(monkeypatch)
    log = opened(shared_redis.url, requireDurable=False)
    upto(log, 2)
    assert log.history("g").committed == 2 and len(flushes) > 4
    log.drop(log.take())


def test_a_log_that_is_gone_or_fell_back_stops_its_driver(tmp_path: Path, opened: Any) -> None:
    with RedisServer(tmp_path, "none") as server:
        log = opened(server.url, requireDurable=False)
        upto(log, 2)
        server.client.save()
        lease = log.take()
        frozen(log, lease, 3)
        server.restart()
        for write in (lambda: frozen(log, lease, 4), lambda: log.sync(lease)):
            with pytest.raises(LogError, match="the server lost its last writes .it went back to epoch 1"):
                write()
        server.client.flushall()
        for use in (lambda: frozen(log, lease, 4), lambda: log.sync(lease), log.lease, log.take):
            with pytest.raises(LogError, match="is gone from its server"):
                use()
        assert server.client.dbsize() == 0


@contextmanager
def fallen_back(folder: Path, opened: Any) -> Iterator[tuple[Any, Lease]]:
    """A log whose server lost the last of three batches, and the lease that it stands under."""
    with RedisServer(folder, "none") as server:
        log = opened(server.url, requireDurable=False)
        lease = upto(log, 2)
        server.client.save()
        frozen(log, lease, 3)
        server.restart()
        yield log, lease


def test_a_log_that_lost_batches_under_its_own_lease_stops_its_driver(tmp_path: Path, opened: Any) -> None:
    with fallen_back(tmp_path, opened) as (log, lease):
        with pytest.raises(LogError, match="the server lost its last writes .'frozen' has another value"):
            log.freeze(lease, "g", 4, record(4), {}, {"counts": freeze(TABLE)})
        assert log.history("g").committed == 2
        with pytest.raises(LogError, match="batch 4 cannot be frozen"):
            log.freeze(lease, "g", 4, record(4), {}, {"counts": freeze(TABLE)})


# --- what lies there -----------------------------------------------------------------------------------------------


def test_keys_lie_under_one_hash_tag_and_drop_leaves_nothing(shared_redis: RedisServer, opened: Any) -> None:
    log = opened(shared_redis.url, requireDurable=False)
    shared_redis.client.set("trident:{topology}:mine", 1)
    lease = upto(log, 3)
    log.born(lease, "counts", Birth("g", 0))
    log.trim(lease, "g", 2, 1, 1 << 30)
    names = {name.decode() for name in shared_redis.client.keys("*:log:*")}
    assert names == {f"trident:{{topology}}:log:{part}" for part in ("m", "s", "t", "g:g", "f:g:2", "f:g:3")}
    log.drop(lease)
    assert shared_redis.client.keys("*") == [b"trident:{topology}:mine"]
    with pytest.raises(LogError, match="is gone"):
        log.sync(lease)


def test_topologies_and_prefixes_have_logs_of_their_own(shared_redis: RedisServer) -> None:
    places = [Server(shared_redis.url, requireDurable=False, prefix=prefix) for prefix in ("trident", "other")]
    logs = [place.open(topology) for place in places for topology in ("one", "two")]
    assert len({log.uuid for log in logs}) == 4
    upto(logs[0], 2)
    assert [log.history("g").committed for log in logs] == [2, 0, 0, 0]
    for place in places:
        place.close()


def test_something_foreign_in_its_place_is_refused_and_not_touched(shared_redis: RedisServer, opened: Any) -> None:
    shared_redis.client.hset("trident:{topology}:log:m", "mine", 1)
    with pytest.raises(LogCorruptError, match="is damaged.*does not identify it"):
        opened(shared_redis.url, requireDurable=False)
    assert shared_redis.client.hgetall("trident:{topology}:log:m") == {b"mine": b"1"}
    shared_redis.client.delete("trident:{topology}:log:m")
    shared_redis.client.set("trident:{topology}:log:m", 1)
    with pytest.raises(LogError, match="another program wrote a key"):
        opened(shared_redis.url, requireDurable=False)


def test_damage_is_found_where_it_is_read(shared_redis: RedisServer, opened: Any) -> None:
    log, client = opened(shared_redis.url, requireDurable=False), shared_redis.client
    lease = log.take()
    for txid in (1, 2):
        frozen(log, lease, txid)
    body = client.hget("trident:{topology}:log:f:g:1", "1/counts")
    assert isinstance(body, bytes)
    client.hset("trident:{topology}:log:f:g:1", "1/counts", body[:-1] + b"\x7f")
    held = log.frozen("g", 1, 1)
    with pytest.raises(LogCorruptError, match="batch 1: the checksum of a frozen result does not match"):
        thaw(held["counts"], "batch 1")
    client.hdel("trident:{topology}:log:f:g:1", "1/counts")
    with pytest.raises(LogCorruptError, match="some frozen results of batch 1 are missing"):
        log.frozen("g", 1, 1)
    for text in ('["{\\"s\\":2}", 0.5, "", 1]', "[]", "no"):
        client.hset("trident:{topology}:log:g:g", "b:1", text)
        with pytest.raises(LogCorruptError, match="checksum of the plan of batch 1|is invalid|is not JSON"):
            log.batch("g", 1)
    client.delete("trident:{topology}:log:f:g:2")
    with pytest.raises(LogCorruptError, match="lacks the frozen results of batch 2.*topology.reset"):
        log.history("g")
    client.hset("trident:{topology}:log:g:g", "frozen", "soon")
    with pytest.raises(LogCorruptError, match="frozen is not a number"):
        log.history("g")


def test_a_batch_that_is_too_large_is_refused_with_the_way_out(
    shared_redis: RedisServer, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_log, "MOST_BYTES", 100)
    log = opened(shared_redis.url, requireDurable=False)
    with pytest.raises(LogError, match="batch 1 of group 'g' froze .* bytes.*give a checkpointLocation"):
        frozen(log, log.take(), 1)
    assert log.history("g").frozen == ()


def test_two_drivers_that_race_for_it_end_with_one_holder(shared_redis: RedisServer) -> None:
    place, leases = Server(shared_redis.url, requireDurable=False), list[Any]()
    logs = [place.open() for _ in range(4)]

    def race(log: RedisTransactionLog) -> None:
        lease = log.take()
        try:
            frozen(log, lease, 1)
            leases.append(lease)
        except (FencedError, LogError):
            pass

    threads = [threading.Thread(target=race, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert logs[0].lease().epoch == 4  # type: ignore[union-attr]
    assert len(leases) <= 1 and logs[0].history("g").frozen in ((), (1,))
    place.close()
