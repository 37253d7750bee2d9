"""Windows and timers of silent sources: by the time of the batch, and by event time with `idleAfter`."""

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.timers import DAY, SECOND, START, Lives, dying, when
from trident import (
    Count,
    SessionWindow,
    SlidingDurationWindow,
    SlidingEventTimeWindow,
    Sum,
    TridentTopology,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
)
from trident.base.errors import TopologyError
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing import PAUSE, ManualClock, TestSource, start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

FIELDS = "k string, at timestamp, n long"


class Listed:
    """An aggregator that sees tuples, so that they wait in the state."""

    outputType = "string"

    def init(self, batchId: int | None, collector: Any) -> list[str]:
        return []

    def aggregate(self, state: list[str], tuple: Any, collector: Any) -> None:
        state.append(f"{tuple.n}")

    def complete(self, state: list[str], collector: Any) -> None:
        collector.emit(["+".join(state)])


def noted(stream: Any) -> list[Any]:
    seen: list[Any] = []
    stream.peek(lambda t: seen.append(tuple(t)))
    return seen


@pytest.mark.parametrize(
    ("window", "ends"),
    [(TumblingDurationWindow(60), {60: 3}), (SlidingDurationWindow(60, 20), {20: 3, 40: 3, 60: 3})],
)
@pytest.mark.parametrize("aggregator", [Sum(), Listed()])
def test_a_window_by_the_time_of_the_batch_closes_at_its_end_without_a_tuple(
    tmp_path: Path, window: Any, ends: dict[int, int], aggregator: Any
) -> None:
    clock, feeder, topology = ManualClock(START - START % 60), FeederBatchSpout(FIELDS), TridentTopology()
    windows = topology.newStream("s", feeder).groupBy("k").window(window, "n", aggregator, "sum", name="w")
    seen = noted(windows)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        feeder.feed([("a", None, 1), ("a", None, 2)])
        running.processAllAvailable(timeout=20)
        closed = 0
        for second in range(1, 130):
            clock.advance(1)
            running.processAllAvailable(timeout=20)
            closed += second in ends
            assert len(seen) == closed
        assert running.status["groups"]["s"]["committed"] == 1 + len(ends)
    assert seen == [("a", 3 if isinstance(aggregator, Sum) else "1+2")] * len(ends)


Made = Callable[[Any], list[Any]]


def by_event_time(kind: str, idle: Any) -> Made:
    """Return a function that adds a window to a stream, and returns the list of its results."""
    if kind == "session":
        return lambda s: noted(s.groupBy("k").window(SessionWindow(60, "at", 10, idle), "n", Sum(), "sum", name="w"))
    if kind == "sliding":
        window = SlidingEventTimeWindow(60, 30, "at", 10, idle)
        return lambda s: noted(s.groupBy("k").window(window, "n", Sum(), "sum", name="w"))
    aggregator = Sum() if kind == "tumbling" else Listed()
    window = TumblingEventTimeWindow(60, "at", lateness=10, idleAfter=idle)
    return lambda s: noted(s.groupBy("k").window(window, "n", aggregator, "sum", name="w"))


@pytest.mark.parametrize("kind", ["tumbling", "gathered", "sliding", "session"])
def test_the_last_window_closes_after_idleAfter_as_if_tuples_went_on_with_the_same_delay(
    tmp_path: Path, kind: str
) -> None:
    """The last tuple is of second 30 and comes at second 100 of the clock: its delay is 70 seconds."""
    start = START - START % 60
    clock, feeder, topology = ManualClock(start + 100), FeederBatchSpout(FIELDS), TridentTopology()
    at = datetime.datetime.fromtimestamp(start, datetime.UTC)
    seen = by_event_time(kind, "15 seconds")(topology.newStream("s", feeder))
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        feeder.feed([("a", at + 30 * SECOND, 1)])
        running.processAllAvailable(timeout=20)
        first, last = {"tumbling": (60, 60), "gathered": (60, 60), "sliding": (60, 90), "session": (90, 90)}[kind]
        moments = []
        for _ in range(130):
            clock.advance(1)
            before = len(seen)
            running.processAllAvailable(timeout=20)
            if len(seen) > before:
                moments.append(clock.time() - start - 70 - 10)  # less the delay and the lateness: the watermark
        assert (moments[0], moments[-1]) == (first, last)
        assert running.status["groups"]["s"]["committed"] == 1 + len(moments)
        feeder.feed([("a", at + (100 + 130 - 70) * SECOND, 5)], wait=True, timeout=20)  # as fresh as the tuple before
        windows = running.status["groups"]["s"]["windows"]["w"]
        assert windows["numRowsDroppedByWatermark"] == 0


