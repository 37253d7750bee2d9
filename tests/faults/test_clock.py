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
from trident import CollectList, TridentTopology, TumblingDurationWindow
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


@pytest.mark.parametrize("aggregator", [CollectList(), Words()], ids=["combiner", "reducer"])
@pytest.mark.parametrize("ahead", [3600.0, YEAR], ids=["an hour", "a year"])
def test_windows_by_batch_time_go_on_after_a_clock_that_was_ahead(
    ahead: float, aggregator: Any, tmp_path: Path
) -> None:
    fed, seen, clock = FeederBatchSpout("word string"), list[list[str]](), SetClock()
    clock.now -= clock.now % 60
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path, "clock": clock}
    window = TumblingDurationWindow("1 minute")

    def feed(running: Any, word: str, after: float) -> None:
        clock.now += after
        fed.feed([word])
        running.processAllAvailable(timeout=60)

    with start_local(words_by(window, aggregator, fed, seen), **options) as running:
        feed(running, "a", 5)
        feed(running, "wrong", ahead)
        feed(running, "b", -ahead)
        feed(running, "c", 40)
    with start_local(words_by(window, aggregator, fed, seen), **options) as running:
        feed(running, "d", 40)
        feed(running, "e", 70)
        clock.now += 60  # no tuple comes: the window still closes
        running.processAllAvailable(timeout=60)
    assert seen == [["a"], ["wrong", "b", "c"], ["d"], ["e"]]


def test_a_clock_that_goes_back_by_less_than_a_window_moves_no_window(tmp_path: Path) -> None:
    fed, seen, clock = FeederBatchSpout("word string"), list[list[str]](), SetClock()
    clock.now -= clock.now % 60
    topology = words_by(TumblingDurationWindow("1 minute"), CollectList(), fed, seen)
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        for word, after in [("a", 10), ("b", 45), ("c", -50), ("d", 54), ("e", 2)]:
            clock.now += after
            fed.feed([word])
            running.processAllAvailable(timeout=60)
    assert seen == [["a", "b", "c", "d"]]
