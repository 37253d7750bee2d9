"""The process is killed while it writes snapshots: what is found is a cut at one txid, and all that was promised."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.state.memory.homes import MemoryStorage
from tests.state.memory.killing import KEYS, expected
from trident.base.attempt import Lease
from trident.testing.contracts.stores import Setting


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_leaves_a_whole_snapshot(tmp_path: Path) -> None:
    setting, chance, found = Setting(MemoryStorage(tmp_path)), random.Random(7), 0
    for epoch in (1, 2):
        code = f"from tests.state.memory.killing import write; write({str(tmp_path)!r}, {epoch})"
        root = Path(__file__).parents[3]
        child = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline(), "it has taken a snapshot"
        time.sleep(chance.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        promised = [int(line) for line in child.stdout.read().split()]
        child.stdout.close()
        child.wait()
        store = setting.open()
        store.acquire(Lease(epoch, f"token{epoch}"))
        at = store.groups_of()[0].marker
        assert at is not None and at >= max([found, *promised])
        assert setting.read(store, range(KEYS), at) == expected(at)
        assert setting.read(store, range(KEYS), at - 1) == expected(at - 1)
        found = at
    assert found >= 4
