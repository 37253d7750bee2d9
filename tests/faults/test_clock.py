"""Clocks that jump: order never depends on one."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults import smallest_topology
from tests.faults.smallest_topology import Small, expected
from tests.support.server import RedisServer
from trident import CollectList, SlidingDurationWindow, TridentTopology, TumblingDurationWindow, TumblingEventTimeWindow
from trident.compiler.states.update_types import WindowBatch
from trident.compiler.windows.time_windows import NEVER, Mark, watermark_after
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local

YEAR = 365.25 * 86400


class JumpingClock:
    """A wall clock that is years off in either direction at every look; seconds that run on go on running."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.looks = 0

    def time(self) -> float:
        with self._lock:
            self.looks += 1
            return time.time() + self._random.choice([-2, -1, 0, 1, 2]) * YEAR

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("home", ["memory", "redis"])
def test_a_wall_clock_that_jumps_by_years_between_batches_and_restarts_changes_no_count(
    home: str, kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    given = Small(kind, "two", home, str(tmp_path), shared_redis.url)
    for start in range(3):
        clock = JumpingClock(start)
        options = {"name": smallest_topology.NAME, "checkpointLocation": tmp_path, "clock": clock}
        with start_local(smallest_topology.topology(given), **options) as running:
            running.processAllAvailable(timeout=30)
            assert {state: dict(running.state(state).items()) for state in ("sums", "seqs")} == expected("two")
        assert clock.looks or start


class SetClock:
    """A wall clock that the test sets."""

    now = 1_770_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return time.monotonic()


class Words:
    """A reducer, so that the tuples of a window wait."""

    outputType = "array<string>"

    def init(self) -> list[str]:
        return []

    def reduce(self, curr: list[str], tuple: Any) -> list[str]:
        return [*curr, tuple.word]


def words_by(window: Any, aggregator: Any, fed: FeederBatchSpout, seen: list[list[str]]) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", fed).window(window, "word", aggregator, "words", name="windows")
    stream.foreachArrow(lambda table, txid, attempt: seen.extend(table["words"].to_pylist()), name="seen")
    return topology


def feed_after(running: Any, clock: SetClock, after: float, fed: FeederBatchSpout, word: str) -> None:
    """Move the clock, then feed a tuple. The tuple is in no batch that looked at the clock before."""
    clock.now += after
    running.processAllAvailable(timeout=60)
    fed.feed([word])
    running.processAllAvailable(timeout=60)


@pytest.mark.parametrize("aggregator", [CollectList(), Words()], ids=["combiner", "reducer"])
@pytest.mark.parametrize("ahead", [3600.0, YEAR], ids=["an hour", "a year"])
def test_windows_by_batch_time_go_on_after_a_clock_that_was_ahead(
    ahead: float, aggregator: Any, tmp_path: Path
) -> None:
    fed, seen, clock = FeederBatchSpout("word string"), list[list[str]](), SetClock()
    clock.now -= clock.now % 60
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path, "clock": clock}
    window = TumblingDurationWindow("1 minute")

    with start_local(words_by(window, aggregator, fed, seen), **options) as running:
        feed_after(running, clock, 5, fed, "a")
        feed_after(running, clock, ahead, fed, "wrong")
        feed_after(running, clock, -ahead, fed, "b")
        feed_after(running, clock, 40, fed, "c")
    with start_local(words_by(window, aggregator, fed, seen), **options) as running:
        feed_after(running, clock, 40, fed, "d")
        feed_after(running, clock, 70, fed, "e")
        clock.now += 60  # no tuple comes: the window still closes
        running.processAllAvailable(timeout=60)
    assert seen == [["a"], ["wrong", "b", "c"], ["d"], ["e"]]


def test_a_clock_that_goes_back_by_less_than_a_window_moves_no_window(tmp_path: Path) -> None:
    fed, seen, clock = FeederBatchSpout("word string"), list[list[str]](), SetClock()
    clock.now -= clock.now % 60
    topology = words_by(TumblingDurationWindow("1 minute"), CollectList(), fed, seen)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        for word, after in [("a", 10), ("b", 45), ("c", -50), ("d", 54), ("e", 2)]:
            feed_after(running, clock, after, fed, word)
    assert seen == [["a", "b", "c", "d"]]


@pytest.mark.parametrize("behind", [3600.0, 50 * YEAR], ids=["an hour", "decades"])
def test_windows_by_batch_time_after_a_clock_that_was_behind_are_those_of_the_right_clock(
    behind: float, tmp_path: Path
) -> None:
    fed, seen, clock = FeederBatchSpout("word string"), list[list[str]](), SetClock()
    clock.now -= clock.now % 60
    topology = words_by(SlidingDurationWindow("1 minute", "20 seconds"), CollectList(), fed, seen)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        for word, after in [("a", 5), ("b", 5 - behind), ("c", 5 + behind), ("d", 10), ("e", 50)]:
            feed_after(running, clock, after, fed, word)
    assert seen == [["a", "b", "c"], ["a", "b", "c", "d"], ["a", "b", "c", "d"]]


LATENESS, IDLE = 5, 60


def idle_watermarks(times: list[tuple[float, float | None]]) -> list[float | None]:
    """Return the watermark after each batch, in seconds: batches have a time and, or not, a latest event time."""
    config = TumblingEventTimeWindow("10 seconds", "at", lateness=LATENESS, idleAfter=IDLE)
    mark, found = Mark(), list[float | None]()
    for now, latest in times:
        batch = WindowBatch(1, lambda now=now: now, None)
        mark = watermark_after(config, mark, None if latest is None else round(latest * 1e6), batch)
        found.append(None if mark.watermark == NEVER else mark.watermark / 1e6)
    return found


T = 1_770_000_000.0


def wrong_for_three(wrong: float, silent: int) -> list[tuple[float, float | None]]:
    """Return batches of which three have a wrong clock. Some of these, and the one after them, have no tuples."""
    times: list[tuple[float, float | None]] = [(T + 10, T + 9), (T + 20, T + 19)]
    for at in range(3):
        times.append((wrong + 10 * at, None if silent & (1 << at) else T + 29 + 10 * at))
    return [*times, (T + 60, None), (T + 70, T + 69), (T + 80, None)]


@pytest.mark.parametrize("wrong", [20.0, T - 7200], ids=["1970", "two hours"])
@pytest.mark.parametrize("silent", range(8))
def test_a_clock_that_was_behind_makes_no_tuple_of_a_silent_stream_late(wrong: float, silent: int) -> None:
    times, latest = wrong_for_three(wrong, silent), T
    for (_, event), watermark in zip(times, idle_watermarks(times), strict=True):
        latest = latest if event is None else event
        assert watermark == latest - LATENESS


@pytest.mark.parametrize("wrong", [T + 7200, T + 50 * YEAR], ids=["two hours", "decades"])
def test_a_silent_stream_still_moves_after_a_clock_that_was_ahead(wrong: float) -> None:
    times = wrong_for_three(wrong, 0)
    assert idle_watermarks([*times, (T + 200, None)])[-1] == T + 69 - LATENESS + 130


def test_a_clock_that_stays_behind_still_moves_a_silent_stream() -> None:
    times: list[tuple[float, float | None]] = [(T, T), *((20.0 + 30 * at, None) for at in range(10))]
    found = idle_watermarks([*times, (T + 400, None), (T + 470, None)])
    assert found[:3] == [T - 5] * 3 and found[3] == T - 5 + 60 and found[10] == T - 5 + 240
    assert found[-2:] == [T - 5 + 240, T - 5 + 310], "the clock is right again: the silence begins again"
