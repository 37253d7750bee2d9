"""The simulated server against a real one: every script and every command that the library sends, any calls in any
order, the same replies and the same data afterwards."""

import math
import struct
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.simulator.fake_redis import FakeRedis
from tests.support.server import RedisServer
from trident_state.redis.scripts import ACQUIRE, ALL, CLEAR, COMMIT, CREATE, DROP, INDEX, MERGE, OPEN, PUT, Script

Command = list[bytes]

DUE = b"p:{t/s}:due"
META, BUCKETS, FIELDS = b"p:{t/s}:m", (b"p:{t/s}:b:0", b"p:{t/s}:b:1"), (b"sa", b"sbb", b"N")
MANY = [b"s%02d" % n for n in range(31)]
"""With two more of the others a bucket gets its legend."""
LOG = b"l"
IDENTITY = [b"format", b"1", b"topology", b"t", b"state", b"s", b"log", LOG, b"buckets", b"2"]
OTHER = [*IDENTITY[:7], b"other", *IDENTITY[8:]]

tokens = st.sampled_from([b"one", b"two"])
epochs = st.integers(1, 3).map(lambda n: b"%d" % n)
txids = st.integers(1, 4).map(lambda n: b"%d" % n)
fences = st.tuples(tokens, epochs, txids).map(list)
WHOLE = [0, 1, -1, 7, 2**31, 2**32 - 1, 2**53 - 1, 2**53, -(2**53), 2**62, 2**63 - 1, -(2**63)]
TIMES = [math.nan, 5.0, 6.0, -1.5e15, 1700000000000001.0, 2.5e17]
ENDS = [b"-inf", b"5", b"1700000000000001", b"+inf"]
RANKS = [b"0", b"1", b"2", b"-1", b"-2", b"-40"]
REAL = [0.0, -0.0, 1.5, -2.25, 1e308, math.inf, -math.inf, math.nan]


def call(script: Script, keys: list[bytes], argv: list[bytes]) -> Command:
    return [b"EVALSHA", script.sha, b"%d" % len(keys), *keys, *argv]


def framed(parts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def packed(flags: int, txid: int, old: bytes, new: bytes) -> bytes:
    return bytes([flags]) + struct.pack("<q", txid) + old + new


@st.composite
def eights(draw: st.DrawFn, number: bytes) -> bytes:
    if number == b"<i8":
        return struct.pack("<q", draw(st.sampled_from(WHOLE)))
    return struct.pack("<d", draw(st.sampled_from(REAL)))


@st.composite
def records(draw: st.DrawFn, number: bytes, bare: bool) -> bytes:
    """A stored record, now and then one that is none."""
    value = eights(number)
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"", b"x", bytes([9]) * 25, bytes([9]) * 9]))
    if bare:
        return bytes([draw(st.sampled_from([0, 2]))]) + draw(value)
    return packed(draw(st.integers(0, 3)), draw(st.integers(0, 5)), draw(value), draw(value))


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    value = draw(st.sampled_from([b"1", b"null", b"null"]))
    text = b'{"txid":%d,"value":%s,"prev":1}' % (draw(st.integers(0, 5)), value)
    return text if draw(st.integers(0, 9)) else draw(st.sampled_from([b'{"no":1}', b"null"]))


@st.composite
def chunks(draw: st.DrawFn) -> tuple[list[bytes], bytes, list[bytes]]:
    """Which buckets, how many fields in each, and the fields."""
    names, counts, fields = list[bytes](), list[int](), list[bytes]()
    for name in BUCKETS:
        mine = draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=3))
        if draw(st.integers(0, 3)) == 0:
            mine += MANY
        if mine:
            names, counts, fields = [*names, name], [*counts, len(mine)], fields + mine
    if not fields:
        names, counts, fields = [BUCKETS[0]], [1], [FIELDS[0]]
    return [META, *names], struct.pack(f"<{len(counts)}I", *counts), fields


