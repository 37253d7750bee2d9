"""How a run ends: by request, in the middle of things, from its own threads, with spouts and functions that hang."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.batches.test_coordinator import attempt, made, of, planned, ready
from tests.support.waiting import wait_until
from trident import Count, TridentTopology
from trident.base.errors import AttemptCancelledError, BatchFailedError, StateUnavailableError, TridentError
from trident.batches import coordinator_events as on
from trident.batches import group_run
from trident.batches.retries import Retries
from trident.run import registry
from trident.spouts import BatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROOT = Path(__file__).parents[2]


def test_an_attempt_that_stop_cancelled_is_no_failure_of_the_topology() -> None:
    coordinator = made(pending=2, retries=Retries(1))
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))  # its commit is under way
    coordinator.handle(planned(2))
    coordinator.handle(on.StopAsked())
    coordinator.handle(on.RunFailed(attempt(2), AttemptCancelledError("cancelled")))
    coordinator.handle(on.Committed(1))
    assert of(on.Finish, coordinator.handle(on.Succeeded(1))) == [on.Finish(None)]


def test_a_plan_that_fails_after_stop_is_no_failure_of_the_topology() -> None:
    coordinator = made(pending=2, retries=Retries(1))
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))
    coordinator.handle(on.StopAsked())
    coordinator.handle(on.PlanFailed(attempt(2), ValueError("closed")))
    coordinator.handle(on.Committed(1))
    assert of(on.Finish, coordinator.handle(on.Succeeded(1))) == [on.Finish(None)]


def test_stop_does_not_wait_for_a_store_that_is_away() -> None:
    coordinator = made()
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))
    coordinator.handle(on.CommitFailed(1, StateUnavailableError("away"), True))
    assert of(on.Finish, coordinator.handle(on.StopAsked())) == [on.Finish(None)]


def counting(spout: Any, function: Any = str) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).map("word", function, "word string").groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


ENDLESS = FixedBatchSpout("word string", [["a"], ["b"]], cycle=True)


def test_a_topology_that_has_ended_can_be_started_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    release = registry.release

    def slowly(*given: Any) -> None:
        time.sleep(0.3)
        release(*given)

    monkeypatch.setattr(registry, "release", slowly)
    for _ in range(2):
        start_local(counting(ENDLESS), name="again").stop()


def test_a_listener_can_stop_the_topology() -> None:
    running = start_local(counting(ENDLESS), name="listened")
    told: list[object] = []

    def listener(event: dict[str, Any]) -> None:
        if not told:
            running.stop()
            with pytest.raises(
                TridentError,
                match=r"processAllAvailable\(\) was called in a thread of the topology, by a listener.*another thread",
            ):
                running.processAllAvailable()
            told.append(event)

    running.progress.listen(listener)
    assert running.awaitTermination(timeout=10) is True
    assert told and running.exception() is None


def test_attempts_that_hang_for_ever_end_in_one_error() -> None:
    release = threading.Event()

    def hang(word: str) -> str:
        release.wait(60)
        return word

    spout = FixedBatchSpout("word string", [["a"], ["b"], ["c"]])
    running = start_local(counting(spout, hang), name="hanging", messageTimeoutSecs=0.02, maxSpoutPending=1)
    try:
        with pytest.raises(BatchFailedError, match=r"batch 1 failed 5 times.*attempt 1:4 ran longer than 0\.32 s"):
            running.processAllAvailable(timeout=20)
        assert not running.isActive
    finally:
        release.set()


class Stuck(BatchSpout):
    """A spout whose source never answers."""

    outputFields = "word string"

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()

    def emitBatch(self, batchId: int) -> Any:
        self.asked.set()
        self.release.wait(60)

    def ack(self, batchId: int) -> None: ...


def test_stop_returns_while_a_spout_hangs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(group_run, "PATIENCE_SECONDS", 0.2)
    spout = Stuck()
    running = start_local(counting(spout), name="stuck")
    assert spout.asked.wait(5)
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    stopper.join(timeout=5)
    spout.release.set()
    assert not stopper.is_alive() and not running.isActive
    assert "spout 'words', " in caplog.text and "does not return; it is abandoned" in caplog.text


def test_status_can_be_asked_at_any_time() -> None:
    with start_local(counting(ENDLESS), name="watched", maxSpoutPending=8) as running:
        wait_until(lambda: running._runs["words"].committed > 3)
        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                assert running.status["isActive"]
        finally:
            sys.setswitchinterval(switch)


def test_a_late_attempt_leaves_nothing_behind() -> None:
    release, late = threading.Event(), threading.Event()

    def word(word: str) -> str:
        if not late.is_set():
            late.set()
            release.wait(10)
        return word

    with start_local(counting(ENDLESS, word), name="late", messageTimeoutSecs=0.1, maxSpoutPending=1) as running:
        run = running._runs["words"]
        wait_until(lambda: run.committed > 5)
        release.set()
        time.sleep(0.3)
        assert all(attempt.txid > run.committed - 1 for attempt in list(run._attempts.held))
        assert all(attempt.txid > run.committed - 1 for attempt in list(run._attempts._void))
        assert len(run._calls._calls) <= 2 and len(run._timers.queue) <= 4 and len(running._context.trace._open) <= 2


PROGRAM = """
import sys, time
from tests.batches.test_group_run import ENDLESS, counting
from trident.testing.local import start_local
running = start_local(counting(ENDLESS), name="left", checkpointLocation=sys.argv[1])
while running._runs["words"].committed < 5:
    time.sleep(0.01)
"""


def test_a_program_that_ends_with_a_running_topology_stops_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    with trident.openState("left", "counts", tmp_path) as counts:
        assert counts.asOfTxid == sum(dict(counts.items()).values()) > 0


def test_a_forked_child_knows_that_the_topology_runs_elsewhere() -> None:
    with start_local(counting(ENDLESS), name="forked") as running:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                running.stop()
                assert not running.isActive and trident.active() == []
                with pytest.raises(TridentError, match="runs in the process that forked this one"):
                    running.state("counts").get("a")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        before = running._runs["words"].committed
        wait_until(lambda: running._runs["words"].committed > before)


LATE = """
import tempfile, threading, time
import pyarrow as pa
from tests.batches.test_group_run import ENDLESS, counting
from trident.testing.local import start_local
begun = threading.Event()
class Slow:
    closed = False
    def read(self, n=-1):  # called by Arrow's C++, as a Spark result's socket is
        begun.set()
        for _ in range(2000):  # it comes back to the interpreter again and again
            time.sleep(0.0005)
        return b""
def word(word: str) -> str:
    try:
        pa.ipc.open_stream(pa.PythonFile(Slow(), "r"))
    except pa.ArrowInvalid:
        pass
    return word
running = start_local(counting(ENDLESS, word), name="late", checkpointLocation=tempfile.mkdtemp())
begun.wait()
running.stop()
"""


def test_a_program_that_ends_after_stop_waits_for_work_that_is_being_cancelled() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.count("\n")) == (0, 1)
    assert "topology 'late' stopped before its first batch" in ended.stderr
