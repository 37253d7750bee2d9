"""Processes are read from /proc and from ps with the same results."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.processes import descendants, state_of


@pytest.fixture(params=["proc", "ps"], autouse=True)
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if request.param == "ps":
        if shutil.which("ps") is None:
            pytest.skip("this machine has no ps")
        monkeypatch.setattr(processes, "_PROC", tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_children_of_children_are_found_with_their_commands_and_states(sleeper: subprocess.Popen[str]) -> None:
    assert sleeper.stdout is not None
    child = int(sleeper.stdout.readline())
    try:
        until = time.monotonic() + 10
        while not (found := descendants(os.getpid())).get(child) and time.monotonic() < until:
            time.sleep(0.01)  # between fork and exec a process has no command line
        assert found[child] == "sleep 60" and "import subprocess" in found[sleeper.pid]
        os.kill(child, signal.SIGSTOP)
        _await(child, "T")
    finally:
        os.kill(child, signal.SIGKILL)
    _await(child, "")


def test_one_that_ended_and_was_not_waited_for_is_a_zombie() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        _await(process.pid, "Z")
    assert state_of(process.pid) == ""


def _await(pid: int, state: str) -> None:
    until = time.monotonic() + 10
    while state_of(pid) != state:
        assert time.monotonic() < until, state_of(pid)
        time.sleep(0.01)
