"""What the server gives at best: SET by raw socket, 1,000 in a pipeline, 24-byte values, one connection.

The same as ``redis-benchmark -t set -P 1000 -c 1 -r 1000000 -d 24``, made here because not every server brings it.
"""

import random
import socket

from benchmarks.timing import Timed

PIPELINE = 1_000
VALUE = b"x" * 24


def raw_set(port: int, commands: int, keyspace: int, seed: int = 7) -> float:
    """Seconds for `commands` SETs of random keys. What is sent is put together before the clock starts."""
    drawn = random.Random(seed)
    pipelines = [
        b"".join(_set(drawn.randrange(keyspace)) for _ in range(min(PIPELINE, commands - done)))
        for done in range(0, commands, PIPELINE)
    ]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Timed() as timed:
            for number, sent in enumerate(pipelines):
                connection.sendall(sent)
                _replies(connection, min(PIPELINE, commands - number * PIPELINE))
    return timed.seconds


def _set(number: int) -> bytes:
    key = b"key:%012d" % number
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(VALUE), VALUE)


def _replies(connection: socket.socket, count: int) -> None:
    """Read `count` times ``+OK``, and nothing else."""
    expected = b"+OK\r\n" * count
    got = bytearray()
    while len(got) < len(expected):
        part = connection.recv(65_536)
        if not part:
            raise ConnectionError("the server closed the connection")
        got += part
    if got != expected:
        raise ConnectionError(f"the server answered {bytes(got[:80])!r}")