@st.composite
def merges(draw: st.DrawFn, number: bytes, bare: bool) -> Command:
    keys, counts, fields = draw(chunks())
    deltas = b"".join(draw(eights(number)) for _ in fields)
    by_turns = bytes(n % 2 for n in range(len(fields)))
    nulls = draw(st.sampled_from([b"", bytes(len(fields)), bytes([1] * len(fields)), by_turns]))
    how = [draw(st.sampled_from([b"sum", b"min", b"max"])), number, draw(st.sampled_from([b"0", b"1"])), b"%d" % bare]
    return call(MERGE, keys, [*draw(fences), counts, framed(fields), deltas, nulls, *how])


@st.composite
def puts(draw: st.DrawFn, number: bytes, bare: bool) -> Command:
    keys, counts, fields = draw(chunks())
    json = draw(st.booleans())
    new = [draw(documents() if json else records(number, bare)) for _ in fields]
    pairs = [part for pair in zip(fields, new, strict=True) for part in pair]
    shared, before = draw(st.booleans()), draw(st.sampled_from([b"0", b"0", b"1", b"3"]))
    read = b"".join(struct.pack("<q", draw(st.sampled_from([-1, -1, -1, 1, 2, 3]))) for _ in fields)
    why = [b"", b""] if bare else [read, b""] if shared else [b"", before]
    argv = [*draw(fences), counts, framed(pairs), *why, b"json" if json else b"packed"]
    return call(PUT, [*keys, DUE], [*argv, draw(dues(len(fields)))]) if draw(st.booleans()) else call(PUT, keys, argv)


@st.composite
def dues(draw: st.DrawFn, count: int) -> bytes:
    some = draw(st.lists(st.sampled_from(TIMES), min_size=1, max_size=4))
    return struct.pack(f"<{count}d", *[some[at % len(some)] for at in range(count)])


@st.composite
def indexes(draw: st.DrawFn) -> Command:
    fields = draw(st.lists(st.sampled_from([*FIELDS, *MANY]), unique=True, max_size=9))
    part = draw(st.sampled_from([b"first", b"more", b"last"]))
    return call(INDEX, [META, DUE], [*draw(fences), part, framed(fields), draw(dues(len(fields)))])


@st.composite
def clears(draw: st.DrawFn, bare: bool) -> Command:
    keys, counts, fields = draw(chunks())
    form = draw(st.sampled_from([b"fixed", b"fixed", b"packed", b"json"]))
    return call(CLEAR, keys, [*draw(fences), counts, framed(fields), form, b"%d" % bare])


@st.composite
def commands(draw: st.DrawFn, number: bytes, bare: bool) -> Command:
    kind = draw(
        st.sampled_from(
            "create acquire drop open merge merge merge put put put commit commit clear index store read".split()
        )
    )
    fence = draw(fences)
    if kind == "create":
        fields = [*draw(st.sampled_from([IDENTITY, IDENTITY, OTHER])), *draw(st.sampled_from([[], [b"due", b"0"]]))]
        return call(CREATE, [META, *draw(st.sampled_from([[], [DUE]]))], [*fence, *fields])
    if kind == "acquire":
        return call(ACQUIRE, [META], [*fence, draw(st.sampled_from([LOG, LOG, b"other", b""]))])
    if kind == "drop":
        return call(DROP, [META, DUE, *BUCKETS], [*fence, draw(st.sampled_from([LOG, b"other"]))])
    if kind == "open":
        return call(OPEN, [META], [*fence, draw(st.sampled_from([b"2", b"2", b"2", b"4"])), b"%d" % bare])
    if kind == "merge":
        return draw(merges(number, bare))
    if kind == "put":
        return draw(puts(number, bare))
    if kind == "index":
        return draw(indexes())
    if kind == "clear":
        return draw(clears(bare))
    if kind == "commit":
        return call(COMMIT, [META], [*fence, draw(st.sampled_from([b"0", b"1", b"2", b"3"]))])
    if kind == "store":
        record = draw(st.one_of(records(number, bare), documents()))
        return [b"HSET", draw(st.sampled_from(BUCKETS)), draw(st.sampled_from(FIELDS)), record]
    if draw(st.booleans()):
        count = [b"ZCOUNT", DUE, draw(st.sampled_from(ENDS)), draw(st.sampled_from(ENDS))]
        ranked = [b"ZRANGE", DUE, draw(st.sampled_from(RANKS)), draw(st.sampled_from(RANKS))]
        return draw(
            st.sampled_from(
                [[b"TYPE", DUE], [b"EXISTS", DUE, META, DUE], [b"ZCARD", DUE], count, ranked, [*ranked, b"WITHSCORES"]]
            )
        )
    name = draw(st.sampled_from([META, *BUCKETS]))
    return draw(
        st.sampled_from(
            [
                [b"HMGET", name, *FIELDS, b"marker"],
                [b"TYPE", name],
                [b"HLEN", name],
                [b"HGET", name, b"marker"],
                [b"HEXISTS", name, FIELDS[0]],
                [b"HGETALL", name],
                [b"UNLINK", name, BUCKETS[1]],
                [b"HSCAN", name, b"0", b"COUNT", b"1000"],
            ]
        )
    )


