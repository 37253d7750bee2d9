"""How fast others are answered beside slow connections: ``python -m tests.server.slow_connections [SLOW] [ASKED]``.

Slow connections send a head, a body or trailers byte by byte, never read their answer, or send nothing at all.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from socket import socket
from typing import Any

import httpx

from tests.server.raw import connect

_POST = b"POST /state/counts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
_BEGINNINGS = [
    b"",
    b"GET /state HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
    _POST + b"content-length: 100000\r\n\r\n{",
    _POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx-slow: ",
    b"GET /state/counts?limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


@dataclass
class Measured:
    """The seconds within which 99 of 100 requests were answered, without and with slow connections beside them."""

    alone: float
    beside: float
    failed: int
    """The requests that were not answered with 200."""


class Slow:
    """Connections that send a byte each from time to time; one that the server has ended begins anew."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._connections = [self._begin(at) for at in range(count)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._trickle, daemon=True)
        self._thread.start()

    def _begin(self, at: int) -> socket:
        connection = connect(self._url)
        connection.sendall(_BEGINNINGS[at % len(_BEGINNINGS)])
        return connection

    def _trickle(self) -> None:
        while not self._over.wait(0.5):
            for at, connection in enumerate(self._connections):
                if self._over.is_set():
                    break
                try:
                    if at % len(_BEGINNINGS) in (1, 2, 3):
                        connection.sendall(b"a")
                except OSError:
                    connection.close()
                    self._connections[at] = self._begin(at)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()


def measure(slow: int, asked: int) -> Measured:
    """Ask a server in a child alone, and beside `slow` slow connections."""
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.server.fuzzed_server", f"{folder}/checkpoint"]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as server:
            assert server.stdout is not None and server.stdin is not None
            url = json.loads(server.stdout.readline())[0]
            with httpx.Client(base_url=url, timeout=30) as client:
                asked_of(client, asked)  # the first ones are slower
                alone, failed = asked_of(client, asked)
                beside_them = Slow(url, slow)
                beside, failed_beside = asked_of(client, asked)
                beside_them.close()
            server.stdin.close()
            server.wait(60)
    return Measured(alone, beside, failed + failed_beside)


def asked_of(client: httpx.Client, asked: int) -> tuple[float, int]:
    """Return the 99th of 100 times, and how many requests were not answered."""
    times, failed = [], 0
    for at in range(asked):
        began = time.perf_counter()
        answer: Any = client.get("/state/counts/dog") if at % 2 else client.post("/drpc/count", json={"args": ["dog"]})
        times.append(time.perf_counter() - began)
        failed += answer.status_code != 200
    return sorted(times)[int(len(times) * 0.99)], failed


if __name__ == "__main__":
    told = measure(*[*map(int, sys.argv[1:]), *[2_000, 2_000][len(sys.argv) - 1 :]])
    print(f"p99 alone {told.alone * 1000:.1f} ms, beside slow ones {told.beside * 1000:.1f} ms; {told.failed} failed")
