"""Code of the user's that does not come back, wherever it is called: named, given up in time, and nothing lost."""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.waiting import wait_until
from trident import Count, MapGet, TridentTopology
from trident.base.errors import (
    BatchFailedError,
    BatchTimeoutError,
    CallHangsError,
    DRPCTimeoutError,
    UserFunctionError,
)
from trident.batches import group_run, log_retention
from trident.reads import commit_gate
from trident.run.running import RunningTopology
from trident.spouts import BatchSpout, FeederBatchSpout, FixedBatchSpout
from trident.state import BackingMapState, MemoryMapState
from trident.telemetry.progress import BEHIND, Progress
from trident.testing.local import start_local
from trident.user_calls import watched_calls
from trident_state.memory.store import MemoryStore

LIMIT = 0.3
SOON = 15.0
"""Seconds within which everything here ends that would hang for ever."""


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watched_calls, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(group_run, "PATIENCE_SECONDS", 1.0)
    yield
    for running in trident.active():
        running.stop()


class Hanging:
    """A function that hangs from its `at`-th call on, until it is released."""

    def __init__(self, at: int = 1, calls: int = 1000) -> None:
        self.at, self.until = at, at + calls
        self.calls = self.inside = self.most = 0
        self.begun, self.release = threading.Event(), threading.Event()
        self.threads: set[int] = set()

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.threads.add(threading.get_ident())
        if self.at <= self.calls < self.until:
            self.begun.set()
            self.release.wait(60)
        self.inside -= 1


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hang = Hanging()
    yield hang
    hang.release.set()


def words(*batches: list[str]) -> FixedBatchSpout:
    return FixedBatchSpout("word string", [[(word,) for word in batch] for batch in batches])


def with_output(hang: Callable[..., Any]) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", words(["a"], ["b"]))
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")

    def send(table: Any, batchId: int, attempt: int) -> None:
        hang(batchId, attempt, table.column(0).to_pylist())

    stream.foreachArrow(send)
    return topology


def with_later_stage(function: Callable[[int], object], **options: Any) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", words(["a"], ["b"]))
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    later = counts.newValuesStream(everyChange=True).each("count", function, "seen long", **options)
    later.groupBy("seen").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="seen")
    return topology


def stopped(running: RunningTopology) -> float:
    """Stop it; how long that took."""
    began = time.monotonic()
    running.stop()
    assert not running.isActive
    return time.monotonic() - began


# --- named, and given up -----------------------------------------------------------------------------------------


def test_an_output_that_never_comes_back_is_named_and_the_batch_is_kept(
    hanging: Hanging, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path}
    running = start_local(with_output(hanging), messageTimeoutSecs=LIMIT, **options)
    wait_until(lambda: running.status["groups"]["words"]["hanging"])
    (told,) = running.status["groups"]["words"]["hanging"]
    assert told["call"].startswith("words/") and "send (test_limits.py:" in told["call"] and "batch 1" in told["call"]
    assert told["at"].startswith("test_limits.py:") and "T" in told["since"]
    with pytest.raises(
        CallHangsError,
        match=r"send \(test_limits.py:\d+\), has not returned for .*now at test_limits.py:\d+; correct it and start",
    ):
        running.awaitTermination(timeout=SOON)
    assert "ran longer than 0.3 s (messageTimeoutSecs" in caplog.text and hanging.most == 1
    heard: list[Any] = []
    with start_local(with_output(lambda *given: heard.append(given)), **options) as running:
        running.processAllAvailable(SOON)
        assert heard[0] == (1, 1, ["a"]) and [(txid, rows) for txid, _, rows in heard] == [(1, ["a"]), (2, ["b"])]
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}


def test_what_a_run_waits_for_is_told_before_its_limit_is_over(hanging: Hanging) -> None:
    running = start_local(with_output(hanging), name="t")
    with pytest.raises(TimeoutError, match=r"it waits for: .*batch 1: send \(test_limits.py:\d+\), for [\d.]+ s"):
        running.processAllAvailable(timeout=2.5)
    assert running.status["groups"]["words"]["hanging"] == []
    hanging.release.set()


