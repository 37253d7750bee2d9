"""The simulated connection against a real one: transactions, refused commands, and hashes that are read in pages."""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.simulator.fake_redis import FakeRedis
from tests.simulator.network import ERRORS, REFUSALS, Connection, Network
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident_state.redis.scripts import ACQUIRE, ALL, CREATE
from trident_state.redis.wire import EXEC, MULTI, bulks, call, command

META, BUCKET = b"p:{t/s}:m", b"p:{t/s}:b:0"
READS = [MULTI, command(b"HMGET", META, b"epoch"), command(b"HLEN", BUCKET), EXEC]
WRITE = call(CREATE, [bulks([META])], b"one", b"1", b"0", b"log", b"l")
TAKE = call(ACQUIRE, [bulks([META])], b"two", b"2", b"0", b"")
AGAIN = [command(b"HLEN", META), *READS]


class Chosen(Random):
    """Chance that chooses the error and the command that it answers."""

    def __init__(self, error: str, at: int) -> None:
        super().__init__(0)
        self._error, self._at = error, at

    def choice(self, seq: Any) -> Any:
        assert self._error in seq
        return self._error

    def randrange(self, *_: Any) -> int:
        return self._at


def network(chance: Random) -> Network:
    scheduler: Any = SimpleNamespace(point=lambda *_, **__: None, random=chance)
    fake = FakeRedis()
    fake.scripts |= {script.sha for script in ALL}
    return Network(scheduler, fake)


def replies(connection: Any, commands: list[bytes]) -> list[Any]:
    """What a connection answers, errors as their class and code. A broken connection answers nothing more."""
    connection.send_packed_command([b"".join(commands)])
    found = list[Any]()
    for _ in commands:
        try:
            found.append(connection.read_response(disable_decoding=True))
        except redis.RedisError as error:
            code = str(error).split()[0] if type(error) is redis.ResponseError else ""
            found.append((type(error).__name__, code))
            if isinstance(error, redis.ConnectionError):
                break
    return found


def on_fake(error: str, at: int, commands: list[bytes]) -> list[Any]:
    between = network(Chosen(error, at))
    connection = Connection(between)
    connection.connect()
    between.fault = "error"
    return replies(connection, commands)


@contextmanager
def raw(server: RedisServer) -> Iterator[Any]:
    connection: Any = server.connect().connection_pool.get_connection()
    try:
        yield connection
    finally:
        connection.disconnect()


@contextmanager
def busy(server: RedisServer) -> Iterator[None]:
    """A script does not end."""
    client: Any = server.connect(socket_timeout=60)
    server.client.config_set("lua-time-limit", 1)

    def loop() -> None:
        with suppress(redis.RedisError):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()

    def refused() -> bool:
        try:
            server.client.ping()
        except redis.ResponseError:
            return True
        return False

    wait_until(refused)
    try:
        yield
    finally:
        server.client.script_kill()
        thread.join()


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    server.client.config_set("maxmemory", 1)
    yield
    server.client.config_set("maxmemory", 0)


@contextmanager
def replica(server: RedisServer, stale: str = "yes") -> Iterator[None]:
    """It has a master that nobody reaches."""
    server.client.config_set("replica-serve-stale-data", stale)
    server.client.replicaof("127.0.0.1", 1)
    yield
    server.client.replicaof("NO", "ONE")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, "none") as started:
        for script in ALL:
            started.client.script_load(script.source)
        yield started


def error_of(code: str) -> str:
    return next(error for error in ERRORS if error.startswith(code))


def test_a_transaction_is_answered_alike(server: RedisServer) -> None:
    between = network(Random(0))
    connection = Connection(between)
    connection.connect()
    for commands in (READS, [WRITE], AGAIN):
        with raw(server) as real:
            assert replies(connection, commands) == replies(real, commands)


