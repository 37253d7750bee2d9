"""Connections to one server: requests of many commands, their replies, and what goes wrong with them.

redis-py opens the connection (authentication, TLS) and parses replies. Its retries are off: it would send a write
again whose reply was lost, and tell nobody.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from trident.base.errors import StateError, StateFullError, StateOwnedError, StateUnavailableError
from trident_state.redis.scripts import ALL
from trident_state.redis.wire import command, packets

Reply = Any


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and how long to wait for it."""

    url: str
    connect_timeout: float
    socket_timeout: float

    def connection(self) -> Any:
        """A new connection, not opened yet."""
        pool = redis.ConnectionPool.from_url(
            self.url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            retry_on_timeout=False,
            health_check_interval=0,
            decode_responses=False,
            socket_connect_timeout=self.connect_timeout,
            socket_timeout=self.socket_timeout,
        )
        return pool.make_connection()

    @property
    def shown(self) -> str:
        """The url without its secrets."""
        return redacted(self.url)


def redacted(url: str) -> str:
    """A url whose secrets are stars.

    >>> redacted("rediss://me:secret@host:6379/0?ssl_password=x")
    'rediss://me:***@host:6379/0?ssl_password=***'
    """
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    query = urlencode([(k, "***" if "password" in k.lower() else v) for k, v in parse_qsl(parts.query)], safe="*/")
    return f"{parts.scheme}://{user}{':***' if colon else ''}{at}{host}{parts.path}{'?' if query else ''}{query}"


class Link:
    """One connection, opened when it is first used, and again after a failure. One thread at a time."""

    def __init__(self, address: Address, where: str, scripts: bool = False) -> None:
        self._address, self._where, self._scripts = address, where, scripts
        self._connection: Any = None
        self.used = False

    def exchange(self, commands: Iterable[bytes]) -> list[Reply]:
        """Send commands in one go and read a reply for each. A command's error is a reply (`redis.ResponseError`).

        Raises StateUnavailableError where the outcome is unknown.
        """
        count = 0

        def counted() -> Iterator[bytes]:
            nonlocal count
            for packed in commands:
                count += 1
                yield packed

        try:
            self._open()
            self._connection.send_packed_command(packets(counted()))
            replies = [self._reply() for _ in range(count)]
        except (redis.AuthenticationError, redis.ResponseError) as error:  # while connecting
            self.close()
            raise failure(self._where, self._address, error) from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            self.close()
            raise unavailable(self._where, self._address, error) from error
        except BaseException:
            self.close()  # what it would read next is the reply to something else
            raise
        self.used = True
        return replies

    def load(self) -> None:
        """Tell the server the scripts; a restart forgets them."""
        for reply in self.exchange([command(b"SCRIPT", b"LOAD", script.source) for script in ALL]):
            self.demand(reply)

    def demand(self, reply: Reply) -> Reply:
        """The reply, unless it is an error."""
        return demand(reply, self._where, self._address)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection, self.used = self._connection, None, False
        if connection is not None:
            with suppress(redis.RedisError, OSError):  # it is broken already
                connection.disconnect()

    def _open(self) -> None:
        if self._connection is not None:
            return
        self._connection = self._address.connection()
        self._connection.connect()
        if self._scripts:
            self.load()

    def _reply(self) -> Reply:
        try:
            return self._connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error


class Links:
    """Connections for readers, apart from the writer's; any thread."""

    def __init__(self, address: Address, where: str) -> None:
        self._address, self._where = address, where
        self._idle: deque[Link] = deque()
        self._closed = False

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Like `Link.exchange`, and once more on a new connection where one that had been idle is gone."""
        try:
            link = self._idle.pop()
        except IndexError:
            link = Link(self._address, self._where)
        try:
            idled = link.used
            try:
                replies = link.exchange(commands)
            except StateUnavailableError:
                if not idled:
                    raise
                replies = link.exchange(commands)
        except BaseException:
            link.close()
            raise
        self._idle.append(link)
        if self._closed:
            self.close()
        for reply in replies:
            self.demand(reply)
        return replies

    def demand(self, reply: Reply) -> Reply:
        """The reply, unless it is an error."""
        return demand(reply, self._where, self._address)

    def close(self) -> None:
        """Close what is idle now, and whatever comes back later."""
        self._closed = True
        while self._idle:
            with suppress(IndexError):  # another thread took it
                self._idle.pop().close()


def demand(reply: Reply, where: str, address: Address) -> Reply:
    """The reply, unless it is an error."""
    if isinstance(reply, redis.RedisError):
        raise failure(where, address, reply)
    return reply


def unavailable(where: str, address: Address, reason: object) -> StateUnavailableError:
    """The server cannot be reached, or did not answer."""
    return StateUnavailableError(
        f"{where}: the server at {address.shown} does not answer ({reason}); "
        f"commits wait for it. Check that it runs, and the address"
    )


_UNAVAILABLE = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK")
_FULL = ("OOM", "MISCONF")
_REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM")


def failure(where: str, address: Address, error: redis.RedisError) -> StateError:
    """What an error reply of the server means to a state."""
    said = str(error)
    words = set(said.replace(":", " ").split())
    if isinstance(error, redis.exceptions.ReadOnlyError) or words & set(_UNAVAILABLE):
        return unavailable(where, address, said)
    if isinstance(error, redis.exceptions.OutOfMemoryError) or words & set(_FULL):
        return StateFullError(
            f"{where}: the server at {address.shown} takes no more ({said}); nothing is half-written and commits wait. "
            f"Raise its maxmemory, free memory or disk"
        )
    if "WRONGTYPE" in words:
        return StateOwnedError(
            f"{where}: a key of this state's place at {address.shown} is not ours ({said}). "
            f"Choose another prefix, or move the foreign key away"
        )
    if words & set(_REFUSED) or isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return StateError(
            f"{where}: the server at {address.shown} refuses us ({said}). "
            f"Check user and password in the url, and that the user may run scripts on this prefix"
        )
    return StateError(f"{where}: the server at {address.shown} answered {said}")
