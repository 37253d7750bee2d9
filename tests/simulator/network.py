"""Connections to the fake server, and what a network does to them: refused, cut, late, without a reply."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import hiredis
import redis
from redis._parsers.base import BaseParser

from tests.simulator.fake_redis import FakeRedis
from tests.simulator.scheduler import Crashed, Process, Scheduler

Fault = Literal["refused", "cut", "late", "error", "twice"]
"""refused: the connection is. cut: after so many commands, the rest does not arrive (after all of them: their replies).
late: the rest arrives later, and nobody hears its replies. error: one command is answered by an error. twice: all is
done and answered, and arrives a second time."""

REFUSALS = (
    "BUSY Redis is busy running a script.",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
)
"""Errors of any command."""
ERRORS = (
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Errors writing to the AOF file: No space left on device",
    "READONLY You can't write against a read only replica.",
    *REFUSALS,
)
"""Errors of a script that writes."""
ABORTED = "EXECABORT Transaction discarded because of previous errors."


_POINTS = frozenset({b"EVALSHA", b"EXEC"})
"""Before each of these others may come in between; of other commands, before the first one of a request, and where a
look at what is there goes on to what it holds."""


@dataclass
class Late:
    """Commands on their way to the server."""

    generation: int
    commands: deque[list[bytes]]


class Network:
    """Between the drivers and one server."""

    def __init__(self, scheduler: Scheduler, server: FakeRedis) -> None:
        self.scheduler, self.server = scheduler, server
        self.fault: Fault | None = None
        """What happens to the next request."""
        self.late: list[Late] = []
        self.process = Process("server")

    def arrive_later(self, late: Late) -> None:
        """These commands arrive one by one, whenever the scheduler lets one."""
        self.late.append(late)
        self.process.loops[:] = [lambda now: self.deliver if self.server.up else None]

    def deliver(self) -> None:
        """Let one late command arrive."""
        late = self.scheduler.random.choice(self.late)
        if late.generation == self.server.generation:
            self.server.run(late.commands.popleft())
        if not late.commands or late.generation != self.server.generation:
            self.late.remove(late)
        if not self.late:
            self.process.loops.clear()

    def take_fault(self, commands: Sequence[list[bytes]] = ()) -> Fault | None:
        """What happens to the request of these commands."""
        fault, self.fault = self.fault, None
        return fault


@lru_cache(maxsize=20_000)
def _parsed(data: bytes) -> tuple[list[bytes], ...]:
    """The commands in what was sent: whole ones, and many are the same in every schedule."""
    reader = hiredis.Reader()
    reader.feed(data)
    return tuple(iter(reader.gets, False))


def _error(text: str) -> Exception:
    """Return an error reply, as redis-py's parser makes it. LOADING is a broken connection to it."""
    error: Exception = BaseParser.parse_error(text)
    return error


class FakeAddress:
    """In the place of `trident_state.redis.command_routing.Address`."""

    shown = "redis://fake"
    connect_timeout = socket_timeout = 1.0

    def __init__(self, network: Network) -> None:
        self._network = network

    def seeds(self) -> list["FakeAddress"]:
        return [self]

    def connection(self) -> "Connection":
        return Connection(self._network)


class Connection:
    """As much of a redis-py connection as the library uses."""

    def __init__(self, network: Network) -> None:
        self._network, self._server = network, network.server
        self._generation = -1
        self._commands: list[list[bytes]] = []
        self._replies: deque[Any] = deque()

    def connect(self) -> None:
        self._network.scheduler.point("connect", still=True)
        if not self._server.up or self._network.fault == "refused":
            self._network.take_fault()
            raise redis.ConnectionError("Connection refused")
        self._generation = self._server.generation

    def disconnect(self) -> None:
        self._generation = -1

    def send_packed_command(self, packed: Iterable[bytes]) -> None:
        for data in packed:
            self._commands += _parsed(data)

    def read_response(self, disable_decoding: bool) -> Any:
        if self._commands:
            self._exchange()
        reply = self._replies.popleft()
        if isinstance(reply, redis.RedisError):
            raise reply
        return reply

    def _exchange(self) -> None:
        """The server does the commands one after the other, while others' come in between."""
        network, server = self._network, self._server
        commands, self._commands = self._commands, []
        fault, cut = network.take_fault(commands), -1
        if fault is not None:
            cut = network.scheduler.random.randrange(len(commands) + 1)
            if fault == "twice":
                self._arrive_again(commands)
                cut = -1
        queued: list[list[bytes]] | None = None
        aborted = False
        replies, run = self._replies, server.run
        for at, command in enumerate(commands):
            name = command[0]
            if at == 0 or name in _POINTS or (name == b"HMGET" and commands[at - 1][0] == b"TYPE"):
                self._arrive(commands, at)
            if at == cut:
                if fault == "error" and name not in (b"MULTI", b"EXEC"):
                    replies.append(_error(network.scheduler.random.choice(ERRORS if name == b"EVALSHA" else REFUSALS)))
                    aborted = queued is not None
                    continue
                if fault in ("cut", "late", "refused"):
                    self._leave_behind(commands[at:], fault == "late")
                    raise redis.TimeoutError("Timeout reading from socket")
            if name == b"EXEC":
                replies.append(_error(ABORTED) if aborted else list(map(run, queued or ())))
                queued, aborted = None, False
            elif queued is not None:
                queued.append(command)
                replies.append(b"QUEUED")
            elif name == b"MULTI":
                queued = []
                replies.append(b"OK")
            else:
                replies.append(run(command))
        if cut == len(commands):
            self._replies.clear()
            raise redis.ConnectionError("Connection reset by peer")

    def _arrive(self, commands: list[list[bytes]], at: int) -> None:
        """A point before this command: others come in between, and the server may be another one then."""
        network, name = self._network, commands[at][0]
        try:
            network.scheduler.point(name.decode(), still=name == b"INFO")
        except Crashed:
            self._leave_behind(commands[at:], network.scheduler.random.random() < 0.5)
            raise
        if not self._server.up or self._server.generation != self._generation:
            raise redis.ConnectionError("Connection reset by peer")

    def _arrive_again(self, commands: list[list[bytes]]) -> None:
        if all(command[0] == b"EVALSHA" for command in commands):
            self._network.arrive_later(Late(self._generation, deque(commands)))

    def _leave_behind(self, commands: list[list[bytes]], arrive: bool) -> None:
        """What was sent and not yet done, when nobody waits for it any more."""
        self._replies.clear()
        if arrive and all(command[0] == b"EVALSHA" for command in commands) and commands:
            self._network.arrive_later(Late(self._generation, deque(commands)))
