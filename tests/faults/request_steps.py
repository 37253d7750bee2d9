"""What a driver asks of its server as steps: each request by the state that it is for and the commands in it."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

from tests.faults.smallest_topology import NAME
from tests.faults.steps import Fault, Injected, Steps
from tests.support.one_by_one import OneByOne
from tests.support.request_proxy import Ask, Cut, words
from trident_state.redis.command_routing import Link
from trident_state.redis.scripts import ALL

_SCRIPTS = {script.sha: script.name.upper() for script in ALL}


_STATE = re.compile(rb"\{%b/(\w+)\}" % NAME.encode())
_READS = {"INFO", "TYPE", "HMGET", "HLEN", "HSCAN", "MULTI", "EXEC"}


def name_of(commands: Sequence[bytes]) -> str:
    """``sums: OPEN MERGE COMMIT``; several of one command in a row count as one."""
    if not commands:
        return "server: connect"
    said = [words(command) for command in commands]
    names = [_SCRIPTS[word[1]] if word[0] == b"EVALSHA" else word[0].decode() for word in said]
    state = next((m[1].decode() for word in said for m in map(_STATE.search, word[1:4]) if m), "server")
    return f"{state}: {' '.join(name for name, _ in itertools.groupby(names))}"


def _parts(name: str, parts: int) -> int:
    """A request that only reads has none: cut off anywhere, it is a read that failed."""
    return 0 if set(name.partition(": ")[2].split()) <= {*_READS, "connect"} else parts


def asking(steps: Steps, kill: Callable[[], object]) -> Ask:
    """What a proxy asks: the fault of `steps`, as a lost connection, or as the death of the driver."""

    def ask(commands: Sequence[bytes]) -> Cut | None:
        name = name_of(commands)
        fault = steps.strikes(name, _parts(name, len(commands) + 1))
        if fault is None:
            return None
        whole, torn = _extent(fault, len(commands))
        return Cut(whole, torn, kill if fault.how == "kill" else None)

    return ask


def _extent(fault: Fault, count: int) -> tuple[int, bool]:
    """How many commands are done, and whether half of the next one arrives."""
    if fault.mode == "before":
        return 0, False
    if fault.mode == "applied":
        return count, False
    return min(fault.part - 1, count - 1), True


@contextlib.contextmanager
def watched(steps: Steps) -> Iterator[None]:
    """While this lasts, an error of the driver's own may come up before, in or after each exchange with a server."""
    real = Link.exchange

    def exchange(self: Link, commands: Iterable[bytes]) -> list[Any]:
        given = list(commands)

        def half(part: int) -> None:
            real(self, given[:part])
            self.close()

        name = name_of(given)
        return list(steps.step(name, lambda: real(self, given), Injected, half, _parts(name, len(given))))

    def pipeline(self: Link) -> OneByOne:
        return OneByOne(partial(exchange, self))

    with mock.patch.object(Link, "exchange", exchange), mock.patch.object(Link, "pipeline", pipeline):
        yield
