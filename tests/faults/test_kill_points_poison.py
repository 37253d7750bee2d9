"""SIGKILL of the driver while tuples die: each dies once, and everything else is counted once."""

from pathlib import Path

import pytest

from tests.faults import poison
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote

TOTAL = 120
POINTS = (
    "run.after:5",
    "freeze.before:4",
    "freeze.after:5",
    "commit.stage.before:5",
    "commit.stage.frozen:5",
    "commit.state.after:9",
    "commit.states.after:5",
    "committed.before:4",
)


def exact(end: End) -> None:
    assert end.error is None, end.trace
    assert end.result is not None
    assert end.result == poison.expected(TOTAL)


@pytest.mark.parametrize("point", POINTS)
def test_a_tuple_dies_once_whatever_kills_the_driver(point: str, zygote: Zygote, tmp_path: Path) -> None:
    kind = "transactional" if POINTS.index(point) % 3 == 0 else "opaque"
    case = Case(kind, str(tmp_path), None, TOTAL, poison=True)
    zygote.kill_twice(case, point)
    exact(zygote.run(case))


REPLAYS = (
    "attempt.logged:21",
    "run.after:21",
    "freeze.after:21",
    "commit.stage.frozen:41",
    "commit.state.after:41",
    "commit.stage.frozen:42",
    "committed.before:21",
    "success.before:21",
)
"""In the batch that puts letters back: the 21st, behind the twenty that the source gives."""


@pytest.mark.parametrize("point", REPLAYS)
def test_what_died_comes_back_once_whatever_kills_the_driver(point: str, zygote: Zygote, tmp_path: Path) -> None:
    case = Case("transactional", str(tmp_path), None, TOTAL, replayed=True)
    zygote.kill_twice(case, point)
    end = zygote.run(case)
    assert end.error is None, end.trace
    assert end.result == poison.all_counted(TOTAL)
