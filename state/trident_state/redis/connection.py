"""One connection to one server. It sends packed commands and receives replies.

redis-py opens the connection (authentication, TLS) and parses replies. The retries of redis-py are off: they would
silently repeat a write after a lost reply.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import redis

from trident.base.errors import StateError
from trident.base.redis_address import Address
from trident_state.redis.failures import Reply, failure, unavailable
from trident_state.redis.wire import PACKET


class Connection:
    """An open connection, for one thread at a time. It cannot be used after one of its methods has raised an error.

    All methods raise StateUnavailableError if it is not known whether the server has carried out the commands. A new
    Connection raises StateError if the server refuses it.
    """

    def __init__(self, server: Address, where: str) -> None:
        self.server, self._where = server, where
        self._waiting: list[bytes] = []
        self._size = 0
        try:
            self._raw: Any = server.connection()
        except (TypeError, ValueError) as error:  # TypeError: the url has an option that does not apply
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
        """Add a packed command. Send all waiting commands if their bytes are worth a system call.

        So the server can begin while the next commands are being packed.
        """
        self._waiting.append(packed)
        self._size += len(packed)
        if self._size >= PACKET:
            self.flush()

    def send(self, commands: Iterable[bytes]) -> int:
        """Send packed commands, and return their number."""
        count = 0
        for packed in commands:
            self.add(packed)
            count += 1
        self.flush()
        return count

    def flush(self) -> None:
        """Send the commands that were added and are not sent yet."""
        if self._waiting:
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            try:
                self._raw.send_packed_command([data])
            except (redis.RedisError, OSError) as error:
                raise unavailable(self._where, self.server, error) from error

    def reply(self) -> Reply:
        """Return the next reply; it is a `redis.ResponseError` if the server answered the command with an error."""
        try:
            return self._raw.read_response(disable_decoding=True)
        except redis.AuthenticationError as error:
            raise failure(self._where, self.server, error) from error
        except redis.ResponseError as error:
            return error
        except (redis.RedisError, OSError) as error:
            raise unavailable(self._where, self.server, error) from error

    def ask(self, *commands: bytes) -> list[Reply]:
        """Send packed commands, and return one reply per command."""
        return [self.reply() for _ in range(self.send(commands))]

    def close(self) -> None:
        """Close the connection; in a forked child, only the child's copy of it: redis-py then sends nothing."""
        with suppress(redis.RedisError, OSError):  # the connection is broken already
            self._raw.disconnect()
