"""Interval joins end to end, in memory and in Redis: each pair once, over restarts, crashes and differing replays."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.compiler.window_runner import at
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout, Varied
from trident import Count, Sum, TridentTopology
from trident.errors import StateShapeError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local

MakeState = Callable[[], Any]
VIEWS, CLICKS = "ad string, at timestamp, v long", "ad string, at timestamp, c long"


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def joined(topology: TridentTopology, views: Any, clicks: Any, state: Any, **options: Any) -> Any:
    """Count by the numbers of its tuples what a join of views and clicks gives."""
    left, right = topology.newStream("views", views), topology.newStream("clicks", clicks)
    settings = {"between": (0, 60), "lateness": 30, "joinType": "left", **options}
    fields = "ad, at, v, clicked, c"
    pairs = left.intervalJoin(
        right, "ad", timestampField="at", outputFields=fields, stateFactory=state, name="pairs", **settings
    )
    pairs.groupBy("v, c").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counted")
    return pairs


VIEW_BATCHES = [
    [("a", at(0), 1), ("b", at(10), 2)],
    [("a", at(50), 3)],
    [("c", at(100), 4)],
    [("z", at(500), 9)],
    [("z", at(600), 9)],
]
CLICK_BATCHES = [
    [("a", at(20), 1)],
    [("a", at(60), 2), ("a", at(61), 3)],
    [("c", at(99), 4)],
    [("y", at(500), 9)],
    [("y", at(600), 9)],
]
EXPECTED = {(1, 1): 1, (1, 2): 1, (2, None): 1, (3, 2): 1, (3, 3): 1, (4, None): 1}


def counted(running: Any) -> dict[Any, int]:
    return {key: count for key, count in running.state("counted").items() if key[0] != 9}


def test_pairs_and_lonely_tuples_over_restarts(make_state: MakeState, tmp_path: Path) -> None:
    topology, views, clicks = TridentTopology(), FeederBatchSpout(VIEWS), FeederBatchSpout(CLICKS)
    pairs, late = joined(topology, views, clicks, make_state()), list[Any]()
    pairs.late("left").peek(lambda t: late.append(("left", t.v)))
    pairs.late("right").peek(lambda t: late.append(("right", t.c)))
    for left, right in [*zip(VIEW_BATCHES, CLICK_BATCHES, strict=True), ([("a", at(0), 7)], [("a", at(569), 8)])]:
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            views.feed(left)
            clicks.feed(right)
            running.processAllAvailable(timeout=20)
            found = counted(running)
    assert found == EXPECTED
    assert sorted(late) == [("left", 7), ("right", 8)]


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith(("freeze", "commit"))])
def test_a_driver_that_dies_anywhere_gives_each_pair_once(point: str, make_state: MakeState, tmp_path: Path) -> None:
    topology = TridentTopology()
    first, second, *others = VIEW_BATCHES
    views = TestSource(VIEWS, [first, CRASH.at(point), second, FAIL, *others])
    joined(topology, views, FixedBatchSpout(CLICKS, CLICK_BATCHES), make_state())
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert counted(running) == EXPECTED


@pytest.mark.parametrize("seed", some_of(range(5), range(2)))
def test_replays_that_differ_lose_no_pair_and_repeat_none(seed: int, make_state: MakeState, tmp_path: Path) -> None:
    """Opaque spouts give other tuples at each attempt, one attempt in ten fails, and the driver starts anew."""
    chance = random.Random(seed)
    views = [(chance.choice("abc"), at(chance.randint(0, 300)), n) for n in range(30)]
    clicks = [(chance.choice("abc"), at(chance.randint(0, 300)), n) for n in range(30)]
    failures = iter(range(8))

    def fails(t: Any) -> bool:
        if chance.random() < 0.05 and next(failures, None) is not None:
            raise RuntimeError("this attempt fails")
        return True

    def topology() -> TridentTopology:
        made = TridentTopology()
        sides = []
        for name, fields, rows in (("views", VIEWS, views), ("clicks", CLICKS, clicks)):
            spout = ReplayingSpout(fields, {"p": rows[:15], "q": rows[15:]}, Varied(seed, ("p", "q")))
            sides.append(made.newStream(name, spout).filter(fails))
        pairs = sides[0].intervalJoin(
            sides[1],
            "ad",
            (-20, 60),
            timestampField="at",
            lateness=1000,
            outputFields="ad, at, v, clicked, c",
            stateFactory=make_state(),
            name="pairs",
        )
        pairs.groupBy("v, c").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counted")
        return made

    for timeout in (0.1, 0.2, 30):
        with start_local(topology(), name=f"j{seed}", checkpointLocation=tmp_path) as running:
            try:
                running.processAllAvailable(timeout=timeout)
            except TimeoutError:
                continue
            found = dict(running.state("counted").items())
    near = Counter(
        (v, c)
        for ad, seen, v in views
        for other, clicked, c in clicks
        if ad == other and -20 <= (clicked - seen).total_seconds() <= 60  # type: ignore[operator]
    )
    assert found == dict(near) and len(near) > 20


def test_a_server_that_lost_everything_gets_its_tuples_back(shared_redis: RedisServer, tmp_path: Path) -> None:
    topology, views, clicks = TridentTopology(), FeederBatchSpout(VIEWS), FeederBatchSpout(CLICKS)
    joined(topology, views, clicks, RedisMapState.opaque(shared_redis.url, buckets=16))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        for left, right in zip(VIEW_BATCHES, CLICK_BATCHES, strict=True):
            views.feed(left)
            clicks.feed(right)
            running.processAllAvailable(timeout=20)
            shared_redis.client.flushall()
        assert counted(running) == EXPECTED


def test_another_interval_is_refused_and_another_lateness_is_not(tmp_path: Path) -> None:
    def start(**options: Any) -> None:
        topology = TridentTopology()
        spouts = FixedBatchSpout(VIEWS, VIEW_BATCHES[:1]), FixedBatchSpout(CLICKS, CLICK_BATCHES[:1])
        joined(topology, *spouts, MemoryMapState.opaque(), **options)
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)

    start()
    start(lateness=5)
    with pytest.raises(StateShapeError, match=r"IntervalJoin\(from 0 seconds to 1 minute by at and at, left\)"):
        start(between=(0, 90))


def test_flights_meet_the_weather_of_their_hour_though_it_comes_a_month_later(tmp_path: Path) -> None:
    """A year of flights from three airports, in the shape of nycflights13 at a tenth of its size, against pandas."""
    chance = np.random.default_rng(2013)
    hours = pd.date_range("2013-01-01", periods=365 * 24, freq="h", tz="UTC").astype("datetime64[us, UTC]")
    airports = np.asarray(["EWR", "JFK", "LGA"])
    weather = pd.MultiIndex.from_product([airports, hours], names=["origin", "at"]).to_frame(index=False)
    weather = weather.sample(26_115, random_state=1).assign(temp=chance.normal(10, 8, 26_115))
    flights = pd.DataFrame(
        {
            "origin": chance.choice(airports, 33_000),
            "at": hours[np.sort(chance.integers(0, len(hours), 33_000))],
            "flight": np.arange(33_000),
        }
    )
    expected = flights.merge(weather, on=["origin", "at"])
    spouts = []
    for frame, fields, months in ((flights, "flight long", range(1, 14)), (weather, "temp double", range(13))):
        parts = [frame[frame["at"].dt.month == month].reset_index(drop=True) for month in months]
        spouts.append(FixedBatchSpout(f"origin string, at timestamp, {fields}", parts))
    topology = TridentTopology()
    left, right = (topology.newStream(name, spout) for name, spout in zip(("flights", "weather"), spouts, strict=True))
    pairs = left.intervalJoin(
        right,
        "origin",
        (0, 0),
        timestampField="at",
        lateness="31 days",
        outputFields="origin, at, flight, hour, temp",
        name="w",
    )
    pairs.groupBy("origin").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="pairs")
    pairs.persistentAggregate(MemoryMapState.opaque(), "flight", Sum(), "sum", name="checksum")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        found = dict(running.state("pairs").items())
        ((_, checksum),) = running.state("checksum").items()
    assert found == expected.groupby("origin").size().to_dict()
    assert checksum == expected["flight"].sum()
    assert len(expected) > 30_000
