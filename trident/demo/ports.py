"""Free ports on loopback for servers that are killed and restarted at the same address."""

import random
import socket

_LOWEST, _ABOVE = 10_000, 22_000
"""Bounds below the range from which systems assign ports to clients. A client might otherwise get a stopped server's
port."""


def free_port(beside: int = 0) -> int:
    """Return a port on 127.0.0.1 on which no process listens.

    If `beside` is given, the port that is `beside` higher is free, too.

    >>> 10_000 <= free_port() < 22_000
    True
    """
    while True:
        port = random.SystemRandom().randrange(_LOWEST, _ABOVE)
        if all(_is_free(each) for each in {port, port + beside}):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as listening:
        try:
            listening.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
