"""A few rounds of random faults; `python -m tests.cluster.rounds N` runs more of them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]


def test_rounds_of_random_faults_are_exact_on_both_kinds_of_cluster() -> None:
    command = [sys.executable, "-m", "tests.cluster.rounds", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.stdout.strip().splitlines()[-1].startswith("exact, seed ")
