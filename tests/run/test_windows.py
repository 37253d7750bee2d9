"""Windows end to end, in memory and in Redis: what leaves them and when, over restarts, crashes and lost servers."""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.window_runner import FIELDS, at, secs
from tests.support.server import RedisServer
from trident import (
    Count,
    MapGet,
    SessionWindow,
    SlidingCountWindow,
    SlidingEventTimeWindow,
    SnapshotGet,
    Stream,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
    WindowedStream,
)
from trident.errors import StateShapeError, StateUnavailableError, UserFunctionError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.memory.store import MemoryStore
from trident_state.redis.store import RedisStore

MakeState = Callable[[], Any]
Seen = list[tuple[Any, ...]]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Letters:
    """The tuples' letters in a row: an Aggregator, the only kind that Trident takes here."""

    outputType = "string"

    def init(self, batchId: int, collector: Any) -> list[str]:
        return []

    def aggregate(self, val: list[str], tuple: Any, collector: Any) -> None:
        val.append(tuple.c)

    def complete(self, val: list[str], collector: Any) -> None:
        collector.emit(["".join(val)])


def noting(seen: Seen) -> Callable[[Any], None]:
    return lambda t: seen.append(tuple(t))


def batch_by_batch(
    topology: TridentTopology, feeder: FeederBatchSpout, seen: Seen, checkpoint: Path, batches: Sequence[Any]
) -> list[Seen]:
    """What leaves with each batch."""
    found = []
    with start_local(topology, name="t", checkpointLocation=checkpoint) as running:
        for batch in batches:
            feeder.feed(batch, wait=True, timeout=20)
            found.append(list(seen))
            seen.clear()
        running.processAllAvailable(timeout=20)
    return found


# --- by event time ----------------------------------------------------------------------------------------------------

HOURS = TumblingEventTimeWindow("1 hour", "at", lateness="10 minutes")
BATCHES = [
    [("a", at(60), 1), ("b", at(3000), 2)],
    [("a", at(3700), 4), ("a", at(3599), 8)],
    [("a", at(4100), 16), ("a", at(30), 32)],
    [("a", at(4200), 64)],
    [("a", at(59), 128), ("b", at(7300), 256)],
]


def hourly(stream: Stream, config: Any, state: Any, **more: Any) -> WindowedStream:
    return stream.groupBy("k").window(config, state, "n", Sum(), "sum", name="hours", **more)


def bounds(seen: Seen) -> Seen:
    return [(secs(start), secs(end), *rest) for start, end, *rest in seen]


def test_a_window_leaves_when_the_watermark_reaches_its_end_and_what_comes_after_is_late(
    make_state: MakeState, tmp_path: Path
) -> None:
    seen: Seen = []
    late: Seen = []
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    windows = hourly(topology.newStream("s", feeder), HOURS, make_state())
    windows.peek(noting(seen))
    windows.late().peek(noting(late))
    found = batch_by_batch(topology, feeder, seen, tmp_path, BATCHES)
    hour = (0.0, 3600.0)
    assert [bounds(each) for each in found] == [[], [], [], [(*hour, "a", 41), (*hour, "b", 2)], []]
    assert late == [("a", at(59), 128)], "in the batch in which it came"


