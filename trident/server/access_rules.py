"""The check of who may use a server: tokens, and the host names under which the server answers."""

import hmac
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trident.base.errors import TopologyError
from trident.base.secrets import read_secret
from trident.server.errors import RequestError

_SHORTEST = 16
"""The fewest characters of a token: 16 characters from an alphabet of 64 are 96 bits."""


def read_token(token: str | None) -> bytes | None:
    """Return a token. `token` may be ``env:NAME`` or ``file:path``. Raises TopologyError if the token is too short."""
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


@dataclass(frozen=True)
class Rights:
    """The DRPC functions and states that a token may ask a server for. It may ask for nothing else.

    Parameters
    ----------
    functions, states : collection of str
        Their names. A function may read any state.

    Examples
    --------
    >>> Rights(functions=["count"])
    Rights(functions=('count',), states=())
    """

    functions: Collection[str] = ()
    states: Collection[str] = ()

    def __post_init__(self) -> None:
        for what in ("functions", "states"):
            names = getattr(self, what)
            if isinstance(names, str):
                raise TopologyError(f"Rights({what}={names!r}): expected a collection of names, such as [{names!r}]")
            object.__setattr__(self, what, tuple(names))

    def check(self, function: str | None, state: str | None) -> None:
        """Raise RequestError unless a request for this function or state may be answered."""
        if function in self.functions or state in self.states:
            return
        allowed = [*(f"POST /drpc/{name}" for name in self.functions), *(f"/state/{name}" for name in self.states)]
        raise RequestError(403, "Forbidden", f"this token may ask only: {', '.join(allowed) or 'nothing'}")


class AccessRules:
    """Checks each request: its token and its Host header. `limited` are tokens with limited rights.

    A web page that a user visits may send requests to this machine under a name of its own (DNS rebinding): so a
    server answers only under the names that it knows.
    """

    def __init__(
        self, token: bytes | None, hosts: Collection[str], limited: Mapping[bytes, Rights] | None = None
    ) -> None:
        self._token, self._limited = token, dict(limited or {})
        self._hosts = {host.lower() for host in hosts}

    @property
    def needsToken(self) -> bool:
        """Return whether a request must bring a token."""
        return self._token is not None or bool(self._limited)

    def check(self, host: str, authorization: str | None) -> Rights | None:
        """Return the rights of a request; None: all rights. Raises RequestError if the request must not be answered."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if "*" not in self._hosts and name.strip("[]").lower() not in self._hosts:
            raise RequestError(421, "HostNotAllowed", "the server does not answer under this Host; see allowedHosts")
        if not self.needsToken:
            return None
        scheme, _, given = (authorization or "").partition(" ")
        secret = given.strip().encode() if scheme.lower() == "bearer" else b""
        # All are compared, so that the time tells nothing of which one it is.
        rights = [held for token, held in self._limited.items() if hmac.compare_digest(secret, token)]
        if self._token is not None and hmac.compare_digest(secret, self._token):
            return None
        if not rights:
            raise RequestError(
                401,
                "Unauthorized",
                "give the server's token: Authorization: Bearer ...",
                {"WWW-Authenticate": "Bearer"},
            )
        return rights[0]
