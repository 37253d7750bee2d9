"""Programs whose steps between the changes of a state and what is built on them change over their checkpoint."""

import sqlite3
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trident import (
    Average,
    Count,
    Evolution,
    Max,
    Sum,
    TopK,
    TridentTopology,
    TumblingEventTimeWindow,
    dropState,
    forkTopology,
)
from trident.base.errors import CodeChangedError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROWS = [[("a", "x", 1), ("b", "x", 2)], [("a", "y", 3)], [("b", "y", 2), ("c", "x", 7)]]
pytestmark = pytest.mark.usefixtures("nothing_left_running")

Make = Callable[[TridentTopology, Any], Any]


def program(batches: int, make: Make) -> TridentTopology:
    """Keep the last row of each id, and what `make` builds on the table."""
    topology = TridentTopology()
    stream = topology.newStream("rows", FixedBatchSpout("id string, g string, v long", ROWS[:batches]))
    make(topology, stream.toTable("id", name="table"))
    return topology


def run(topology: TridentTopology, folder: Path, *states: str, name: str = "t", **options: Any) -> list[dict[Any, Any]]:
    with start_local(topology, name=name, checkpointLocation=folder, **options) as running:
        running.processAllAvailable(timeout=20)
        return [dict(running.state(state).items()) for state in states]


def totals(stream: Any, field: str = "v", group: str = "g") -> None:
    stream.groupBy(group).persistentAggregate(MemoryMapState.opaque(), Sum(field), "total", name="totals")


def names_of(topology: TridentTopology) -> Any:
    rows = [[("x", "X"), ("y", "Y")]]
    return topology.newStream("names", FixedBatchSpout("g string, name string", rows)).toTable("g", name="names")


def over_two(stream: Any) -> Any:
    return stream.filter("v", lambda v: v > 1)


def filtered(topology: TridentTopology, table: Any) -> None:
    totals(over_two(table.changes()))


def plain(topology: TridentTopology, table: Any) -> None:
    totals(table.changes())


def of_ids(topology: TridentTopology, table: Any) -> None:
    totals(table.changes().each("id", len, "size long"), field="size")


def by_id(topology: TridentTopology, table: Any) -> None:
    totals(table.changes().drop("g").rename("id", "g"))


def inner(topology: TridentTopology, table: Any) -> None:
    table.join(names_of(topology), "g").filter("id", lambda id: True).toTable("id", name="copy")


def left(topology: TridentTopology, table: Any) -> None:
    table.join(names_of(topology), "g", joinType="left").filter("id", lambda id: True).toTable("id", name="copy")


def all_copied(topology: TridentTopology, table: Any) -> None:
    table.changes().toTable("id", name="copy")


def some_copied(topology: TridentTopology, table: Any) -> None:
    over_two(table.changes()).toTable("id", name="copy")


def of_best(number: int) -> Make:
    def make(topology: TridentTopology, table: Any) -> None:
        counts = (
            table.changes()
            .groupBy("g")
            .persistentAggregate(MemoryMapState.opaque(), "v", TopK(number), "best", name="best")
        )
        counts.changes().each("best", str, "shown string").groupBy("shown").persistentAggregate(
            MemoryMapState.opaque(), Count(), "n", name="n"
        )

    return make


REFUSED: list[tuple[Make, Make, str, str]] = [
    (plain, filtered, "totals", "gets the rows that pass a function of v, and got all rows"),
    (filtered, plain, "totals", "gets all rows, and got the rows that pass a function of v"),
    (plain, of_ids, "totals", "makes 'total' of a function of id, and made it of v"),
    (plain, by_id, "totals", "has id as its key 'g', and had g"),
    (inner, left, "copy", "made of the left join of 'table' with 'names' by g, and was made of the inner join of"),
    (all_copied, some_copied, "copy", "gets the rows that pass a function of v, and got all rows"),
    (
        of_best(1),
        of_best(2),
        "n",
        r"a function of best of TopK\(k=2, .*\) as its key 'shown', and had .*\(k=1, ",
    ),
]