def test_idleAfter_waits_so_long_and_without_it_only_tuples_close_a_window(tmp_path: Path) -> None:
    for idle, closes in ((None, None), (50, 50), (1, 40)):
        clock, feeder, topology = ManualClock(START - START % 60 + 30), FeederBatchSpout(FIELDS), TridentTopology()
        seen = by_event_time("tumbling", idle)(topology.newStream("s", feeder))
        with start_local(topology, name="t", clock=clock) as running:
            feeder.feed([("a", when(30 - START % 60), 1)])
            running.processAllAvailable(timeout=20)
            for second in range(1, 60):
                clock.advance(1)
                running.processAllAvailable(timeout=20)
                assert len(seen) == (closes is not None and second >= closes)


def test_a_program_may_get_another_idleAfter_and_a_downtime_closes_what_has_ended(
    make_timed: Callable[[], Any], tmp_path: Path
) -> None:
    clock, committed = ManualClock(START - START % 60 + 30), list[int]()
    for idle, closed in ((None, 0), ("1 minute", 0), ("30 seconds", 1)):
        topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
        window = SessionWindow(60, "at", idleAfter=idle)
        windows = topology.newStream("s", feeder).groupBy("k").window(window, make_timed(), "n", Sum(), "sum", name="w")
        seen = noted(windows)
        with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
            running.processAllAvailable(timeout=20)
            assert len(seen) == closed
            feeder.feed([("a", when(clock.time() - START), 1)])
            running.processAllAvailable(timeout=20)
            clock.advance(15)
            running.processAllAvailable(timeout=20)
            committed.append(running.status["groups"]["s"]["committed"])
        clock.advance(0 if idle is None else DAY)
    assert committed[0] == 1


def test_a_silent_stream_of_a_join_does_not_hold_up_the_other_one(tmp_path: Path) -> None:
    clock, topology = ManualClock(START), TridentTopology()
    orders, payments = FeederBatchSpout("id long, at timestamp"), FeederBatchSpout("id long, paid timestamp")
    left = topology.newStream("orders", orders)
    pairs = left.intervalJoin(
        topology.newStream("payments", payments),
        "id",
        (0, 60),
        timestampField="at",
        otherTimestampField="paid",
        joinType="left",
        idleAfter=30,
        name="pairs",
    )
    seen = noted(pairs)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        orders.feed([(1, when(0)), (2, when(0))])
        running.processAllAvailable(timeout=20)
        payments.feed([(1, when(0))])
        running.processAllAvailable(timeout=20)
        assert [row[0] for row in seen] == [1]
        for second in range(1, 200):
            clock.advance(1)
            if second % 10 == 0 and second < 100:
                orders.feed([(100 + second, when(second))])
                running.processAllAvailable(timeout=20)
            running.processAllAvailable(timeout=20)
        assert [row[0] for row in seen][:2] == [1, 2]
        clock.advance(100)
        running.processAllAvailable(timeout=20)
        assert [row[0] for row in seen][2:] == list(range(110, 200, 10))


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_windows_of_silent_sources_are_exact_whatever_drivers_die_of(tmp_path: Path, kind: str) -> None:
    """Each tuple is in one window, each window gives one result, and all are closed at the end."""
    chance = random.Random(kind)
    script: list[Any] = []
    for _ in range(8):
        script += [PAUSE, [(chance.choice("abc"), None, 1) for _ in range(5)]]
    clock, begun = ManualClock(START), [0.0]
    for batch in script[1::2]:
        begun.append(begun[-1] + chance.choice([0, 20, 200]))
        batch[:] = [(key, when(begun[-1] - chance.choice([0, 3])), n) for key, _, n in batch]
    source = TestSource(FIELDS, script)

    def topology() -> TridentTopology:
        made = TridentTopology()
        config = {"tumbling": TumblingEventTimeWindow(60, "at", 10, 5), "session": SessionWindow(60, "at", 10, 5)}[kind]
        windows = made.newStream("s", source).groupBy("k").window(config, "n", Sum(), "sum", name="w")
        windows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "sum", Sum(), "total", name="total")
        windows.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="results")
        return made

    lives = Lives(topology, tmp_path, clock)
    try:
        lives.settle()
        for earlier, later in zip(begun, begun[1:], strict=False):
            clock.advance(later - earlier)
            with dying(chance, lives):
                lives.settle()
            source.resume()
            with dying(chance, lives):
                lives.settle()
        clock.advance(DAY)
        with dying(chance, lives):
            lives.settle()
        total: dict[str, int] = {}
        for key, _, n in (row for batch in script[1::2] for row in batch):
            total[key] = total.get(key, 0) + n
        assert dict(lives.running.state("total").items()) == total
        assert lives.running.state("results").value == expected_windows(script[1::2], kind)
    finally:
        lives.end()


