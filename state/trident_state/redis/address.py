"""Where a server is, and how one gets in: a url, or the place where a url stands, so that no program holds a secret."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SCHEMES = ("redis://", "rediss://", "unix://")
SOURCES = ("env:", "file:")

_FILES = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"})

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Address:
    """A server, or some of a cluster's, and how long to wait for it.

    `url` is one of `SCHEMES` (several ``host:port`` with commas between them are tried in turn), or ``env:NAME`` or
    ``file:path``, where the url stands; that is read anew for each connection. `endpoint`: another server of the same
    cluster, entered in the same way.
    """

    url: str
    connect_timeout: float
    socket_timeout: float
    endpoint: Endpoint | None = None

    def connection(self) -> Any:
        """A new connection, not opened yet. ValueError where the url cannot be had or read, or names what is not
        there."""
        pool = redis.ConnectionPool.from_url(
            url_at(self.url),
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            retry_on_timeout=False,
            health_check_interval=0,
            decode_responses=False,
            socket_connect_timeout=self.connect_timeout,
            socket_timeout=self.socket_timeout,
        )
        if self.endpoint is not None:
            if pool.connection_kwargs.pop("path", None) is not None:  # a socket file led to the cluster
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
        """The servers that the url names, one by one."""
        parts = urlsplit(url_at(self.url))
        login, at, hosts = parts.netloc.rpartition("@")
        if "," not in hosts:
            return [self]
        return [replace(self, url=parts._replace(netloc=login + at + host).geturl()) for host in hosts.split(",")]

    def at(self, host: str | None, port: int) -> "Address":
        """Another server of the same cluster; None where it has this one's host."""
        if host is None:
            host = self.endpoint[0] if self.endpoint else str(urlsplit(url_at(self.url)).hostname or "localhost")
        return replace(self, endpoint=(host, port))

    @property
    def shown(self) -> str:
        """The url without its secrets; of another server of a cluster, host and port."""
        return redacted(self.url) if self.endpoint is None else f"{self.endpoint[0]}:{self.endpoint[1]}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def url_at(place: str) -> str:
    """The url itself, wherever it stands. ValueError where it is not there or is no url; its text is never shown.

    >>> url_at("redis://localhost")
    'redis://localhost'
    >>> url_at("env:NOT_SET_ANYWHERE")
    Traceback (most recent call last):
    ValueError: env:NOT_SET_ANYWHERE: the environment variable NOT_SET_ANYWHERE is not set; put the server's url there
    """
    if place.startswith("env:"):
        name = place.removeprefix("env:")
        if name not in os.environ:
            raise ValueError(f"{place}: the environment variable {name} is not set; put the server's url there")
        url = os.environ[name]
    elif place.startswith("file:"):
        try:
            url = Path(place.removeprefix("file:")).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ValueError(f"{place}: the file with the server's url cannot be read ({reason})") from None
    else:
        return place
    url = url.strip()
    if not url.startswith(SCHEMES):
        raise ValueError(f"{place}: what stands there is no url; expected redis://, rediss:// (TLS) or unix://")
    if wrong := _wrong(url):
        raise ValueError(f"{place}: the url that stands there: {wrong}")
    return url


def check_url(url: str) -> None:
    """ValueError where this is neither a url of ours nor the place of one."""
    if not isinstance(url, str):
        raise TypeError(f"url={url!r}: expected text, redis://host:6379/0, or env:NAME or file:path, where that stands")
    if not url.startswith((*SCHEMES, *SOURCES)) or url in SOURCES:
        raise ValueError(
            f"url {redacted(url)!r}: expected redis://, rediss:// (TLS) or unix://, or env:NAME or file:path, "
            f"where the url stands"
        )
    if not url.startswith(SOURCES) and (wrong := _wrong(url)):
        raise ValueError(f"url {redacted(url)!r}: {wrong}")


def _wrong(url: str) -> str | None:
    """What redis-py would pass over in silence, or tell together with a part of the password."""
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
        return "a server is host:port, several have commas between them"
    return None


def redacted(url: str) -> str:
    """A url whose secrets are stars.

    >>> redacted("rediss://me:secret@host:6379/0?ssl_password=x")
    'rediss://me:***@host:6379/0?ssl_password=***'
    >>> redacted("env:REDIS_URL")
    'env:REDIS_URL'
    """
    if url.startswith(SOURCES):
        return url
    url = re.sub(r"([?&][^=&]*password[^=&]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
    scheme, slashes, rest = url.partition("://")
    login, at, place = rest.rpartition("@")  # the last one, also where a password was not written as a url wants it
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}{':***' if colon else ''}{at}{place}"
