"""SIGKILL of the driver around outputs: what is published is published once, what is handed over is the same again."""

from pathlib import Path

import pytest

from tests.faults import outputs
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from trident.base.crash_points import OUTPUT_POINTS

TOTAL = 120
POINTS = (
    *(f"{point}:{count}" for point in OUTPUT_POINTS for count in (8, 9)),
    "freeze.after:5",
    "commit.stage.frozen:5",
    "commit.states.after:5",
    "committed.before:5",
    "committed.after:5",
    "success.before:5",
)


def exact(end: End) -> None:
    assert end.error is None, end.trace
    assert end.result == outputs.expected(TOTAL)


@pytest.mark.parametrize("point", POINTS)
def test_a_batch_leaves_once_whatever_kills_the_driver(point: str, zygote: Zygote, tmp_path: Path) -> None:
    kind = "transactional" if POINTS.index(point) % 3 == 0 else "opaque"
    case = Case(kind, str(tmp_path), None, TOTAL, outputs=True)
    zygote.kill_twice(case, point)
    exact(zygote.run(case))
