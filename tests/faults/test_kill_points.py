"""SIGKILL of the driver at every numbered point of a batch's life, and once more while it recovers; then every count.

The real log, the real states and a real server; the driver-side engine in Spark's place, for speed
(test_kill_points_spark.py has the same on Spark).
"""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.source import expected
from tests.faults.zygotes import End, Zygote
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident.runtime.crash import POINTS

TOTAL = 600
ONCE_A_RUN = {point for point in POINTS if point.startswith(("start.", "snapshot.", "trim."))}


def exact(end: End) -> None:
    """Nothing lost, nothing twice: counts, their checksums, and what was made of the first state's new values."""
    assert end.error is None, end.trace
    assert end.result is not None
    counts, sums, letters = expected(TOTAL)
    assert end.result["counts"] == counts
    assert end.result["sums"] == sums
    assert end.result["letters"] == letters


WAYS = [(kind, home) for kind in ("opaque", "transactional") for home in ("memory", "redis")]


def can_be(point: str, home: str) -> bool:
    """A state in Redis has no snapshots."""
    return home == "memory" or not point.startswith("snapshot.")


def once_each() -> list[tuple[str, str, str]]:
    """Every point with an opaque spout, the homes in turn, and every fourth with a transactional one."""
    cases = [(point, "opaque", WAYS[number % 2][1]) for number, point in enumerate(POINTS)]
    cases += [(point, "transactional", WAYS[number % 2][1]) for number, point in enumerate(POINTS[::4])]
    return [(point, kind, home if can_be(point, home) else "memory") for point, kind, home in cases]


@pytest.mark.parametrize(("point", "kind", "home"), once_each())
def test_a_driver_killed_at_this_point_loses_and_doubles_nothing(
    point: str, kind: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = Case(kind, str(tmp_path), shared_redis.url if home == "redis" else None, TOTAL)
    first = 1 if point in ONCE_A_RUN else 17
    assert zygote.run(case, f"{point}:{first}").signal == signal.SIGKILL
    again = zygote.run(case, f"{point}:1")  # in the recovery too, where it is met there
    assert again.signal in (signal.SIGKILL, None), again.error
    exact(zygote.run(case))


@pytest.mark.soak
def test_drivers_killed_again_and_again_at_points_drawn_at_random_lose_and_double_nothing(
    soak: Soak, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    for number, chance in enumerate(soak.draws(200)):
        shared_redis.client.flushall()
        kind, home = chance.choice(WAYS)
        deaths = [
            f"{point}:{chance.randint(1, 1 if point in ONCE_A_RUN else 30)}"
            for point in chance.choices([point for point in POINTS if can_be(point, home)], k=chance.randint(1, 4))
        ]
        case = Case(kind, str(tmp_path / str(number)), shared_redis.url if home == "redis" else None, TOTAL)
        ends = [zygote.run(case, death) for death in deaths]
        drawn = f"{kind} spout, states in {home}, {', '.join(deaths)}"
        assert all(end.signal in (signal.SIGKILL, None) and end.error is None for end in ends), (drawn, ends)
        try:
            exact(zygote.run(case))
        except AssertionError as error:
            raise AssertionError(drawn) from error


@pytest.mark.parametrize("home", ["memory", "redis"])
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_attempts_that_fail_at_random_while_later_ones_run_lose_and_double_nothing(
    kind: str, home: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    url = shared_redis.url if home == "redis" else None
    exact(zygote.run(Case(kind, str(tmp_path), url, TOTAL, failing=0.03)))


def test_there_are_at_least_twenty_points() -> None:
    assert len(POINTS) == len(set(POINTS)) >= 20
