"""Drivers that die: crash_at within the process, kill_at in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.test_source import COUNTS, WORDS, counting, counts
from trident.spouts import FixedBatchSpout
from trident.testing import (
    CRASH_POINTS,
    CRASH_VARIABLE,
    PAUSE,
    DriverCrashedError,
    TestSource,
    crash_at,
    kill_at,
    run_through,
    start_local,
)

START_POINTS = [point for point in CRASH_POINTS if point.startswith("start.")]


@pytest.mark.parametrize("point", START_POINTS)
def test_a_driver_that_dies_while_it_starts_is_followed_by_another_one(point: str, tmp_path: Path) -> None:
    topology = counting(TestSource("word string", WORDS))
    with crash_at(point), pytest.raises(DriverCrashedError, match=f"the driver died: crash point {point}"):
        start_local(topology, checkpointLocation=tmp_path)
    with start_local(topology, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


def test_any_topology_can_crash_at_any_passage_of_a_point(tmp_path: Path) -> None:
    topology = counting(FixedBatchSpout("word string", WORDS))  # type: ignore[arg-type]
    with crash_at("commit.state.after", count=2):
        running = start_local(topology, checkpointLocation=tmp_path)
        with pytest.raises(DriverCrashedError):
            running.processAllAvailable(timeout=30)
        assert not running.isActive or running.awaitTermination(timeout=30)
    with start_local(topology, checkpointLocation=tmp_path) as running:
        assert running.status["groups"]["words"]["committed"] in (1, 2, 3)
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


def test_run_through_starts_again_after_each_crash_and_raises_what_else_fails(tmp_path: Path) -> None:
    topology = counting(FixedBatchSpout("word string", WORDS))  # type: ignore[arg-type]
    with crash_at("freeze.after"), run_through(topology, checkpointLocation=tmp_path, timeout=30) as running:
        assert counts(running) == COUNTS
    with pytest.raises(ValueError, match="pass checkpointLocation= .or log=. to a start"), crash_at("freeze.after"):
        run_through(topology)


def test_a_topology_that_was_started_before_the_block_cannot_crash() -> None:
    source = TestSource("word string", [WORDS[0], PAUSE, *WORDS[1:]])
    running = start_local(counting(source))
    running.processAllAvailable(timeout=30)
    with crash_at("freeze.before"):
        source.resume()
        with pytest.raises(
            DriverCrashedError, match="a crash is not possible here. Start the topology within crash_at"
        ):
            running.processAllAvailable(timeout=30)
    running.stop()


def test_outside_of_the_block_nothing_crashes(tmp_path: Path) -> None:
    with pytest.raises(KeyError), crash_at("plan.before"):
        raise KeyError
    with start_local(counting(TestSource("word string", WORDS)), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)


def test_a_point_that_is_none_is_refused() -> None:
    for refused in (lambda: crash_at("later").__enter__(), lambda: kill_at("later")):
        with pytest.raises(ValueError, match=r"unknown crash point 'later'; expected one of start.log.taken, "):
            refused()


PROGRAM = """
import sys
from tests.testing.test_source import WORDS, counting, counts
from trident.testing import TestSource, kill_at, start_local

if sys.argv[2:]:
    kill_at(sys.argv[2], count=2)
with start_local(counting(TestSource("word string", WORDS)), checkpointLocation=sys.argv[1]) as running:
    running.processAllAvailable(timeout=30)
    print(counts(running))
"""


@pytest.mark.parametrize("from_outside", [False, True])
def test_a_process_is_killed_where_it_is_armed_and_the_next_one_goes_on(from_outside: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)]
    armed = {**os.environ, CRASH_VARIABLE: "committed.before:2"} if from_outside else None
    killed = subprocess.run([*command, *([] if from_outside else ["committed.before"])], env=armed, check=False)
    assert killed.returncode == -signal.SIGKILL
    last = subprocess.run(command, capture_output=True, text=True, check=True)
    assert last.stdout == f"{COUNTS}\n"


def test_kill_at_can_be_disarmed(tmp_path: Path) -> None:
    kill_at("plan.before")
    kill_at(None)
    with start_local(counting(TestSource("word string", WORDS)), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
