"""Who may ask: tokens, and the hosts under which a server answers."""

import hmac
import ipaddress
from collections.abc import Collection

from trident.base.errors import TopologyError
from trident.base.secrets import read_secret
from trident.server.errors import RequestError

_SHORTEST = 16
"""The fewest characters of a token: 16 of 64 kinds are 96 bits."""


def read_token(token: str | None) -> bytes | None:
    """Return a token, read from where ``env:NAME`` or ``file:path`` says. Raises TopologyError if it is too short."""
    if token is None:
        return None
    text = read_secret("token", token)
    if len(text) < _SHORTEST:
        raise TopologyError(f"the token has {len(text)} characters; give one of at least {_SHORTEST}")
    return text.encode()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that is bound to `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessRules:
    """Checks each request: its token, and its Host header.

    A web page that a user visits may send requests to this machine under a name of its own (DNS rebinding): so a
    server answers only under the names that it knows.
    """

    def __init__(self, token: bytes | None, hosts: Collection[str]) -> None:
        self._token = token
        self._hosts = {host.lower() for host in hosts}

    def check(self, host: str, authorization: str | None) -> None:
        """Raise RequestError if a request may not be answered."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if "*" not in self._hosts and name.strip("[]").lower() not in self._hosts:
            raise RequestError(421, "HostNotAllowed", "the server does not answer under this Host; see allowedHosts")
        if self._token is None:
            return
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            raise RequestError(
                401,
                "Unauthorized",
                "give the server's token: Authorization: Bearer ...",
                {"WWW-Authenticate": "Bearer"},
            )
