"""SIGKILL of the driver at every numbered point of a batch's life, and once more while it recovers; then every count.

The real log, the real states and a real server; the driver-side engine in Spark's place, for speed
(test_kill_points_spark.py has the same on Spark, test_kill_points_drawn.py draws from all topologies and points).
"""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.faults.source import expected
from tests.support.server import RedisServer
from trident.base.crash_points import POINTS

TOTAL, LONG = 240, 600
"""The records of a driver, and of one that lives until the log is trimmed."""
ONCE_A_RUN = {point for point in POINTS if point.startswith(("start.", "snapshot.", "trim."))}


def exact(end: End, total: int = TOTAL) -> None:
    """Nothing lost, nothing twice: counts, their checksums, and what was made of the first state's new values."""
    assert end.error is None, end.trace
    assert end.result is not None
    counts, sums, letters = expected(total)
    assert end.result["counts"] == counts
    assert end.result["sums"] == sums
    assert end.result["letters"] == letters


def once_each() -> list[tuple[str, str, str]]:
    """Every point with an opaque spout, and every fourth with a transactional one; the homes in turn."""
    cases = [(point, "opaque") for point in POINTS] + [(point, "transactional") for point in POINTS[::4]]
    return [
        (point, kind, "memory" if number % 2 or point.startswith("snapshot.") else "redis")  # which has no snapshots
        for number, (point, kind) in enumerate(cases)
    ]


@pytest.mark.parametrize(("point", "kind", "home"), once_each())
def test_a_driver_killed_at_this_point_loses_and_doubles_nothing(
    point: str, kind: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    total = LONG if point.startswith("trim.") else TOTAL
    case = Case(kind, str(tmp_path), shared_redis.url if home == "redis" else None, total)
    first = 1 if point in ONCE_A_RUN else 17
    assert zygote.run(case, f"{point}:{first}").signal == signal.SIGKILL
    again = zygote.run(case, f"{point}:1")  # in the recovery too, where it is met there
    assert again.signal in (signal.SIGKILL, None), again.error
    exact(zygote.run(case), total)


@pytest.mark.parametrize("home", ["memory", "redis"])
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_attempts_that_fail_at_random_while_later_ones_run_lose_and_double_nothing(
    kind: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    url = shared_redis.url if home == "redis" else None
    exact(zygote.run(Case(kind, str(tmp_path), url, TOTAL, failing=0.03)))


def test_there_are_at_least_twenty_points() -> None:
    assert len(POINTS) == len(set(POINTS)) >= 20