def expected_windows(batches: list[Any], kind: str) -> int:
    times: dict[str, list[float]] = {}
    for key, at, _ in (row for batch in batches for row in batch):
        times.setdefault(key, []).append(at.timestamp())
    if kind == "tumbling":
        return sum(len({at // 60 for at in own}) for own in times.values())
    return sum(
        1 + sum(b - a >= 60 for a, b in zip(sorted(own), sorted(own)[1:], strict=False)) for own in times.values()
    )


def test_idleAfter_needs_event_time() -> None:
    rows = TridentTopology().newStream("s", FeederBatchSpout(FIELDS))
    with pytest.raises(TopologyError, match="idleAfter= needs timers"):
        rows.statefulEach(lambda t, s: 1, "m long", keyFields="k", valueType="long", idleAfter=1, name="x")
    with pytest.raises(TopologyError, match="idleAfter= is a span of event time: also pass timestampField="):
        rows.statefulEach(
            lambda t, s: 1, "m long", keyFields="k", valueType="long", onTimer=lambda t, s: 1, idleAfter=1, name="x"
        )
    with pytest.raises(TopologyError, match="idleAfter"):
        TumblingEventTimeWindow(60, "at", idleAfter=-1)
    assert (
        repr(SessionWindow(60, "at", 10, 5))
        == "SessionWindow('1 minute', 'at', lateness='10 seconds', idleAfter='5 seconds')"
    )


def test_timers_by_event_time_fire_though_the_source_is_silent(make_timed: Callable[[], Any], tmp_path: Path) -> None:
    clock, feeder, topology = ManualClock(START + 5), FeederBatchSpout(FIELDS), TridentTopology()

    def step(tuple: Any, state: Any) -> Any:
        state.setTimer(tuple.k, tuple.at + 60 * SECOND)
        return ""

    def fire(timer: Any, state: Any) -> str:
        return f"{timer.key} {(state.now() - when(0)) // SECOND}"

    notes = topology.newStream("s", feeder).statefulEach(
        step,
        "note string",
        keyFields="k",
        valueType="long",
        stateFactory=make_timed(),
        onTimer=fire,
        timestampField="at",
        idleAfter=20,
        name="w",
    )
    seen = noted(notes)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        feeder.feed([("a", when(0), 1), ("b", when(-50), 1)])
        running.processAllAvailable(timeout=20)
        for _ in range(100):
            clock.advance(1)
            running.processAllAvailable(timeout=20)
        assert running.status["groups"]["s"]["committed"] == 3
    assert [row[-1] for row in seen] == ["", "", "b 20", "a 60"]


def test_the_driver_updates_what_may_fall_due_and_explain_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    topology, state = TridentTopology(), RedisMapState.opaque("redis://localhost", writers="auto")
    rows = topology.newStream("s", FeederBatchSpout(FIELDS)).groupBy("k")
    rows.window(SessionWindow(60, "at", idleAfter=5), state, "n", Sum(), "sum", name="w")
    rows.statefulEach(lambda t, s: None, valueType="long", stateFactory=state, onTimer=lambda t, s: None, name="x")
    topology.explain()
    text = capsys.readouterr().out
    assert "with idleAfter the driver keeps the time of the next end" in text
    assert "the driver keeps the timers' times" in text
