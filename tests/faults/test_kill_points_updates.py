"""SIGKILL of the driver where a user's own code changes states: its result is frozen, so it counts once.

The points are those at which an update can be half done; test_kill_points.py has all of them for the counts.
"""

import itertools
import time
from pathlib import Path

import pytest

from tests.faults import drive, updates
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.faults.test_rewind import Killer
from tests.support.server import RedisServer

TOTAL = 120
POINTS = (
    "freeze.after:5",
    "commit.stage.before:7",
    "commit.stage.frozen:7",
    "commit.stage.frozen:8",
    "commit.state.before:14",
    "commit.state.after:13",
    "commit.state.after:16",
    "commit.states.after:6",
)


def exact(end: End) -> None:
    """Every tuple turned its word once: the words that are there, their number by letter, and the checksums."""
    assert end.error is None, end.trace
    assert end.result == updates.expected(TOTAL)


@pytest.mark.parametrize(("point", "home"), zip(POINTS, itertools.cycle(["memory", "redis"]), strict=False))
def test_an_update_is_made_once_whatever_kills_the_driver_in_it(
    point: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    kind = "transactional" if POINTS.index(point) % 3 == 0 else "opaque"
    case = Case(kind, str(tmp_path), shared_redis.url if home == "redis" else None, TOTAL, updates=True)
    zygote.kill_twice(case, point)
    exact(zygote.run(case))


def test_a_server_that_loses_its_last_writes_is_healed_from_what_was_frozen(tmp_path: Path) -> None:
    """It is killed and comes back to what it saved, between batches and inside them, while updates read and write."""
    with RedisServer(tmp_path / "redis", "none") as server:
        case = Case("opaque", str(tmp_path / "checkpoint"), server.url, 900, updates=True)
        with drive.start(case) as running:
            with Killer(server, seed=4) as killer:
                running.processAllAvailable(timeout=90)
            running.processAllAvailable(timeout=30)
            assert killer.kills >= 3
            deadline = time.monotonic() + 15
            while True:
                try:  # the last loss is noticed within a second
                    found = {name: dict(running.state(name).items()) for name in updates.STATES}
                    break
                except Exception:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
        assert found == updates.expected(900)