@pytest.mark.parametrize(("before", "after", "state", "message"), REFUSED)
def test_other_steps_before_a_state_that_takes_rows_away_are_refused(
    before: Make, after: Make, state: str, message: str, tmp_path: Path
) -> None:
    """The state would keep what the new steps never take away."""
    run(program(1, before), tmp_path)
    with pytest.raises(CodeChangedError, match=f"state '{state}' .*{message}") as refused:
        run(program(2, after), tmp_path)
    assert f"acceptSteps=['{state}']" in str(refused.value) and "Nothing was written" in str(refused.value)
    assert run(program(3, before), tmp_path, state) == run(program(3, before), tmp_path, state, name="other")


def two_tables(topology: TridentTopology, table: Any) -> None:
    table.changes().toTable("id", name="others")
    totals(table.changes())


def of_two_tables(topology: TridentTopology, table: Any) -> None:
    others = table.changes().toTable("id", name="others")
    totals(table.changes().merge(others.changes()))


def test_the_changes_of_one_more_state_are_refused(tmp_path: Path) -> None:
    """Its rows never came, and would be taken away."""
    run(program(1, two_tables), tmp_path)
    with pytest.raises(CodeChangedError, match="state 'totals' is now made of the changes of state 'others' too"):
        run(program(2, of_two_tables), tmp_path)


def test_the_rows_of_a_state_that_is_left_out_stay(tmp_path: Path) -> None:
    run(program(1, of_two_tables), tmp_path)
    with pytest.warns(RuntimeWarning, match="'totals' is not made of the changes of state 'others' any more, whose"):
        run(program(2, two_tables), tmp_path)


def two_streams(batches: int, merged: bool) -> TridentTopology:
    """A table of two streams of changes, and sums of one; with `merged`, sums of both."""
    topology, fields = TridentTopology(), "id string, g string, v long, kind string"
    one, other = (
        topology.newStream(name, FixedBatchSpout(fields, rows[:batches])).asChanges("kind")
        for name, rows in (
            ("one", [[("a", "x", 1, "insert")], [("b", "x", 5, "insert")]]),
            ("other", [[("z", "x", 50, "insert")], [("z", "x", 50, "delete")]]),
        )
    )
    one.merge(other).toTable("id", name="table")
    totals(one.merge(other) if merged else one)
    return topology


def test_the_changes_of_one_more_stream_that_has_had_some_are_refused(tmp_path: Path) -> None:
    """Its rows never came, and would be taken away."""
    run(two_streams(1, merged=False), tmp_path)
    with pytest.raises(
        CodeChangedError, match="state 'totals' is now made of stream 'other' too, which has had tuples"
    ):
        run(two_streams(2, merged=True), tmp_path)
    assert run(two_streams(2, merged=False), tmp_path, "totals") == [{"x": 6}]


