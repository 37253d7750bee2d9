"""Locks of files belong to a process: no child inherits one, and a look takes none."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.stored import ROOT
from tests.support.waiting import wait_until
from trident.cluster import process_lock

HOLDS = """
import os, sys, time
from pathlib import Path
from trident.cluster import process_lock
with process_lock.locked(Path(sys.argv[1])) as got:
    child = os.fork()
    if child == 0:
        time.sleep(300)
    print(got, child, flush=True)
    time.sleep(300)
"""
LOOKS = """
import sys
from pathlib import Path
from trident.cluster import process_lock
with process_lock.locked(Path(sys.argv[1])) as got:
    print(got, end=" ")
print(process_lock.holder_of(Path(sys.argv[1])))
"""


def python(code: str, path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def look(path: Path) -> str:
    """Return whether another process can lock the file, and whom it sees as the holder."""
    return python(LOOKS, path).communicate(timeout=30)[0].strip()


@pytest.fixture
def holder(tmp_path: Path) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    """A process that has locked a file, and forked a child."""
    process = python(HOLDS, tmp_path / "lock")
    assert process.stdout is not None
    got, child = process.stdout.readline().split()
    assert got == "True"
    yield process, int(child)
    os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()


def test_a_forked_child_keeps_no_lock(tmp_path: Path, holder: "tuple[subprocess.Popen[str], int]") -> None:
    process, child = holder
    assert process_lock.holder_of(tmp_path / "lock") == process.pid
    with process_lock.locked(tmp_path / "lock") as got:
        assert not got
    process.kill()
    process.wait()
    os.kill(child, 0)  # the child lives, and has the parent's descriptors
    wait_until(lambda: process_lock.holder_of(tmp_path / "lock") is None)
    with process_lock.locked(tmp_path / "lock") as got:
        assert got


def test_a_look_takes_nothing_and_frees_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert process_lock.holder_of(path) is None and not path.exists()
    with process_lock.locked(path) as got:
        assert got and process_lock.holder_of(path) == os.getpid()
        with process_lock.locked(path) as again:  # of another thread, say
            assert not again
        assert look(path) == f"False {os.getpid()}"
    assert process_lock.holder_of(path) is None
    assert look(path) == "True None"


def test_a_child_of_this_process_sees_that_its_parent_has_the_lock(tmp_path: Path) -> None:
    with process_lock.locked(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            seen = process_lock.holder_of(tmp_path / "lock")
            with process_lock.locked(tmp_path / "lock") as got:
                os._exit(0 if seen == os.getppid() and not got else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert look(tmp_path / "lock") == f"False {os.getpid()}"  # what the child closed has freed nothing here
