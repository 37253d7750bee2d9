"""Attempts over restarts: their numbers go on, deaths are counted, and batches of which nothing froze are planned anew.

Drivers are processes, killed with SIGKILL where a test says so.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tests.run.driver_lives import ROWS, SEEN_BY_USERS, SPOUTS
from trident import Count, TridentTopology
from trident.base import crash_points
from trident.base.attempt import TransactionAttempt
from trident.base.errors import BatchFailedError
from trident.base.spark_types import parse_schema
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Metadata, SpoutKind

ROOT = Path(__file__).parents[2]
Live = Callable[..., dict[str, Any]]
WORDS = {word: ROWS.count(word) for word in ROWS}


@pytest.fixture(scope="module")
def drivers() -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.run.driver_lives"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None

    def ask(order: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(order), file=process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        return answer

    yield ask
    process.stdin.close()
    process.wait(timeout=30)


@pytest.fixture
def live(drivers: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path) -> Live:
    """Let a driver live over this test's checkpoint, and be killed at `crash`."""

    def live(spout: str = "fixed", crash: str = "", **options: Any) -> dict[str, Any]:
        return drivers({"spout": spout, "folder": str(tmp_path), "crash": crash, "options": options})

    return live


@pytest.mark.parametrize("spout", sorted(set(SPOUTS) - {"fixed twice"}))
def test_the_number_of_an_attempt_goes_on_after_kills(spout: str, live: Live) -> None:
    for _ in range(2):
        assert live(spout, "run.before")["signal"] == signal.SIGKILL
    last = live(spout)
    assert last["error"] is None
    assert last["attempts"] == [2]
    assert last["words"] == WORDS
    if spout in SEEN_BY_USERS:
        assert last["seen"] == [0, 1, 2]


def test_it_is_recorded_before_anything_is_emitted(live: Live) -> None:
    """The source may have sent what nobody can take back: the next attempt has another number."""
    assert live("coordinated", "emit.before")["signal"] == signal.SIGKILL
    assert live("coordinated")["seen"] == [1]


def test_a_batch_that_kills_its_drivers_stops_and_the_start_after_that_tries_again(live: Live) -> None:
    for _ in range(3):
        assert live(crash="run.before", maxAttempts=3)["signal"] == signal.SIGKILL
    stopped = live(maxAttempts=3)
    assert stopped["error"].startswith("BatchFailedError: the driver died 3 times in a row during batch 1")
    assert "maxAttempts=3" in stopped["error"] and "the next start tries the batch again" in stopped["error"]
    assert live(crash="run.before", maxAttempts=3)["signal"] == signal.SIGKILL
    last = live(maxAttempts=3)
    assert last["error"] is None and last["words"] == WORDS and last["attempts"] == [4]


def test_a_driver_that_was_stopped_has_not_died(tmp_path: Path) -> None:
    """Though the batch was under way each time."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(word: str) -> str:
        begun.set()
        go_on.wait(timeout=30)
        return word

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [ROWS])).map("word", slow, "word string")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    for _ in range(2):
        begun.clear()
        running = start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1)
        assert begun.wait(timeout=30)
        threading.Timer(0.3, go_on.set).start()
        running.stop()
        go_on.clear()
    go_on.set()
    with start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == WORDS
        assert [each["attempt"] for each in running.recentProgress] == [2]


# --- planned anew ---------------------------------------------------------------------------------------------------


def test_a_batch_whose_file_was_deleted_before_anything_froze_does_not_stop_the_next_start(
    live: Live, tmp_path: Path
) -> None:
    assert live("file", "run.after")["signal"] == signal.SIGKILL
    (tmp_path / "in" / "words.txt").unlink()
    (tmp_path / "in" / "more.txt").write_text("d\n")
    last = live("file")
    assert last["error"] is None and last["words"] == {"d": 1}


def test_a_batch_whose_file_was_touched_before_anything_froze_is_planned_anew(live: Live, tmp_path: Path) -> None:
    assert live("file", "run.after")["signal"] == signal.SIGKILL
    os.utime(tmp_path / "in" / "words.txt", (1, 1))
    last = live("file")
    assert last["error"] is None and last["words"] == WORDS


def test_a_spout_that_has_fewer_batches_by_now_goes_on_without_them(live: Live) -> None:
    assert live("fixed twice", "run.after:2")["signal"] == signal.SIGKILL
    last = live("fixed")
    assert last["error"] is None and last["words"] == WORDS
    assert live("fixed twice")["words"] == WORDS | {"c": 1}


# --- other tuples under the same metadata -----------------------------------------------------------------------------


class Rows:
    """An emission that tells its tuples' digest."""

    after = None

    def __init__(self, rows: list[str]) -> None:
        self.table = pa.table({"word": rows})
        self.rows, self.digest = len(rows), "/".join(rows)

    def arrow(self) -> pa.Table:
        return self.table


