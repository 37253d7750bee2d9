"""Window joins end to end, in all kinds of states: each window once, over restarts and crashes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.window_runner import at, secs
from trident import Count, TridentTopology, TumblingEventTimeWindow
from trident.errors import StateShapeError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local

MakeState = Callable[[], Any]
VIEWS, CLICKS = "ad string, at timestamp, v long", "ad string, at timestamp, c long"

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def joined(topology: TridentTopology, views: Any, clicks: Any, state: Any, **options: Any) -> Any:
    """Count the joined tuples of minutes by the start of the window and the numbers of the tuples."""
    left, right = topology.newStream("views", views), topology.newStream("clicks", clicks)
    settings = {"lateness": 30, "joinType": "full", **options}
    minutes = TumblingEventTimeWindow("1 minute", "at", lateness=settings.pop("lateness"))
    fields = "ad, at, v, clicked, c"
    pairs = left.windowJoin(right, "ad", minutes, outputFields=fields, stateFactory=state, name="pairs", **settings)
    pairs.groupBy("windowStart, v, c").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counted")
    return pairs


VIEW_BATCHES = [
    [("a", at(0), 1), ("b", at(10), 2)],
    [("a", at(50), 3), ("a", at(60), 4)],
    [("c", at(100), 5)],
    [("z", at(500), 9)],
]
CLICK_BATCHES = [
    [("a", at(59), 1)],
    [("a", at(70), 2), ("c", at(30), 3)],
    [("c", at(110), 4)],
    [("z", at(500), 9)],
]
EXPECTED = {(0, 1, 1), (0, 3, 1), (0, 2, None), (0, None, 3), (60, 4, 2), (60, 5, 4)}


def counted(running: Any) -> Counter[Any]:
    return Counter({(secs(start), v, c): n for (start, v, c), n in running.state("counted").items()})


def test_windows_over_restarts(make_state: MakeState, tmp_path: Path) -> None:
    topology, views, clicks = TridentTopology(), FeederBatchSpout(VIEWS), FeederBatchSpout(CLICKS)
    pairs, late = joined(topology, views, clicks, make_state()), list[Any]()
    pairs.late("left").peek(lambda t: late.append(("left", t.v)))
    pairs.late("right").peek(lambda t: late.append(("right", t.c)))
    last = ([("a", at(59), 7), ("a", None, 8)], [("a", at(400), 8)])
    for left, right in [*zip(VIEW_BATCHES, CLICK_BATCHES, strict=True), last]:
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            views.feed(left)
            clicks.feed(right)
            running.processAllAvailable(timeout=20)
            found = counted(running)
    assert found == dict.fromkeys(EXPECTED, 1)
    assert sorted(late) == [("left", 7), ("left", 8), ("right", 8)]


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith("commit")])
def test_a_driver_that_dies_anywhere_gives_each_window_once(point: str, make_state: MakeState, tmp_path: Path) -> None:
    topology = TridentTopology()
    first, second, *others = VIEW_BATCHES
    views = TestSource(VIEWS, [first, CRASH.at(point), second, FAIL, *others])
    joined(topology, views, FixedBatchSpout(CLICKS, CLICK_BATCHES), make_state())
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert counted(running) == dict.fromkeys(EXPECTED, 1)


def test_another_window_is_refused_and_another_lateness_is_not(tmp_path: Path) -> None:
    def start(**options: Any) -> None:
        topology = TridentTopology()
        spouts = FixedBatchSpout(VIEWS, VIEW_BATCHES[:1]), FixedBatchSpout(CLICKS, CLICK_BATCHES[:1])
        joined(topology, *spouts, MemoryMapState.opaque(), **options)
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)

    start()
    start(lateness=5)
    with pytest.raises(StateShapeError, match=r"WindowJoin\(TumblingEventTimeWindow\(1 minute by at\) and at, full\)"):
        start(joinType="left")
