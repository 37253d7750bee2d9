"""A topology on Spark Connect without a batch for longer than the server keeps an unused session."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.soak
@pytest.mark.spark
def test_a_topology_goes_on_after_an_idle_night(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.run.idle_connect", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second, left = done.stdout.splitlines()[-3:]
    assert first == str([(group, 10) for group in range(7)])
    assert second == str([(group, 20) for group in range(7)])
    assert left == "3", "the user's session is open, too"
