"""A topology on Spark workers in processes of their own.

Tasks fail, repeated tasks give their rows in another order, and workers and executors are killed. These are soaks:
`make test` kills Python workers of its one Spark (tests/spouts/redis_streams/test_in_topologies.py).
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster import losses
from tests.cluster.drive import BATCHES

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_counts_are_exact_where_every_task_fails_once_and_an_executor_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.drive", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "this task fails once, on purpose" in done.stderr
    results = json.loads(done.stdout.strip().splitlines()[-1])
    counts = Counter(word for batch in BATCHES for line in batch for word in line.split())
    assert results["counts"] == counts
    assert results["lengths"] == {word: len(word) * n for word, n in counts.items()}
    assert len(results["killed"]) == 1


@pytest.mark.soak
def test_windows_letters_and_outputs_are_exact_where_a_worker_and_two_executors_die_within_batches(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "tests.cluster.losses", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == losses.expected()
