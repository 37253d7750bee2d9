"""A proxy that knows where requests begin and end: it lets a server do none, a part or all of one, and then cuts off.

Unlike `tests.support.proxy` it waits for replies and not for silence, so that a fault costs no time.
"""

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import hiredis


@dataclass(frozen=True, slots=True)
class Cut:
    """The point where a request is cut off.

    The server gets `whole` commands, and half of the next one if `torn`. Then `then` is called, and the client
    loses its connection.
    """

    whole: int
    torn: bool = False
    then: Callable[[], object] | None = None


Ask = Callable[[Sequence[bytes]], Cut | None]
"""Told of every request, as its commands; says where to cut it off. A new connection is a request of no commands."""


class RequestProxy:
    """Stands between clients and a server on this machine, and asks before each request.

    >>> with RequestProxy(6379, lambda commands: None) as proxy:  # doctest: +SKIP
    ...     redis.Redis(port=proxy.port).ping()
    """

    def __init__(self, target: int, ask: Ask) -> None:
        self._target = target
        self.ask = ask
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True, name="request proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True, name="request proxy serves").start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._target))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open |= {client, server}
        try:
            cut = self.ask(())
            if cut is None:
                cut = self._forward(client, server)
            if cut is not None:
                if cut.then is not None:
                    cut.then()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, not FIN
        except OSError:
            pass
        finally:
            self._open -= {client, server}
            client.close()
            server.close()

    def _forward(self, client: socket.socket, server: socket.socket) -> Cut | None:
        """Request after request, until one is cut off or the client has gone."""
        waiting = b""
        while data := client.recv(1 << 20):
            waiting += data
            commands, rest = split(waiting)
            if rest:
                continue
            waiting = b""
            cut = self.ask(commands)
            whole = len(commands) if cut is None else cut.whole
            torn = commands[whole][: len(commands[whole]) // 2] if cut is not None and cut.torn else b""
            server.sendall(b"".join(commands[:whole]) + torn)
            replies = _replies(server, whole)
            if cut is not None:
                return cut
            client.sendall(replies)
        return None


def _replies(server: socket.socket, count: int) -> bytes:
    """So many replies, as they came."""
    reader, data_so_far = hiredis.Reader(), b""
    while count:
        data = server.recv(1 << 20)
        if not data:
            raise ConnectionError("the server now shows an earlier time")
        data_so_far += data
        reader.feed(data)
        while count and reader.gets() is not False:
            count -= 1
    return data_so_far


def split(data: bytes) -> tuple[list[bytes], bytes]:
    r"""Split what a client sent into whole commands and the rest.

    >>> split(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI")
    ([b'*1\r\n$4\r\nPING\r\n'], b'*1\r\n$4\r\nPI')
    """
    commands, at = [], 0
    while (end := _end(data, at)) is not None:
        commands.append(data[at:end])
        at = end
    return commands, data[at:]


def words(command: bytes) -> list[bytes]:
    """Return the arguments of one whole command, its name first."""
    reader = hiredis.Reader()
    reader.feed(command)
    found: list[bytes] = reader.gets()
    return found


def _end(data: bytes, at: int) -> int | None:
    """Where the command that begins here ends; None if that is not there yet."""
    line = _line(data, at, b"*")
    if line is None:
        return None
    count, at = line
    for _ in range(count):
        line = _line(data, at, b"$")
        if line is None or (at := line[1] + line[0] + 2) > len(data):
            return None
    return at


def _line(data: bytes, at: int, mark: bytes) -> tuple[int, int] | None:
    """Return the number on the line that begins here, and where the next line begins."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    assert data[at : at + 1] == mark, f"no request: {data[at : at + 40]!r}"
    return int(data[at + 1 : end]), end + 2
