"""SIGKILL of the driver around the versions of states in Delta tables: nothing is lost, and nothing counts twice."""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.faults.test_kill_points import exact
from tests.support.soak import some_of
from trident.base.crash_points import DELTA_POINTS

TOTAL = 600
MET = [point for point in DELTA_POINTS if point != "delta.dropped"]
NORMAL = [f"{point}:{count}" for point in MET for count in (2, 4)]
OTHERS = ["start.state.created:1", "start.state.acquired:2", "commit.state.before:5", "committed.before:3"]


@pytest.mark.parametrize("kind", ["opaque", "transactional"])
@pytest.mark.parametrize("point", some_of([*NORMAL, *OTHERS], NORMAL))
def test_a_driver_killed_around_a_version_loses_and_doubles_nothing(
    point: str, kind: str, zygote: Zygote, tmp_path: Path
) -> None:
    case = Case(kind, str(tmp_path), None, TOTAL, delta=True)
    assert zygote.run(case, point).signal == signal.SIGKILL
    again = zygote.run(case, f"{point.partition(':')[0]}:1")
    assert again.signal in (signal.SIGKILL, None), again.error
    exact(zygote.run(case))