class Cancelling:
    """A sum that is nothing where it comes to 0."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return int(tuple.n)

    def combine(self, a: int | None, b: int | None) -> int | None:
        return ((a or 0) + (b or 0)) or None

    def zero(self) -> None:
        return None


@pytest.mark.parametrize("keepFor", [None, "1 hour"])
def test_a_sum_that_was_nothing_for_a_while_leaves_once(make_state: MakeState, keepFor: Any, tmp_path: Path) -> None:
    seen: Seen = []
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    more = {} if keepFor is None else {"keepFor": keepFor}
    grouped = topology.newStream("s", feeder).groupBy("k")
    windows = grouped.window(HOURS, make_state(), "n", Cancelling(), "sum", name="hours", **more)
    windows.peek(noting(seen))
    batches = [
        [("a", at(60), 5), ("b", at(60), 1), ("c", at(60), 2)],
        [("a", at(120), -5), ("c", at(120), -2)],
        [("a", at(180), 7)],
        [("c", at(180), 4), ("a", at(200), -7)],
        [("a", at(220), 1), ("c", at(220), -4)],
        [("b", at(9000), 1)],
        [("b", at(20000), 1)],
    ]
    found = batch_by_batch(topology, feeder, seen, tmp_path, batches)
    hour = (0.0, 3600.0)
    assert sorted(bounds(found[5])) == [(*hour, "a", 1), (*hour, "b", 1)]
    assert [bounds(each) for each in found[:5]] == [[]] * 5


def test_what_the_windows_hold_is_asked_by_their_start_and_kept_as_long_as_one_says(
    make_state: MakeState, tmp_path: Path
) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    windows = hourly(topology.newStream("s", feeder), HOURS, make_state(), keepFor="1 hour")
    asked = topology.newDRPCStream("hour", "hour timestamp, k string").stateQuery(
        windows.state(), "hour, k", MapGet(), "sum"
    )
    asked.stateQuery(windows.watermark(), SnapshotGet(), "mark").project("sum", "mark")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:

        def hour(start: float, key: str) -> tuple[Any, float]:
            ((sum_, mark),) = running.drpc.execute("hour", hour=at(start), k=key)
            return sum_, secs(mark)

        feeder.feed(BATCHES[0], wait=True, timeout=20)
        assert hour(0, "a") == (1, 2400.0), "while it is open"
        for batch in BATCHES[1:]:
            feeder.feed(batch, wait=True, timeout=20)
        assert (hour(0, "a"), hour(3600, "a"), hour(7200, "b")) == ((41, 6700.0), (84, 6700.0), (256, 6700.0))
        feeder.feed([("c", at(7800), 1)], wait=True, timeout=20)
        assert (hour(0, "a"), hour(3600, "a")) == ((None, 7200.0), (84, 7200.0)), "an hour after it left"
        assert {(secs(start), k) for (start, k), _ in running.state("hours").items()} == {
            (3600.0, "a"),
            (7200.0, "b"),
            (7200.0, "c"),
        }


@pytest.mark.parametrize("aggregator", [Sum(), Letters()], ids=["combined", "gathered"])
@pytest.mark.parametrize(
    "config", [HOURS, SlidingEventTimeWindow("1 hour", "20 minutes", "at"), SessionWindow("30 minutes", "at")]
)
def test_a_restart_between_any_two_batches_changes_nothing(
    config: Any, aggregator: Any, make_state: MakeState, tmp_path: Path
) -> None:
    def topology(seen: Seen, spout: Any) -> TridentTopology:
        made = TridentTopology()
        fields = "n" if isinstance(aggregator, Sum) else "c"
        over = made.newStream("s", spout).groupBy("k")
        over.window(config, make_state(), fields, aggregator, "given", name="win").peek(noting(seen))
        return made

    rows = [[(k, t, n, chr(97 + n.bit_length())) for k, t, n in batch] for batch in BATCHES]
    rows.append([("z", at(10**6), 0, "")])
    whole: Seen = []
    with start_local(
        topology(whole, FixedBatchSpout(f"{FIELDS}, c string", rows)), name="w", checkpointLocation=tmp_path
    ) as running:
        running.processAllAvailable(timeout=30)
    seen: Seen = []
    feeder = FeederBatchSpout(f"{FIELDS}, c string")
    for batch in rows:
        given: Seen = []
        (found,) = batch_by_batch(topology(given, feeder), feeder, given, tmp_path, [batch])
        seen += found
    assert sorted(seen, key=repr) == sorted(whole, key=repr) != []


def test_another_lateness_opens_no_window_that_has_left(tmp_path: Path) -> None:
    """A watermark does not go back, though the lateness grows."""
    seen: Seen = []
    feeder = FeederBatchSpout(FIELDS)

    def topology(lateness: int) -> TridentTopology:
        made = TridentTopology()
        config = TumblingEventTimeWindow(10, "at", lateness=lateness)
        hourly(made.newStream("s", feeder), config, MemoryMapState.opaque()).peek(noting(seen))
        return made

    found = batch_by_batch(topology(0), feeder, seen, tmp_path, [[("a", at(5), 1)], [("a", at(10), 2)]])
    assert [bounds(each) for each in found] == [[], [(0.0, 10.0, "a", 1)]]
    more = [[("a", at(6), 4)], [("a", at(21), 8)], [("a", at(30), 16)]]
    found = batch_by_batch(topology(10), feeder, seen, tmp_path, more)
    assert [bounds(each) for each in found] == [[], [], [(10.0, 20.0, "a", 2)]]


def test_a_window_over_windows(make_state: MakeState, tmp_path: Path) -> None:
    """Results go by the ends of their windows, which are times like any other."""
    seen: Seen = []
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    tens = topology.newStream("s", feeder).window(TumblingEventTimeWindow(10, "at"), make_state(), "n", Sum(), "sum")
    ends = tens.map(lambda t: (t.windowStart, t.sum), "start timestamp, sum long")
    ends.window(TumblingEventTimeWindow(30, "start"), make_state(), "sum", Sum(), "total").peek(noting(seen))
    found = batch_by_batch(
        topology,
        feeder,
        seen,
        tmp_path,
        [[("a", at(t), 1) for t in range(35)], [("a", at(t), 1) for t in range(35, 71)]],
    )
    assert [bounds(each) for each in found] == [[], [(0.0, 30.0, 30), (30.0, 60.0, 30)]]


# --- what fails on the way --------------------------------------------------------------------------------------------


def away_from(monkeypatch: pytest.MonkeyPatch, txid: int, state: str) -> None:
    """From batch `txid` on this state takes nothing more."""
    for store in (MemoryStore, RedisStore):
        apply = store.apply

        def refused(self: Any, lease: Any, update: Any, values: bool = False, apply: Any = apply) -> Any:
            if update.txid >= txid and state in str(vars(self)):
                raise StateUnavailableError("away")
            return apply(self, lease, update, values)

        monkeypatch.setattr(store, "apply", refused)


class Failing(Letters):
    def complete(self, val: list[str], collector: Any) -> None:
        raise AssertionError("what is frozen is never computed again")


def test_what_left_a_window_is_frozen_before_the_window_is_written(
    make_state: MakeState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends when batch 2 is frozen, state and results; the next one has another aggregator."""
    rows = [list("ab"), list("cde")]

    def topology(aggregator: Any) -> TridentTopology:
        made = TridentTopology()
        windows = made.newStream("s", FixedBatchSpout("c string", rows)).tumblingWindow(
            3, make_state(), "c", aggregator, "w", name="win"
        )
        windows.groupBy("w").persistentAggregate(make_state(), Count(), "n", name="words")
        return made

    def run(aggregator: Any, **options: Any) -> dict[Any, Any]:
        with start_local(topology(aggregator), name="t", checkpointLocation=tmp_path, **options) as running:
            running.processAllAvailable(timeout=30)
            return dict(running.state("words").items())

    with monkeypatch.context() as patch:
        away_from(patch, 2, "win")
        with pytest.raises(StateUnavailableError):
            run(Letters(), commitRetrySecs=0)
    Failing.__qualname__ = Letters.__qualname__  # the state is known by it
    assert run(Failing()) == {"abc": 1}


