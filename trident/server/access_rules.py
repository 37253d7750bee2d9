"""The check of access to a server: tokens, and the host names under which the server answers."""

import hmac
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.secret_references import read_secret
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
    """Return whether a server that is bound to `host` can be reached only from this machine.

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
    """The DRPC functions and states that a token allows. It allows nothing else.

    Parameters
    ----------
    functions, states : collection of str
        Their names. A function may read any state.
    tags : bool
        Whether the token may list, make and drop tags of these states.

    Examples
    --------
    >>> Rights(functions=["count"])
    Rights(functions=('count',), states=(), tags=False)
    """

    functions: Collection[str] = ()
    states: Collection[str] = ()
    tags: bool = False

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
        raise RequestError(403, "Forbidden", f"this token allows only: {', '.join(allowed) or 'nothing'}")


@dataclass(frozen=True)
class Grant:
    """The rights of a request, which depend on its token."""

    holder: str
    """An id of the token, by which places are shared among tokens.

    It is a number, so that no message contains a token.
    """
    rights: Rights | None
    """The rights of a limited token; None: all rights."""

    @property
    def isLimited(self) -> bool:
        """True for a client with limited rights: it gets no information about the server itself."""
        return self.rights is not None

    def check(self, function: str | None, state: str | None) -> None:
        """Raise RequestError unless a request for this function or state, or for neither, may be answered."""
        if self.rights is not None:
            self.rights.check(function, state)

    def check_any_state(self) -> None:
        """Raise RequestError unless requests for at least one state may be answered."""
        if self.rights is not None and not self.rights.states:
            self.rights.check(None, None)

    def check_tags(self) -> None:
        """Raise RequestError unless tags may be listed, made and dropped: those that `allows_tag` accepts."""
        if self.rights is not None and not self.rights.tags:
            self.rights.check(None, None)

    def allows_tag(self, states: Collection[str]) -> bool:
        """Return whether a tag of these states may be seen, made and dropped."""
        return self.rights is None or (self.rights.tags and set(states) <= set(self.rights.states))


NOBODY = Grant("nobody", Rights())
"""The grant of an unknown request."""


class AccessRules:
    """Checks each request: its token and its Host header. `limited` are tokens with limited rights.

    A web page that a user visits may send requests to this machine under another name (DNS rebinding), so a server
    answers only under the names that it knows.
    """

    def __init__(
        self, token: bytes | None, hosts: Collection[str], limited: Mapping[bytes, Rights] | None = None
    ) -> None:
        self._token = token
        self._limited = {
            secret: Grant(f"token {n}", rights) for n, (secret, rights) in enumerate((limited or {}).items(), 1)
        }
        self._all = Grant("the server's token", None)
        self._hosts = {host.lower() for host in hosts}

    @property
    def needsToken(self) -> bool:
        """Return whether a request must bring a token."""
        return self._token is not None or bool(self._limited)

    @property
    def hasSeveralTokens(self) -> bool:
        """Return whether clients with different tokens share the server."""
        return len(self._limited) + (self._token is not None) > 1

    def check_names(self, functions: Collection[str], states: Collection[str]) -> None:
        """Raise TopologyError if rights name a function or a state that the topology does not have.

        Otherwise the holder of such a token would find out only when its requests are refused.
        """
        for grant in self._limited.values():
            assert grant.rights is not None
            for what, named, there in (
                ("function", grant.rights.functions, functions),
                ("state", grant.rights.states, states),
            ):
                for name in named:
                    if name not in there:
                        known = ", ".join(sorted(there)) or "none"
                        raise TopologyError(
                            f"Rights({what}s=...): the topology has no {what} {name!r}{did_you_mean(name, there)}; "
                            f"the {what}s are: {known}"
                        )

    def knows(self, host: str) -> bool:
        """Return whether the server answers under this Host."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return "*" in self._hosts or name.strip("[]").lower() in self._hosts

    def check_host(self, host: str) -> None:
        """Raise RequestError unless the server answers under the name in this Host header."""
        if not self.knows(host):
            raise RequestError(421, "HostNotAllowed", "this Host is not allowed; see allowedHosts")

    def grant_if_any(self, authorization: str | None) -> Grant:
        """Return the permissions of a request. A request without a token of this server gets no permissions."""
        try:
            return self.grant_of(authorization)
        except RequestError:
            return NOBODY

    def grant_of(self, authorization: str | None) -> Grant:
        """Return the permissions of a request. Raises RequestError if it brings no token of this server."""
        if not self.needsToken:
            return self._all
        scheme, _, given = (authorization or "").partition(" ")
        secret = given.strip().encode() if scheme.lower() == "bearer" else b""
        # All tokens are compared, so that the duration does not reveal which token matched.
        grants = [grant for token, grant in self._limited.items() if hmac.compare_digest(secret, token)]
        if self._token is not None and hmac.compare_digest(secret, self._token):
            return self._all
        if not grants:
            raise RequestError(
                401,
                "Unauthorized",
                "give the server's token: Authorization: Bearer ...",
                {"WWW-Authenticate": "Bearer"},
            )
        return grants[0]
