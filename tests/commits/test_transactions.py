"""Operations and spouts with checkpoints of their own, as JStorm's transactions: the order of calls, over restarts."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.noted_calls import NotedCalls
from trident import Count, TransactionOperation, TridentTopology
from trident.base import crash_points
from trident.base.errors import BatchFailedError, StateValueError, TopologyError, UserFunctionError
from trident.commits.operator_hooks import OperatorHooks
from trident.spouts import FeederBatchSpout, FixedBatchSpout, TransactionSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Total(NotedCalls, TransactionOperation):
    """The sum of n, in memory only. It notes every call."""

    def initState(self, checkpoint: Any) -> None:
        self.total = checkpoint["total"] if checkpoint else 0
        self.note(f"init {checkpoint}")

    def rollback(self, checkpoint: Any) -> None:
        self.total = checkpoint["total"] if checkpoint else 0
        self.note(f"rollback {checkpoint}")

    def execute(self, tuple: Any, collector: Any) -> None:
        self.total += tuple.n
        self.note(f"+{tuple.n}")
        collector.emit([self.total])

    def finishBatch(self, txid: int) -> Any:
        self.note(f"finish {txid}")
        return {"total": self.total}

    def commit(self, txid: int, checkpoint: Any) -> Any:
        self.note(f"commit {txid} {checkpoint}")
        return checkpoint

    def ackCommit(self, txid: int) -> None:
        self.note(f"ack {txid}")


def totals(operation: TransactionOperation, *batches: list[int]) -> tuple[TridentTopology, list[int]]:
    topology, seen = TridentTopology(), list[int]()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", list(batches)))
    numbers.statefulEach(operation, "total long", name="total").peek(lambda t: seen.append(t.total))
    return topology, seen


def run(topology: TridentTopology, checkpoint: Path, **options: Any) -> Any:
    with start_local(topology, name="t", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=30)
        return json.loads(running.state("total").value or "null")


def of_batch(txid: int, *numbers: int, total: int) -> list[str]:
    """The calls of a batch that went well."""
    checkpoint = {"total": total}
    return [*(f"+{n}" for n in numbers), f"finish {txid}", f"commit {txid} {checkpoint}", f"ack {txid}"]


def test_the_calls_of_a_run_come_in_order_and_a_restart_begins_with_the_last_checkpoint(tmp_path: Path) -> None:
    first, second = Total(), Total()
    topology, seen = totals(first, [1, 2], [], [3])
    assert run(topology, tmp_path) == {"total": 6}
    assert seen == [1, 3, 6]
    assert first.calls == ["init None", *of_batch(1, 1, 2, total=3), *of_batch(2, total=3), *of_batch(3, 3, total=6)]
    topology, seen = totals(second, [1, 2], [], [3], [4])
    assert run(topology, tmp_path) == {"total": 10}
    assert seen == [10]
    assert second.calls == ["init {'total': 6}", "ack 3", *of_batch(4, 4, total=10)]


@pytest.mark.parametrize("fails", ["+3", "finish 2", "commit 2 {'total': 5}"])
def test_a_batch_that_failed_begins_again_from_the_checkpoint_before(fails: str, tmp_path: Path) -> None:
    operation = Total(fails)
    topology, seen = totals(operation, [2], [3])
    assert run(topology, tmp_path) == {"total": 5}
    assert seen == [2, 5]
    failed = ["+3", "finish 2", "commit 2 {'total': 5}"]
    failed = failed[: failed.index(fails) + 1]
    again = ["rollback {'total': 2}", *of_batch(2, 3, total=5)]
    assert operation.calls == ["init None", *of_batch(1, 2, total=2), *failed, *again]


def test_an_acknowledgement_comes_behind_the_commit(tmp_path: Path) -> None:
    operation = Total()
    reached = ("committed.before", "committed.after")
    crash_points.listen(lambda point: operation.calls.append(point) if point in reached else None)
    try:
        run(totals(operation, [1])[0], tmp_path)
    finally:
        crash_points.listen(None)
    assert operation.calls == ["init None", *of_batch(1, 1, total=1)[:-1], *reached, "ack 1"]


def test_an_acknowledgement_that_a_crash_took_comes_again_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Total(), Total()
    with monkeypatch.context() as patch:
        patch.setattr(OperatorHooks, "committed", lambda self, txid: None)
        run(totals(first, [1], [2])[0], tmp_path)
    assert not [call for call in first.calls if call.startswith("ack")]
    run(totals(second, [1], [2], [3])[0], tmp_path)
    assert second.calls[:2] == ["init {'total': 3}", "ack 2"]


def test_an_acknowledgement_that_fails_is_logged_and_the_batch_stays_committed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    operation = Total("ack 1")
    assert run(totals(operation, [1], [2])[0], tmp_path) == {"total": 3}
    assert operation.calls[-1] == "ack 2"
    assert "failed in ackCommit(1)" in caplog.text


class Handles(TransactionOperation):
    """Large checkpoints in files of its own; what is committed is the name of a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initState(self, checkpoint: Any) -> None:
        self.words = json.loads((self.folder / checkpoint).read_text()) if checkpoint else []

    rollback = initState

    def execute(self, tuple: Any, collector: Any) -> None:
        self.words += [tuple.n] * 20_000
        collector.emit([len(self.words)])

    def finishBatch(self, txid: int) -> Any:
        return self.words

    def commit(self, txid: int, checkpoint: Any) -> Any:
        (self.folder / str(txid)).write_text(json.dumps(checkpoint))
        return str(txid)

    def ackCommit(self, txid: int) -> None:
        for file in self.folder.iterdir():
            if int(file.name) < txid:
                file.unlink()