def test_a_server_that_lost_everything_gets_its_windows_back(shared_redis: RedisServer, tmp_path: Path) -> None:
    """Between any two batches it comes back with nothing: tuples that wait, watermark and results are healed."""
    seen: Seen = []
    state = RedisMapState.opaque(shared_redis.url, buckets=16)
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    stream = topology.newStream("s", feeder)
    hourly(stream, HOURS, state).peek(noting(seen))
    counted: Seen = []
    stream.tumblingWindow(4, state, "n", Sum(), "four", name="fours").peek(noting(counted))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        for batch in BATCHES:
            feeder.feed(batch, wait=True, timeout=20)
            shared_redis.client.flushall()
        feeder.feed([("b", at(20_000), 0)], wait=True, timeout=20)
        running.processAllAvailable(timeout=20)
    assert sorted(bounds(seen)) == [
        (0.0, 3600.0, "a", 41),
        (0.0, 3600.0, "b", 2),
        (3600.0, 7200.0, "a", 84),
        (7200.0, 10800.0, "b", 256),
    ]
    assert counted == [(15,), (240,)]


def test_an_aggregator_that_raises_is_named_with_its_tuple(tmp_path: Path) -> None:
    class Picky(Letters):
        def aggregate(self, val: list[str], tuple: Any, collector: Any) -> None:
            raise ValueError("not this one")

    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("c string", [list("ab")]))
    stream.tumblingWindow(2, "c", Picky(), "w").peek(str)
    with pytest.raises(UserFunctionError) as caught, start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=20)
    said = str(caught.value)
    assert said.startswith("s/1:tumblingWindow(Picky): Picky (test_windows.py:")
    assert "raised ValueError: not this one; the tuple was (c='a')" in said


