"""The server that keeps a transaction log: the settings that it must have, and commands with retries."""

import threading
import time
from collections.abc import Iterator
from importlib.resources import files

import redis

from trident.base.errors import LogError, StateError, StateFullError, StateUnavailableError
from trident.base.finding import Finding, Now
from trident.base.forked_child import free_in_child
from trident.base.redis_address import Address
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link
from trident_state.redis.examination import examine_servers
from trident_state.redis.failures import Reply, check_all
from trident_state.redis.scripts import Script
from trident_state.redis.server_check import check_server, parse_info
from trident_state.redis.wire import command

_LUA = files("trident.log") / "lua"

CREATE = Script.of("log_create", _LUA / "log_create.lua")
TAKE = Script.of("log_take", _LUA / "log_take.lua")
WRITE = Script.of("log_write", _LUA / "log_write.lua")
ALL = (CREATE, TAKE, WRITE)

_SETTINGS = ((b"appendfsync", b"always"), (b"no-appendfsync-on-rewrite", b"no"))
"""The settings of a server that keeps every confirmed write. With no-appendfsync-on-rewrite yes, the server would skip
every fsync while a child process saves or rewrites, even with appendfsync always. (aof-load-truncated may have either
value: the bytes that it cuts off were never confirmed.)"""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5


class LogServer:
    """The connection to a log's server. Thread-safe. `where` begins every error message.

    `patience`: for how many seconds a command is repeated while the server does not answer or is full. Every command
    must therefore be safe to send twice: `log_write.lua` numbers the writes. `reading`: load no scripts, because a
    reader may lack the rights for that.
    """

    def __init__(self, address: Address, where: str, reading: bool = False) -> None:
        self._address, self._where = address, where
        self._link = Link(Servers(address, where), () if reading else ALL)
        self._lock = free_in_child(threading.Lock())
        self.patience = 0.0

    def check(self, durable: bool) -> None:
        """Raise LogError if the server may evict the log or, with `durable`, may lose a write that it has confirmed."""
        try:
            for server, info in self._link.everywhere(command(b"INFO")):
                check_server(parse_info(info), self._where, server.shown)
                if durable:
                    self._check_durable(server, parse_info(info))
            for setting, value in _SETTINGS if durable else ():
                for server, reply in self._link.everywhere(command(b"CONFIG", b"GET", setting)):
                    self._check_setting(server, setting, value, reply)
        except StateError as error:
            raise LogError(str(error)) from error

    def _check_durable(self, server: Address, info: dict[str, str]) -> None:
        if info.get("aof_enabled") != "1":
            raise self._forgetful(server, "appendonly is off")
        if info.get("cluster_enabled") == "1" and info.get("connected_slaves", "0") != "0":
            raise self._forgetful(server, "a replica in its cluster may replace it without the last writes")

    def _check_setting(self, server: Address, setting: bytes, value: bytes, reply: Reply) -> None:
        if isinstance(reply, redis.ResponseError):
            raise LogError(
                f"{self._where}: the server at {server.shown} does not say whether confirmed writes are durable "
                f"(CONFIG GET {setting.decode()}: {reply}). Grant its user +config|get, or, if you know that "
                f"{setting.decode()} is {value.decode()}, pass RedisLog(..., requireDurable=False)"
            )
        if reply[1:] != [value]:
            raise self._forgetful(server, f"{setting.decode()} is {b''.join(reply[1:]).decode() or 'not reported'}")

    def _forgetful(self, server: Address, what: str) -> LogError:
        return LogError(
            f"{self._where}: the server at {server.shown} may lose confirmed writes ({what}), and a log cannot be "
            f"healed. Set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, on a master that no "
            f"replica can replace; or accept the loss with RedisLog(..., requireDurable=False)"
        )

    def ask(self, *commands: bytes, patience: float | None = None) -> list[Reply]:
        """Send commands that are safe to send twice, and return the replies.

        Raises LogError if the server does not answer, or is full, for `patience` seconds (None: those of this
        LogServer), and at once for any other failure.
        """
        until, pause = time.monotonic() + (self.patience if patience is None else patience), _FIRST_PAUSE
        while True:
            try:
                with self._lock:
                    return self._attempt(commands)
            except (StateUnavailableError, StateFullError) as error:  # only the cause of these two errors may end
                if time.monotonic() > until:
                    raise LogError(str(error)) from error
            except StateError as error:
                raise LogError(str(error)) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _attempt(self, commands: tuple[bytes, ...]) -> list[Reply]:
        replies = self._link.call_scripts(commands)
        check_all(replies, self._where, self._address)
        return replies

    def close(self) -> None:
        with self._lock:
            self._link.close()


def examine_log_servers(address: Address, prefix: str, durable: bool, now: Now) -> Iterator[Finding]:
    """Yield the faults of the servers at an address that are to keep logs, for `trident doctor`."""
    about = f"the log at {address.shown}"
    found = list(examine_servers(about, address, prefix, now))
    if any(finding.grave for finding in found):  # also those of a log
        yield from found
        return
    server = LogServer(address, about, reading=True)
    try:
        server.check(durable)
    except LogError as error:
        todo = (
            "redis-cli CONFIG SET appendonly yes, appendfsync always, no-appendfsync-on-rewrite no, and in redis.conf"
        )
        matters = "a start is refused: a log that loses its last writes cannot be healed"
        yield Finding(about, str(error), matters, f"{todo}; no replica may take over; +config|get for the user")
    else:
        yield from found
    finally:
        server.close()
