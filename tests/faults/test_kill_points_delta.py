"""SIGKILL of the driver around the versions of states in Delta tables: nothing is lost, and nothing counts twice."""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.faults.test_kill_points import exact
from tests.support.soak import some_of
from trident.base.crash_points import DELTA_POINTS

TOTAL = 240
KINDS = ["opaque", "transactional"]
MET = [point for point in DELTA_POINTS if point != "delta.dropped"]
OTHERS = ["start.state.created:1", "start.state.acquired:2", "commit.state.before:5", "committed.before:3"]
CASES = [(point, kind) for point in [*(f"{met}:{count}" for met in MET for count in (2, 4)), *OTHERS] for kind in KINDS]
NORMAL = [(f"{met}:{count}", kind) for met in MET for kind, count in zip(KINDS, (2, 4), strict=True)]


@pytest.mark.parametrize("killed", some_of(CASES, NORMAL), ids="-".join)
def test_a_driver_killed_around_a_version_loses_and_doubles_nothing(
    killed: tuple[str, str], zygote: Zygote, tmp_path: Path
) -> None:
    point, kind = killed
    case = Case(kind, str(tmp_path), None, TOTAL, delta=True)
    assert zygote.run(case, point).signal == signal.SIGKILL
    again = zygote.run(case, f"{point.partition(':')[0]}:1")
    assert again.signal in (signal.SIGKILL, None), again.error
    exact(zygote.run(case))