def ways(batches: int, make: Callable[[Any], Any]) -> TridentTopology:
    """Aggregate the rows of one stream, which `make` brings together again on several ways."""
    topology = TridentTopology()
    rows = [[("a", "x", 1, "insert"), ("b", "x", 2, "insert")], [("a", "x", 1, "delete")]]
    stream = topology.newStream("rows", FixedBatchSpout("id string, g string, v long, kind string", rows[:batches]))
    totals(make(stream.asChanges("kind")))
    return topology


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (lambda s: s, lambda s: s.merge(s), "gets all rows of stream 'rows' on one way more"),
        (lambda s: s.merge(s), lambda s: s, "gets all rows of stream 'rows' on one way less"),
        (over_two, lambda s: over_two(s).merge(s), "gets all rows of stream 'rows' on one way more"),
        (lambda s: s, lambda s: s.broadcast().parallelismHint(2), "gets the rows that pass broadcast"),
    ],
)
def test_another_number_of_ways_from_a_stream_is_refused(
    before: Callable[[Any], Any], after: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    """A row would be taken away more often than it came, or less."""
    run(ways(1, before), tmp_path)
    with pytest.raises(CodeChangedError, match=f"state 'totals' {message}"):
        run(ways(2, after), tmp_path)
    assert run(ways(2, before), tmp_path, "totals") == run(ways(2, before), tmp_path, "totals", name="other")


# --- what changes nothing ---------------------------------------------------------------------------------------------


def refactored(topology: TridentTopology, table: Any) -> None:
    """The rows of `filtered`, by other steps, functions of other names, and with fields that nothing reads."""

    def more(value: int) -> bool:
        """Return whether a value is large."""
        return value > 1

    changes = table.changes().each("id", len, "size long").rename("v", "w").partitionBy("id").peek("id", print)
    kept = changes.filter("w", more).project("id", "g", "w").parallelismHint(2)
    totals(kept, field="w")


def two_steps(topology: TridentTopology, table: Any) -> None:
    totals(table.changes().each("v", lambda v: v % 10, "w long").filter("g", lambda g: g != "").drop("v"), field="w")


def two_steps_the_other_way_round(topology: TridentTopology, table: Any) -> None:
    totals(
        table.changes().filter("g", lambda g: g != "").each("v", lambda x: x % 10, "v long", replace=True), field="v"
    )


def several(topology: TridentTopology, table: Any) -> None:
    members = {"n": Count(), "total": Sum("v"), "mean": Average("v"), "most": Max("v")}
    table.changes().groupBy("g").persistentAggregate(MemoryMapState.opaque(), members, name="totals")


def signed(topology: TridentTopology, table: Any, **more: Any) -> None:
    members = {"n": Count(), **more}
    evolve = Evolution(was="tuples long", by="{n: Count} over changes", add={"total_sum": 0}) if more else None
    table.changes().groupBy("g").persistentAggregate(MemoryMapState.opaque(), members, name="totals", evolve=evolve)


def one_sum_more(topology: TridentTopology, table: Any) -> None:
    signed(topology, table, total=Sum("v"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (filtered, filtered),
        (filtered, refactored),
        (two_steps, two_steps_the_other_way_round),
        (several, several),
        (inner, inner),
        (of_best(1), of_best(1)),
        (signed, one_sum_more),
    ],
)
def test_nothing_is_said_of_steps_that_give_the_same_rows(before: Make, after: Make, tmp_path: Path) -> None:
    run(program(1, before), tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for batches in (2, 3):
            run(program(batches, after), tmp_path)
    told = [str(each.message) for each in said if "is new" not in str(each.message)]
    assert told == []


# --- functions, and what the user accepts -----------------------------------------------------------------------------


def over_three(topology: TridentTopology, table: Any) -> None:
    totals(table.changes().filter("v", lambda v: v > 3))


def test_a_function_with_other_code_is_said_once(tmp_path: Path) -> None:
    run(program(1, filtered), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'totals' has another function that decides which rows come"):
        run(program(2, over_three), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, over_three), tmp_path)


def over_value(least: int) -> Make:
    return lambda topology, table: totals(table.changes().filter("v", lambda v: v > least))


LEAST = 1


def is_over(value: int) -> bool:
    return value > LEAST


def over_constant(least: int) -> Make:
    def make(topology: TridentTopology, table: Any) -> None:
        globals()["LEAST"] = least
        totals(table.changes().filter("v", lambda v: is_over(v)))

    return make


def of_kinds(after: str) -> Make:
    def make(topology: TridentTopology, table: Any) -> None:
        rows = topology.newStream("log", FixedBatchSpout("op string, g string, v long", [[("+", "x", 1)]]))
        totals(rows.asChanges("op", {"+": "insert", "-": after}))

    return make


class Ends:
    """The least and the greatest value."""

    outputType = "struct<least: long, most: long>"

    def init(self, tuple: Any) -> Any:
        return (tuple.v, tuple.v)

    def combine(self, one: Any, other: Any) -> Any:
        return (min(one[0], other[0]), max(one[1], other[1]))

    def zero(self) -> Any:
        return None


class OtherEnds(Ends):
    def combine(self, one: Any, other: Any) -> Any:
        return (max(one[0], other[0]), min(one[1], other[1]))


def of_ends(aggregator: Any) -> Make:
    def make(topology: TridentTopology, table: Any) -> None:
        stream = topology.newStream("more", FixedBatchSpout("g string, v long", [[("x", 1)]])).groupBy("g")
        ends = stream.persistentAggregate(MemoryMapState.opaque(), "v", aggregator, "ends", name="ends")
        totals(ends.changes(), field="most")

    return make


def test_other_code_of_an_aggregator_of_several_fields_is_said(tmp_path: Path) -> None:
    run(program(1, of_ends(Ends())), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'totals' has another function for 'total'"):
        run(program(2, of_ends(type("Ends", (OtherEnds,), {"__module__": __name__})())), tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (over_value(1), over_value(2)),
        (over_constant(1), over_constant(2)),
        (of_kinds("delete"), of_kinds("update_preimage")),
    ],
)
def test_another_value_behind_a_function_is_said_once(before: Make, after: Make, tmp_path: Path) -> None:
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "state 'totals' has another")
            run(program(1, before), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'totals' has another function that decides which rows come"):
        run(program(2, after), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, after), tmp_path)


def test_a_user_may_accept_other_steps(tmp_path: Path) -> None:
    run(program(1, plain), tmp_path)
    with pytest.raises(TopologyError, match="acceptSteps: the topology has no state 'total'; did you mean 'totals'"):
        run(program(2, filtered), tmp_path, acceptSteps=["total"])
    with pytest.raises(TopologyError, match="acceptSteps='totals': expected a list of names"):
        run(program(2, filtered), tmp_path, acceptSteps="totals")
    with pytest.warns(RuntimeWarning, match="state 'totals' gets the rows that pass a function of v, and got all rows"):
        run(program(2, filtered), tmp_path, acceptSteps=["totals"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, filtered), tmp_path)
    with pytest.raises(CodeChangedError, match="gets all rows, and got the rows that pass"):
        run(program(3, plain), tmp_path)


def test_a_state_that_is_dropped_begins_with_the_steps_of_then(tmp_path: Path) -> None:
    run(program(1, plain), tmp_path)
    for state in ("table", "totals"):
        dropState("t", state, checkpointLocation=tmp_path)
    with pytest.warns(RuntimeWarning, match="is new"):
        assert run(program(3, filtered), tmp_path, "totals") == [{"x": 7, "y": 5}]


def test_a_fork_knows_the_steps_of_the_first_topology(tmp_path: Path) -> None:
    with start_local(program(1, plain), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        running.savepoint("rows")
    forkTopology("t", "rows", "fork", tmp_path)
    with pytest.raises(CodeChangedError, match="state 'totals' gets the rows that pass"):
        run(program(2, filtered), tmp_path, name="fork")
    assert run(program(3, plain), tmp_path, "totals", name="fork") == [{"x": 7, "y": 5}]


def test_an_output_of_rows_says_which_ones_stay_there(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="writeDelta needs the package deltalake")

    def written(topology: TridentTopology, table: Any) -> None:
        table.changes().writeDelta(tmp_path / "copy", key="id", name="copy")

    def some_written(topology: TridentTopology, table: Any) -> None:
        over_two(table.changes()).writeDelta(tmp_path / "copy", key="id", name="copy")

    run(program(1, written), tmp_path / "t")
    with pytest.warns(RuntimeWarning, match="output 'copy' gets the rows that pass a function of v, and got all rows"):
        run(program(2, some_written), tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, some_written), tmp_path / "t")


# --- aggregates of tuples ---------------------------------------------------------------------------------------------


def summed(batches: int, field: str, fields: str = "g string, a long, b long") -> TridentTopology:
    topology = TridentTopology()
    rows = [[("x", 1, 10)], [("x", 2, 20)], [("x", 3, 30)]]
    stream = topology.newStream("rows", FixedBatchSpout(fields, rows[:batches]))
    stream.groupBy("g").persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "sum": Sum(field)}, name="sums")
    return topology