class Changing:
    """A source whose rows are others by the time they are asked for again. `kind`: what it says of that."""

    def __init__(self, kind: SpoutKind, *emitted: list[str]) -> None:
        self.kind, self.emitted = kind, list(emitted)

    @property
    def schema(self) -> StructType:
        return parse_schema("word string")

    def open(self) -> "Changing":
        return self

    plans_ahead = True

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        return {"upto": 3} if previous is None else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Rows:
        return Rows(self.emitted.pop(0) if len(self.emitted) > 1 else self.emitted[0])

    def success(self, txid: int, metadata: Metadata) -> None: ...

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def counted(spout: Any, failures: list[Exception]) -> TridentTopology:
    def sometimes(word: str) -> str:
        if failures:
            raise failures.pop()
        return word

    topology = TridentTopology()
    words = topology.newStream("words", spout).map("word", sometimes, "word string").groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def test_a_transactional_source_that_emits_other_tuples_at_a_replay_is_refused(tmp_path: Path) -> None:
    spout = Changing(SpoutKind.TRANSACTIONAL, ["a", "b"], ["a", "c"])
    running = start_local(counted(spout, [ValueError("once")]), name="t", checkpointLocation=tmp_path)
    with pytest.raises(
        BatchFailedError, match=r"words/0:newStream.*attempt 1:1 emitted different tuples.*\{'upto': 3\}"
    ):
        running.processAllAvailable(timeout=30)
    running.stop()
    again = start_local(counted(Changing(SpoutKind.TRANSACTIONAL, ["c"]), []), name="t", checkpointLocation=tmp_path)
    with again:  # the way out that the message names: nothing was frozen, so the batch is planned anew
        again.processAllAvailable(timeout=30)
        assert dict(again.state("counts").items()) == {"c": 1}


def test_after_a_kill_too(live: Live, tmp_path: Path) -> None:
    """The digest is in the log before the batch goes on."""
    checkpoint = tmp_path / "checkpoint"
    first = counted(Changing(SpoutKind.TRANSACTIONAL, ["a", "b"]), [])
    child = os.fork()
    if child == 0:
        crash_points.arm("run.before")
        try:
            with start_local(first, name="t", checkpointLocation=checkpoint) as running:
                running.processAllAvailable(timeout=30)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    second = counted(Changing(SpoutKind.TRANSACTIONAL, ["a", "c"]), [])
    running = start_local(second, name="t", checkpointLocation=checkpoint)
    with pytest.raises(BatchFailedError, match=r"attempt 1:\d emitted different tuples than an earlier attempt with"):
        running.processAllAvailable(timeout=30)
    running.stop()


@pytest.mark.parametrize("kind", [SpoutKind.OPAQUE, SpoutKind.NON_TRANSACTIONAL])
def test_a_source_that_does_not_promise_the_same_tuples_may_emit_others(kind: SpoutKind, tmp_path: Path) -> None:
    spout = Changing(kind, ["a", "b"], ["a", "c"])
    with start_local(counted(spout, [ValueError("once")]), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"a": 1, "c": 1}


def test_a_transactional_source_that_emits_the_same_again_passes(tmp_path: Path) -> None:
    batches = FixedBatchSpout("word string", [["a", "b"]])
    for spout in (Changing(SpoutKind.TRANSACTIONAL, ["a", "b"]), batches):
        folder = tmp_path / type(spout).__name__
        with start_local(counted(spout, [ValueError("once")]), name="t", checkpointLocation=folder) as running:
            running.processAllAvailable(timeout=30)
            assert dict(running.state("counts").items()) == {"a": 1, "b": 1}