def test_another_aggregator_in_the_same_window_is_told(tmp_path: Path) -> None:
    def topology(config: Any, aggregator: Any) -> TridentTopology:
        made = TridentTopology()
        stream = made.newStream("s", FixedBatchSpout("c string", [list("abcd")]))
        stream.window(config, "c", aggregator, "w", name="win").peek(str)
        return made

    Failing.__qualname__ = "Failing"
    with start_local(topology(TumblingCountWindow(3), Letters()), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    with pytest.raises(StateShapeError, match=r"TumblingCountWindow\(3\) \(another aggregator\)\. Give"):
        start_local(topology(TumblingCountWindow(3), Failing()), name="t", checkpointLocation=tmp_path)
    start_local(topology(TumblingCountWindow(3), Letters()), name="t", checkpointLocation=tmp_path).stop()


TENS, AT = SlidingEventTimeWindow(10, 5, "at"), "at"


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        (
            TumblingCountWindow(3),
            SlidingCountWindow(3, 2),
            "(another kind of window: TumblingCountWindow before, SlidingCountWindow now)",
        ),
        (TumblingCountWindow(3), TumblingCountWindow(4), "(another length of the window: 3 before, 4 now)"),
        (TENS, SlidingEventTimeWindow(10, 2, AT), "(another slide of the window: 5 seconds before, 2 seconds now)"),
        (
            SlidingEventTimeWindow(9, 9, AT),
            TENS,
            "(another length of the window: 9 seconds before, 10 seconds now and slide of the window: 9 seconds "
            "before, 5 seconds now)",
        ),
        (TENS, SlidingEventTimeWindow(10, 5, "a, (b)"), "(the window used 'at' and now uses 'a, (b)')"),
        (
            SessionWindow("1 minute", "a, (b)"),
            SessionWindow(59, AT),
            "(another gap of the window: 1 minute before, 59 seconds now, the window used 'a, (b)' and now uses 'at')",
        ),
        (TENS, SlidingEventTimeWindow(10, 5, AT, lateness=3), ""),
    ],
)
def test_what_changed_of_a_stored_window_is_told(was: Any, now: Any, says: str, tmp_path: Path) -> None:
    def topology(config: Any) -> TridentTopology:
        made = TridentTopology()
        rows = FixedBatchSpout("k string, at timestamp, `a, (b)` timestamp, n long", [])
        made.newStream("s", rows).groupBy("k").window(config, "n", Sum(), "sum", name="win").peek(str)
        return made

    start_local(topology(was), name="t", checkpointLocation=tmp_path).stop()
    if says:
        with pytest.raises(StateShapeError) as caught:
            start_local(topology(now), name="t", checkpointLocation=tmp_path)
        assert f"{says}. Give the new state another name=" in str(caught.value)
    else:
        start_local(topology(now), name="t", checkpointLocation=tmp_path).stop()