def test_an_output_that_comes_back_late_is_handed_the_batch_again_and_never_twice_at_once() -> None:
    hang, given = Hanging(calls=1), []

    def output(batchId: int, attempt: int, rows: list[str]) -> None:
        given.append((batchId, attempt))
        hang()

    with start_local(with_output(output), name="t", messageTimeoutSecs=LIMIT) as running:
        assert hang.begun.wait(SOON)
        wait_until(lambda: running.status["groups"]["words"]["hanging"])
        assert running._runs["words"].committed == 0
        hang.release.set()
        running.processAllAvailable(SOON)
        assert given == [(1, 0), (1, 1), (2, 0)] and (hang.most, len(hang.threads)) == (1, 1)
        failed = [event for event in running.recentProgress if event["event"] == "failed"]
        assert [(e["phase"], e["error"].partition(":")[0]) for e in failed] == [("commit", "BatchTimeoutError")]
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}


def test_a_function_of_a_later_stage_that_hangs_has_a_limit_too(hanging: Hanging) -> None:
    def seen(count: int) -> int:
        hanging()
        return count

    running = start_local(with_later_stage(seen), name="t", messageTimeoutSecs=LIMIT)
    with pytest.raises(BatchTimeoutError, match=r"stage 2.*seen \(test_limits.py:\d+\)"):
        running.awaitTermination(timeout=SOON)
    assert running.recentProgress[0]["phase"] == "commit" and hanging.most == 1


def test_an_updater_that_hangs_has_a_limit(hanging: Hanging) -> None:
    def update(state: Any, tuples: Any, collector: Any) -> None:
        hanging()

    topology = TridentTopology()
    stream = topology.newStream("words", words(["a"]))
    stream.partitionPersist(MemoryMapState.opaque(), "word", update, keyFields="word", valueType="long", name="updated")
    running = start_local(topology, name="t", messageTimeoutSecs=LIMIT)
    with pytest.raises(CallHangsError, match=r"update \(test_limits.py:\d+\)"):
        running.awaitTermination(timeout=SOON)


class SlowMap(dict[bytes, bytes]):
    """A store of the user's whose put hangs, once it holds the first batch."""

    hang: Hanging

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self.update(zip(keys, values, strict=True))
        self.hang()


def own_store(there: SlowMap) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", words(["a"], ["b"], ["c"]))

    def make(identity: Any) -> SlowMap:
        return there

    stream.groupBy("word").persistentAggregate(BackingMapState.opaque(make), Count(), "count", name="counts")
    return topology


def test_a_store_of_the_users_own_that_hangs_has_a_limit(tmp_path: Path) -> None:
    there = SlowMap()
    there.hang = hang = Hanging(at=3)
    topology = own_store(there)
    running = start_local(topology, name="t", checkpointLocation=tmp_path, messageTimeoutSecs=LIMIT)
    with pytest.raises(CallHangsError, match=r"state 'counts', batch \d.*make \(test_limits.py:\d+\)"):
        running.awaitTermination(timeout=SOON)
    assert hang.most == 1
    hang.release.set()


