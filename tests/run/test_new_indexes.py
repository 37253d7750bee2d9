"""Indexes that a program adds to states with rows: each begins with the entries of all rows."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.changes import FIELDS, History
from tests.support.indexed_states import PLACES, Make, check, ids_of
from tests.support.indexed_states import make as make
from tests.support.postgres_fixtures import postgres as postgres
from trident import (
    Average,
    Count,
    Evolution,
    TridentTopology,
    dropState,
    openTopology,
)
from trident.base import crash_points
from trident.errors import CodeChangedError, StateShapeError
from trident.reads.state_view import StateView
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import (
    MemoryMapState,
    SqliteMapState,
)
from trident.testing import CRASH_POINTS, DriverCrashedError, crash_at, run_through
from trident.testing.crashes import Trap
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def later(spout: Any, state: Any, index: bool) -> TridentTopology:
    """Return tables whose indexes a later program adds."""
    topology = TridentTopology()
    changes = topology.newStream("s", spout).asChanges("kind")
    names: Any = {"rows": ["g", "v", ("v", "g")], "counts": "n", "means": "mean"} if index else {}
    changes.toTable("id", state, name="rows", index=names.get("rows"))
    changes.groupBy("v").persistentAggregate(state, Count(), "n", name="counts", index=names.get("counts"))
    means = changes.groupBy("g")
    means.persistentAggregate(state, "v", Average(), "mean", name="means", index=names.get("means"))
    return topology


def check_later(view: Callable[[str], StateView], rows: Mapping[int, Any]) -> None:
    check(view, rows)
    means = dict(view("means").items())
    for mean in {*means.values(), 1.5, None}:
        found = {g for g, each in means.items() if each == mean}
        assert set(ids_of(view("means").by("mean", mean))) == found


@pytest.mark.parametrize("place", PLACES)
def test_an_index_of_a_state_with_rows_begins_with_them(place: str, make: Make, tmp_path: Path) -> None:
    history, state = History(9), make(f"{place} opaque")
    for index in (False, True, True):
        feeder = FeederBatchSpout(FIELDS)
        with start_local(later(feeder, state, index), name=f"later.{place}", checkpointLocation=tmp_path) as running:
            if index:
                check_later(running.state, history.rows)
            for _ in range(2):
                feeder.feed(history.grow(1, 30).batches[-1], wait=True, timeout=20)
                if index:
                    check_later(running.state, history.rows)
                    check_later(lambda name: running.state(name, asOf="previous"), history.after[-2])
    if place != "memory":
        return
    with openTopology(
        later(FeederBatchSpout(FIELDS), state, True), name="later.memory", checkpointLocation=tmp_path
    ) as o:
        check_later(o.state, history.rows)


STARTS = ("start.log.taken", "start.state.born", "start.state.created", "start.state.acquired", "start.states.founded")


@pytest.mark.parametrize("point", STARTS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "delta"])
def test_a_start_that_dies_while_it_fills_an_index_is_finished_by_the_next(
    place: str, point: str, make: Make, tmp_path: Path
) -> None:
    class Died(BaseException):
        pass

    def die(reached: str) -> None:
        if reached == point:
            raise Died

    history, state = History(3), make(f"{place} opaque")

    def started(index: bool, batches: int) -> None:
        feeder = FeederBatchSpout(FIELDS)
        with start_local(later(feeder, state, index), name="t", checkpointLocation=tmp_path) as running:
            for _ in range(batches):
                feeder.feed(history.grow(1, 30).batches[-1], wait=True, timeout=20)
            if index:
                check_later(running.state, history.rows)

    started(False, 3)
    for between in (False, True):  # a former program that comes between changes the rows once more
        crash_points.listen(die)
        try:
            with pytest.raises(Died):
                started(True, 0)
        finally:
            crash_points.listen(None)
        if between or point == "start.states.founded":
            break
        started(False, 1)
    started(True, 0)
    started(True, 2)


def grown(source: Any, state: Any, index: Any) -> TridentTopology:
    """Return a table whose index a later program adds."""
    topology = TridentTopology()
    topology.newStream("s", source).toTable("id", state, name="rows", index=index)
    return topology


ROWS = [[(1, "a")], [(1, "b"), (2, "b")]]


def run_grown(folder: Path, batches: int, state: Any, index: Any = None) -> list[int]:
    """Run the program until it has so many batches, and return the ids of "b" by the index, if it has one."""
    spout = FixedBatchSpout("id long, g string", ROWS[:batches])
    with start_local(grown(spout, state, index), name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        return ids_of(running.state("rows").by("g", "b")) if index else []


def test_an_index_waits_for_the_last_batch_of_the_former_program(tmp_path: Path) -> None:
    state = MemoryMapState.opaque()
    run_grown(tmp_path, 1, state)
    with crash_at("freeze.after"), pytest.raises(DriverCrashedError):
        run_grown(tmp_path, 2, state)
    with pytest.raises(CodeChangedError, match=r"is a new index of state 'rows', which has rows, and batch 2 waits"):
        run_grown(tmp_path, 2, state, "g")
    run_grown(tmp_path, 2, state)
    assert run_grown(tmp_path, 2, state, "g") == [1, 2]


def test_an_index_is_not_filled_from_a_state_that_lacks_batches(tmp_path: Path) -> None:
    """The state is an older copy, which the former program completes from the log."""
    state, log, file, copy = SqliteMapState.opaque(tmp_path / "s"), tmp_path / "log", tmp_path / "s", tmp_path / "copy"
    run_grown(log, 1, state)
    shutil.copy(file, copy)
    run_grown(log, 2, state)
    shutil.copy(copy, file)
    with pytest.raises(CodeChangedError, match="and state 'rows' lacks batches up to 2. Start the previous program"):
        run_grown(log, 2, state, "g")
    run_grown(log, 2, state)
    assert run_grown(log, 2, state, "g") == [1, 2]


NUMBERED = [[(1, 1), (2, 2)], [(3, 1)], [(4, 2), (1, 2)], [(2, 1)]]


def run_widened(folder: Path, state: Any, kind: str, batches: int, index: Any = "n") -> tuple[dict[int, int], Any]:
    """Run a table with a number of this type until it has so many batches; return its rows, and the ids by number."""
    topology = TridentTopology()
    evolve = Evolution("n int") if kind == "long" else None
    rows = topology.newStream("s", FixedBatchSpout(f"id long, n {kind}", NUMBERED[:batches]))
    rows.toTable("id", state, name="rows", index=index, evolve=evolve)
    with run_through(topology, name="t", checkpointLocation=folder) as running:
        view = running.state("rows")
        return {key: row.n for key, row in view.items()}, index and [ids_of(view.by("n", n)) for n in (1, 2)]


WIDENED = [
    ({1: 1, 2: 2}, [[1], [2]]),
    ({1: 1, 2: 2, 3: 1}, [[1, 3], [2]]),
    ({1: 2, 2: 2, 3: 1, 4: 2}, [[3], [1, 2, 4]]),
]


def test_the_way_out_for_an_index_by_a_wider_field(tmp_path: Path) -> None:
    """The text of the refusal is followed, also back to the former program while that is possible."""
    state = MemoryMapState.opaque()

    def follow(kind: str, batches: int) -> Any:
        with pytest.raises(StateShapeError, match="It is an index of state 'rows': drop it with dropState") as refused:
            run_widened(tmp_path, state, kind, batches)
        told = r"drop it with dropState\('t', 'rows.by.n', checkpointLocation='(.*?)'\), and the next start fills it"
        (folder,) = re.findall(told, str(refused.value))
        dropState("t", "rows.by.n", checkpointLocation=folder)
        return run_widened(tmp_path, state, kind, batches)

    run_widened(tmp_path, state, "int", 1)
    assert follow("long", 1) == WIDENED[0]
    assert follow("int", 2) == WIDENED[1], "no batch of the new program was committed"
    assert follow("long", 2) == WIDENED[1]
    assert run_widened(tmp_path, state, "long", 3) == WIDENED[2]


def test_an_index_and_a_wider_field_begin_at_one_start(make: Make, tmp_path: Path) -> None:
    state = make("sqlite opaque")
    run_widened(tmp_path, state, "int", 2, index=None)
    assert run_widened(tmp_path, state, "long", 3) == WIDENED[2]


@pytest.mark.parametrize(
    ("which", "point"),
    [
        ("memory opaque", "start.state.born"),
        ("memory opaque", "evolve.recorded"),
        ("sqlite opaque", "evolve.before"),
        ("sqlite opaque", "evolve.recorded"),
        ("sqlite opaque", "heal.created"),
        ("sqlite opaque", "commit.states.after"),
    ],
)
def test_an_index_by_a_wider_field_is_exact_after_a_crash(
    which: str, point: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident.testing.crashes.CRASH_POINTS", (*CRASH_POINTS, *crash_points.EVOLVE_POINTS))
    state = make(which)
    run_widened(tmp_path / "log", state, "int", 2)
    dropState("t", "rows.by.n", tmp_path / "log", factory=None if which.startswith("memory") else state)
    with crash_at(point):
        assert run_widened(tmp_path / "log", state, "long", 3) == WIDENED[2]
        assert Trap.armed is None, "the driver died there"
    assert run_widened(tmp_path / "log", state, "long", 4)[1] == [[2, 3], [1, 4]]
