"""Tests of timers: their moments, the states that hold timers, and drivers that die."""

import datetime
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import TridentTopology
from trident.base.clock import Clock
from trident.state import MemoryMapState, RedisMapState, SqliteMapState
from trident.testing import CRASH_POINTS, DriverCrashedError, crash_at, start_local

START = 1_700_000_000.0
SECOND = datetime.timedelta(seconds=1)
DAY = 86_400.0
FIELDS = "key string, name string, seconds long"
MakeState = Callable[[], Any]


def when(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(START + seconds, datetime.UTC)


@pytest.fixture(params=["memory", "sqlite", "redis", "redis in groups"])
def make_timed(request: pytest.FixtureRequest, tmp_path: Path) -> MakeState:
    if request.param == "memory":
        return MemoryMapState.opaque
    if request.param == "sqlite":
        return lambda: SqliteMapState.opaque(tmp_path / "state.sqlite")
    server: RedisServer = request.getfixturevalue("shared_redis")
    groups = 4 if request.param.endswith("groups") else 1
    return lambda: RedisMapState.opaque(server.url, buckets=16, groups=groups)


class Lives:
    """One topology over several drivers, some of which die."""

    def __init__(self, topology: Callable[[], TridentTopology], folder: Path, clock: Clock, name: str = "t") -> None:
        self.topology, self.options = topology(), {"name": name, "checkpointLocation": folder, "clock": clock}
        self.running: Any = None

    def start(self) -> None:
        """Start a driver; after a death in the start, another one."""
        while self.running is None:
            try:
                self.running = start_local(self.topology, **self.options)
            except DriverCrashedError:
                continue

    def end(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.stop()

    def settle(self) -> None:
        """Process all that is there, with another driver after each death."""
        while True:
            self.start()
            try:
                self.running.processAllAvailable(timeout=30)
                return
            except DriverCrashedError:
                self.end()


@contextmanager
def dying(chance: random.Random, lives: Lives) -> Iterator[None]:
    """Let the drivers of a step die at a random point, or let none die."""
    point = chance.choice([None, *CRASH_POINTS])
    with ExitStack() as stack:
        if point is not None:
            lives.end()
            stack.enter_context(crash_at(point, chance.randint(1, 2)))
        yield
