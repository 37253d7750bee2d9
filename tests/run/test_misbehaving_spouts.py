"""Spouts that raise, logs that are full, stores that are slow: nothing lost, one typed error, or all goes on."""

import secrets
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import trident
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import BatchFailedError, LogError, SpoutContractError, TopologyActiveError
from trident.base.spark_types import arrow_schema, parse_schema
from trident.log.sqlite_log import SqliteLog
from trident.spouts import BatchSpout, FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind
from trident_state.memory.store import MemoryStore

SCHEMA = parse_schema("word string")


pytestmark = pytest.mark.usefixtures("nothing_left_running")


@dataclass(frozen=True)
class Scripted:
    """One word a batch, `total` of them; raises where `faults` says so: method -> how often."""

    kind: SpoutKind
    total: int = 6
    faults: dict[str, int] = field(default_factory=dict)
    metadata: Any = None
    told: list[str] = field(default_factory=list)

    @property
    def schema(self) -> StructType:
        return SCHEMA

    def open(self) -> "ScriptedExecutor":
        return ScriptedExecutor(self)


class ScriptedExecutor:
    plans_ahead = True

    def __init__(self, spout: Scripted) -> None:
        self.spout = spout

    def _fault(self, method: str) -> None:
        if self.spout.faults.get(method, 0):
            self.spout.faults[method] -= 1
            raise OSError(f"{method} does not work just now")

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        self._fault("plan")
        at = previous["at"] if isinstance(previous, dict) else 0
        return None if at >= self.spout.total else {"at": at + 1, "more": self.spout.metadata}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        self._fault("emit")
        assert isinstance(metadata, dict)
        return ArrowEmission(pa.table([[f"w{metadata['at']}"]], schema=arrow_schema(SCHEMA)))

    def success(self, txid: int, metadata: Metadata) -> None:
        self._fault("success")
        self.spout.told.append(f"success {txid}")

    def fail(self, attempt: TransactionAttempt) -> None:
        self.spout.told.append(f"fail {attempt}")
        self._fault("fail")

    def close(self) -> None:
        self._fault("close")


def counting(*spouts: Any, function: Any = str) -> TridentTopology:
    topology = TridentTopology()
    streams = [topology.newStream(f"s{n}", spout) for n, spout in enumerate(spouts)]
    merged = topology.merge(*streams) if len(streams) > 1 else streams[0]
    words = merged.map("word", function, "word string").groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.mark.parametrize("kind", list(SpoutKind))
@pytest.mark.parametrize("method", ["plan", "emit", "success", "fail", "close"])
def test_a_spout_that_raises_now_and_then_loses_and_doubles_nothing(kind: SpoutKind, method: str) -> None:
    faults = {method: 3, "emit": 3 if method in ("fail", "emit") else 0}
    spout = Scripted(kind, faults=faults)
    with start_local(counting(spout), name="raising") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {f"w{n}": 1 for n in range(1, 7)}
    assert not any(spout.faults.get(name) for name in ("plan", "emit", "success", "fail"))


def test_a_spout_that_cannot_plan_ends_in_one_error_that_names_the_cause() -> None:
    running = start_local(counting(Scripted(SpoutKind.OPAQUE, faults={"plan": 99})), name="raising")
    with pytest.raises(BatchFailedError, match="batch 1 failed 5 times, the last time with: plan does not work"):
        running.processAllAvailable(timeout=20)


def test_metadata_that_is_no_json_ends_in_one_error_that_names_the_spout() -> None:
    running = start_local(counting(Scripted(SpoutKind.OPAQUE, metadata={1, 2})), name="raising")
    with pytest.raises(BatchFailedError, match=r"spout 's0' returned metadata that is not JSON") as told:
        running.processAllAvailable(timeout=20)
    assert isinstance(told.value.__cause__, SpoutContractError)


def test_failures_of_an_idle_source_do_not_add_up() -> None:
    spout = Scripted(SpoutKind.OPAQUE, total=0)
    with start_local(counting(spout), name="raising") as running:
        for _ in range(8):
            spout.faults["plan"] = 2
            running.processAllAvailable(timeout=20)
        assert running.isActive and running.exception() is None