class WaysMap(dict[bytes, bytes]):
    """A store of the user's that hangs where it is called on behalf of `way`, a method of its store."""

    def __init__(self, hang: Hanging) -> None:
        super().__init__()
        self.hang, self.way = hang, ""

    def _called(self) -> None:
        if any(frame.name == self.way for frame in traceback.extract_stack()):
            self.hang()

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        self._called()
        return [self.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self._called()
        self.update(zip(keys, values, strict=True))

    def close(self) -> None:
        self._called()


def on_own_store(there: Any, feeder: FeederBatchSpout) -> TridentTopology:
    topology = TridentTopology()

    def make(identity: Any) -> Any:
        return there

    topology.newStream("words", feeder).groupBy("word").persistentAggregate(
        BackingMapState.opaque(make), Count(), "count", name="counts"
    )
    return topology


@pytest.mark.parametrize("way", ["create", "groups_of", "durable"])
def test_a_store_that_hangs_is_named_and_stops_the_group_on_whatever_way_it_is_called(
    way: str, hanging: Hanging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a heal, by the watch, by a trim."""
    monkeypatch.setattr(log_retention, "TRIM_EVERY", 1)
    there, feeder = WaysMap(hanging), FeederBatchSpout("word string")
    running = start_local(on_own_store(there, feeder), name="t", checkpointLocation=tmp_path, messageTimeoutSecs=LIMIT)
    feeder.feed(["a"])
    running.processAllAvailable(SOON)
    there.way = way
    if way == "create":
        there.clear()  # a restore that is healed
    feeder.feed(["b"])
    wait_until(lambda: running.status["groups"]["words"]["hanging"])
    (told,) = running.status["groups"]["words"]["hanging"]
    assert told["call"].startswith("state 'counts', ") and "make (test_limits.py:" in told["call"]
    with pytest.raises(CallHangsError, match=r"state 'counts', .* cannot be called: .*make \(test_limits.py:\d+\)"):
        running.awaitTermination(timeout=SOON)
    assert hanging.most == 1 and stopped(running) < SOON


def test_a_store_that_hangs_in_a_start_has_a_limit(hanging: Hanging, tmp_path: Path) -> None:
    there = WaysMap(hanging)
    there.way = "report"
    topology = on_own_store(there, FeederBatchSpout("word string"))
    with pytest.raises(BatchTimeoutError, match=r"state 'counts', report ran longer than 0.3 s.*make \(test_limits.py"):
        start_local(topology, name="t", checkpointLocation=tmp_path, messageTimeoutSecs=LIMIT)
    assert not trident.active()


def test_a_store_that_hangs_when_it_is_closed_is_left_behind(
    hanging: Hanging, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there, feeder = WaysMap(hanging), FeederBatchSpout("word string")
    running = start_local(on_own_store(there, feeder), name="t", checkpointLocation=tmp_path)
    there.way = "close"
    assert stopped(running) < SOON and "state 'counts': close does not return, make (test_limits.py" in caplog.text


# --- spouts ------------------------------------------------------------------------------------------------------


class Source(BatchSpout):
    """Two words; each method notes its thread, and calls a function first."""

    outputFields = "word string"

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        self.hooks = hooks
        self.told: list[tuple[str, object]] = []
        self.threads: set[int] = set()

    def _note(self, method: str, *given: Any) -> None:
        self.told.append((method, *given))
        self.threads.add(threading.get_ident())
        self.hooks.get(method, _nothing)(*given)

    def open(self) -> None:
        self._note("open")

    def emitBatch(self, batchId: int) -> Any:
        self._note("emit", batchId)
        return [f"w{batchId}"] if batchId <= 2 else None

    def ack(self, batchId: int) -> None:
        self._note("ack", batchId)

    def close(self) -> None:
        self._note("close")


def _nothing(*_: Any) -> None: ...


def counting(*spouts: Any, function: Any = str) -> TridentTopology:
    topology = TridentTopology()
    streams = [topology.newStream(f"s{n}", spout) for n, spout in enumerate(spouts)]
    merged = topology.merge(*streams) if len(streams) > 1 else streams[0]
    merged.map("word", function, "word string").groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="counts"
    )
    return topology


def test_a_spout_lives_on_one_thread_from_open_to_close() -> None:
    spout = Source()
    with start_local(counting(spout), name="t") as running:
        running.processAllAvailable(SOON)
    assert {method for method, *_ in spout.told} >= {"open", "emit", "ack", "close"}
    assert len(spout.threads) == 1 and threading.get_ident() not in spout.threads


@pytest.mark.parametrize("method", ["open", "emit"])
def test_a_spout_that_hangs_is_named_and_fails_the_batch(method: str, hanging: Hanging) -> None:
    spout = Source(**{method: hanging})
    with pytest.raises((BatchFailedError, BatchTimeoutError), match=r"spout 's0', .*Source \(test_limits.py:\d+\)"):
        start_local(counting(spout), name="t", messageTimeoutSecs=LIMIT).awaitTermination(timeout=SOON)
    assert hanging.most == 1


def test_a_spout_that_is_slow_once_costs_an_attempt() -> None:
    hang = Hanging(calls=1)
    spout = Source(emit=hang)
    with start_local(counting(spout), name="t", messageTimeoutSecs=LIMIT) as running:
        wait_until(lambda: running.recentProgress)
        hang.release.set()
        running.processAllAvailable(SOON)
        assert "ran longer than 0.3 s" in running.recentProgress[0]["error"]
        assert dict(running.state("counts").items()) == {"w1": 1, "w2": 1}


def test_an_ack_that_hangs_stops_no_other_spout_and_no_commit_for_longer_than_its_limit(
    hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    slow, quick = Source(ack=hanging), Source()
    topology = counting(quick)
    topology.newStream("slow", slow).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="slowly"
    )
    running = start_local(topology, name="t", messageTimeoutSecs=LIMIT)
    wait_until(lambda: ("ack", 2) in quick.told)
    wait_until(lambda: running._runs["slow"].committed == 2 or running._runs["slow"].done.is_set())
    assert hanging.begun.is_set()
    assert "spout 'slow', success(1) ran longer than 0.3 s" in caplog.text and "Source (test_limits.py" in caplog.text
    assert running._runs["slow"].committed == 2
    assert stopped(running) < SOON


def test_fail_reaches_a_spout_before_its_next_emit() -> None:
    order: list[str] = []

    class Executor:
        plans_ahead = True

        def __init__(self, executor: Any) -> None:
            self._executor = executor

        def __getattr__(self, name: str) -> Any:
            return getattr(self._executor, name)

        def emit(self, attempt: Any, metadata: Any) -> Any:
            order.append(f"emit {attempt.txid}:{attempt.attempt}")
            return self._executor.emit(attempt, metadata)

        def fail(self, attempt: Any) -> None:
            order.append(f"fail {attempt.txid}:{attempt.attempt}")

    class Spout:
        def __init__(self, spout: Any) -> None:
            self.kind, self.schema, self._spout = spout.kind, spout.schema, spout

        def open(self) -> Executor:
            return Executor(self._spout.open())

    failed: set[str] = set()

    def function(word: str) -> str:
        if word not in failed:
            failed.add(word)
            raise ValueError("again")
        return word

    batches = 150
    topology = counting(Spout(words(*([f"w{n}"] for n in range(batches)))), function=function)
    with start_local(topology, name="t", maxSpoutPending=1) as running:
        running.processAllAvailable(60)
    expected = [(f"emit {txid}:0", f"fail {txid}:0", f"emit {txid}:1") for txid in range(1, batches + 1)]
    assert order == [told for batch in expected for told in batch]


# --- functions behind a state ------------------------------------------------------------------------------------


def test_a_function_behind_a_state_that_raises_now_and_then_is_called_again() -> None:
    failures = [1, 1]

    def seen(count: int) -> int:
        if failures:
            failures.pop()
            raise ValueError("not now")
        return count

    with start_local(with_later_stage(seen), name="t") as running:
        running.processAllAvailable(SOON)
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}
        assert dict(running.state("seen").items()) == {1: 2}
        failed = [event for event in running.recentProgress if event["event"] == "failed"]
        assert [(e["phase"], e["txid"], e["attempt"]) for e in failed] == [("commit", 1, 0), ("commit", 1, 1)]


def test_a_function_behind_a_state_that_always_raises_stops_the_group_and_a_restart_goes_on(tmp_path: Path) -> None:
    calls = []

    def broken(count: int) -> int:
        calls.append(count)
        raise ValueError("never")

    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path}
    running = start_local(with_later_stage(broken), maxAttempts=3, **options)
    with pytest.raises(
        UserFunctionError,
        match=r"broken \(test_limits.py:\d+\) raised ValueError: never.*batch 1 is frozen and kept: correct the cause",
    ):
        running.awaitTermination(timeout=SOON)
    assert len(calls) == 3
    with start_local(with_later_stage(abs), **options) as running:
        running.processAllAvailable(SOON)
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}
        assert dict(running.state("seen").items()) == {1: 2}


def test_a_run_without_a_checkpoint_does_not_say_that_a_batch_is_kept() -> None:
    def broken(count: int) -> int:
        raise ValueError("never")

    running = start_local(with_later_stage(broken), name="t", maxAttempts=1)
    with pytest.raises(UserFunctionError, match="raised ValueError: never") as caught:
        running.awaitTermination(timeout=SOON)
    assert "kept" not in str(caught.value)


# --- stop --------------------------------------------------------------------------------------------------------


def test_stop_leaves_an_output_behind_that_hangs(hanging: Hanging) -> None:
    running = start_local(with_output(hanging), name="t")
    assert hanging.begun.wait(SOON)
    assert stopped(running) < SOON


def test_stop_leaves_an_ack_behind_that_hangs(hanging: Hanging) -> None:
    running = start_local(counting(Source(ack=hanging)), name="t")
    assert hanging.begun.wait(SOON)
    assert stopped(running) < SOON


def test_stop_leaves_a_later_stage_behind_that_hangs(hanging: Hanging) -> None:
    running = start_local(with_later_stage(lambda count: hanging() or count), name="t")
    assert hanging.begun.wait(SOON)
    assert stopped(running) < SOON


def test_stop_leaves_a_store_of_the_users_own_behind_that_hangs(tmp_path: Path) -> None:
    there = SlowMap()
    there.hang = hang = Hanging(at=4, calls=1)
    topology = own_store(there)
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path}
    running = start_local(topology, **options)
    assert hang.begun.wait(SOON)
    assert stopped(running) < SOON
    with start_local(topology, **options) as running:
        hang.release.set()
        running.processAllAvailable(SOON)
        wait_until(lambda: not hang.inside)
        assert running.state("counts").multiGet(["a", "b", "c"]) == [1, 1, 1]


def test_what_was_left_behind_writes_nothing_when_it_comes_back(tmp_path: Path) -> None:
    hang = Hanging(calls=1)

    def update(state: Any, tuples: Any, collector: Any) -> None:
        old = state.multiGet([t.word for t in tuples])
        hang()
        state.multiPut([t.word for t in tuples], [(value or 0) + 1 for value in old])

    topology = TridentTopology()
    stream = topology.newStream("words", words(["a"], ["a"], ["a"]))
    stream.partitionPersist(MemoryMapState.opaque(), "word", update, keyFields="word", valueType="long", name="n")
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path}
    running = start_local(topology, **options)
    assert hang.begun.wait(SOON)
    assert stopped(running) < SOON
    with start_local(topology, **options) as running:
        hang.release.set()
        running.processAllAvailable(SOON)
        wait_until(lambda: not hang.inside)
        assert dict(running.state("n").items()) == {"a": 3}
    assert running._runs["words"].committed == 3


# --- a store that is away ----------------------------------------------------------------------------------------


def test_a_commit_that_takes_long_is_told_with_the_state_that_does_not_answer(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: Any, *args: Any) -> Any:
        hanging()
        return apply(self, *args)

    apply = MemoryStore.apply
    monkeypatch.setattr(MemoryStore, "apply", slow)
    topology = TridentTopology()
    words_ = topology.newStream("words", words(["a"]))
    words_.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    running = start_local(topology, name="t")
    assert hanging.begun.wait(SOON)
    says = r"the commit of batch 1, for [\d.]+ s: state 'counts' \(MemoryMapState.opaque\(\)\) is being written"
    with pytest.raises(TimeoutError, match=says):
        running.processAllAvailable(timeout=1.5)
    hanging.release.set()


# --- requests ----------------------------------------------------------------------------------------------------


def asked(hang: Callable[..., Any], before: Callable[[str], object] = str) -> TridentTopology:
    """A request lists the whole state, which holds commits back."""
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", [["a"], ["b"]], cycle=True))
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")

    class All:
        def batchRetrieve(self, state: Any, tuples: Any) -> list[Any]:
            before("x")
            return [len(list(state.getTuples()))] * len(tuples)

        def execute(self, tuple: Any, result: Any, collector: Any) -> None:
            hang()
            collector.emit([result])

    requests = topology.newDRPCStream("all", "word string")
    requests.stateQuery(counts, "word", All(), "n long").stateQuery(counts, "word", MapGet(), "count")
    return topology


def goes_on(running: RunningTopology, seconds: float = SOON) -> None:
    run = running._runs["words"]
    now = run.committed
    wait_until(lambda: run.committed > now + 5, seconds)


def test_a_request_that_hangs_holds_commits_back_for_a_bounded_time(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_gate, "HOLD_SECONDS", 1.0)
    running = start_local(asked(hanging), name="t")
    asking = threading.Thread(target=lambda: running.drpc.execute("all", "a"), daemon=True)
    asking.start()
    assert hanging.begun.wait(SOON)
    goes_on(running)
    running.stop()


def test_a_request_that_nobody_waits_for_any_more_holds_nothing_back(hanging: Hanging) -> None:
    running = start_local(asked(hanging), name="t")
    with pytest.raises(DRPCTimeoutError):
        running.drpc.execute("all", "a", timeout=1)
    assert hanging.begun.is_set()
    goes_on(running, 10)
    running.stop()


def test_code_before_the_first_read_and_behind_the_last_holds_nothing_back() -> None:
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", [["a"], ["b"]], cycle=True))
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    before, behind = Hanging(calls=2), Hanging(calls=2)

    class All:
        def batchRetrieve(self, state: Any, tuples: Any) -> list[Any]:
            before()
            return [len(list(state.getTuples()))] * len(tuples)

        def execute(self, tuple: Any, result: Any, collector: Any) -> None:
            behind()
            collector.emit([result])

    topology.newDRPCStream("all", "word string").stateQuery(counts, "word", All(), "n long")
    running = start_local(topology, name="t")
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(running.drpc.execute("all", "a")))
    asking.start()
    for hang in (before, behind):
        assert hang.begun.wait(SOON)
        goes_on(running)
        hang.release.set()
    asking.join(SOON)
    assert answers[0][0]["n"] == 2
    running.stop()


def test_a_request_without_a_timeout_has_the_one_of_the_run(hanging: Hanging) -> None:
    running = start_local(asked(hanging), name="t", messageTimeoutSecs=1)
    with pytest.raises(DRPCTimeoutError, match="no answer within 1 s"):
        running.drpc.execute("all", "a")
    running.stop()


# --- listeners ---------------------------------------------------------------------------------------------------


def test_a_slow_listener_slows_no_commit() -> None:
    heard: list[int] = []

    def slow(event: dict[str, Any]) -> None:
        time.sleep(0.5)
        heard.append(event["txid"])

    spout = words(*([["a"]] * 20))
    with start_local(counting(spout), name="t") as running:
        running.progress.listen(slow)
        began = time.monotonic()
        running.processAllAvailable(SOON)
        assert time.monotonic() - began < 5
        assert running.recentProgress[-1]["txid"] == 20
    assert len(heard) < 20


def test_a_quick_listener_has_heard_everything_when_stop_returns() -> None:
    heard: list[int] = []
    running = start_local(counting(words(*([["a"]] * 20))), name="t", availableNow=True)
    running.progress.listen(lambda event: heard.append(event["txid"]))
    running.awaitTermination(SOON)
    assert heard == [event["txid"] for event in running.recentProgress][-len(heard) :] and heard[-1] == 20


def test_a_listener_that_is_far_behind_misses_the_oldest_events_and_is_told_how_many() -> None:
    progress, hang, heard = Progress(), Hanging(calls=1), list[dict[str, Any]]()

    def listener(event: dict[str, Any]) -> None:
        hang()
        heard.append(event)

    progress.listen(listener)
    progress.tell({"event": "committed", "txid": 0})
    assert hang.begun.wait(SOON)
    for txid in range(1, BEHIND + 8):
        progress.tell({"event": "committed", "txid": txid})
    assert progress.last == {"event": "committed", "txid": BEHIND + 7}
    hang.release.set()
    progress.flush(SOON)
    assert [event["txid"] for event in heard] == [0, *range(8, BEHIND + 8)]
    assert [event.get("dropped") for event in heard[:3]] == [None, 7, None]


def test_a_listener_that_hangs_does_not_hold_stop_up(caplog: pytest.LogCaptureFixture, hanging: Hanging) -> None:
    running = start_local(counting(words(["a"], ["b"])), name="t")
    running.progress.listen(hanging)
    running.processAllAvailable(SOON)
    with caplog.at_level(logging.WARNING):
        assert stopped(running) < SOON
