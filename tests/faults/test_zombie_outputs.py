"""A driver that falls asleep while it publishes a batch, is taken over, and goes on publishing when it wakes up."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults import drive, outputs
from tests.faults.drive import Case

ROOT = Path(__file__).parents[2]
TOTAL = 120
SLEEPER = """
import json, sys, time
from pathlib import Path
from tests.faults import drive
from trident.base import crash_points

point, folder, left = sys.argv[1], Path(sys.argv[3]), [9]

def sleep(reached):
    left[0] -= reached == point
    if reached == point and left[0] == 0:
        (folder / "asleep").touch()
        while not (folder / "awake").exists():
            time.sleep(0.01)

crash_points.listen(sleep)
drive.run(drive.Case(**json.loads(sys.argv[2])))
"""


@pytest.mark.parametrize(
    "point",
    ["output.staged", *(pytest.param(f"output.{at}", marks=pytest.mark.soak) for at in ("before", "published"))],
)
def test_a_sleeper_in_the_middle_of_publishing_adds_nothing_and_stops(point: str, tmp_path: Path) -> None:
    case = Case("opaque", str(tmp_path / "c"), None, TOTAL, outputs=True)
    command = [sys.executable, "-c", SLEEPER, point, json.dumps(asdict(case)), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as sleeper:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "asleep").exists() and time.monotonic() < deadline:
                assert sleeper.poll() is None, sleeper.communicate()[1]
                time.sleep(0.01)
            assert drive.run(case) == outputs.expected(TOTAL)
        finally:
            (tmp_path / "awake").touch()
            told = sleeper.communicate(timeout=60)[1]
    assert sleeper.returncode != 0 and "FencedError" in told
    found = outputs.results(tmp_path / "c")
    assert found == {name: outputs.expected(TOTAL)[name] for name in found}
    for name in ("tuples", "counts"):
        staging = tmp_path / "c" / name / "_trident" / "staging"
        assert [left for left in staging.rglob("*") if left.parent != staging] == []