def test_a_full_disk_stops_the_run_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spout = FixedBatchSpout("word string", [[secrets.token_hex(200) for _ in range(40)] for _ in range(30)])
    expected = {row for table in spout.tables for row in table.column(0).to_pylist()}
    create = SqliteLog._create

    def small(self: SqliteLog, topology: str) -> None:
        create(self, topology)
        self._db.execute("PRAGMA max_page_count = 30")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "_create", small)
        running = start_local(counting(spout), name="full", checkpointLocation=tmp_path)
        with pytest.raises(LogError, match=r"log\.sqlite cannot be used: database or disk is full"):
            running.processAllAvailable(timeout=20)
        assert not running.isActive
    with start_local(counting(spout), name="full", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        counts = dict(running.state("counts").items())
    assert set(counts) == expected and set(counts.values()) == {1}


def test_stop_waits_for_a_slow_commit_and_the_next_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, begun = MemoryStore.apply, threading.Event()

    def slow(self: MemoryStore, *given: Any) -> Any:
        begun.set()
        time.sleep(0.3)
        return apply(self, *given)

    spout = FixedBatchSpout("word string", [[f"w{n}"] for n in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "apply", slow)
        running = start_local(counting(spout), name="slow", checkpointLocation=tmp_path)
        assert begun.wait(10)
        running.stop()
    with start_local(counting(spout), name="slow", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {f"w{n}": 1 for n in range(6)}


class Pushing(BatchSpout):
    """A source that gives each row once, whatever becomes of it."""

    outputFields = "word string"

    def __init__(self, total: int) -> None:
        self.left = [f"pushed{n}" for n in range(total)]

    def emitBatch(self, batchId: int) -> Any:
        return [self.left.pop(0)] if self.left else None

    def ack(self, batchId: int) -> None: ...


@dataclass(frozen=True)
class Replanned(Scripted):
    """Every plan of a batch is another one, so that a failure voids the batches after it."""

    def open(self) -> "ReplannedExecutor":
        return ReplannedExecutor(self)


class ReplannedExecutor(ScriptedExecutor):
    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        plan = super().plan(attempt, previous, time)
        return None if plan is None else {**plan, "more": time}  # type: ignore[dict-item]


def test_rows_of_a_source_that_gives_them_once_outlive_a_batch_that_is_planned_anew() -> None:
    failed: set[str] = set()
    later = threading.Event()

    def sometimes(word: str) -> str:
        if word == "w3":
            later.set()
        if word == "w2" and word not in failed:
            later.wait(5)
            failed.add(word)
            raise RuntimeError("batch 2 fails while batch 3 runs")
        return word

    topology = counting(Pushing(6), Replanned(SpoutKind.OPAQUE), function=sometimes)
    with start_local(topology, name="mixed", maxSpoutPending=4) as running:
        running.processAllAvailable(timeout=20)
        expected = [f"pushed{n}" for n in range(6)] + [f"w{n}" for n in range(1, 7)]
        assert dict(running.state("counts").items()) == dict.fromkeys(expected, 1)
    assert failed == {"w2"}


def test_two_topologies_of_one_process_do_not_meet(tmp_path: Path) -> None:
    spout = FixedBatchSpout("word string", [["a"], ["b"], ["a"]])
    with (
        start_local(counting(spout), name="one", checkpointLocation=tmp_path) as one,
        start_local(counting(spout), name="two", checkpointLocation=tmp_path) as two,
    ):
        for running in (one, two):
            running.processAllAvailable(timeout=20)
            assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
        one.stop()
        assert two.isActive and trident.active() == [two]


def test_a_reset_fences_out_a_driver_that_still_runs_elsewhere(tmp_path: Path) -> None:
    from trident.base.errors import FencedError
    from trident.run import registry

    feeder = FeederBatchSpout("word string")
    topology = counting(feeder)
    running = start_local(topology, name="wc", checkpointLocation=tmp_path)
    feeder.feed(["a"])
    running.processAllAvailable(timeout=20)
    with pytest.raises(TopologyActiveError):
        topology.reset("wc", tmp_path)
    registry.release("wc", running)  # as if it ran in another process
    topology.reset("wc", tmp_path)
    feeder.feed(["b"])
    with pytest.raises(FencedError):
        running.processAllAvailable(timeout=20)


def test_a_reset_that_cannot_remove_the_log_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    topology = counting(FixedBatchSpout("word string", [["a"]]))
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)

    def refused(path: Any, ignore_errors: bool = False, **_: Any) -> None:
        if not ignore_errors:
            raise PermissionError(f"no right to remove {path}")

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(PermissionError, match="no right to remove"):
        topology.reset("wc", tmp_path)
