"""A method of a user's aggregator without a return, or with a path that returns nothing, is told and loses nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import SlidingCountWindow, TridentTopology
from trident.base.errors import BatchFailedError, TopologyError, UserFunctionError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.stream.stream import Stream

BATCHES = [[("u", 1), ("u", 2), ("v", 5)], [("u", 3), ("v", None)], [("w", 9)]]


class Total:
    outputType = "long"

    def init(self, tuple: Any) -> Any:
        return tuple.n

    def combine(self, a: Any, b: Any) -> Any:
        return b if a is None else a if b is None else a + b

    def zero(self) -> Any:
        return 0


class WithoutReturn(Total):
    def combine(self, a: Any, b: Any) -> Any:
        a + b


class InitWithoutReturn(Total):
    def init(self, tuple: Any) -> Any:
        tuple.n  # noqa: B018


class Forgetful(Total):
    def combine(self, a: Any, b: Any) -> Any:
        return a if b is None or a > b else None


class ForgetfulInit(Total):
    def init(self, tuple: Any) -> Any:
        return tuple.n if tuple.n != 2 else None


class NullMeant(Total):
    def combine(self, a: Any, b: Any) -> "int | None":
        return None if a == 1 else a


class Last:
    outputType = "long"

    def init(self) -> Any:
        return 0

    def reduce(self, curr: Any, tuple: Any) -> Any:
        return tuple.n


class ReduceWithoutReturn(Last):
    def reduce(self, curr: Any, tuple: Any) -> Any:
        curr + tuple.n


class ForgetfulReduce(Last):
    def reduce(self, curr: Any, tuple: Any) -> Any:
        return tuple.n if tuple.n != 2 else None


def kept(stream: Stream, aggregator: object) -> None:
    stream.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", aggregator, "x", name="x")


def per_batch(stream: Stream, aggregator: object) -> None:
    stream.groupBy("k").aggregate("n", aggregator, "x").foreachArrow(lambda *_: None, name="o")


def per_window(stream: Stream, aggregator: object) -> None:
    stream.window(SlidingCountWindow(3, 1), "n", aggregator, "x").foreachArrow(lambda *_: None, name="o")


def beside_others(stream: Stream, aggregator: object) -> None:
    both = {"x": ("n", aggregator), "y": ("n", Total())}
    stream.groupBy("k").persistentAggregate(MemoryMapState.opaque(), both, name="x")


Use = Callable[[Stream, object], None]


def run(use: Use, aggregator: object, tmp_path: Path) -> dict[Any, Any]:
    """Run the words through one use of an aggregator, and return what its state holds."""
    topology = TridentTopology()
    use(topology.newStream("s", FixedBatchSpout("k string, n long", BATCHES)), aggregator)
    with topology.start(name="t", checkpointLocation=tmp_path, engine="embedded", maxAttempts=1) as running:
        running.processAllAvailable(timeout=60)
        return dict(running.state("x").items()) if "x" in running.states else {}


def named(each: object) -> str:
    return getattr(each, "__name__", type(each).__name__)


class SharedList(Last):
    outputType = "array<long>"
    values: list[Any] = []  # noqa: RUF012

    def init(self) -> Any:
        return self.values

    def reduce(self, curr: Any, tuple: Any) -> Any:
        curr.append(tuple.n)
        return curr


class SharedState:
    outputTypes = "n long"
    seen: dict[Any, Any] = {}  # noqa: RUF012

    def init(self, batch: Any, collector: Any) -> Any:
        return self.seen

    def aggregate(self, state: Any, tuple: Any, collector: Any) -> None:
        state[tuple.n] = state.get(tuple.n, 0) + 1

    def complete(self, state: Any, collector: Any) -> None:
        collector.emit([len(state)])


class SharedBuffer:
    values: list[Any] = []  # noqa: RUF012

    def init(self, collector: Any, group: Any) -> Any:
        return self.values

    def execute(self, state: Any, stream: int, group: Any, tuple: Any, collector: Any) -> None:
        state.append(tuple)

    def complete(self, state: Any, group: Any, collector: Any) -> None:
        collector.emit([len(state)])


def emitting(stream: Stream, aggregator: object) -> None:
    stream.groupBy("k").aggregate("n", aggregator, "m long").foreachArrow(lambda *_: None, name="o")


def emitting_windows(stream: Stream, aggregator: object) -> None:
    stream.window(SlidingCountWindow(1, 1), "n", aggregator, "m long").foreachArrow(lambda *_: None, name="o")


@pytest.mark.parametrize(
    ("use", "aggregator", "kind"),
    [
        (kept, SharedList(), "list"),
        (per_batch, SharedList(), "list"),
        (per_window, SharedList(), "list"),
        (emitting, SharedState(), "dict"),
        (emitting_windows, SharedState(), "dict"),
    ],
    ids=named,
)
def test_one_object_from_each_init_fails_the_batch(use: Use, aggregator: object, kind: str, tmp_path: Path) -> None:
    with pytest.raises((BatchFailedError, UserFunctionError)) as failed:
        run(use, aggregator, tmp_path)
    told = f"{failed.value} {failed.value.__cause__}"
    assert f"{named(aggregator)} (test_checked_aggregators.py:" in told
    assert f"returned the same {kind} from two calls of init" in told


def test_one_object_from_each_init_of_a_multi_reducer_fails_the_batch(tmp_path: Path) -> None:
    topology = TridentTopology()
    streams = [topology.newStream(name, FixedBatchSpout("k string, n long", BATCHES)).groupBy("k") for name in "ab"]
    reduced = topology.multiReduce(streams, ["n", "n"], SharedBuffer(), "m long")
    reduced.foreachArrow(lambda *_: None, name="o")
    with (
        pytest.raises(BatchFailedError) as failed,
        topology.start(name="t", checkpointLocation=tmp_path, engine="embedded", maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    told = f"{failed.value} {failed.value.__cause__}"
    assert "SharedBuffer (test_checked_aggregators.py:" in told
    assert "returned the same list from two calls of init" in told


@pytest.mark.parametrize("aggregator", [WithoutReturn(), InitWithoutReturn(), ReduceWithoutReturn()], ids=named)
@pytest.mark.parametrize("use", [kept, per_batch, per_window])
def test_a_method_that_never_returns_a_value_is_refused_when_built(
    use: Use, aggregator: object, tmp_path: Path
) -> None:
    method = {"I": "init", "R": "reduce", "W": "combine"}[named(aggregator)[0]]
    told = rf"{named(aggregator)}\.{method} \(test_checked_aggregators.py:\d+\) has no return, so its result is always"
    with pytest.raises(TopologyError, match=told):
        run(use, aggregator, tmp_path)


@pytest.mark.parametrize(
    ("use", "aggregator", "what"),
    [
        (kept, Forgetful(), "returned None from combine for 1 and 2"),
        (kept, ForgetfulInit(), "returned None from init for TridentTuple(n=2)"),
        (kept, ForgetfulReduce(), "returned None from reduce for 1 and TridentTuple(n=2)"),
        (per_batch, Forgetful(), "returned None from combine for 1 and 2"),
        (per_batch, ForgetfulInit(), "returned None from init for TridentTuple(n=2)"),
        (per_batch, ForgetfulReduce(), "returned None from reduce for 1 and TridentTuple(n=2)"),
        (per_window, Forgetful(), "returned None from combine for 1 and 2"),
        (per_window, ForgetfulInit(), "returned None from init for TridentTuple(n=2)"),
        (per_window, ForgetfulReduce(), "returned None from reduce for 1 and TridentTuple(n=2)"),
        (beside_others, Forgetful(), "returned None from combine for 1 and 2"),
        (beside_others, ForgetfulInit(), "returned None from init for TridentTuple(n=2)"),
    ],
    ids=named,
)
def test_none_for_values_that_are_none_fails_the_batch(use: Use, aggregator: object, what: str, tmp_path: Path) -> None:
    with pytest.raises((BatchFailedError, UserFunctionError)) as failed:  # the latter at the commit
        run(use, aggregator, tmp_path)
    told = f"{failed.value} {failed.value.__cause__}"
    assert f"{named(aggregator)} (test_checked_aggregators.py:" in told
    assert f"{what} (return the value, or annotate it as '-> ... | None' if it may be null)" in told


def test_none_for_the_stored_and_the_new_value_is_told(tmp_path: Path) -> None:
    class Once(Total):
        def combine(self, a: Any, b: Any) -> Any:
            return None if (a, b) == (3, 3) else super().combine(a, b)

    with pytest.raises(UserFunctionError, match="returned None from combine for 3 and 3"):
        run(kept, Once(), tmp_path)


def test_a_null_that_is_annotated_takes_the_value_away(tmp_path: Path) -> None:
    assert run(kept, NullMeant(), tmp_path) == {"u": 3, "v": 5, "w": 9}


def test_nulls_of_tuples_are_still_nulls(tmp_path: Path) -> None:
    assert run(kept, Total(), tmp_path) == {"u": 6, "v": 5, "w": 9}
    assert run(kept, Last(), tmp_path / "last") == {"u": 3, "w": 9}