def test_the_first_and_the_last_time_there_is_stop_no_window(make_state: MakeState, tmp_path: Path) -> None:
    """They often stand for no time and for never. A window that would begin before the year 1 is none, so the first
    of them is late in windows of a week; of the last one's no window is seen to end."""
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    march, last = first.replace(month=3), datetime.datetime.max.replace(tzinfo=datetime.UTC)
    topology, seen, late = TridentTopology(), list[Any](), list[Any]()
    days, totals = list[Any](), list[Any]()
    rows = [[("a", first, 1)], [("a", march, 2)], [("a", last, 4)], [("a", march, 8)]]
    stream = topology.newStream("s", FixedBatchSpout(FIELDS, rows)).groupBy("k")
    weeks = stream.window(TumblingEventTimeWindow("1 week", "at"), make_state(), "n", Sum(), "sum", name="weeks")
    weeks.foreachArrow(lambda table, txid, attempt: seen.extend(table["sum"].to_pylist()), name="seen")
    weeks.late().foreachArrow(lambda table, txid, attempt: late.extend(table["n"].to_pylist()), name="late")
    sliding = SlidingEventTimeWindow("2 days", "1 day", "at", lateness="1 week")
    stream.window(sliding, make_state(), "n", Sum(), "sum", name="days").foreachArrow(
        lambda table, txid, attempt: days.extend(table["sum"].to_pylist()), name="days.seen"
    )
    held = stream.window(TumblingEventTimeWindow("1 week", "at"), make_state(), "n", Adding(), "sum long", name="held")
    held.foreachArrow(lambda table, txid, attempt: totals.extend(table["sum"].to_pylist()), name="totals")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert [key[1] for key, _ in running.state("weeks").items()] == ["a"]
        assert running.state("weeks.watermark").value == last
    assert (seen, totals, days, late) == ([2], [2], [1, 2, 2], [1, 8])


class Adding:
    """A reducer, so that tuples wait."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.n)


# --- odd values -------------------------------------------------------------------------------------------------------


def test_times_without_a_zone_and_nulls_among_the_keys(tmp_path: Path) -> None:
    def naive(seconds: float) -> Any:
        time = at(seconds)
        return None if time is None else time.replace(tzinfo=None)

    seen: Seen = []
    topology = TridentTopology()
    rows = [[(None, naive(1), 1), (None, naive(-1), 2), ("a", naive(2), 4)], [(None, naive(100), 8)]]
    windows = hourly(
        topology.newStream("s", FixedBatchSpout("k string, at timestamp_ntz, n long", rows)),
        TumblingEventTimeWindow(10, "at"),
        MemoryMapState.opaque(),
    )
    assert windows.schema["windowStart"].dataType.typeName() == "timestamp_ntz"
    windows.peek(noting(seen))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    tens = [(naive(-10), naive(0), None, 2), (naive(0), naive(10), None, 1), (naive(0), naive(10), "a", 4)]
    assert sorted(seen, key=repr) == sorted(tens, key=repr)


class Average:
    """Sum and count; what leaves is their quotient."""

    outputType = "struct<sum:double,count:long>"

    def init(self, tuple: Any) -> tuple[float, int]:
        return float(tuple.n), 1

    def combine(self, a: Any, b: Any) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]

    def zero(self) -> tuple[float, int]:
        return 0.0, 0

    def present(self, acc: Any) -> float:
        return float(acc[0] / acc[1]) if acc[1] else 0.0


@pytest.mark.parametrize(
    "config", [TumblingEventTimeWindow(10, "at"), SessionWindow(5, "at"), TumblingCountWindow(2)], ids=repr
)
def test_what_leaves_a_window_is_what_the_aggregator_presents(config: Any, tmp_path: Path) -> None:
    seen: Seen = []
    topology = TridentTopology()
    rows = [[("a", at(1), 1), ("a", at(4), 4)], [("a", at(100), 8)]]
    windows = topology.newStream("s", FixedBatchSpout(FIELDS, rows)).window(config, "n", Average(), "mean")
    windows.peek(noting(seen))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    assert [row[-1] for row in seen] == [2.5]