def test_an_aggregate_of_another_field_is_said_once(tmp_path: Path) -> None:
    run(summed(1, "a"), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'sums' makes 'sum' of b, and made it of a. The values of earlier"):
        run(summed(2, "b"), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(summed(3, "b"), tmp_path, "sums") == [{"x": (3, 51)}]


T0, HOURS = datetime(2026, 1, 1, tzinfo=UTC), TumblingEventTimeWindow("1 hour", "at")


def keyed(batches: int, key: Callable[[Any], Any], windowed: bool = False) -> TridentTopology:
    topology = TridentTopology()
    rows = [[("x", "y", T0)], [("x", "z", T0)], [("x", "y", T0)]]
    stream = topology.newStream("rows", FixedBatchSpout("g string, h string, at timestamp", rows[:batches]))
    grouped = key(stream).groupBy("g")
    if windowed:
        grouped.window(HOURS, Count(), "n", stateFactory=MemoryMapState.opaque(), name="counts")
    else:
        grouped.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    return topology


def other_key(stream: Any) -> Any:
    return stream.project("h", "at").rename("h", "g")


@pytest.mark.parametrize("windowed", [False, True])
def test_a_key_that_is_another_field_is_said_once(windowed: bool, tmp_path: Path) -> None:
    run(keyed(1, lambda stream: stream, windowed), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'counts' has h as its key 'g', and had g. The values of earlier"):
        run(keyed(2, other_key, windowed), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(keyed(3, other_key, windowed), tmp_path)


def test_nothing_is_said_of_a_key_that_is_computed(tmp_path: Path) -> None:
    """It may be the same after another computation."""
    run(keyed(1, lambda stream: stream.project("h", "at").each("h", str.upper, "g string")), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(keyed(2, lambda stream: stream.project("h", "at").each("h", lambda h: h.upper(), "g string")), tmp_path)


def summed_of(batches: int, function: Any, output: str, fields: str) -> TridentTopology:
    topology = TridentTopology()
    rows = [[("x", 1, 10)], [("x", 2, 20)], [("x", 3, 30)]]
    stream = topology.newStream("rows", FixedBatchSpout(fields, rows[:batches]))
    made = stream.each(fields.split(", ")[1].split()[0], function, f"{output} long")
    made.groupBy("g").persistentAggregate(MemoryMapState.opaque(), {"sum": Sum(output)}, name="sums")
    return topology


def test_nothing_is_said_of_an_aggregate_whose_field_has_another_name_or_function(tmp_path: Path) -> None:
    """ "From now on" is a meaning of another function before an aggregate that takes nothing away."""
    run(summed_of(1, lambda n: n, "c", "g string, a long, b long"), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(summed_of(2, lambda n: 2 * n, "c", "g string, a long, b long"), tmp_path)
        run(summed_of(2, lambda n: 2 * n, "d", "g string, a long, b long"), tmp_path)
        run(summed_of(2, lambda n: n, "d", "g string, first long, b long"), tmp_path)
        run(summed(2, "first", "g string, first long, b long"), tmp_path / "other")
        run(summed(3, "a", "g string, a long, b long"), tmp_path / "other")


def test_a_start_over_a_log_of_before_says_nothing(tmp_path: Path) -> None:
    """Logs of earlier versions have no record of the steps."""
    run(program(1, plain), tmp_path)
    with sqlite3.connect(tmp_path / "t" / "log.sqlite") as db:
        db.execute("DROP TABLE readings")
    db.close()
    run(program(2, plain), tmp_path)
    with pytest.raises(CodeChangedError, match="gets the rows that pass"):
        run(program(3, filtered), tmp_path)
