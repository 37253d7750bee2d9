"""A standby fires the timers that a killed driver has set, each once."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.run.timed_program import KEYS, NAME, ROUNDS, topology
from tests.support.soak import some_of
from tests.support.waiting import wait_until
from trident.testing import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


@contextmanager
def driver(folder: Path, where: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a driver in a process of its own, which stands by if another one is active."""
    command = [sys.executable, "-m", "tests.run.timed_program", str(folder), where]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def until(process: "subprocess.Popen[str]", says: str) -> None:
    told: IO[str] | None = process.stdout
    assert told is not None and told.readline() == f"{says}\n"


@pytest.mark.parametrize("where", ["memory", "sqlite", "redis"])
@pytest.mark.parametrize("seed", some_of(range(10), range(1)))
def test_each_timer_fires_once_over_killed_drivers_and_their_standbys(
    seed: int, where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    place = request.getfixturevalue("shared_redis").url if where == "redis" else where
    with ExitStack() as drivers:
        active = drivers.enter_context(driver(tmp_path, place))
        until(active, "stands by")
        for _ in range(2):
            until(active, "active")
            standby = drivers.enter_context(driver(tmp_path, place))
            until(standby, "stands by")
            time.sleep(chance.random() / 2)
            active.kill()
            active = standby
    with start_local(topology(tmp_path, place), name=NAME, checkpointLocation=tmp_path, standby=True) as running:
        wait_until(lambda: dict(running.state("fired").items()) == dict.fromkeys(KEYS, ROUNDS), seconds=30)
        time.sleep(0.5)  # a timer that fires once more would do so now
        running.processAllAvailable(timeout=20)
        notes: dict[Any, Any] = dict(running.state("noted").items())
    fired = {f"{key} {number}": 1 for key in KEYS for number in range(1, ROUNDS + 1)}
    assert notes == {**fired, None: len(KEYS)}  # None for each tuple that set a timer
