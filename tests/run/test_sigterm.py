"""SIGTERM and SIGHUP: a real child process is asked to end, stops in good order, and gives its log back."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.run.sigterm_program import counting
from trident import TridentTopology, listStates
from trident.errors import TridentError
from trident.run import sigterm
from trident.spouts import IterableSpout
from trident.testing import start_local

ROOT = Path(__file__).parents[2]


def ended(how: str, checkpoint: Path, number: int = signal.SIGTERM) -> tuple[int, list[str], str]:
    """Start the program, send it a signal when it is ready, and return its exit code, its lines and its errors."""
    command = [sys.executable, "-m", "tests.run.sigterm_program", how, str(checkpoint)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines: list[str] = []
        for line in child.stdout:
            lines.append(line.strip())
            if lines[-1] == ("True" if how == "other thread" else "ready"):
                child.send_signal(number)
                break
        try:
            rest, errors = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        return child.returncode, [*lines, *rest.split("\n")[:-1]], errors


def held(checkpoint: Path) -> bool | None:
    """Return whether a driver still holds the log."""
    (state,) = listStates(checkpoint)
    return state.heldByDriver


def check_goes_on(checkpoint: Path) -> None:
    """The next start finds every batch whole: the count is that of the last position."""
    with start_local(counting(), name="t", checkpointLocation=checkpoint) as running:
        count = running.state("count").value
        assert count >= 100 and count % 100 == 0


@pytest.mark.parametrize("how", ["with", "no with", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])])
def test_a_program_stops_in_good_order_and_gives_the_log_back(how: str, tmp_path: Path) -> None:
    code, lines, errors = ended(how, tmp_path)
    assert (code, lines) == (128 + signal.SIGTERM, ["ready"] if how == "no with" else ["ready", "finally"]), errors
    assert "Traceback" not in errors
    assert held(tmp_path) is False
    check_goes_on(tmp_path)


def test_a_terminal_that_is_closed_ends_a_program_in_good_order(tmp_path: Path) -> None:
    code, lines, errors = ended("with", tmp_path, signal.SIGHUP)
    assert (code, lines) == (128 + signal.SIGHUP, ["ready", "finally"]), errors
    assert held(tmp_path) is False
    check_goes_on(tmp_path)


def test_the_program_s_own_handler_is_called_and_decides_how_it_ends(tmp_path: Path) -> None:
    code, lines, errors = ended("own handler", tmp_path)
    assert (code, lines) == (7, ["ready", "own handler"]), errors
    assert held(tmp_path) is False
    check_goes_on(tmp_path)


def test_a_start_outside_the_main_thread_leaves_sigterm_alone(tmp_path: Path) -> None:
    code, lines, _ = ended("other thread", tmp_path)
    assert (code, lines) == (-signal.SIGTERM, ["ready", "True"])
    assert held(tmp_path) is True, "as after any death"
    check_goes_on(tmp_path)


def test_a_program_whose_topology_has_ended_dies_of_sigterm_as_ever(tmp_path: Path) -> None:
    assert ended("ended", tmp_path)[:2] == (-signal.SIGTERM, ["ready"])
    assert held(tmp_path) is False


# --- whose handler stands ---------------------------------------------------------------------------------------------


@pytest.fixture
def handler() -> Iterator[Any]:
    """A handler of the program's own, set before the start."""
    calls: list[int] = []

    def own(number: int, frame: Any) -> None:
        calls.append(number)

    own.calls = calls  # type: ignore[attr-defined]
    former = signal.signal(signal.SIGTERM, own)
    yield own
    signal.signal(signal.SIGTERM, former)


def test_the_former_handler_is_back_after_the_last_stop(handler: Any) -> None:
    with start_local(counting(), name="one"):
        with start_local(counting(), name="two"):
            assert signal.getsignal(signal.SIGTERM) is not handler
        assert signal.getsignal(signal.SIGTERM) is not handler, "one still runs"
    assert signal.getsignal(signal.SIGTERM) is handler


def boom() -> list[int]:
    raise OSError("no such source")


def test_the_former_handler_is_back_after_a_start_that_failed(handler: Any) -> None:
    topology = TridentTopology()
    topology.newStream("numbers", IterableSpout("n long", boom)).peek(print)
    with pytest.raises(TridentError, match="no such source"):
        start_local(topology, name="t")
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_handler_that_is_set_during_the_run_stays(handler: Any) -> None:
    running = start_local(counting(), name="t")
    later = signal.Handlers.SIG_DFL
    signal.signal(signal.SIGTERM, later)
    running.stop()
    assert signal.getsignal(signal.SIGTERM) is later


def test_a_handler_that_calls_ours_is_called_once_and_ours_ends_in_the_first_one(handler: Any) -> None:
    """A program sets a handler over ours and starts again: ours then stands on both sides of it."""
    running = start_local(counting(), name="t")
    ours, between = signal.getsignal(signal.SIGTERM), []

    def wrapping(number: int, frame: Any) -> None:
        between.append(number)
        ours(number, frame)  # type: ignore[operator,misc]

    signal.signal(signal.SIGTERM, wrapping)
    more = start_local(counting(), name="more")
    os.kill(os.getpid(), signal.SIGTERM)
    assert running.wait_ended(20) and more.wait_ended(20), "both were asked to stop"
    assert (between, handler.calls) == ([signal.SIGTERM], [signal.SIGTERM])
    more.stop()
    assert signal.getsignal(signal.SIGTERM) is wrapping


def test_an_ignored_sigterm_stays_ignored() -> None:
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with start_local(counting(), name="t"):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, former)


def test_outside_the_main_thread_nothing_is_set_or_taken_back(handler: Any) -> None:
    threads = [threading.Thread(target=each) for each in (sigterm.watch, sigterm.unwatch)]
    for thread in threads:
        thread.start()
        thread.join()
    assert signal.getsignal(signal.SIGTERM) is handler
