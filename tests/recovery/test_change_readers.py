"""States and outputs that are made of the changes of a state, in programs that change over its checkpoint."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest

from tests.support.timers import when
from trident import Average, Count, Evolution, Sum, TridentTopology, TumblingEventTimeWindow, dropState, forkTopology
from trident.base.errors import CodeChangedError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.stream import state_images
from trident.testing.local import start_local

ROWS = [[("a", "x", 1), ("b", "x", 2)], [("a", "y", 3)], [("b", "y", 2)]]
pytestmark = pytest.mark.usefixtures("nothing_left_running")

Readers = Callable[[TridentTopology, Any], Any]


def tables(batches: int, readers: Readers, **options: Any) -> TridentTopology:
    """Keep the last row of each id, and what `readers` make of it."""
    topology = TridentTopology()
    stream = topology.newStream("rows", FixedBatchSpout("id string, g string, v long", ROWS[:batches]))
    readers(topology, stream.toTable("id", name="table", **options))
    return topology


def nothing(topology: TridentTopology, table: Any) -> None:
    """A program with the table alone."""


def summed(topology: TridentTopology, table: Any, **options: Any) -> None:
    groups = table.changes().groupBy("g")
    groups.persistentAggregate(MemoryMapState.opaque(), Sum("v"), "total", name="totals", **options)


def copied(topology: TridentTopology, table: Any) -> None:
    table.changes().filter("id", lambda id: id != "").toTable("id", name="copy")


def joined(topology: TridentTopology, table: Any) -> None:
    names = topology.newStream("names", FixedBatchSpout("g string, name string", [[("x", "X"), ("y", "Y")]]))
    table.join(names.toTable("g", name="names"), "g").toTable("id", name="joined")


def run(topology: TridentTopology, folder: Path, *states: str, name: str = "t") -> list[dict[Any, Any]]:
    with start_local(topology, name=name, checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        return [dict(running.state(name).items()) for name in states]


@pytest.mark.parametrize("readers", [summed, copied, joined])
def test_a_new_state_over_the_changes_of_an_older_one_is_refused(readers: Readers, tmp_path: Path) -> None:
    """The next change of a row would take away what the new state never got."""
    run(tables(1, nothing), tmp_path)
    with pytest.raises(CodeChangedError, match=r"is new, and is .* of state 'table', which has rows"):
        run(tables(3, readers), tmp_path)
    assert run(tables(2, nothing), tmp_path, "table") == [{"a": ("y", 3), "b": ("x", 2)}]


def early(batches: int, late: bool) -> TridentTopology:
    """Sums of ten seconds so far; with `late`, the number of windows by their sum."""
    rows = [[(1, 2)], [(2, 3)], [(3, 1)]]
    topology = TridentTopology()
    fixed = FixedBatchSpout("at timestamp, v long", [[(when(at), v) for at, v in batch] for batch in rows[:batches]])
    window = TumblingEventTimeWindow("10 seconds", "at")
    sums = topology.newStream("rows", fixed).window(window, "v", Sum(), "total", name="sums", emit="changes")
    if late:
        sums.groupBy("total").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="windows")
    return topology


def test_a_new_state_over_early_results_of_an_older_window_is_refused(tmp_path: Path) -> None:
    run(early(1, late=False), tmp_path)
    with pytest.raises(CodeChangedError, match="state 'windows' is new, and is built on the changes of state 'sums'"):
        run(early(2, late=True), tmp_path)
    assert run(early(3, late=True), tmp_path, "windows", name="other") == [{6: 1}]


def test_the_values_as_of_now_make_it_exact(tmp_path: Path) -> None:
    run(tables(1, nothing), tmp_path)
    known = pd.DataFrame({"g": ["x"], "tuples": [2], "total_sum": [3]})

    def with_values(topology: TridentTopology, table: Any) -> None:
        summed(topology, table, initialState=known)

    for batches in (2, 3):
        run(tables(batches, with_values), tmp_path)
    assert run(tables(3, with_values), tmp_path, "totals") == [{"y": 5}]


def test_states_that_begin_together_go_on(tmp_path: Path) -> None:
    for batches in (1, 2, 3):
        totals = run(tables(batches, summed), tmp_path, "totals")
    assert totals == [{"y": 5}]


def test_a_table_that_was_dropped_alone_is_told(tmp_path: Path) -> None:
    """Its rows give no deletions, so an aggregate of its changes would keep them for ever."""
    run(tables(1, summed), tmp_path)
    dropState("t", "table", checkpointLocation=tmp_path)
    with pytest.raises(CodeChangedError, match="state 'table' was dropped and begins empty.* Drop 'totals', too: "):
        run(tables(2, summed), tmp_path)
    dropState("t", "totals", checkpointLocation=tmp_path)
    with pytest.warns(RuntimeWarning, match="is new"):
        assert run(tables(2, summed), tmp_path, "totals") == [{"y": 3}]


def test_the_index_of_a_join_that_was_dropped_is_filled_again(tmp_path: Path) -> None:
    run(tables(1, joined), tmp_path)
    dropState("t", "table.by.g", checkpointLocation=tmp_path)
    expected = run(tables(2, joined), tmp_path / "whole", "joined", "table.by.g")
    assert run(tables(2, joined), tmp_path, "joined", "table.by.g") == expected


def means(topology: TridentTopology, table: Any) -> None:
    groups = table.changes().groupBy("g")
    groups.persistentAggregate(MemoryMapState.opaque(), "v", Average(), "mean", name="means", index="mean")


def test_an_index_without_null_values_is_made_again(tmp_path: Path) -> None:
    """An index of an earlier library lacks the entries whose value is null. The error says how it gets them."""
    with mock.patch.object(state_images, "present_of", return_value=None):
        run(tables(1, means), tmp_path)
    with pytest.raises(CodeChangedError, match=r"drop the index with dropState\('t', 'means.by.mean', .*'means'"):
        run(tables(2, means), tmp_path)
    dropState("t", "means.by.mean", checkpointLocation=tmp_path)
    expected = run(tables(2, means), tmp_path / "whole", "means", "means.by.mean")
    assert run(tables(2, means), tmp_path, "means", "means.by.mean") == expected


def of_both(topology: TridentTopology, table: Any) -> None:
    others = topology.newStream("others", FixedBatchSpout("id string, g string, v long", [[("z", "x", 50)]]))
    both = table.changes().merge(others.toTable("id", name="others").changes())
    both.groupBy("g").persistentAggregate(MemoryMapState.opaque(), Sum("v"), "total", name="totals")


def test_the_changes_of_a_new_state_may_be_added_to_an_older_one(tmp_path: Path) -> None:
    """The new state is empty: no row of it is missing anywhere."""
    run(tables(1, summed), tmp_path)
    assert run(tables(3, of_both), tmp_path, "totals") == [{"x": 50, "y": 5}]
    dropState("t", "others", checkpointLocation=tmp_path)
    with pytest.raises(CodeChangedError, match="state 'others' was dropped and begins empty"):
        run(tables(3, of_both), tmp_path)


def forked(topology: TridentTopology, folder: Path) -> None:
    """Run a topology and leave a fork of it, which begins with the rows of its states."""
    with start_local(topology, name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        running.savepoint("rows")
    forkTopology("t", "rows", "fork", folder)


def test_a_new_state_of_a_fork_over_the_changes_of_a_forked_one_is_refused(tmp_path: Path) -> None:
    """Both are born at the txid of the savepoint, but only one of them has rows."""
    forked(tables(1, nothing), tmp_path)
    with pytest.raises(CodeChangedError, match="is new, and is built on the changes of state 'table', which has rows"):
        run(tables(2, summed), tmp_path, name="fork")
    assert run(tables(2, nothing), tmp_path, "table", name="fork") == [{"a": ("y", 3), "b": ("x", 2)}]


def test_states_that_were_forked_together_go_on(tmp_path: Path) -> None:
    forked(tables(1, summed), tmp_path)
    assert run(tables(3, summed), tmp_path, "totals", name="fork") == [{"y": 5}]


def test_a_table_that_was_dropped_from_a_fork_is_told(tmp_path: Path) -> None:
    forked(tables(1, summed), tmp_path)
    run(tables(1, summed), tmp_path, name="fork")
    dropState("fork", "table", checkpointLocation=tmp_path)
    with pytest.raises(CodeChangedError, match="state 'table' was dropped and begins empty"):
        run(tables(2, summed), tmp_path, name="fork")


def test_a_state_that_evolved_has_its_rows_still(tmp_path: Path) -> None:
    """It is born again, later than the states that are made of its changes."""

    def over_counts(batches: int, evolved: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("rows", FixedBatchSpout("id string, g string, v long", ROWS[:batches]))
        several: dict[str, Any] = {"n": Count(), "total": Sum("v")} if evolved else {"n": Count()}
        evolve = Evolution("n long") if evolved else None
        counts = stream.groupBy("g").persistentAggregate(MemoryMapState.opaque(), several, name="counts", evolve=evolve)
        counts.changes().groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "groups", name="of")
        return topology

    run(over_counts(1, evolved=False), tmp_path)
    for batches in (2, 3):
        of = run(over_counts(batches, evolved=True), tmp_path, "of")
    assert of == [{2: 2}]


def test_a_new_output_of_changes_says_which_rows_it_lacks(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="writeDelta needs the package deltalake")

    def written(topology: TridentTopology, table: Any) -> None:
        table.changes().writeDelta(tmp_path / "copy", key="id", name="copy")

    run(tables(1, nothing), tmp_path / "t")
    with pytest.warns(RuntimeWarning, match="output 'copy' is new, and takes the changes of state 'table', which has"):
        run(tables(2, written), tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tables(3, written), tmp_path / "t")


def test_an_output_keeps_the_rows_of_a_state_that_was_dropped_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="writeDelta needs the package deltalake")

    def written(topology: TridentTopology, table: Any) -> None:
        table.changes().writeDelta(tmp_path / "copy", key="id", name="copy")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batches in (1, 1, 2):
            run(tables(batches, written), tmp_path / "t")
    dropState("t", "table", checkpointLocation=tmp_path / "t")
    stale = "output 'copy' has rows up to txid 2, and state 'table', whose changes it takes, begins empty after txid 2"
    with pytest.warns(RuntimeWarning, match=stale):
        run(tables(2, written), tmp_path / "t")
    with pytest.warns(RuntimeWarning, match=stale):
        run(tables(3, written), tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(tables(3, written), tmp_path / "t", "table") == [{"b": ("y", 2)}]


def test_an_output_keeps_rows_in_the_former_shape_of_a_state_and_says_so(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="writeDelta needs the package deltalake")

    def written(batches: int, wide: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("rows", FixedBatchSpout("id string, g string, v long", ROWS[:batches]))
        evolve = Evolution("v long", add={"g": "?"}) if wide else None
        table = stream.project("id, v, g" if wide else "id, v").toTable("id", name="table", evolve=evolve)
        table.changes().writeDelta(tmp_path / "copy", key="id", name="copy")
        return topology

    run(written(1, wide=False), tmp_path / "t")
    add = deltalake.DeltaTable(str(tmp_path / "copy")).alter.add_columns
    add([deltalake.Field("g", deltalake.schema.PrimitiveType("string"))])
    with pytest.warns(RuntimeWarning, match="output 'copy' has rows of state 'table', whose values get another shape"):
        run(written(2, wide=True), tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(written(2, wide=True), tmp_path / "t", "table") == [{"a": (3, "y"), "b": (2, "?")}]
