"""Programs that give the two sides of a join by time other streams, branches or keys, over their checkpoint."""

import datetime
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology, TumblingEventTimeWindow, dropState
from trident.base.errors import CodeChangedError
from trident.functions import col
from trident.spouts import FixedBatchSpout
from trident.testing import TestOutput
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def at(second: int) -> datetime.datetime:
    return datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=second)


FIELDS = "k string, at timestamp, v string, other string"
ROWS = {
    "a": [[("x", at(10), "a1", "y"), ("y", at(11), "a2", "y")], [("x", at(20), "a3", "x")], [("z", at(500), "a4", "")]],
    "b": [[("y", at(12), "b1", "x")], [("x", at(21), "b2", "y")], [("w", at(500), "b3", "")]],
}
BOTH = [one + other for one, other in zip(ROWS["a"], ROWS["b"], strict=True)]
PAIRS = [("a1", "b2"), ("a2", "b1"), ("a3", "b2")]

Sides = Callable[[TridentTopology, int], tuple[Any, Any]]
"""Add the streams of the left and the right side, with their first batches."""


def interval(left: Any, right: Any, names: list[str], **options: Any) -> Any:
    between = ("-1 minute", "1 minute")
    return left.intervalJoin(right, "k", between, timestampField="at", outputFields=names, name="j", **options)


def window(left: Any, right: Any, names: list[str], **options: Any) -> Any:
    minutes = TumblingEventTimeWindow("1 minute", "at")
    return left.windowJoin(right, "k", minutes, outputFields=names, name="j", **options)


def run(batches: int, sides: Sides, folder: Path, join: Any = interval, accept: bool = False, **options: Any) -> Any:
    """Run a program over its checkpoint, and return the pairs of values that it emits."""
    topology, output = TridentTopology(), TestOutput()
    left, right = sides(topology, batches)
    names = ["k", *(f"{side}{name}" for side, each in (("l", left), ("r", right)) for name in each.fields[1:])]
    join(left, right, names, **options).foreachArrow(output, name="pairs")
    accepted = {"acceptSteps": ["j"]} if accept else {}
    with start_local(topology, name="t", checkpointLocation=folder, **accepted) as running:
        running.processAllAvailable(timeout=20)
    return [(row.lv, row.rv) for row in output.rows]


def stream(topology: TridentTopology, name: str, rows: list[Any], batches: int, formerly: str | None = None) -> Any:
    return topology.newStream(name, FixedBatchSpout(FIELDS, rows[:batches]), formerly=formerly)


