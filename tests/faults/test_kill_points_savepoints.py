"""SIGKILL of the driver at every point of a savepoint, of a fork, of a restore, and of the first start after these.

A savepoint and a fork are there wholly or not at all, or are completed by a repetition. Both topologies count each
record once. So does a topology that was restored.
"""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults import forking
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident import listSavepoints
from trident.base.crash_points import FORK_POINTS, RESTORE_POINTS, SAVEPOINT_POINTS

SAVING = [f"{point}:1" for point in SAVEPOINT_POINTS[:-1]] + ["savepoint.state:3", "commit.state.after:4"]
FORKING = [f"{point}:1" for point in FORK_POINTS] + ["fork.state:4"]
STARTING = [
    *("start.log.taken:1", "start.state.born:1", "start.state.created:3", "start.done:1", "heal.applied:2"),
    *("freeze.after:1", "commit.state.after:2", "committed.after:1"),
]
NORMAL = ["save savepoint.state:3", "save savepoint.files:1", "fork fork.state:1", "trial start.log.taken:1"]
KILLS = [
    *(f"save {point}" for point in SAVING),
    *(f"fork {point}" for point in FORKING),
    *(f"trial {point}" for point in STARTING),
]


def ran(end: End, expected: Any = None) -> None:
    assert end.error is None, end.trace
    if expected is not None:
        assert end.result == expected


@pytest.mark.parametrize("log", ["sqlite", "redis"])
@pytest.mark.parametrize("kill", some_of(KILLS, NORMAL))
def test_both_topologies_count_each_record_once_whatever_kills_their_drivers(
    kill: str, log: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    step, point = kill.split()

    def case(step: str) -> Case:
        at = shared_redis.url if log == "redis" else None
        return Case("opaque", str(tmp_path), shared_redis.url, log=at, forking=step)

    whole = forking.expected(forking.TOTAL)
    for each in ("save", "fork", "trial"):
        if each == step:
            assert zygote.run(case(each), point).signal == signal.SIGKILL
            if each == "save" and point != "savepoint.published:1":
                assert listSavepoints(forking.FIRST, tmp_path) == []
            if each == "fork" and point.split(":")[0] in FORK_POINTS[1:-1]:
                refused = zygote.run(case("trial"))
                assert refused.error is not None and "that was not completed" in refused.error
        end = zygote.run(case(each))
        ran(end, whole if each == "save" else None)
    ran(zygote.run(case("first")), whole)
    ended = zygote.run(case("trial"))
    ran(ended)
    assert ended.result is not None
    forking.check_counts(forking.MORE, ended.result.pop("counts"))
    expected = forking.expected(forking.MORE)
    del expected["counts"]
    assert ended.result == expected


RESTORES = [f"restore {point}:1" for point in RESTORE_POINTS]
RESTORES += [f"more {point}" for point in STARTING if "born" not in point]  # the restore has recorded the births


@pytest.mark.parametrize("log", ["sqlite", "redis"])
@pytest.mark.parametrize("kill", some_of(RESTORES, ["restore restore.files:1", "more start.state.created:3"]))
def test_a_restored_topology_counts_each_record_once(
    kill: str, log: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    step, point = kill.split()
    at = shared_redis.url if log == "redis" else None

    def case(step: str) -> Case:
        return Case("opaque", str(tmp_path), shared_redis.url, log=at, forking=step)

    whole, more = forking.expected(forking.TOTAL), forking.expected(forking.MORE)
    ran(zygote.run(case("save")), whole)
    ran(zygote.run(case("more")), more)
    for each in ("restore", "more"):
        if each == step:
            assert zygote.run(case(each), point).signal == signal.SIGKILL
        ran(zygote.run(case(each)), more if each == "more" else None)
    ran(zygote.run(case("more")), more)