def test_a_large_checkpoint_lies_elsewhere_and_its_key_is_committed(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    assert run(totals(Handles(folder), *[[n] for n in range(10)])[0], tmp_path) == "10"
    assert [file.name for file in folder.iterdir()] == ["10"], "older ones are deleted once they are not needed"
    topology, seen = totals(Handles(folder), *[[n] for n in range(11)])
    assert run(topology, tmp_path) == "11"
    assert seen == [220_000]


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("x" * (64 << 10), "a checkpoint of 65538 bytes, the limit is 65536. Store the checkpoint elsewhere in "),
        (
            {1},
            r"commit returned \{1\}, a checkpoint that is not JSON \(.*got \{1\} \(set\)\)",
        ),
        ({7: 1}, r"a checkpoint that is not JSON \(.*got the key 7 \(int\); JSON has keys of type str only\)"),
        ({"by user": [{None: 1}]}, r"not JSON \(the checkpoint\['by user'\]\[0\]: .* the key None"),
        (float("nan"), r"commit returned nan, a checkpoint that is not JSON"),
    ],
)
def test_a_checkpoint_that_cannot_be_committed_is_refused(checkpoint: Any, message: str, tmp_path: Path) -> None:
    class Large(Total):
        def finishBatch(self, txid: int) -> Any:
            return checkpoint

    with pytest.raises(StateValueError, match=message):
        run(totals(Large(), [1])[0], tmp_path)


def test_a_commit_that_takes_long_does_not_hold_up_the_computing_of_the_next_batch(tmp_path: Path) -> None:
    computed, committing = threading.Event(), list[bool]()

    class Slow(Total):
        def commit(self, txid: int, checkpoint: Any) -> Any:
            if txid == 1:
                committing.append(computed.wait(10))
            return checkpoint

    def compute(n: int) -> int:
        if n == 2:
            computed.set()
        return n

    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[1], [2]])).each("n", compute, "m long")
    numbers.statefulEach(Slow(), "total long", name="total")
    assert run(topology, tmp_path, maxSpoutPending=2) == {"total": 3}
    assert committing == [True], "batch 2 was computed while batch 1 was being committed"


# --- spouts -----------------------------------------------------------------------------------------------------------


class Numbers(TransactionSpout):
    """The numbers up to `last`, three a batch. It notes its calls."""

    outputFields = "n long"
    maxRows = 3
    maxSecs = 10.0

    def __init__(self, last: int) -> None:
        self.last = last
        self.calls: list[str] = []

    def initState(self, checkpoint: Any) -> None:
        self.at = checkpoint["at"] if checkpoint else 0
        self.calls.append(f"init {self.at}")

    def rollback(self, checkpoint: Any) -> None:
        self.at = checkpoint["at"] if checkpoint else 0
        self.calls.append(f"rollback {self.at}")

    def nextTuple(self, collector: Any) -> None:
        if self.at < self.last:
            self.at += 1
            collector.emit(self.at)

    def finishBatch(self, txid: int) -> Any:
        self.calls.append(f"finish {txid}")
        return {"at": self.at}

    def ackCommit(self, txid: int) -> None:
        self.calls.append(f"ack {txid}")

    def close(self) -> None:
        self.calls.append("close")


def counting(spout: TransactionSpout, step: Any = None) -> tuple[TridentTopology, list[int]]:
    topology, seen = TridentTopology(), list[int]()
    numbers = topology.newStream("numbers", spout)
    if step is not None:
        numbers = numbers.each("n", step, "m long")
    counts = numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="total")
    counts.newValuesStream().peek(lambda t: seen.append(t.n))
    return topology, seen


def counts(topology: TridentTopology, checkpoint: Path, **options: Any) -> dict[int, int]:
    with start_local(topology, name="t", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("total").items())


def test_a_spout_with_checkpoints_goes_on_where_the_last_batch_ended(tmp_path: Path) -> None:
    first, second = Numbers(7), Numbers(9)
    assert counts(counting(first)[0], tmp_path) == dict.fromkeys(range(1, 8), 1)
    assert _apart(first.calls) == (["init 0", "finish 1", "finish 2", "finish 3", "close"], ["ack 1", "ack 2", "ack 3"])
    assert counts(counting(second)[0], tmp_path) == dict.fromkeys(range(1, 10), 1)
    assert _apart(second.calls) == (["init 7", "finish 4", "close"], ["ack 3", "ack 4"])