def test_a_refused_read_ends_its_transaction_alike(server: RedisServer) -> None:
    with busy(server), raw(server) as real:
        refused = replies(real, [READS[0], READS[1], READS[-1]])
    assert refused == on_fake(error_of("BUSY"), 1, [READS[0], READS[1], READS[-1]])
    assert refused[-1][0] == "ExecAbortError"
    with replica(server, stale="no"), raw(server) as real:
        refused = replies(real, [READS[0], READS[1], READS[-1]])
    assert refused == on_fake(error_of("MASTERDOWN"), 1, [READS[0], READS[1], READS[-1]])


def test_a_refused_script_is_answered_alike_and_writes_nothing(server: RedisServer) -> None:
    with raw(server) as real:
        replies(real, [WRITE])
    before = server.held()
    for code, held in (("BUSY", busy), ("OOM", full), ("READONLY", replica)):
        with held(server), raw(server) as real:
            refused = replies(real, [TAKE])
        assert refused == on_fake(error_of(code), 0, [TAKE])
        assert server.held() == before


def test_a_server_that_loads_breaks_the_connection(tmp_path: Path) -> None:
    """redis-py takes this error for a broken connection; nothing behind it is read."""
    with RedisServer(tmp_path, "always", "--key-load-delay", "200") as server:
        pipeline = server.client.pipeline(transaction=False)
        for n in range(5000):  # it answers after each 1,024
            pipeline.set(b"%d" % n, b"")
        pipeline.execute()
        server.kill()
        starting = threading.Thread(target=server.start)
        starting.start()

        def listen(opened: Any) -> None:
            opened._parser.on_connect(opened)  # and names no library, which would be refused

        connection: Any = redis.Connection(port=server.port, protocol=2, redis_connect_func=listen)
        refused = list[Any]()

        def loading() -> list[Any]:
            with suppress(redis.ConnectionError):
                connection.connect()
                refused.extend(replies(connection, AGAIN))
            return refused

        wait_until(loading)
        connection.disconnect()
        starting.join()
    assert refused == on_fake(error_of("LOADING"), 0, AGAIN) == [("BusyLoadingError", "")]


def test_every_error_is_one_that_a_client_tells_apart() -> None:
    """A command in a transaction is refused by one that any command may get."""
    assert {*REFUSALS} < {*ERRORS}
    for error in REFUSALS:
        answered = on_fake(error, 1, READS)
        assert len(answered) == 2 or answered[-1][0] == "ExecAbortError"


@pytest.mark.parametrize("page", [0, 1, 2, 7])
def test_pages_of_a_hash_have_everything_that_stays(server: RedisServer, page: int) -> None:
    """On a real server pages overlap only while its table grows; here they always do."""
    server.client.config_set("hash-max-listpack-entries", 1)
    fake = FakeRedis()
    fake.page = page
    chance = Random(page)
    stays = {b"stay%d" % n: b"%d" % n for n in range(40)}
    comes = {b"come%d" % n: struct.pack("<I", n) for n in range(60)}
    fake.data[BUCKET] = dict(stays)
    client: Any = server.client
    client.hset(BUCKET, mapping=stays)

    def change() -> None:
        field = chance.choice([*comes])
        if chance.random() < 0.5:
            fake.data[BUCKET][field] = comes[field]
            client.hset(BUCKET, field, comes[field])
        else:
            fake.data[BUCKET].pop(field, None)
            client.hdel(BUCKET, field)

    for run in (fake.run, lambda parts: client.execute_command(*parts)):
        found, cursor = list[tuple[bytes, bytes]](), b"0"
        while True:
            following, content = run([b"HSCAN", BUCKET, cursor, b"COUNT", b"3"])
            cursor = following if isinstance(following, bytes) else b"%d" % following
            pairs = content.items() if isinstance(content, dict) else zip(content[::2], content[1::2], strict=True)
            found += pairs
            if cursor == b"0":
                break
            change()
        assert stays.items() <= {*found} <= (stays | comes).items()
        assert len(found) < 3 * len({*found})
