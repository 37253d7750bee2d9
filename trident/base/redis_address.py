"""Addresses of Redis servers: a url, or the environment variable or file that holds the url.

A url may contain a password: with a variable or file, no program has to hold it, and no message shows it.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from trident.base.secret_references import SOURCES, read_secret

SCHEMES = ("redis://", "rediss://", "unix://")

_FILES = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"})

_URL = re.compile(r"(?:jdbc:)?[a-z][\w+.-]*://", re.IGNORECASE)
_SECRET = r"[^=&;?\s]*(?:password|passwd|pwd|secret)[^=&;?\s]*"
_OPTION = re.compile(rf"([?&;\s]{_SECRET}=)[^&]*", re.IGNORECASE)
_ASSIGNED = re.compile(rf"({_SECRET}\s*=\s*)(?:'(?:\\.|[^'\\])*'?|\S+)", re.IGNORECASE | re.DOTALL)
"""An assignment to a password, in the options of a url or in another text, such as ``host=db password=secret``."""

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, or of some servers of a cluster, with the timeouts (seconds) of its connections.

    `url` begins with one of `SCHEMES`; if it names several ``host:port`` with commas between them, they are tried one
    after the other. Or `url` is ``env:NAME`` or ``file:path``: then the environment variable or the file holds the url,
    and is read again for each connection. With an `endpoint` (host, port) the address is that of another server of the
    same cluster, reached with the user and options of `url`.
    """

    url: str
    connect_timeout: float
    socket_timeout: float
    endpoint: Endpoint | None = None

    def connection(self) -> Any:
        """Return a new connection of redis-py that is not opened yet.

        Raises ValueError if the url cannot be read or understood, or names a file that does not exist.
        """
        pool = redis.ConnectionPool.from_url(
            read_url(self.url),
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            retry_on_timeout=False,
            health_check_interval=0,
            decode_responses=False,
            socket_connect_timeout=self.connect_timeout,
            socket_timeout=self.socket_timeout,
        )
        if self.endpoint is not None:
            if pool.connection_kwargs.pop("path", None) is not None:  # the url names a socket file, the endpoint a host
                pool.connection_class = redis.Connection
            pool.connection_kwargs.update(host=self.endpoint[0], port=self.endpoint[1])
        for option in _FILES & pool.connection_kwargs.keys():
            file = pool.connection_kwargs[option]
            if file and not Path(file).exists():
                raise ValueError(f"{option}={file} in the url: there is no such file")
        try:
            return pool.make_connection()
        except TypeError as error:
            unknown = re.search(r"keyword argument '(\w+)'", str(error))
            if unknown is None:
                raise
            raise ValueError(f"the url has an option {unknown[1]!r} that redis-py does not know") from None

    def seeds(self) -> list["Address"]:
        """Return an address for each server that the url names."""
        parts = urlsplit(read_url(self.url))
        login, at, hosts = parts.netloc.rpartition("@")
        if "," not in hosts:
            return [self]
        return [replace(self, url=parts._replace(netloc=login + at + host).geturl()) for host in hosts.split(",")]

    def at(self, host: str | None, port: int) -> "Address":
        """Return the address of another server of the same cluster; `host` None means the host of this address."""
        if host is None:
            host = self.endpoint[0] if self.endpoint else str(urlsplit(read_url(self.url)).hostname or "localhost")
        return replace(self, endpoint=(host, port))

    @property
    def shown(self) -> str:
        """The address as text for messages: the url with its secrets hidden, or ``host:port`` if it has an endpoint."""
        return redacted(self.url) if self.endpoint is None else f"{self.endpoint[0]}:{self.endpoint[1]}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def read_url(source: str) -> str:
    """Return the url in `source` (``env:NAME`` or ``file:path``); `source` itself if it is a url.

    Raises ValueError if the variable or file does not exist or holds no url; the message never shows the content.

    >>> read_url("redis://localhost")
    'redis://localhost'
    >>> read_url("env:NOT_SET_ANYWHERE")
    Traceback (most recent call last):
    ValueError: url='env:NOT_SET_ANYWHERE': the environment variable NOT_SET_ANYWHERE is not set
    """
    if not source.startswith(SOURCES):
        return source
    url = read_secret("url", source, ValueError)
    if not url.startswith(SCHEMES):
        raise ValueError(f"{source} does not contain a url; expected redis://, rediss:// (TLS) or unix://")
    if fault := _fault(url):
        raise ValueError(f"{source}: in its url: {fault}")
    return url


def check_url(url: str) -> None:
    """Raise TypeError or ValueError for a url that begins with none of `SCHEMES` and `SOURCES`, or is not valid."""
    if not isinstance(url, str):
        raise TypeError(
            f"url={shown_url(url)}: expected text, redis://host:6379/0, or env:NAME or file:path that contains it"
        )
    if not url.startswith((*SCHEMES, *SOURCES)) or url in SOURCES:
        raise ValueError(
            f"url {redacted(url)!r}: expected redis://, rediss:// (TLS) or unix://, or env:NAME or file:path that "
            f"contains the url"
        )
    if not url.startswith(SOURCES) and (fault := _fault(url)):
        raise ValueError(f"url {redacted(url)!r}: {fault}")


def _fault(url: str) -> str | None:
    """Return the fault in a url; None if it is valid.

    The faults found here are those that redis-py would ignore, or would report together with a part of the password.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "unix":
        return None
    parts = urlsplit(url)
    if "@" in parts.path or parts.fragment:
        return "in user and password write / as %2F, ? as %3F, # as %23 and @ as %40"
    if not re.fullmatch(r"/?\d*/?", parts.path):
        return "the database is a number, redis://host:6379/0"
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not all(re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]*)(:\d{1,5})?", host) for host in hosts):
        return "a server is host:port; separate several with commas"
    return None


def redacted(url: str) -> str:
    """Return a url with stars instead of its secrets.

    In a text that is not a url, possible secrets are hidden: everything before the last @, and passwords by name.

    >>> redacted("rediss://me:secret@host:6379/0?ssl_password=x")
    'rediss://me:***@host:6379/0?ssl_password=***'
    >>> redacted("env:REDIS_URL")
    'env:REDIS_URL'
    >>> redacted("me:secret@host:6379")
    '***@host:6379'
    >>> redacted("host=db user=me password=secret")
    'host=db user=me password=***'
    """
    if url.startswith(SOURCES):
        return url
    beginning = _URL.match(url)
    scheme = beginning[0] if beginning else ""
    rest = url[len(scheme) :]
    hidden = (_OPTION if beginning else _ASSIGNED).sub(r"\1***", rest)
    if "@" not in rest:
        return scheme + hidden
    if "@" not in hidden:  # the @ is in the hidden part: the text before it may belong to a password, too
        return f"{scheme}***"
    login, _, host = hidden.rpartition("@")  # the last @, so that a password with an unescaped @ is hidden too
    user, colon, _ = login.partition(":")
    return f"{scheme}{user}{':***' if colon else ''}@{host}" if beginning else f"***@{host}"


def shown_url(url: object) -> str:
    """Return an argument `url` as messages show it: a text without its secrets; for other objects the type."""
    if isinstance(url, str):
        return repr(redacted(url))
    if isinstance(url, int | float):
        return f"{url!r} ({type(url).__name__})"
    return "None" if url is None else f"({type(url).__name__})"