def _apart(calls: list[str]) -> tuple[list[str], list[str]]:
    """Return the acknowledgements apart: the next batch may be gathered before the one before it is acknowledged."""
    acknowledged = [call for call in calls if call.startswith("ack")]
    return [call for call in calls if call not in acknowledged], acknowledged


def test_a_spout_is_rolled_back_to_the_checkpoint_of_the_batch_before_one_that_failed(tmp_path: Path) -> None:
    failed = list[int]()

    def once(n: int) -> int:
        if n == 5 and not failed:
            failed.append(n)
            raise RuntimeError("5 was to fail")
        return n

    spout = Numbers(8)
    assert counts(counting(spout, once)[0], tmp_path) == dict.fromkeys(range(1, 9), 1)
    assert failed == [5]
    rolled = [call for call in spout.calls if call.startswith("rollback")]
    assert rolled == ["rollback 3"]
    assert [call for call in spout.calls if call.startswith("finish")] == [f"finish {txid}" for txid in (1, 2, 2, 3)]


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (None, r"Wrong.commit\(1\) returned None, which means the beginning of the source"),
        ({1}, r"Wrong.commit\(1\): expected JSON, which the log can keep, got \{1\} \(set\)"),
        ("x" * 70_000, r"Wrong.commit\(1\) returned a checkpoint of 70002 bytes, the limit is 65536"),
    ],
)
def test_a_spouts_checkpoint_that_cannot_be_frozen_is_refused(checkpoint: Any, message: str, tmp_path: Path) -> None:
    class Wrong(Numbers):
        def finishBatch(self, txid: int) -> Any:
            return checkpoint

    with pytest.raises(BatchFailedError, match=message):
        counts(counting(Wrong(3))[0], tmp_path, maxAttempts=1)


def test_a_spout_that_fails_between_its_tuples_and_its_checkpoint_loses_none(tmp_path: Path) -> None:
    class Once(Numbers):
        def finishBatch(self, txid: int) -> Any:
            if txid == 2 and "fails" not in self.calls:
                self.calls.append("fails")
                raise RuntimeError("no checkpoint")
            return super().finishBatch(txid)

    spout = Once(6)
    assert counts(counting(spout)[0], tmp_path) == dict.fromkeys(range(1, 7), 1)
    after = spout.calls[spout.calls.index("fails") + 1 :]
    assert next(call for call in after if not call.startswith("ack")) == "rollback 3"


def test_an_id_of_a_message_that_nobody_would_acknowledge_is_refused(tmp_path: Path) -> None:
    class Ids(Numbers):
        def nextTuple(self, collector: Any) -> None:
            collector.emit(1, messageId="a")

    with pytest.raises(BatchFailedError, match=r"Ids.nextTuple: emit\(\.\.\., messageId='a'\): a TransactionSpout has"):
        counts(counting(Ids(3))[0], tmp_path, maxAttempts=1)


def test_a_stream_that_nobody_declared_is_refused(tmp_path: Path) -> None:
    class Streams(Numbers):
        def nextTuple(self, collector: Any) -> None:
            collector.emit(1, stream="orders")

    with pytest.raises(BatchFailedError, match=r"emit\(\.\.\., stream='orders'\): a TransactionSpout has one stream"):
        counts(counting(Streams(3))[0], tmp_path, maxAttempts=1)


def test_two_streams_cannot_read_one_spout_that_has_a_place(tmp_path: Path) -> None:
    topology, spout = TridentTopology(), Numbers(3)
    for name in ("one", "two"):
        topology.newStream(name, spout).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name)
    with pytest.raises(ValueError, match="Numbers already has a running stream that reads it"):
        counts(topology, tmp_path)


def test_an_object_works_for_one_step_and_one_run(tmp_path: Path) -> None:
    """Two that call it in turn would find each other's sum in it."""
    operation, source = Total(), FeederBatchSpout("n long")
    topology, _ = totals(operation, [1], [2])
    with pytest.raises(TopologyError, match=r"Total.* already keeps the values of state 'total'"):
        topology.newStream("more", FixedBatchSpout("n long", [[10]])).statefulEach(operation, "t long", name="more")
    first = TridentTopology()
    first.newStream("numbers", source).statefulEach(operation, "total long", name="total")
    running = start_local(first, name="first", maxAttempts=1)
    source.feed([1], wait=True, timeout=10)
    assert run(topology, tmp_path) == {"total": 3}  # the object is the second run's now
    source.feed([1])
    with pytest.raises(UserFunctionError, match=r"Total .* is used by another step or run at the same time"):
        running.awaitTermination(30)
    assert json.loads(running.state("total").value) == {"total": 1}
    running.stop()
