"""Early results end to end: states over them are those of a model that computes all windows anew after each batch."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.compiler.test_early_results import drawn
from tests.compiler.test_windows_by_any_cut import Listed
from tests.compiler.window_runner import FIELDS, at, secs
from tests.support.early_windows import Row, Windows
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout
from trident import (
    Count,
    Max,
    SessionWindow,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
)
from trident.errors import StateShapeError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, SqliteMapState
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

PLACES = ("memory", "redis", "sqlite")
KINDS = ("opaque", "transactional")
Make = Callable[[], Any]
Fold = Callable[[Sequence[int]], Any]

WINDOWS: dict[str, tuple[Any, Any, Fold]] = {
    "tens": (TumblingEventTimeWindow(10, "at", lateness=6), Sum(), sum),
    "sliding": (SlidingEventTimeWindow(10, 5, "at", lateness=2), Listed(), list),
    "visits": (SessionWindow(5, "at", lateness=9), Sum(), sum),
    "lists": (SessionWindow(7, "at", lateness=4), Listed(), list),
}
"""By the name of their state: windows, their aggregator, and what it makes of numbers."""


@pytest.fixture
def makes(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Make]:
    """Return a function that returns the maker of states of a place and a kind."""

    def maker(place: str, kind: str) -> Make:
        if place == "memory":
            return getattr(MemoryMapState, kind)  # type: ignore[no-any-return]
        if place == "sqlite":
            return lambda: getattr(SqliteMapState, kind)(tmp_path / "states.sqlite")
        server: RedisServer = request.getfixturevalue("shared_redis")
        return lambda: getattr(RedisMapState, kind)(server.url, buckets=4)

    return maker


def program(stream: Stream, make: Make, lateness: int | None = None) -> dict[str, Windows]:
    """Add windows with early results, and states of the results. Return a model of each window."""
    models = {}
    for name, (config, aggregator, _) in WINDOWS.items():
        if lateness is not None:
            config = type(config)(*_sizes(config), "at", lateness=lateness)
        early = stream.groupBy("k").window(config, make(), "n", aggregator, "x", name=name, emit="changes")
        early.toTable("windowStart, k", make(), name=f"{name}.table")
        by_key = early.groupBy("k")
        by_key.persistentAggregate(make(), {"n": Count(), "end": Max("windowEnd")}, name=f"{name}.count")
        models[name] = Windows(config)
    return models


def _sizes(config: Any) -> list[float]:
    names = ("gap",) if isinstance(config, SessionWindow) else ("length", "slide")
    sizes = [getattr(config, name) / 1_000_000 for name in names]
    return sizes[:1] if isinstance(config, TumblingEventTimeWindow) else sizes


def check(running: Any, models: dict[str, Windows]) -> None:
    """Compare the states with the models."""
    for name, model in models.items():
        of, expected = WINDOWS[name][2], model.now()
        table = {(secs(start), secs(row.windowEnd), (k,)): row.x for (start, k), row in _held(running, f"{name}.table")}
        assert table == {window: of(ns) for window, ns in expected.items()}, name
        counts = {k: (row.n, secs(row.end)) for k, row in _held(running, f"{name}.count")}
        ends: dict[Any, list[float]] = {}
        for _, end, (k,) in expected:
            ends.setdefault(k, []).append(end)
        assert counts == {k: (len(own), max(own)) for k, own in ends.items()}, name


def _held(running: Any, state: str) -> list[tuple[Any, Any]]:
    return list(running.state(state).items())


def timed(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(k, at(time), n) for k, time, n in rows]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_states_over_early_results_follow_the_windows_over_restarts(
    place: str, kind: str, makes: Any, tmp_path: Path
) -> None:
    topology, feeder, batches = TridentTopology(), FeederBatchSpout(FIELDS), drawn(Random(f"{place} {kind}"))
    models = program(topology.newStream("s", feeder), makes(place, kind))
    for first in range(0, len(batches), 3):
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            for rows, _ in batches[first : first + 3]:
                feeder.feed(timed(rows), wait=True, timeout=20)
                for model in models.values():
                    model.add(rows)
                check(running, models)


@pytest.mark.parametrize("seed", some_of(range(20), range(2)))
def test_replays_that_differ_take_away_what_they_never_added(seed: int, makes: Any, tmp_path: Path) -> None:
    """An opaque spout cuts the tuples otherwise at each attempt. No tuple is late, so that the cut does not matter."""
    chance = Random(seed)
    rows = [row for batch, _ in drawn(Random(seed)) for row in batch]

    def extent(attempt: Any) -> int:
        return Random(f"{seed}/{attempt.txid}/{attempt.attempt}/{attempt.epoch}").randint(1, 7)

    def may_fail(t: Any, failed: list[int] = []) -> bool:  # noqa: B006
        if chance.random() < 0.05 and len(failed) < 5:
            failed.append(1)
            raise RuntimeError("this attempt fails")
        return True

    place = chance.choice(PLACES)
    for timeout in (0.05, 0.1, 30):
        topology = TridentTopology()
        stream = topology.newStream("s", ReplayingSpout(FIELDS, {"p": timed(rows)}, extent)).filter(may_fail)
        models = program(stream, makes(place, "opaque"), lateness=10_000)
        with start_local(topology, name=f"r{seed}", checkpointLocation=tmp_path) as running:
            try:
                running.processAllAvailable(timeout=timeout)
            except TimeoutError:
                continue
            for model in models.values():
                model.add(rows)
            check(running, models)
            return
    pytest.fail("the stream did not end")


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith(("freeze", "commit"))])
def test_a_driver_that_dies_anywhere_changes_each_result_once(point: str, tmp_path: Path) -> None:
    topology, batches = TridentTopology(), [rows for rows, _ in drawn(Random(9))]
    one, two, three, four, *others = map(timed, batches)
    script = [one, FAIL, two, CRASH.at(point), three, CRASH, four, *others]
    models = program(topology.newStream("s", TestSource(FIELDS, script)), MemoryMapState.opaque)
    for model in models.values():
        for rows in batches:
            model.add(rows)
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        check(running, models)


def test_the_late_tuples_the_state_and_the_watermark_of_early_results(tmp_path: Path) -> None:
    topology, late = TridentTopology(), list[Any]()
    batches = [[("a", at(1), 1), ("a", at(25), 2)], [("a", at(3), 4), ("a", at(24), 8)]]
    stream = topology.newStream("s", FixedBatchSpout(FIELDS, batches))
    early = stream.groupBy("k").window(TumblingEventTimeWindow(10, "at"), "n", Sum(), "x", name="w", emit="changes")
    early.late().peek(lambda row: late.append(row.n))
    early.toTable("windowStart", name="table")
    early.state(), early.watermark()
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert {secs(start): row.x for start, row in _held(running, "table")} == {0: 1, 20: 10}
        assert running.state("w").items() and dict(running.state("w").items()) == {(at(20), "a"): 10}
    assert late == [4]


@pytest.mark.parametrize(("was", "now"), [("final", "changes"), ("changes", "final")])
def test_a_stored_window_does_not_begin_or_cease_to_emit_changes(was: Any, now: Any, tmp_path: Path) -> None:
    """The open windows would take away results that nobody got, or would leave those that were given."""

    def topology(emit: Any) -> TridentTopology:
        made = TridentTopology()
        stream = made.newStream("s", FixedBatchSpout(FIELDS, [[("a", at(1), 1)]]))
        config = TumblingEventTimeWindow(10, "at")
        stream.groupBy("k").window(config, "n", Sum(), "x", name="w", emit=emit).foreachArrow(print, name="out")
        return made

    with start_local(topology(was), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    with pytest.raises(StateShapeError, match=rf"\(emit='{was}' before, '{now}' now\)\. Give the new state another"):
        start_local(topology(now), name="t", checkpointLocation=tmp_path)
    start_local(topology(was), name="t", checkpointLocation=tmp_path).stop()


def test_an_aggregate_of_early_results_counts_each_window_once() -> None:
    topology, rows = TridentTopology(), Counter[str]()
    batches = [[("a", at(n), n)] for n in range(20)]
    early = topology.newStream("s", FixedBatchSpout(FIELDS, batches)).window(
        TumblingEventTimeWindow(10, "at"), Count(), "x", name="w", emit="changes"
    )
    early.persistentAggregate(MemoryMapState.opaque(), "x", Sum(), "sum", name="sum")
    early.toStream().peek(lambda row: rows.update([row._change_type]))
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("sum").items()) == {(): 20}
    assert rows == {"insert": 2, "update_preimage": 18, "update_postimage": 18}