def _raw(server: RedisServer) -> Any:
    return server.client


def on_real(server: RedisServer, command: Command) -> Any:
    try:
        reply: Any = _raw(server).execute_command(*command)
    except redis.ResponseError as error:
        return str(error)
    if command[0] == b"TYPE" and isinstance(reply, str):
        return reply.encode()
    return alike(command, reply)


def alike(command: Command, reply: Any) -> Any:
    """A reply, without the order of a hash's fields and the way in which a number is written."""
    if command[0] == b"HSCAN":
        return dict(zip(reply[1][::2], reply[1][1::2], strict=True))
    if command[0] == b"HGETALL" and isinstance(reply, list):
        return dict(zip(reply[::2], reply[1::2], strict=True))
    if command[-1] == b"WITHSCORES":
        flat = [part for pair in reply for part in pair] if reply and isinstance(reply[0], tuple | list) else reply
        return [float(part) if at % 2 else part for at, part in enumerate(flat)]
    return reply


def on_fake(fake: FakeRedis, command: Command) -> Any:
    if command[0] == b"HSET":  # what lies there already; the library writes by scripts only
        at = fake.data.setdefault(command[1], {})
        new = command[2] not in at
        at[command[2]] = command[3]
        return int(new)
    reply = fake.run(command)
    if isinstance(reply, redis.ResponseError):
        return str(reply)
    return alike(command, reply)


def data_of(server: RedisServer) -> dict[bytes, dict[bytes, bytes]]:
    client = server.client
    return {
        name: scored(client.zrange(name, 0, -1, withscores=True)) if name == DUE else client.hgetall(name)
        for name in client.keys("*")  # type: ignore[union-attr]
    }


def scored(members: Any) -> dict[bytes, bytes]:
    return {member: struct.pack("<d", score) for member, score in members}


@st.composite
def sequences(draw: st.DrawFn) -> list[Command]:
    """Mostly calls of one driver that follow each other, so that they come far; anything else between them."""
    number, bare = draw(st.sampled_from([b"<i8", b"<d"])), draw(st.booleans())
    txid = 1
    kept = [b"due", b"0"] if draw(st.booleans()) else []
    found = [call(CREATE, [META], [b"one", b"1", b"0", *IDENTITY, *kept])] if draw(st.integers(0, 9)) else []

    def opens() -> Command:
        return call(OPEN, [META], [b"one", b"1", b"%d" % txid, b"2", b"%d" % bare])

    found.append(opens())
    for _ in range(draw(st.integers(2, 16))):
        command = draw(commands(number, bare))
        if command[0] != b"EVALSHA" or not draw(st.integers(0, 4)):
            found.append(command)
            continue
        at = 3 + int(command[2])
        found.append([*command[:at], b"one", b"1", b"%d" % txid, *command[at + 3 :]])
        if command[1] == COMMIT.sha and draw(st.booleans()):
            txid += 1
        if command[1] in (COMMIT.sha, ACQUIRE.sha, CREATE.sha) and draw(st.integers(0, 3)):
            found.append(opens())
    return found


def added(fields: list[bytes], delta: int | None) -> Command:
    """This much, or null, to each of these fields of the first bucket."""
    deltas = struct.pack("<q", delta or 0) * len(fields)
    how = [bytes([delta is None] * len(fields)), b"sum", b"<i8", b"1", b"0"]
    argv = [b"one", b"1", b"1", struct.pack("<I", len(fields)), framed(fields), deltas, *how]
    return call(MERGE, [META, BUCKETS[0]], argv)


