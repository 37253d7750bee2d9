"""Clocks that jump: order never depends on one."""

import random
import threading
import time
from pathlib import Path

import pytest

from tests.faults import smallest_topology
from tests.faults.smallest_topology import Small, expected
from tests.support.server import RedisServer
from trident.testing.local import start_local

YEAR = 365.25 * 86400


class JumpingClock:
    """A wall clock that is years off in either direction at every look; seconds that run on go on running."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.looks = 0

    def time(self) -> float:
        with self._lock:
            self.looks += 1
            return time.time() + self._random.choice([-2, -1, 0, 1, 2]) * YEAR

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("home", ["memory", "redis"])
def test_a_wall_clock_that_jumps_by_years_between_batches_and_restarts_changes_no_count(
    home: str, kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    given = Small(kind, "two", home, str(tmp_path), shared_redis.url)
    for start in range(3):
        clock = JumpingClock(start)
        options = {"name": smallest_topology.NAME, "checkpointLocation": tmp_path, "clock": clock}
        with start_local(smallest_topology.topology(given), **options) as running:
            running.processAllAvailable(timeout=30)
            assert {state: dict(running.state(state).items()) for state in ("sums", "seqs")} == expected("two")
        assert clock.looks or start