def a_with_b(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = (stream(topology, name, rows, batches) for name, rows in ROWS.items())
    return left, right


def b_with_a(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    return a_with_b(topology, batches)[::-1]


@pytest.mark.parametrize("join", [interval, window])
def test_sides_that_are_swapped_are_refused(join: Any, tmp_path: Path) -> None:
    """The tuples of a stream that wait would be joined with later ones of the same stream."""
    pairs = run(1, a_with_b, tmp_path, join)
    with pytest.raises(CodeChangedError) as refused:
        run(2, b_with_a, tmp_path, join)
    for text in (
        f"{join.__name__}Join(k) (",
        "state 'j' has stream 'b' on its left side, and had that on its right side; it has stream 'a' on its right",
        "Restore the step; or, with the changed step, give the state another name= or drop it with dropState('t', 'j'",
        "start once with acceptSteps=['j']",
        "Nothing was written",
    ):
        assert text in str(refused.value)
    assert sorted(pairs + run(3, a_with_b, tmp_path, join)) == PAIRS


def branches(make: Callable[[Any, str], Any], *names: str) -> Sides:
    """Return the sides that are two branches of one stream."""

    def sides(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
        both = stream(topology, "both", BOTH, batches)
        left, right = (make(both, name) for name in names)
        return left, right

    return sides


def filtered(both: Any, name: str) -> Any:
    return both.filter(col("v").startswith(name))


def filtered_by_code(both: Any, name: str) -> Any:
    return both.filter("v", lambda v: v.startswith(name))


def mapped(both: Any, name: str) -> Any:
    return both.each("v", lambda v: v if v.startswith(name) else None, "v string", replace=True)


def aggregated(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = (each.groupBy(["k", "at", "v"]).aggregate(Count(), "n") for each in a_with_b(topology, batches))
    return left, right


def aggregated_and_swapped(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    return aggregated(topology, batches)[::-1]


def of_windows(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    both, hours = stream(topology, "both", BOTH, batches), TumblingEventTimeWindow("5 seconds", "at")
    left, right = (
        filtered(both, name).groupBy(["k", "v"]).window(hours, Count(), "n", name=name).rename("windowStart", "at")
        for name in ("a", "b")
    )
    return left.project(["k", "at", "v"]), right.project(["k", "at", "v"])


def of_windows_and_swapped(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    return of_windows(topology, batches)[::-1]


def renamed_and_swapped(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = (stream(topology, name * 2, rows, batches, formerly=name) for name, rows in ROWS.items())
    return right, left


def b_with_both(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = a_with_b(topology, batches)
    return right, right.merge(left)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (branches(filtered, "a", "b"), branches(filtered, "b", "a"), r"the rows that pass .*'b'.* of stream 'both' on"),
        (
            branches(filtered_by_code, "a", "b"),
            branches(filtered_by_code, "b", "a"),
            "the rows that pass a function of v of stream 'both'",
        ),
        (branches(mapped, "a", "b"), branches(mapped, "b", "a"), "stream 'both' on its left side"),
        (branches(filtered, "a", "b"), branches(filtered, "b", "c"), r"the rows that pass .*'b'.* of stream 'both' on"),
        (aggregated, aggregated_and_swapped, "stream 'b' on its left side"),
        (of_windows, of_windows_and_swapped, "the results of state 'b' on its left side"),
        (a_with_b, renamed_and_swapped, "stream 'b' on its left side"),
        (a_with_b, b_with_both, "stream 'a' on its right side, and had that on its left side"),
    ],
)
def test_sides_are_known_by_their_streams_and_steps(before: Sides, after: Sides, message: str, tmp_path: Path) -> None:
    run(1, before, tmp_path)
    with pytest.raises(CodeChangedError, match=f"state 'j' has {message}"):
        run(2, after, tmp_path)


def renamed(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    return renamed_and_swapped(topology, batches)[::-1]


def with_more_on_the_left(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = a_with_b(topology, batches)
    return left.merge(right), right


def with_other_steps(topology: TridentTopology, batches: int) -> tuple[Any, Any]:
    left, right = a_with_b(topology, batches)
    return left.filter("v", lambda v: v != "").partitionBy("k"), right.each("v", str, "v string", replace=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a_with_b, a_with_b),
        (a_with_b, renamed),
        (a_with_b, with_other_steps),
        (a_with_b, with_more_on_the_left),
        (branches(filtered, "a", "b"), branches(filtered, "a", "b")),
        (branches(filtered, "a", "b"), branches(filtered_by_code, "a", "b")),
        (branches(filtered, "a", "a"), branches(filtered, "a", "b")),
    ],
)
def test_nothing_is_said_of_sides_that_keep_their_streams(before: Sides, after: Sides, tmp_path: Path) -> None:
    run(1, before, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(2, after, tmp_path)
        run(3, after, tmp_path)


def test_a_side_that_is_joined_by_another_field_is_refused(tmp_path: Path) -> None:
    """The tuples that wait have the former field as their key."""
    run(1, a_with_b, tmp_path)
    with pytest.raises(CodeChangedError, match="state 'j' has other as its key 'k' of the right side, and had k. The"):
        run(2, a_with_b, tmp_path, otherKeys="other")
    assert sorted(run(3, a_with_b, tmp_path)) == [("a1", "b2"), ("a3", "b2")]


def test_a_user_may_accept_other_sides_or_begin_without_the_tuples_that_wait(tmp_path: Path) -> None:
    run(1, a_with_b, tmp_path)
    run(1, a_with_b, tmp_path / "dropped")
    with pytest.warns(
        RuntimeWarning, match="has stream 'b' on its left side, .* The tuples that wait stay on the side"
    ):
        run(2, b_with_a, tmp_path, accept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(3, b_with_a, tmp_path)
    dropState("t", "j", checkpointLocation=tmp_path / "dropped")
    with pytest.warns(RuntimeWarning, match="state 'j.* is new"):
        assert run(3, b_with_a, tmp_path / "dropped") == [("b2", "a3")]
