"""A TCP proxy that breaks connections where a test says so: a server that does the work, and an answer that is lost."""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_QUIET = 0.15
"""Seconds without a reply after which a server has done what it was sent."""


class Proxy:
    """Stands between clients and a server on this machine. One fault is armed at a time and strikes once.

    `tls`: clients speak TLS with the proxy, which speaks plainly with the server.

    >>> with Proxy(6379) as proxy:  # doctest: +SKIP
    ...     proxy.lose_reply(b"EVALSHA")
    ...     redis.Redis(port=proxy.port).incr("n")
    """

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self._target, self._tls = target, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.struck = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._fault: Callable[[bytes], int | None] | None = None
        self._lossy = False
        self._open = threading.Event()
        self._open.set()
        self._pairs: list[_Pair] = []
        self._thread = threading.Thread(target=self._accept, daemon=True, name="proxy")

    # --- faults ------------------------------------------------------------------------------------------------

    def lose_reply(self, match: bytes) -> None:
        """Deliver the next request with these bytes to the server, then cut its client off without a reply."""
        with self._lock:
            self._fault, self._lossy = (lambda data: len(data) if match in data else None), True

    def cut_request(self, match: bytes, after: int) -> None:
        """Cut the next request with these bytes after `after` bytes.

        The count includes what follows on that connection. Both sides are cut off once the server has done what it got.
        """
        seen = 0
        started = False

        def fault(data: bytes) -> int | None:
            nonlocal seen, started
            started = started or match in data
            if not started:
                return None
            seen += len(data)
            return None if seen < after else len(data) - (seen - after)

        with self._lock:
            self._fault, self._lossy = fault, False

    def hold(self) -> None:
        """From now on nothing goes to the server, until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Let what was held go."""
        self._open.set()

    def _strike(self, data: bytes) -> tuple[bytes, bool]:
        """Return the part of this data that is passed on, and whether the connection ends there."""
        with self._lock:
            at = None if self._fault is None else self._fault(data)
            if at is None:
                return data, False
            self._fault, self.struck = None, self.struck + 1
            return data[:at], True

    # --- plumbing ----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._tls is not None:
                    client = self._tls.wrap_socket(client, server_side=True)
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self.connections += 1
            pair = _Pair(client, server)
            self._pairs.append(pair)
            threading.Thread(target=self._forward, args=(pair,), daemon=True, name="proxy to server").start()
            threading.Thread(target=pair.backward, daemon=True, name="proxy to client").start()

    def _forward(self, pair: "_Pair") -> None:
        with suppress(OSError):
            while data := pair.client.recv(65536):
                self._open.wait()
                part, last = self._strike(data)
                if last:
                    pair.mute.set()
                pair.server.sendall(part)
                if last:
                    self._drain(pair)
                    break
        pair.close()

    def _drain(self, pair: "_Pair") -> None:
        """Wait until the server is quiet; until then send on what the client still sends, if it is to arrive."""
        pair.heard = time.monotonic()
        pair.client.settimeout(_QUIET)
        while time.monotonic() - pair.heard < _QUIET:
            with suppress(TimeoutError):
                data = pair.client.recv(65536)
                if not data:
                    return
                if self._lossy:
                    pair.server.sendall(data)
                    pair.heard = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._open.set()
        for pair in self._pairs:
            pair.close()


class _Pair:
    """A client's connection and its counterpart."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.mute = threading.Event()
        self.heard = time.monotonic()

    def backward(self) -> None:
        with suppress(OSError):
            while data := self.server.recv(65536):
                self.heard = time.monotonic()
                if not self.mute.is_set():
                    self.client.sendall(data)
        self.close()

    def close(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
