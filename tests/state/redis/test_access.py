"""Who gets in, with which rights, and what a server must be to keep a state."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.state.redis.states import IDENTITY, LEASE, PYTHON, SECOND, SHAPE, contents, opened, started, update, words
from tests.state.redis.test_due_index import as_it_is
from tests.support.cluster import RedisCluster
from tests.support.server import RedisServer
from trident.base.errors import LogError, StateError, StateUnavailableError
from trident.base.redis_address import Address, read_url, redacted
from trident.log import RedisLog
from trident.log.protocol import BatchRecord, Members, StreamRecord
from trident_state.redis.server_check import check_server
from trident_state.state_shape import replacing

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "state.md").read_text(encoding="utf-8")

WRITER = "~trident:* -@all +@connection +@read +@hash +@sortedset +@keyspace +@scripting +@transaction -@dangerous"
WRITER += " +info +cluster|slots"
LOG = "+config|get"
READER = "%R~trident:* -@all +@connection -@dangerous +hmget +hscan +type +multi +exec +info +cluster|slots"
DUE = replace(SHAPE, combine=replacing(), due=as_it_is)


# --- rights --------------------------------------------------------------------------------------------------------


def user(server: RedisServer, name: str, rules: str) -> str:
    """The url of a new user with exactly these rules, as the guide shows them."""
    assert f" {rules}\n" in GUIDE
    grant(server, name, rules)
    return server.url.replace("redis://", f"redis://{name}:secret@")


def grant(server: RedisServer, name: str, rules: str) -> None:
    server.client.execute_command("ACL", "SETUSER", name, "reset", "on", ">secret", *rules.split())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("values", ["packed", "json"])
@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_the_writers_rules_are_enough_for_all_that_a_driver_does(
    redis_server: RedisServer, shape: Any, values: str
) -> None:
    url = user(redis_server, "writer", WRITER)
    with started(url, shape, values=values, groups=2) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(3_000)}), values=True)
        redis_server.client.script_flush()
        store.apply(LEASE, update(2, {n: 1 for n in range(3_000)}))
        store.acquire(SECOND)
        assert store.read(words([1, 2]), 2).values.to_pylist() == [2, 2]
        assert len(contents(store, 2)) == 3_000 and store.durable() == 2
        assert store.report().identity == IDENTITY
        store.drop()
    assert redis_server.client.dbsize() == 0
    with pytest.raises(StateError, match="denies permission"), opened(url, prefix="other") as store:
        store.report()


def test_the_writers_rules_are_enough_for_due_times(redis_server: RedisServer) -> None:
    with started(user(redis_server, "writer", WRITER), DUE) as store:
        store.apply(LEASE, update(1, {1: 5, 2: 7}))
        redis_server.client.delete(*redis_server.client.keys("*:due"))
        store.acquire(SECOND)
        found = store.due(1, 6)
        assert found is not None and found["word"].to_pylist() == ["w1"]
        store.drop()
    assert redis_server.client.dbsize() == 0


def test_a_put_that_may_note_no_due_times_writes_nothing(redis_server: RedisServer) -> None:
    """The rules lack sorted sets. Once they are given, the same batch is put as a whole."""
    grant(redis_server, "writer", WRITER.replace(" +@sortedset", ""))
    url = redis_server.url.replace("redis://", "redis://writer:secret@")
    with started(url, DUE) as store:
        with pytest.raises(StateError, match="denies permission"):
            store.apply(LEASE, update(1, {1: 5, 2: 7}))
        grant(redis_server, "writer", WRITER)
        store.apply(LEASE, update(1, {1: 5, 2: 7}))
        store.acquire(SECOND)
        assert contents(store, 1) == {"w1": 5, "w2": 7}


KINDS = {"server": SHAPE, "python": PYTHON, "due": DUE}


@pytest.mark.parametrize("command", ["hset", "hdel", "hincrby", "hlen", "hmget", "zadd", "zrem"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_right_that_is_taken_away_while_a_driver_runs_leaves_nothing_half_written(
    redis_server: RedisServer, kind: str, command: str
) -> None:
    """A script that the server stops keeps what it wrote; so none begins that could be stopped."""
    grant(redis_server, "writer", WRITER)
    url = redis_server.url.replace("redis://", "redis://writer:secret@")
    shape, batch = KINDS[kind], dict.fromkeys(range(200), 1)
    with started(url, shape, buckets=2) as store:
        store.apply(LEASE, update(1, dict.fromkeys(range(60), 1)))
        keys = redis_server.client.keys("*:b:*")
        before = {key: redis_server.client.hgetall(key) for key in keys}
        redis_server.client.execute_command("ACL", "SETUSER", "writer", f"-{command}")  # type: ignore[no-untyped-call]
        try:
            store.apply(LEASE, update(2, batch))
        except StateError as error:
            assert "denies permission" in str(error) and command in str(error).lower()
            assert {key: redis_server.client.hgetall(key) for key in keys} == before
        else:
            assert kind != "due" and command.startswith("z"), "only these are not needed"
        grant(redis_server, "writer", WRITER)
        store.apply(LEASE, update(2, batch))
        assert store.report().reached == 2 and store.count() == 200
        store.acquire(SECOND)
        assert len(contents(store, 2)) == 200


@pytest.mark.parametrize("command", ["hset", "hdel", "unlink", "exists"])
def test_a_right_that_is_taken_away_leaves_no_half_write_in_the_log(redis_server: RedisServer, command: str) -> None:
    grant(redis_server, "writer", f"{WRITER} {LOG}")
    log = RedisLog(redis_server.url.replace("redis://", "redis://writer:secret@"), requireDurable=False).open("wc")
    lease = log.take()
    log.enroll(lease, Members({"s": StreamRecord("g")}, {}, {"g": 0}))
    keys = sorted(redis_server.client.keys("*"))
    before = [redis_server.client.hgetall(key) for key in keys]
    redis_server.client.execute_command("ACL", "SETUSER", "writer", f"-{command}")  # type: ignore[no-untyped-call]
    with pytest.raises(LogError, match=f"permissions to run the '{command}' command"):
        log.freeze(lease, "g", 1, BatchRecord({"s": 1}, 0.5), {"s": 1}, {})
    assert sorted(redis_server.client.keys("*")) == keys
    assert [redis_server.client.hgetall(key) for key in keys] == before
    grant(redis_server, "writer", f"{WRITER} {LOG}")
    log.freeze(lease, "g", 1, BatchRecord({"s": 1}, 0.5), {"s": 1}, {})
    assert log.history("g").frozen == (1,)
    log.close()


def test_the_writers_rules_and_one_more_are_enough_for_the_log(redis_server: RedisServer) -> None:
    assert f"`{LOG}`" in GUIDE
    user(redis_server, "writer", WRITER)
    redis_server.client.execute_command("ACL", "SETUSER", "writer", LOG)  # type: ignore[no-untyped-call]
    log = RedisLog(redis_server.url.replace("redis://", "redis://writer:secret@")).open("wc")
    lease = log.take()
    log.sync(lease)
    assert log.history("g").committed == 0
    log.drop(lease)
    log.close()


FORBIDDEN: list[tuple[Any, ...]] = [
    ("HSET", "trident:{wordcount/counts}:m", "marker", 9),
    ("HDEL", "trident:{wordcount/counts}:m", "marker"),
    ("DEL", "trident:{wordcount/counts}:m"),
    ("UNLINK", "trident:{wordcount/counts}:m"),
    ("EXPIRE", "trident:{wordcount/counts}:m", 1),
    ("RENAME", "trident:{wordcount/counts}:m", "trident:x"),
    ("SET", "trident:x", 1),
    ("HMGET", "other", "x"),
    ("TYPE", "other"),
    ("EVAL", "return 1", 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("FUNCTION", "LIST"),
    ("KEYS", "*"),
    ("SCAN", 0),
    ("RANDOMKEY",),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("CLUSTER", "NODES"),
    ("ACL", "LIST"),
    ("MONITOR",),
    ("SHUTDOWN",),
    ("REPLICAOF", "NO", "ONE"),
    ("PUBLISH", "x", "y"),
    ("SUBSCRIBE", "x"),
]


def test_a_reader_reads_what_is_committed_and_can_do_nothing_else(redis_server: RedisServer) -> None:
    redis_server.client.hset("other", "x", 1)
    with started(redis_server.url, groups=2) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(3_000)}))
        with opened(user(redis_server, "reader", READER), groups=2) as reader:
            assert reader.read(words([1, 2, -1]), 1).values.to_pylist() == [1, 1, None]
            assert reader.read(words([1]), None).asOf == 1
            assert contents(reader, 1) == {f"w{n}": 1 for n in range(3_000)}
            assert reader.report().identity == IDENTITY and reader.groups_of()[0].marker == 1
            for write in (
                lambda: reader.apply(LEASE, update(2, {1: 1})),
                lambda: reader.acquire(SECOND),
                lambda: reader.create(SECOND, 0),
                reader.drop,
            ):
                with pytest.raises(StateError, match=".* the user; the guide"):
                    write()
        client = redis_server.connect(username="reader", password="secret")
        before = {name: redis_server.client.dump(name) for name in redis_server.client.keys("*")}
        for words_ in FORBIDDEN:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words_)  # type: ignore[no-untyped-call]
        assert {name: redis_server.client.dump(name) for name in redis_server.client.keys("*")} == before


def test_both_rules_are_enough_on_a_cluster(shared_cluster: RedisCluster) -> None:
    for server in shared_cluster.servers:
        grant(server, "writer", WRITER)
        grant(server, "reader", READER)
    urls = [shared_cluster.url.replace("redis://", f"redis://{name}:secret@") for name in ("writer", "reader")]
    with started(urls[0], groups=8) as store, opened(urls[1], groups=8) as reader:
        store.apply(LEASE, update(1, {n: n for n in range(1_000)}))
        assert contents(reader, 1) == {f"w{n}": n for n in range(1_000)}


# --- where the url stands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["env", "file"])
def test_a_url_from_a_file_or_the_environment_is_read_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """User, password and database from outside of the program; a new password is taken up by the next connection."""
    secret = tmp_path / "redis.url"
    source = "env:TRIDENT_TEST_REDIS" if place == "env" else f"file:{secret}"

    def put(url: str) -> None:
        monkeypatch.setenv("TRIDENT_TEST_REDIS", url)
        secret.write_text(url + "\n")

    with RedisServer(tmp_path / "redis", "none") as server, opened(source) as store:
        message = f"state 'counts': url='{source}': the (environment variable .* is not set|file cannot be read)"
        with pytest.raises(StateError, match=message):
            store.report()
        put("hunter2 no url")
        with pytest.raises(StateError, match="does not contain a url") as caught:
            store.report()
        assert "hunter2" not in str(caught.value)
        grant(server, "app", WRITER)
        put(f"redis://app:secret@127.0.0.1:{server.port}/2")
        store.create(LEASE, 0)
        store.apply(LEASE, update(1, {1: 1}))
        assert server.client.info("keyspace")["db2"]["keys"] == 2
        server.client.execute_command("ACL", "SETUSER", "app", "resetpass", ">newer")  # type: ignore[no-untyped-call]
        server.client.client_kill_filter(_type="normal", skipme=True)
        put(f"redis://app:newer@127.0.0.1:{server.port}/2")
        with pytest.raises(StateUnavailableError):
            store.apply(LEASE, update(2, {1: 1}))
        store.apply(LEASE, update(2, {1: 1}))
        assert contents(store, 2) == {"w1": 2}


def test_several_servers_in_one_url_are_tried_in_turn() -> None:
    seeds = Address("rediss://me:pw@a:1,b:2/0?ssl_cert_reqs=none", 1, 1).seeds()
    assert [seed.url for seed in seeds] == [f"rediss://me:pw@{at}/0?ssl_cert_reqs=none" for at in ("a:1", "b:2")]
    assert redacted("redis://me:pw@a:1,b:2/0") == "redis://me:***@a:1,b:2/0"
    other = seeds[0].at("c", 3)
    assert other.shown == "c:3" and read_url(other.url) == seeds[0].url


# --- what a server must be ------------------------------------------------------------------------------------------

GOOD = {"redis_version": "7.2.4", "role": "master", "aof_enabled": "1", "maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"redis_version": "6.0.20"}, StateError, r"is version 6\.0\.20; 6\.2 or newer is needed"),
        ({"redis_version": ""}, StateError, "is version ; 6.2 or newer"),
        ({"role": "slave"}, StateUnavailableError, "is a slave; the url must lead to its master"),
        ({"loading": "1"}, StateUnavailableError, "is still loading its data"),
        ({"maxmemory_policy": "allkeys-lru"}, StateError, "may evict keys .maxmemory-policy allkeys-lru"),
        ({"maxmemory_policy": "allkeys-random"}, StateError, "may evict keys .*set it to noeviction"),
    ],
)
def test_a_server_that_cannot_keep_a_state_is_refused(change: dict[str, str], kind: Any, message: str) -> None:
    with pytest.raises(StateError, match=f"state 'counts': the server at here {message}") as caught:
        check_server(GOOD | change, "state 'counts'", "here")
    assert type(caught.value) is kind


@pytest.mark.parametrize("change", [{}, {"redis_version": "6.2.0"}, {"maxmemory_policy": "volatile-lru"}])
def test_a_server_that_keeps_a_state_itself_is_accepted_without_a_word(change: dict[str, str]) -> None:
    assert check_server(GOOD | change, "state 'counts'", "here") == ()


def test_what_a_server_could_do_better_is_told_once_by_whoever_starts_and_logged_where_it_changes(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), started(redis_server.url) as store:
        assert store.warnings == () and not caplog.records
        redis_server.client.config_set("appendonly", "no")
        store.report()
        store.report()
        assert [record.getMessage() for record in caplog.records] == list(store.warnings)
        assert "appendonly is off at redis://127.0.0.1:" in store.warnings[0]
