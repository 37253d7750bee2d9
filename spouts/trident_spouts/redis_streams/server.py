"""Reading from the servers at an address: a single server, or a cluster, whose servers know which server has a stream.

Only reads are sent, so every request may be sent again, after a lost connection or to another server.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import AskError, AuthenticationError, MovedError

from trident.base.errors import SourceUnreadableError
from trident.base.forked_child import in_child
from trident.base.redis_address import Address

Words = tuple[bytes | str | int, ...]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
_MOST_MOVES = 5
"""The number of redirections to other servers after which a stream counts as being moved."""

COMMANDS = "xrange, xinfo, exists, eval_ro and info"
"""The commands that the server's user must be allowed to call."""

_NOT_NOW = {"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "READONLY"}


class NotNowError(Exception):
    """A server answers, but cannot serve the request at present."""


class StreamServers:
    """The connections of one thread to the servers at an address, opened when they are first needed.

    `patience` (seconds): how long requests are sent again before SourceUnreadableError is raised.
    """

    def __init__(self, address: Address, patience: float) -> None:
        self._address, self._patience = address, patience
        self._open: dict[Address, Any] = {}
        self._homes: dict[str, Address] = {}
        """The server of each stream for which another server of the cluster has redirected a request."""
        self._known: dict[Address, None] = {}
        """All servers that redirections ever named, in order. They are tried if the servers in the url are gone."""
        self._turn = 0
        in_child(self, StreamServers.close)

    def ask(self, requests: Sequence[tuple[str, Words]], check: Callable[[list[Any]], None] | None = None) -> list[Any]:
        """Send requests, each with its stream, and return one reply for each.

        `check` is called with the replies; if it raises NotNowError, all requests are sent again later. Raises
        SourceUnreadableError if a server refuses a request, or `patience` has passed.
        """
        until, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                replies = self._exchange(requests)
                if check is not None:
                    check(replies)
                return replies
            except AuthenticationError as error:
                self.close()
                raise self._error(f"rejects the login ({error}). Check user and password in the url") from error
            except SourceUnreadableError:  # before OSError, because it is also an OSError
                self.close()
                raise
            except (redis.ConnectionError, redis.TimeoutError, OSError, NotNowError) as error:
                self.close()
                self._turn += 1
                if time.monotonic() + pause > until:
                    raise self._error(
                        f"cannot be read, after {self._patience:g} s of trying ({error}). Check the address, and "
                        f"that the server runs; retrySecs= sets how long to wait for it"
                    ) from error
            except BaseException:
                self.close()
                raise
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def close(self) -> None:
        """Close all connections, and forget which server has which stream."""
        opened, self._open, self._homes = self._open, {}, {}
        for connection in opened.values():
            with suppress(redis.RedisError, OSError):  # the connection is broken already
                connection.disconnect()

    def _exchange(self, requests: Sequence[tuple[str, Words]]) -> list[Any]:
        """Send every request to the server of its stream, all before the first reply is read."""
        replies: list[Any] = [None] * len(requests)
        waiting = list(range(len(requests)))
        for _ in range(_MOST_MOVES):
            by_server: dict[Address, list[int]] = {}
            for number in waiting:
                by_server.setdefault(self._server(requests[number][0]), []).append(number)
            for server, numbers in by_server.items():
                connection = self._connection(server)
                connection.send_packed_command(connection.pack_commands([requests[number][1] for number in numbers]))
            for server, numbers in by_server.items():
                for number in numbers:
                    replies[number] = _reply(self._open[server])
            for server, numbers in by_server.items():
                for number in numbers:
                    replies[number] = self._followed(requests[number], replies[number], server)
            waiting = [number for number in waiting if isinstance(replies[number], MovedError)]
            if not waiting:
                for reply in replies:
                    self._check(reply)
                return replies
        raise NotNowError(f"the cluster is moving the stream {requests[waiting[0]][0]!r}")

    def _followed(self, request: tuple[str, Words], reply: Any, asked: Address) -> Any:
        """Return the reply. Follow an ASK redirection. After MOVED, record the stream's server and return the error."""
        if not isinstance(reply, AskError):  # MovedError is a subclass
            return reply
        server = asked.at(reply.host or None, int(reply.port))
        self._known[server] = None
        if isinstance(reply, MovedError):
            self._homes[request[0]] = server
            return reply
        connection = self._connection(server)
        connection.send_packed_command(connection.pack_commands([("ASKING",), request[1]]))
        _reply(connection)
        return _reply(connection)

    def _server(self, stream: str) -> Address:
        if (home := self._homes.get(stream)) is not None:
            return home
        try:
            entries = [*self._address.seeds(), *self._known]
        except ValueError as error:
            raise SourceUnreadableError(f"RedisStreamSpout: {error}") from error
        return entries[self._turn % len(entries)]

    def _connection(self, server: Address) -> Any:
        if (connection := self._open.get(server)) is None:
            try:
                connection = server.connection()
            except (TypeError, ValueError) as error:  # TypeError: the url has an option that does not apply
                raise SourceUnreadableError(f"RedisStreamSpout: {error}") from error
            self._open[server] = connection  # stored before it connects, so that `close` finds it
            try:
                connection.connect()
            except redis.ResponseError as error:
                self._check(error)
                raise
        return connection

    def _check(self, reply: Any) -> None:
        """Raise the error that a reply holds, if any."""
        if not isinstance(reply, redis.ResponseError):
            return
        said = str(reply)
        words = {word.lstrip("-") for word in said.replace(":", " ").split()}
        if words & _NOT_NOW or isinstance(reply, redis.exceptions.ClusterDownError | redis.exceptions.TryAgainError):
            raise NotNowError(said)
        if "WRONGTYPE" in words or "wrong kind of value" in said:
            raise self._error(f"has a key of this name that is not a stream ({said})")
        if "NOPERM" in words or isinstance(reply, redis.exceptions.NoPermissionError):
            raise self._error(f"rejects a command ({said}). The user needs the commands {COMMANDS}")
        if "unknown command" in said:
            raise self._error(f"does not know a command ({said}). Redis 7.0 or newer, or Valkey, is needed")
        raise self._error(f"answered {said}")

    def _error(self, what: str) -> SourceUnreadableError:
        return SourceUnreadableError(f"RedisStreamSpout: the server at {self._address.shown} {what}")


def _reply(connection: Any) -> Any:
    """Return the next reply; it is a `redis.ResponseError` if the server answered with an error."""
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error
