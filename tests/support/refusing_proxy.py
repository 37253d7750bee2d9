"""A proxy for HTTP before a server on this machine, which refuses every nth request, or leaves it without a reply.

It is a process: deltalake's file system holds the lock of Python's interpreter while it waits for a reply.

Usage: python -m tests.support.refusing_proxy TARGET EVERY REFUSAL. Prints its port, and how many requests it has
passed on and not, as JSON, for each line that it reads.
"""

import http.client
import itertools
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

Refusal = Literal["refuses", "no reply"]
"""refuses: the server does not see the request, and the client gets a 503. no reply: the server does it, and the
connection ends without a word."""

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_OF_CONNECTIONS = ("connection", "transfer-encoding", "content-length")


class RefusingProxy:
    """Passes requests on to a port, except every nth one.

    >>> with RefusingProxy(9000, 3, "refuses") as proxy:  # doctest: +SKIP
    ...     urlopen(proxy.endpoint)
    """

    def __init__(self, target: int, every: int, refusal: Refusal) -> None:
        command = [sys.executable, "-m", "tests.support.refusing_proxy", str(target), str(every), refusal]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = f"http://127.0.0.1:{self._line()}"

    def counts(self) -> dict[str, int]:
        """Return the number of requests that were passed on, and of those that were not."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, int] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target, every, refusal = 0, 1, ""
    numbers = itertools.count(1)
    counts = Counter[str]()

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        refused = next(self.numbers) % self.every == 0
        self.counts["refused" if refused else "passed"] += 1
        if refused and self.refusal == "refuses":
            self._reply(503, [("Content-Type", "application/xml")], _SLOW_DOWN)
            return
        server = http.client.HTTPConnection("127.0.0.1", self.target, timeout=30)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            server.putheader(name, value)
        server.endheaders(body)
        reply = server.getresponse()
        content = reply.read()
        server.close()
        if not refused:
            self._reply(reply.status, reply.getheaders(), content)
            return
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        of_head = next((value for name, value in headers if name.lower() == "content-length"), "0")
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_CONNECTIONS:
                self.send_header(name, value)
        self.send_header("Content-Length", of_head if self.command == "HEAD" else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main(target: int, every: int, refusal: str) -> None:
    _Handler.target, _Handler.every, _Handler.refusal = target, every, refusal
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    for _ in sys.stdin:
        print(json.dumps(_Handler.counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
