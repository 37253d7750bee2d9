"""One connection to one server: bytes out, replies in.

redis-py opens the connection (authentication, TLS) and parses replies. Its retries are off: it would silently send a
write again whose reply was lost.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import redis

from trident.base.errors import StateError
from trident_state.redis.address import Address
from trident_state.redis.failures import Reply, failure, unavailable
from trident_state.redis.wire import PACKET


class Connection:
    """An open connection. One thread at a time; it cannot be used after an error.

    Raises StateUnavailableError where the outcome is unknown, StateError where the server refuses the connection.
    """

    def __init__(self, server: Address, where: str) -> None:
        self.server, self._where = server, where
        self._waiting: list[bytes] = []
        self._size = 0
        try:
            self._raw: Any = server.connection()
        except (TypeError, ValueError) as error:  # TypeError: an option in the url that does not apply
            raise StateError(f"{where}: {error}") from error
        try:
            self._raw.connect()
        except (redis.AuthenticationError, redis.ResponseError) as error:
            self.close()
            raise failure(where, server, error) from error
        except (redis.RedisError, OSError) as error:
            self.close()
            raise unavailable(where, server, error) from error

    def add(self, packed: bytes) -> None:
        """Take a command; send it with others when they are worth a system call.

        So the server begins while the next commands are packed.
        """
        self._waiting.append(packed)
        self._size += len(packed)
        if self._size >= PACKET:
            self.flush()

    def send(self, commands: Iterable[bytes]) -> int:
        """Send these commands, and return their number."""
        count = 0
        for packed in commands:
            self.add(packed)
            count += 1
        self.flush()
        return count

    def flush(self) -> None:
        """Send the commands that wait."""
        if self._waiting:
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            try:
                self._raw.send_packed_command([data])
            except (redis.RedisError, OSError) as error:
                raise unavailable(self._where, self.server, error) from error

    def reply(self) -> Reply:
        """Return the next reply. A command's error is a reply too (`redis.ResponseError`)."""
        try:
            return self._raw.read_response(disable_decoding=True)
        except redis.AuthenticationError as error:
            raise failure(self._where, self.server, error) from error
        except redis.ResponseError as error:
            return error
        except (redis.RedisError, OSError) as error:
            raise unavailable(self._where, self.server, error) from error

    def ask(self, *commands: bytes) -> list[Reply]:
        """Send commands and return a reply for each."""
        return [self.reply() for _ in range(self.send(commands))]

    def close(self) -> None:
        """Close the connection."""
        with suppress(redis.RedisError, OSError):  # it is broken already
            self._raw.disconnect()
