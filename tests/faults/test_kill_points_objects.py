"""With files on a real S3 server and the log in Redis: SIGKILL of the driver at every point, and once more while it
recovers; the next driver, as on another machine, shares no disk with it. Then every count."""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.faults.test_kill_points import exact
from tests.support.objects import Objects, objects, s3_server
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.crash_points import POINTS

TOTAL = 240
ONCE_A_RUN = ("start.", "trim.", "snapshot.")
AT = [point for point in POINTS if not point.startswith("trim.")]
AROUND_FILES = ["run.after", "freeze.before", "freeze.after", "commit.stage.frozen", "commit.state.before"]
AROUND_SNAPSHOTS = ["snapshot.before", "snapshot.published"]

__all__ = ["objects", "s3_server"]


def driver(zygote: Zygote, kind: str, objects: Objects, redis: RedisServer, tmp_path: Path) -> Case:
    """Return a driver with states in Redis or in memory. The folder is only the name of its scratch."""
    return Case(
        "opaque",
        str(tmp_path / "nobody-is-here"),
        redis.url if kind == "redis" else None,
        TOTAL,
        log=redis.url,
        files=objects.options,
    )


@pytest.mark.parametrize("point", some_of(AT, [*AROUND_FILES, *AROUND_SNAPSHOTS]))
def test_states_in_memory(
    point: str, zygote: Zygote, objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = driver(zygote, "memory", objects, shared_redis, tmp_path)
    zygote.kill_twice(case, f"{point}:{1 if point.startswith(ONCE_A_RUN) else 9}")
    exact_of(zygote, case)
    assert objects.names("faults/frozen") and objects.names("faults/states")
    assert not Path(case.checkpoint).exists()


@pytest.mark.parametrize("point", some_of([p for p in AT if p not in AROUND_SNAPSHOTS], AROUND_FILES))
def test_states_in_redis(
    point: str, zygote: Zygote, objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = driver(zygote, "redis", objects, shared_redis, tmp_path)
    zygote.kill_twice(case, f"{point}:{1 if point.startswith(ONCE_A_RUN) else 9}")
    exact_of(zygote, case)
    assert not Path(case.checkpoint).exists()


def test_drivers_that_die_again_and_again(
    zygote: Zygote, objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = driver(zygote, "memory", objects, shared_redis, tmp_path)
    for crash in ("run.after:4", "freeze.after:5", "commit.state.after:7", "start.done:1", "snapshot.before:1"):
        assert zygote.run(case, crash).signal == signal.SIGKILL
    exact_of(zygote, case)


def exact_of(zygote: Zygote, case: Case) -> None:
    exact(zygote.run(case), TOTAL)
