"""Requests as bytes on a socket, for what no well-behaved client sends."""

import socket
from typing import NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """The status of an answer (0: none came), its head and its body."""

    status: int
    head: str
    body: bytes


def connect(url: str, timeout: float = 20) -> socket.socket:
    place = urlsplit(url)
    assert place.hostname is not None and place.port is not None
    return socket.create_connection((place.hostname, place.port), timeout=timeout)


def ask(
    url: str, path: str, method: str = "GET", *headers: str, host: str | None = None, timeout: float = 20
) -> Answer:
    """Send one request, and return what comes until the server closes, or sends nothing for `timeout` seconds."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host or urlsplit(url).netloc}", "connection: close", *headers]
    with connect(url, timeout) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
        return read(connection)


def read(connection: socket.socket, first: bytes = b"", idle: float | None = None) -> Answer:
    """Return what comes on a connection until its end, or until nothing comes for `idle` seconds.

    `first`: what was read before.
    """
    content = first
    if idle is not None:
        connection.settimeout(idle)
    try:
        while piece := connection.recv(65536):
            content += piece
    except (TimeoutError, ConnectionError):
        pass
    head, _, body = content.partition(b"\r\n\r\n")
    return Answer(int(head.split(b" ")[1]) if head.startswith(b"HTTP/") else 0, head.decode("latin-1"), body)
