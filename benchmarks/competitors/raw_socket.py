"""Commands by raw socket, one connection, 1,000 in a pipeline: what the server gives at best."""

import socket
from collections.abc import Sequence

from benchmarks.timing import Timed

PIPELINE = 1_000


def raw_seconds(port: int, commands: Sequence[bytes], begin: bytes) -> float:
    """Return the seconds that these commands take; they are packed before the clock starts.

    The server must answer each by one line that begins with `begin`; another answer is a ConnectionError.
    """
    pipelines = [commands[at : at + PIPELINE] for at in range(0, len(commands), PIPELINE)]
    sent = [b"".join(pipeline) for pipeline in pipelines]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Timed() as timed:
            for part, pipeline in zip(sent, pipelines, strict=True):
                connection.sendall(part)
                _replies(connection, len(pipeline), begin)
    return timed.seconds


def _replies(connection: socket.socket, count: int, begin: bytes) -> None:
    """Read so many lines, and nothing else."""
    got = bytearray()
    while got.count(b"\n") < count:
        part = connection.recv(65_536)
        if not part:
            raise ConnectionError("the server closed the connection")
        got += part
    if any(not line.startswith(begin) for line in got.splitlines()):
        raise ConnectionError(f"the server answered {bytes(got[:80])!r}")
