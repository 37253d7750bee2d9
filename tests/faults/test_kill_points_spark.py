"""The same kills on real Spark: one topology whose driver dies again and again, each time at another point.

An opaque spout whose every replay differs, two states in Redis and one in memory. Each start goes on from what the last
death left, so the deaths also meet each other's recovery. Both tests are soaks, because each life starts a JVM:
`make test` kills drivers on the driver-side engine at all points (test_kill_points.py) and one on Spark
(tests/demo/test_demo.py).
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.source import expected
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident.base.crash_points import VARIABLE

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
TOTAL = 120
DEATHS = [
    "run.after:2",
    "commit.stage.frozen:2",
    "committed.before:2",
    "attempt.logged:3",
    "emit.after:2",
    "freeze.before:2",
    "freeze.after:2",
    "commit.state.after:2",
    "committed.after:2",
]


@pytest.mark.soak
def test_a_driver_on_spark_that_dies_at_three_points_loses_and_doubles_nothing(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    case = Case("opaque", str(tmp_path), redis_server.url, TOTAL, spark=True, mixed=True)
    for death in DEATHS[:3]:
        dies(case, death)
    exact(case)


@pytest.mark.soak(weight=2)
def test_a_driver_on_spark_that_dies_at_points_drawn_at_random_loses_and_doubles_nothing(
    soak: Soak, tmp_path: Path, redis_server: RedisServer
) -> None:
    for number, chance in enumerate(soak.draws(6)):
        redis_server.client.flushall()
        case = Case("opaque", str(tmp_path / str(number)), redis_server.url, TOTAL, spark=True, mixed=True)
        deaths = chance.sample(DEATHS, 3)
        soak.tell(", ".join(deaths))
        for death in deaths:
            dies(case, death)
        exact(case)


def dies(case: Case, death: str) -> None:
    ended = drive(case, death)
    assert ended.returncode == -signal.SIGKILL, f"{death}: {ended.stderr[-3000:]}"


def exact(case: Case) -> None:
    """A last driver goes through, and every count is right."""
    ended = drive(case, "")
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.strip().splitlines()[-1])
    counts, sums, letters = expected(TOTAL)
    assert (told["counts"], told["sums"], told["letters"]) == (counts, sums, letters)


def drive(case: Case, death: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.drive", json.dumps(asdict(case))]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, VARIABLE: death}, capture_output=True, text=True, timeout=300
    )
