"""Timers of stateful operations: they fire exactly once, in batches without tuples if sources are silent."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.timers import DAY, SECOND, START, MakeState, when
from trident import Evolution, StatefulOperation, TridentTopology, openState
from trident.base.errors import StateError, StateValueError, TopologyError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import ManualClock, start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Quiet(StatefulOperation):
    """Say when a key has been quiet for ten minutes, and how often it came."""

    outputType = "string"

    def initState(self, state: Any) -> None:
        self.state = state

    def execute(self, tuple: Any, collector: Any) -> None:
        self.state.put(tuple.user, self.state.get(tuple.user, 0) + 1)
        self.state.setTimer(tuple.user, self.state.now() + 600 * SECOND)

    def onTimer(self, timer: Any, collector: Any) -> None:
        collector.emit([f"{timer.key}: {self.state.get(timer.key)}, {timer.at:%H:%M:%S}"])


def quiet(state: Any, source: Any) -> tuple[TridentTopology, list[Any]]:
    topology, seen = TridentTopology(), list[Any]()
    chats = topology.newStream("chats", source)
    out = chats.statefulEach(Quiet(), "message", keyFields="user", valueType="long", stateFactory=state, name="quiet")
    out.peek(lambda t: seen.append(tuple(t)))
    return topology, seen


def test_a_timer_fires_in_a_batch_without_tuples_once_its_time_has_come(make_timed: MakeState, tmp_path: Path) -> None:
    clock, feeder = ManualClock(START), FeederBatchSpout("user string, word string")
    topology, seen = quiet(make_timed(), feeder)
    options = {"name": "t", "checkpointLocation": tmp_path, "clock": clock}
    with start_local(topology, **options) as running:
        feeder.feed([("Ann", "a"), ("Bob", "b")])
        running.processAllAvailable(timeout=20)
        clock.advance(300)
        feeder.feed([("Ann", "c")])
        running.processAllAvailable(timeout=20)
        clock.advance(299.999)
        running.processAllAvailable(timeout=20)
        assert seen == [] and running.status["groups"]["chats"]["committed"] == 2
        clock.advance(0.001)
        running.processAllAvailable(timeout=20)
        assert seen == [("Bob", None, "Bob: 1, 22:23:20")]
        assert dict(running.state("quiet").items()) == {"Ann": 2, "Bob": 1}
        running.processAllAvailable(timeout=20)
        assert running.status["groups"]["chats"]["committed"] == 3, "a batch without tuples only if something is due"
    clock.advance(3 * DAY)
    topology, seen = quiet(make_timed(), FeederBatchSpout("user string, word string"))
    with start_local(topology, **options) as running:
        running.processAllAvailable(timeout=20)
        assert seen == [("Ann", None, "Ann: 2, 22:28:20")]
        committed = running.status["groups"]["chats"]["committed"]
        clock.advance(DAY)
        running.processAllAvailable(timeout=20)
        assert running.status["groups"]["chats"]["committed"] == committed


# --- what a timer does, case by case ----------------------------------------------------------------------------------


def told(steps: Any, batches: list[Any], tmp_path: Path, **arguments: Any) -> tuple[list[Any], dict[Any, Any], int]:
    """Run an operation over batches at one time. Return what it emits, what its state holds, the last txid."""
    topology, seen = TridentTopology(), list[Any]()
    rows = topology.newStream("s", FixedBatchSpout("k string, at timestamp, n long", batches))
    options = {"keyFields": "k", "valueType": "long", "name": "held", **arguments}
    rows.statefulEach(steps, "note string", **options).peek(lambda t: seen.append(tuple(t)))
    clock = ManualClock(START)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock, maxAttempts=1) as running:
        running.processAllAvailable(timeout=20)
        return seen, dict(running.state("held").items()), running.status["groups"]["s"]["committed"]


def test_timers_fire_after_the_tuples_in_the_order_of_their_times_and_a_limit_goes_on_in_the_next_batch(
    tmp_path: Path,
) -> None:
    def step(tuple: Any, state: Any) -> Iterator[str]:
        state.setTimer(tuple.k, state.now() - tuple.n * SECOND, "x")
        state.setTimer(tuple.k, state.now() - tuple.n * SECOND, "y")
        yield f"tuple {tuple.k}"

    def fire(timer: Any, state: Any) -> str:
        state.put(timer.key, state.get(timer.key, 0) + 1)
        return f"{timer.key}{timer.name}"

    rows = [[("a", None, 1), ("b", None, 3), ("c", None, 2)]]
    seen, held, last = told(step, rows, tmp_path, onTimer=fire, maxTimersPerBatch=4)
    assert seen[:3] == [(k, None, n, f"tuple {k}") for k, n in (("a", 1), ("b", 3), ("c", 2))]
    assert seen[3:] == [(note[0], None, None, note) for note in ("bx", "by", "cx", "cy", "ax", "ay")]
    assert held == {"a": 2, "b": 2, "c": 2} and last == 2


def test_a_timer_some_microseconds_ahead_needs_no_batch_after_the_year_2255(
    make_timed: MakeState, tmp_path: Path
) -> None:
    """Redis keeps due times as doubles, which do not hold each microsecond of the year 3000."""

    def step(tuple: Any, state: Any) -> Iterator[str]:
        state.setTimer(tuple.user, state.now() + datetime.timedelta(microseconds=tuple.n))
        yield "set"

    topology, seen = TridentTopology(), list[Any]()
    clock, feeder = ManualClock(32_503_680_000), FeederBatchSpout("user string, n long")
    topology.newStream("chats", feeder).statefulEach(
        step,
        "note string",
        keyFields="user",
        valueType="long",
        stateFactory=make_timed(),
        name="far",
        onTimer=lambda timer, state: timer.key,
        maxTimersPerBatch=1,
    ).peek(lambda t: seen.append(t.note))
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        feeder.feed([("a", 3), ("b", 2), ("c", 1)])
        running.processAllAvailable(timeout=20)
        assert running.status["groups"]["chats"]["committed"] == 1
        clock.advance(0.000004)
        running.processAllAvailable(timeout=20)
        assert seen == ["set"] * 3 + ["c", "b", "a"]


def test_a_later_timer_waits_for_keys_that_the_limit_leaves_out(make_timed: MakeState, tmp_path: Path) -> None:
    """Remove the timer by which a key is among the first: its other timer comes after those of other keys."""

    def step(tuple: Any, state: Any) -> Iterator[str]:
        if tuple.n:
            state.setTimer(tuple.k, state.now() - tuple.n * SECOND, f"{tuple.n}")
        else:
            state.deleteTimer(tuple.k, "9")
        yield "tuple"

    rows = [[(k, None, n) for k, n in (("z", 20), ("a", 9), ("a", 1), ("b", 5), ("c", 3))], [("a", None, 0)]]
    options = {"maxTimersPerBatch": 1, "stateFactory": make_timed()}
    seen, _, _ = told(step, rows, tmp_path, onTimer=lambda timer, state: f"{timer.key}{timer.name}", **options)
    assert [note for *_, note in seen if note != "tuple"] == ["z20", "b5", "c3", "a1"]


def test_a_timer_by_event_time_fires_when_the_watermark_reaches_it(tmp_path: Path) -> None:
    def step(tuple: Any, state: Any) -> Iterator[str]:
        state.setTimer(tuple.k, tuple.at + 60 * SECOND)
        yield f"{tuple.k} at {state.now() and (state.now() - when(0)) // SECOND}"

    def fire(timer: Any, state: Any) -> Iterator[str]:
        yield f"{timer.key} {(timer.at - when(0)) // SECOND} at {(state.now() - when(0)) // SECOND}"
        if timer.at < when(100):
            state.setTimer(timer.key, timer.at + 1 * SECOND)

    rows = [[("a", when(0), 1), ("b", when(20), 2)], [("c", when(70), 3)], [("c", when(5), 4), ("d", when(91), 5)]]
    seen, _, last = told(step, rows, tmp_path, onTimer=fire, timestampField="at", lateness=10)
    assert [row[-1] for row in seen] == [
        *("a at None", "b at None", "c at 10"),
        *("a 60 at 60", "c at 60", "d at 60"),
        *[f"a {second} at 81" for second in range(61, 66)],
        "c 65 at 81",
        *[note for second in range(66, 80) for note in (f"a {second} at 81", f"c {second} at 81")],
        *[f"{key} {second} at 81" for second in (80, 81) for key in ("a", "b", "c")],
    ]
    assert last == 3


def test_a_timer_may_be_set_moved_read_and_removed_by_name(tmp_path: Path) -> None:
    noted: list[Any] = []

    def step(tuple: Any, state: Any) -> str:
        state.setTimer("other", state.now() + 5 * SECOND, "n")
        state.setTimer("other", state.now() + 9 * SECOND)
        noted.append((state.getTimer("other", "n"), state.getTimer("other"), state.getTimer(tuple.k)))
        state.setTimer("other", state.now() + 7 * SECOND, "n")
        state.deleteTimer("other")
        state.deleteTimer("other")
        noted.append((state.getTimer("other", "n"), state.getTimer("other"), "other" in state, list(state.keys())))
        return ""

    _, held, _ = told(step, [[("a", None, 1)]], tmp_path, onTimer=lambda timer, state: None)
    assert noted == [(when(5), when(9), None), (when(7), None, False, [])]
    assert held == {"other": None}


def test_what_cannot_be_a_timer_is_refused_with_the_way_out(tmp_path: Path) -> None:
    def refused(call: Callable[[Any], Any], kind: type[Exception], words: str, **arguments: Any) -> None:
        failed: list[BaseException] = []

        def step(tuple: Any, state: Any) -> str:
            try:
                call(state)
            except Exception as error:
                failed.append(error)
            return ""

        told(step, [[("a", None, 1)]], tmp_path / words[:9], **arguments)
        assert isinstance(failed[0], kind) and words in str(failed[0]), failed

    on_timer = {"onTimer": lambda timer, state: None}
    refused(lambda state: state.setTimer("a", when(1)), StateError, "needs an operation with timers: give the object")
    naive = datetime.datetime(2026, 1, 1)
    refused(lambda state: state.setTimer("a", naive), StateValueError, "expected a datetime with a zone", **on_timer)
    refused(lambda state: state.setTimer("a", 17.5), StateValueError, "not 17.5 (float)", **on_timer)
    refused(lambda state: state.setTimer("a", when(1), 3), StateValueError, "invalid name 3 (int)", **on_timer)
    refused(lambda state: state.frobnicate(), AttributeError, "has no 'frobnicate'")


def test_what_cannot_have_timers_is_refused_when_the_stream_is_built() -> None:
    def refused(words: str, operation: Any = None, **arguments: Any) -> None:
        rows = TridentTopology().newStream("s", FixedBatchSpout("k string, at timestamp", []))
        operation = operation or (lambda tuple, state: None)
        options = {"keyFields": "k", "valueType": "long", "name": "held", **arguments}
        with pytest.raises(TopologyError, match=words):
            rows.statefulEach(operation, "note string", **options)

    def fire(timer: Any, state: Any) -> None: ...

    refused("timestampField= needs timers: pass an object with a method onTimer", timestampField="at")
    refused("lateness= is a span of event time", onTimer=fire, lateness=1)
    refused("maxTimersPerBatch=0: expected a whole number of at least 1", onTimer=fire, maxTimersPerBatch=0)
    refused("has ttlSecs, but a timer must not expire", onTimer=fire, stateFactory=MemoryMapState.opaque(ttlSecs=9))
    refused("applies to functions only", Quiet(), onTimer=fire)
    refused("onTimer=7: expected a function of a Timer and the state", onTimer=7)
    refused("onTimer is called with a Timer and the KeyValueState", onTimer=lambda timer: None)


def test_an_error_of_onTimer_names_the_timer_and_the_batch_stays_whole(tmp_path: Path) -> None:
    def step(tuple: Any, state: Any) -> str:
        state.setTimer(tuple.k, state.now(), "n")
        return ""

    def fire(timer: Any, state: Any) -> None:
        raise ValueError("no")

    with pytest.raises(Exception, match=r"onTimer\(\('a', datetime.*'n'\)\)"):
        told(step, [[("a", None, 1)]], tmp_path, onTimer=fire)


def test_a_timer_that_removes_another_of_the_same_moment_is_the_only_one_that_fires(tmp_path: Path) -> None:
    def step(tuple: Any, state: Any) -> Iterator[str]:
        for name in "xyz":
            state.setTimer(tuple.k, state.now(), name)
        yield from ()

    def fire(timer: Any, state: Any) -> str:
        state.deleteTimer(timer.key, "y")
        state.setTimer(timer.key, state.now() + SECOND, "z")
        return f"{timer.key}{timer.name}"

    seen, _, last = told(step, [[("a", None, 1)], [("b", None, 1)]], tmp_path, onTimer=fire)
    assert [row[-1] for row in seen] == ["ax", "bx"] and last == 2


def test_an_operation_may_get_timers_later(make_timed: MakeState, tmp_path: Path) -> None:
    def step(tuple: Any, state: Any) -> None:
        state.put(tuple.k, state.get(tuple.k, 0) + 1)

    def timed(tuple: Any, state: Any) -> None:
        step(tuple, state)
        state.setTimer(tuple.k, state.now() + 5 * SECOND)

    def fire(timer: Any, state: Any) -> None:
        state.put(timer.key, state.get(timer.key) + 100)

    clock = ManualClock(START)
    before = Evolution(was="long", by="put", value=lambda value: (value, None))
    programs: list[tuple[Any, dict[str, Any]]] = [(step, {}), (timed, {"onTimer": fire, "evolve": before})]
    for batches, (operation, arguments), held in (
        (1, programs[0], {"a": 1, "b": 1}),
        (2, programs[1], {"a": 2, "b": 1}),
        (2, programs[1], {"a": 102, "b": 1}),
    ):
        topology = TridentTopology()
        rows = topology.newStream("s", FixedBatchSpout("k string", [["a", "b"], ["a"]][:batches]))
        options = {"keyFields": "k", "valueType": "long", "stateFactory": make_timed(), "name": "held", **arguments}
        rows.statefulEach(operation, **options)
        with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
            running.processAllAvailable(timeout=20)
            assert dict(running.state("held").items()) == held
        clock.advance(10)


def test_availableNow_fires_what_is_due_and_does_not_wait_for_later_timers(tmp_path: Path) -> None:
    clock = ManualClock(START)
    for expected in ([], ["Ann: 1, 22:23:20"], []):
        topology, seen = quiet(MemoryMapState.opaque(), FixedBatchSpout("user string, word string", [[("Ann", "a")]]))
        with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock, availableNow=True) as running:
            assert running.awaitTermination(timeout=20)
        assert [row[-1] for row in seen] == expected
        clock.advance(600)


def test_another_program_reads_the_values_without_their_timers(tmp_path: Path) -> None:
    clock = ManualClock(START)
    topology, _ = quiet(MemoryMapState.opaque(), FixedBatchSpout("user string, word string", [[("Ann", "a")]]))
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        running.processAllAvailable(timeout=20)
    with openState("t", "quiet", tmp_path) as opened:
        assert dict(opened.items()) == {"Ann": 1}


class Counting(StatefulOperation):
    """Set a timer for each key. Note after each batch how many timers it has fired, and the memory."""

    def initState(self, state: Any) -> None:
        self.state, self.count, self.fired, self.megabytes = state, 0, list[int](), list[int]()

    def execute(self, tuple: Any, collector: Any) -> None:
        self.state.setTimer(tuple.k, when(DAY))

    def onTimer(self, timer: Any, collector: Any) -> None:
        self.count += 1

    def prePrepare(self, txid: int) -> None:
        self.fired.append(self.count)
        self.megabytes.append(resident())
        self.count = 0


@pytest.mark.soak
def test_a_million_timers_of_one_moment_fire_in_batches_of_their_limit_in_flat_memory(
    make_timed: MakeState, tmp_path: Path
) -> None:
    count, most, clock, operation = 1_000_000, 100_000, ManualClock(START), Counting()
    batches = [pa.table({"k": pa.array(range(at, at + 50_000), pa.int64())}) for at in range(0, count, 50_000)]
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout("k long", batches)).statefulEach(
        operation, keyFields="k", valueType="long", stateFactory=make_timed(), maxTimersPerBatch=most, name="held"
    )
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        running.processAllAvailable(timeout=600)
        clock.advance(DAY)
        running.processAllAvailable(timeout=600)
    assert operation.fired == [0] * len(batches) + [most] * (count // most)
    assert max(operation.megabytes) < operation.megabytes[len(batches) - 1] + 300, "beyond the state and its index"


def resident() -> int:
    """Return the megabytes of memory that this process has now."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024
