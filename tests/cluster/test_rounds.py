"""A few rounds of random faults; `python -m tests.cluster.rounds N` runs more of them.

Each test starts a Spark of its own, so all are soaks.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.shuffled_anew import TUPLES

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_rounds_of_random_faults_are_exact_on_both_kinds_of_cluster() -> None:
    command = [sys.executable, "-m", "tests.cluster.rounds", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.stdout.strip().splitlines()[-1].startswith("exact, seed ")


@pytest.mark.soak
def test_a_partition_that_is_evaluated_twice_at_the_same_time_has_one_value_for_all_readers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.twice", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.strip().splitlines()[-1])
    assert results["began"] == 2 and len(results["tags"][0]) == 30
    assert all(tags == results["tags"][0] for tags in results["tags"])


@pytest.mark.soak
def test_tuples_that_are_shuffled_anew_under_other_keys_are_handed_over_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.shuffled_anew", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.strip().splitlines()[-1])
    assert results["deleted"]
    assert results["handed"] == list(range(TUPLES))
    assert results["attempt"] == 0 or "a function returned different ones when Spark computed them again" in done.stderr
