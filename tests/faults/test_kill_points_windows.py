"""SIGKILL of the driver where windows fill, leave and turn tuples away: each tuple is in one place all the same."""

import itertools
from pathlib import Path

import pytest

from tests.faults import windows
from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.support.server import RedisServer

TOTAL = 120
POINTS = (
    "freeze.after:5",
    "commit.stage.before:7",
    "commit.stage.frozen:8",
    "commit.state.before:14",
    "commit.state.after:23",
    "commit.states.after:6",
)


@pytest.mark.parametrize(("point", "home"), zip(POINTS, itertools.cycle(["memory", "redis"]), strict=False))
def test_a_tuple_is_in_one_window_or_late_whatever_kills_the_driver(
    point: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    kind = "transactional" if POINTS.index(point) % 3 == 0 else "opaque"
    case = Case(kind, str(tmp_path), shared_redis.url if home == "redis" else None, TOTAL, windows=True)
    zygote.kill_twice(case, point, again=2)
    end = zygote.run(case)
    assert end.error is None, end.trace
    assert end.result == windows.expected(TOTAL)
