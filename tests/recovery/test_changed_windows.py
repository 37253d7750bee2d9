"""Programs that give a window another aggregator over their checkpoint, while it is open.

A window with early results takes away the row that it computes again of its state, by the aggregator of the program.
"""

import datetime
import warnings
from pathlib import Path
from typing import Any

import pytest

from trident import Count, Quantiles, SessionWindow, Sum, TridentTopology, TumblingEventTimeWindow
from trident.base.errors import CodeChangedError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

ROWS = [[(1, 1, 5), (2, 9, 6)], [(3, 7, 7), (4, 30, 8)], [(90, 1, 1)]]
WINDOWS = {"hours": TumblingEventTimeWindow("1 hour", "at"), "sessions": SessionWindow("10 minutes", "at")}


def program(batches: int, window: str, aggregator: Any, kind: str = "changes") -> TridentTopology:
    """Count the results of windows: the early ones ("changes"), or the final ones as insertions ("insert")."""
    topology, start = TridentTopology(), datetime.datetime(2020, 1, 1)
    rows = [[(start + datetime.timedelta(minutes=minute), v, w) for minute, v, w in each] for each in ROWS]
    numbers = topology.newStream("numbers", FixedBatchSpout("at timestamp_ntz, v long, w long", rows[:batches]))
    given = (aggregator,) if isinstance(aggregator, dict) else ("v", aggregator, "q")
    if kind == "changes":
        changes = numbers.window(WINDOWS[window], *given, name="results", emit="changes")
    else:
        final = numbers.window(WINDOWS[window], *given, name="results")
        changes = final.each("q", lambda q: "insert", "_change_type string").asChanges()
    counted = changes.each("q", str, "shown string").groupBy("shown")
    counted.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    return topology


def run(topology: TridentTopology, folder: Path) -> dict[Any, Any]:
    with start_local(topology, name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        return dict(running.state("n").items())


class Total:
    """A sum of a field, which each kind of aggregator computes in its way."""

    outputType = "long"


class Reducer(Total):
    def init(self) -> int:
        return 0

    def reduce(self, total: int, tuple: Any) -> int:
        return total + int(tuple.v)


class ReducerOfTens(Reducer):
    def reduce(self, total: int, tuple: Any) -> int:
        return total + 10 * int(tuple.v)


class Aggregator(Total):
    def init(self, window: object, collector: Any) -> list[int]:
        return [0]

    def aggregate(self, total: list[int], tuple: Any, collector: Any) -> None:
        total[0] += tuple.v

    def complete(self, total: list[int], collector: Any) -> None:
        collector.emit([total[0]])


class AggregatorOfTens(Aggregator):
    def complete(self, total: list[int], collector: Any) -> None:
        collector.emit([total[0] * 10])


class Combiner(Total):
    def init(self, tuple: Any) -> int:
        return int(tuple.v)

    def combine(self, one: int, other: int) -> int:
        return one + other

    def zero(self) -> int:
        return 0

    def present(self, total: int) -> int:
        return total


class CombinerOfTens(Combiner):
    def present(self, total: int) -> int:
        return total * 10


@pytest.mark.parametrize("window", WINDOWS)
def test_another_parameter_of_a_window_with_early_results_is_refused(window: str, tmp_path: Path) -> None:
    """The row that would be taken away never came."""
    run(program(1, window, Quantiles(0.5)), tmp_path)
    named = r"a function of q of Quantiles\(ranks=\(0.9,\), .*\) as its key 'shown', and had .*\(0.5,\)"
    with pytest.raises(CodeChangedError, match=f"state 'n' has {named}"):
        run(program(2, window, Quantiles(0.9)), tmp_path)
    assert sum(run(program(2, window, Quantiles(0.5)), tmp_path).values()) == 1


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("before", "after"), [(Reducer, ReducerOfTens), (Aggregator, AggregatorOfTens), (Combiner, CombinerOfTens)]
)
def test_other_code_of_a_window_with_early_results_is_said_once(
    before: type[Total], after: type[Total], window: str, tmp_path: Path
) -> None:
    corrected = type(before.__name__, (after,), {"__module__": before.__module__})
    run(program(1, window, before()), tmp_path)
    with pytest.warns(
        RuntimeWarning, match="state 'n' has another function for 'shown'. Rows that came are taken away"
    ):
        run(program(2, window, corrected()), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, window, corrected()), tmp_path)


def test_another_parameter_of_a_window_with_final_results_is_not_said(tmp_path: Path) -> None:
    """Nothing takes the results away."""
    run(program(2, "hours", Quantiles(0.5), "insert"), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(program(3, "hours", Quantiles(0.9), "insert"), tmp_path) == {"[30.0]": 1}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_of_another_field_is_said_once(window: str, tmp_path: Path) -> None:
    """Its result is of the one field for the tuples before, and of the other field for those after."""
    run(program(1, window, {"q": Sum("v")}, "insert"), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'results' makes 'q' of w, and made it of v. The values of earlier"):
        run(program(2, window, {"q": Sum("w")}, "insert"), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program(3, window, {"q": Sum("w")}, "insert"), tmp_path)
