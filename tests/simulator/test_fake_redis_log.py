"""The simulated server against a real one: the scripts and commands of a transaction log, any calls in any order, the
same replies and the same data afterwards."""

from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.simulator.fake_redis import FakeRedis
from tests.support.server import RedisServer
from trident.log.log_server import ALL, CREATE, TAKE, WRITE
from trident_state.redis.scripts import Script

Command = list[bytes]

META, GROUP, STATES = b"p:{t}:log:m", b"p:{t}:log:g:a", b"p:{t}:log:s"
KEYS = (META, GROUP, STATES)
FIELDS = (b"frozen", b"committed", b"birth:s")
VALUES = (b"", b"1", b"2")


def call(script: Script, keys: list[bytes], argv: list[bytes]) -> Command:
    return [b"EVALSHA", script.sha, b"%d" % len(keys), *keys, *argv]


def written(token: bytes, epoch: bytes, number: bytes, musts: list[bytes], *deeds: bytes) -> Command:
    return call(WRITE, [*KEYS], [token, epoch, number, b"%d" % (len(musts) // 3), *musts, *deeds])


FOUNDED = call(CREATE, [META], [b"format", b"t", b"uuid"])
TAKEN = call(TAKE, [META], [b"one", b"uuid", b""])

places = st.sampled_from([b"2", b"3"])
fields = st.sampled_from(FIELDS)


@st.composite
def writes(draw: st.DrawFn) -> Command:
    """Mostly by the driver that has the lease; their numbers come in order, again, or late."""
    musts = [word for _ in range(draw(st.integers(0, 2))) for word in (draw(places), draw(fields), _value(draw))]
    deeds = list[bytes]()
    for _ in range(draw(st.integers(0, 3))):
        verb = draw(st.sampled_from([b"set", b"set", b"drop", b"delete"]))
        words = list[bytes]()
        if verb != b"delete":
            for field in draw(st.lists(fields, unique=True, min_size=1, max_size=2)):
                words += [field, draw(st.sampled_from(VALUES[1:]))] if verb == b"set" else [field]
        deeds += [verb, draw(places), b"%d" % len(words), *words]
    token = draw(st.sampled_from([b"one", b"one", b"one", b"two"]))
    epoch = draw(st.sampled_from([b"1", b"1", b"1", b"2", b"3"]))
    return written(token, epoch, b"%d" % draw(st.integers(1, 12)), musts, *deeds)


def _value(draw: st.DrawFn) -> bytes:
    return draw(st.sampled_from(VALUES))


@st.composite
def commands(draw: st.DrawFn) -> Command:
    kind = draw(st.sampled_from("found take write write write write write look look drop".split()))
    if kind == "found":
        return call(CREATE, [META], [b"format", b"t", draw(st.sampled_from([b"uuid", b"other"]))])
    if kind == "take":
        words = [draw(st.sampled_from([b"one", b"two"])), draw(st.sampled_from([b"uuid", b"other"]))]
        words.append(draw(st.sampled_from([b"", b',"host":"h"}'])))
        if draw(st.booleans()):
            words += [draw(st.sampled_from([b"0", b"1", b"2"])), draw(st.sampled_from([b"", b"one", b"two"]))]
        return call(TAKE, [META], words)
    if kind == "write":
        return draw(writes())
    key = draw(st.sampled_from(KEYS))
    if kind == "drop":
        return [b"UNLINK", key]
    field = draw(fields)
    return draw(st.sampled_from([[b"HGETALL", key], [b"HGET", key, field], [b"HEXISTS", key, field]]))


def on_real(server: RedisServer, command: Command) -> Any:
    try:
        client: Any = server.client
        reply = client.execute_command(*command)
    except redis.ResponseError as error:
        return str(error)
    if command[0] == b"HGETALL":
        return reply
    return int(reply) if isinstance(reply, bool) else reply


def on_fake(fake: FakeRedis, command: Command) -> Any:
    reply = fake.run(command)
    return dict(zip(reply[::2], reply[1::2], strict=True)) if command[0] == b"HGETALL" else reply


@pytest.fixture
def server(shared_redis: RedisServer) -> RedisServer:
    for script in ALL:
        shared_redis.client.script_load(script.source)
    return shared_redis


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(commands(), max_size=16))
@example(
    [
        *(written(b"one", b"1", b"%d" % number, [], b"set", b"2", b"2", b"frozen", b"1") for number in (1, 2, 1)),
        written(b"one", b"1", b"3", [b"2", b"frozen", b"1"], b"delete", b"2", b"0"),
        written(b"one", b"1", b"2", [], b"set", b"2", b"2", b"frozen", b"1"),
        [b"HGETALL", GROUP],
    ]
)
def test_any_calls_have_the_same_replies_and_leave_the_same_data(server: RedisServer, calls: list[Command]) -> None:
    server.client.flushall()
    fake = FakeRedis()
    fake.scripts |= {script.sha for script in ALL}
    for command in [FOUNDED, TAKEN, *calls]:
        assert on_fake(fake, command) == on_real(server, command), command
    client: Any = server.client
    assert fake.data == {name: client.hgetall(name) for name in client.keys("*")}
