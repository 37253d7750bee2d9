"""``trident serve --workers``: the processes that answer end with the one that started them, and with each other."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.stored import ROOT
from tests.support.waiting import wait_until
from trident.base.errors import TopologyError
from trident.cli.serve import keep

SERVES = """
import multiprocessing, sys
from tests.cli.test_serve_processes import sleeps
from trident.cli.serve import keep
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    keep([context.Process(target=sleeps, args=(sys.argv[1],)) for _ in range(2)])
"""


def sleeps(folder: str) -> None:
    """Answer, as far as the one that started this process can tell."""
    from trident.cli.serve import _end_with_parent

    _end_with_parent()
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(300)


def fails() -> None:
    time.sleep(0.5)
    sys.exit(3)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_that_answer_do_not_outlive_the_one_that_started_them(tmp_path: Path) -> None:
    program, pids = tmp_path / "serves.py", tmp_path / "pids"
    program.write_text(SERVES)
    pids.mkdir()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")])}
    with subprocess.Popen([sys.executable, str(program), str(pids)], env=environment) as parent:
        wait_until(lambda: len(list(pids.iterdir())) == 2, 240)
        workers = [int(file.name) for file in pids.iterdir()]
        assert all(map(lives, workers))
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(lives, workers)), 60)


def test_all_processes_end_when_one_fails(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=sleeps, args=(str(tmp_path),)), context.Process(target=fails)]
    with pytest.raises(TopologyError, match="a server process ended with an error"):
        keep(processes)
    assert not any(process.is_alive() for process in processes)