def cleared(fields: list[bytes]) -> Command:
    counted = struct.pack("<I", len(fields))
    return call(CLEAR, [META, BUCKETS[0]], [b"one", b"1", b"2", counted, framed(fields), b"fixed", b"0"])


LOOK = [b"HSCAN", BUCKETS[0], b"0", b"COUNT", b"1000"]
OVERFLOW = packed(0, 0, bytes(8), struct.pack("<q", 2**63 - 1))


@pytest.fixture
def server(shared_redis: RedisServer) -> RedisServer:
    for script in ALL:
        shared_redis.client.script_load(script.source)
    return shared_redis


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(sequences())
@example(
    [
        call(CREATE, [META], [b"one", b"1", b"0", *IDENTITY]),
        call(OPEN, [META], [b"one", b"1", b"1", b"2", b"0"]),
        *[
            command
            for fields in (MANY, [*MANY, FIELDS[0]], [FIELDS[1]], [FIELDS[2]])
            for command in (added(fields, 0), LOOK)
        ],
    ]
)
@example(
    [
        call(CREATE, [META], [b"one", b"1", b"0", *IDENTITY]),
        call(OPEN, [META], [b"one", b"1", b"1", b"2", b"0"]),
        added([*MANY, *FIELDS], None),
        call(COMMIT, [META], [b"one", b"1", b"1", b"34"]),
        call(OPEN, [META], [b"one", b"1", b"2", b"2", b"0"]),
        call(COMMIT, [META], [b"one", b"1", b"2", b"0"]),
        *[command for fields in (MANY, FIELDS[:2], FIELDS[2:]) for command in (cleared([*fields]), LOOK)],
    ]
)
@example(
    [
        call(CREATE, [META], [b"one", b"1", b"0", *IDENTITY]),
        call(OPEN, [META], [b"one", b"1", b"1", b"2", b"0"]),
        [b"HSET", BUCKETS[0], FIELDS[0], OVERFLOW],
        added([FIELDS[0]], 1),
    ]
)
def test_any_calls_have_the_same_replies_and_leave_the_same_data(server: RedisServer, calls: list[Command]) -> None:
    server.client.flushall()
    fake = FakeRedis()
    fake.scripts |= {script.sha for script in ALL}
    for command in calls:
        assert on_fake(fake, command) == on_real(server, command), command
    assert fake.data == data_of(server)


def test_a_script_that_is_not_loaded_is_refused_alike(shared_redis: RedisServer) -> None:
    shared_redis.client.script_flush()
    fake = FakeRedis()
    asked = call(ACQUIRE, [META], [b"one", b"1", b"0", LOG])
    with pytest.raises(redis.exceptions.NoScriptError):
        _raw(shared_redis).execute_command(*asked)
    assert isinstance(fake.run(asked), redis.exceptions.NoScriptError)
    for script in ALL:
        load = [b"SCRIPT", b"LOAD", script.source]
        assert fake.run(load) == script.sha
        assert str(shared_redis.client.script_load(script.source)).encode() == script.sha
    assert on_fake(fake, asked) == on_real(shared_redis, asked)


def test_what_a_crash_takes_back_was_never_there() -> None:
    def grown(calls: int) -> FakeRedis:
        fake = FakeRedis()
        fake.scripts |= {script.sha for script in ALL}
        fence = [b"one", b"1"]
        merged = [struct.pack("<I", 1), framed([FIELDS[0]]), struct.pack("<q", 5), b"", b"sum", b"<i8", b"0", b"0"]
        for txid in (b"1", b"2"):
            for command in (
                call(CREATE, [META], [*fence, b"0", *IDENTITY]),
                call(OPEN, [META], [*fence, txid, b"2", b"0"]),
                call(MERGE, [META, BUCKETS[0]], [*fence, txid, *merged]),
                call(COMMIT, [META], [*fence, txid, b"1"]),
            ):
                if len(fake.journal) < calls:
                    fake.run(command)
        return fake

    whole = grown(100)
    writes = len(whole.journal)
    assert writes == 7  # the second founding writes nothing
    for lost in range(writes + 1):
        fake = grown(100)
        assert fake.kill(lost) == lost
        assert fake.data == grown(writes - lost).data
