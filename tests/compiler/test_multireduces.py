"""One reducer over several streams: what it sees, when it begins and ends, and its errors."""

from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.stage_runner import STATE, OnArrow, Slots, answered, results, rows, run, stream
from tests.compiler.test_joins import ordered, seen, tuples
from trident import Count, Sum, TridentTopology
from trident.base.errors import UserFunctionError
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.stages import cut
from trident.compiler.step_descriptions import runners_of_steps


class Balance:
    """For every group the first stream's amounts less those of the others."""

    outputType = "string, long"

    def init(self, collector: Any, group: Any) -> list[int]:
        return [0]

    def execute(self, state: Any, streamIndex: int, group: Any, tuple: Any, collector: Any) -> None:
        state[0] += tuple.n if streamIndex == 0 else -tuple.n

    def complete(self, state: Any, group: Any, collector: Any) -> None:
        collector.emit([group.k, state[0]])


class CountEach:
    """How many tuples of each stream there were."""

    def __init__(self, streams: int = 2) -> None:
        self.streams = streams

    def init(self, collector: Any) -> list[int]:
        return [0] * self.streams

    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None:
        state[streamIndex] += 1

    def complete(self, state: Any, collector: Any) -> None:
        collector.emit(state)


@pytest.mark.connect
def test_a_reducer_of_groups_and_one_of_partitions(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "k string, n long, unread string", [("u", 9, ""), ("w", 4, "")], [], name="a")
    b = stream(topology, "n long, who string", [(2, "u"), (3, "u")], [], name="b")
    both = [a.groupBy("k"), b.groupBy("who")]
    seen(topology.multiReduce(both, "n", Balance(), "k, left"), "grouped")
    seen(topology.multiReduce([a, b], ["k", "n"], CountEach(), "a long, b long"), "plain")
    first, second = results(engine, topology), results(engine, topology, batch=1)
    assert tuples(first, "grouped") == [("u", 4), ("w", 4)]
    assert tuples(first, "plain") == [(2, 2)]
    assert tuples(second, "grouped") == []
    assert tuples(second, "plain") == [(0, 0)]


class Widely:
    """Emits in every method: at the beginning, for every tuple, at the end."""

    outputType = "string, string, int"

    def init(self, collector: Any, group: Any) -> dict[int, int]:
        collector.emit(["init", str(group), 0])
        return {}

    def execute(self, state: Any, streamIndex: int, group: Any, tuple: Any, collector: Any) -> None:
        state[streamIndex] = state.get(streamIndex, 0) + 1
        collector.emit([f"stream {streamIndex}", str(tuple), len(group)])

    def complete(self, state: Any, group: Any, collector: Any) -> None:
        for at, count in sorted(state.items()):
            collector.emit([f"complete {at}", None, count])


def test_three_streams_by_two_keys_of_which_one_is_null(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "x int, y string", [(1, "p"), (None, "p")], name="a")
    b = stream(topology, "y string, x int, z double", [("p", None, 0.5), ("p", None, 1.5)], name="b")
    c = stream(topology, "x int, y string", [(1, "p")], name="c")
    groups = [a.groupBy("x, y"), b.groupBy("x, y"), c.groupBy(["x", "y"])]
    seen(topology.multiReduce(groups, ["x", ["z", "x"], []], Widely(), "what, value, n"), "all")
    assert tuples(results(engine, topology), "all") == ordered(
        ("init", "TridentTuple(x=1, y='p')", 0),
        ("init", "TridentTuple(x=None, y='p')", 0),
        ("stream 0", "TridentTuple(x=1)", 2),
        ("stream 0", "TridentTuple(x=None)", 2),
        ("stream 1", "TridentTuple(z=0.5, x=None)", 2),
        ("stream 1", "TridentTuple(z=1.5, x=None)", 2),
        ("stream 2", "TridentTuple()", 2),
        ("complete 0", None, 1),
        ("complete 0", None, 1),
        ("complete 1", None, 2),
        ("complete 2", None, 1),
    )


class Placed(CountEach):
    """Emits its partition with what it saw there."""

    def prepare(self, context: Any) -> None:
        self.context = context

    def complete(self, state: Any, collector: Any) -> None:
        collector.emit([self.context.partitionIndex, self.context.numPartitions, *state])


def test_every_partition_has_a_reducer_of_its_own_also_an_empty_one(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "n long", range(6), [], name="a").parallelismHint(3)
    b = stream(topology, "n long", range(3), [], name="b")
    fields = "place int, of int, a long, b long"
    spread = topology.multiReduce([a, b], None, Placed(), fields)
    seen(spread, "spread")
    seen(topology.multiReduce([b, b], "n", Placed(), "p int, of int, c long, d long"), "same")
    seen(topology.multiReduce([a.global_(), b.global_()], "n", Placed(), "p int, of int, c long, d long"), "alone")
    first, second = results(engine, topology), results(engine, topology, batch=1)
    assert [row[:2] for row in tuples(first, "spread")] == [(0, 3), (1, 3), (2, 3)]
    assert [sum(column) for column in zip(*tuples(first, "spread"), strict=True)][2:] == [6, 3]
    assert tuples(second, "spread") == [(0, 3, 0, 0), (1, 3, 0, 0), (2, 3, 0, 0)]
    assert tuples(first, "alone") == [(0, 1, 6, 3)]
    assert sum(row[2] for row in tuples(first, "same")) == 3


def test_what_it_emits_goes_on(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "k string, n long", [("u", n) for n in range(40)], name="a")
    b = stream(topology, "k string, n long", [("w", 5)], name="b")
    left = topology.multiReduce([a.groupBy("k"), b.groupBy("k")], "n", Balance(), "k, left")
    left.each("left", abs, "size long").groupBy("k").persistentAggregate(STATE, "size", Sum(), "sum", name="sums")
    left.join(b, "k", "k, left, n").persistentAggregate(STATE, Count(), "count", name="met")
    assert results(engine, topology) == {"sums": [("u", 780), ("w", 5)], "met": [(1,)]}


def test_each_step_says_who_runs_it() -> None:
    topology = TridentTopology()
    a = stream(topology, "k string, n long", [], name="a")
    b = stream(topology, "k string, n long", [], name="b")
    reduced = topology.multiReduce([a, b], "n", CountEach(), "x long, y long")
    split = reduced.split(lambda t: ("z", t.x), streams={"z": "z long"})
    joined = split.z.join(b, "z", otherKeys="n")
    joined.persistentAggregate(STATE, Count(), "c", name="c")
    runs = runners_of_steps(cut(topology))
    steps = [reduced, split, split.z, joined]
    assert [runs[id(step._node)] for step in steps] == ["Python", "Python", "Spark", "Spark"]


# --- mistakes ------------------------------------------------------------------------------------------------------


class Raises(CountEach):
    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None:
        raise RuntimeError("not this one")


class Begins(CountEach):
    def init(self, collector: Any) -> Any:
        raise RuntimeError("no beginning")


class Ends(Balance):
    def complete(self, state: Any, group: Any, collector: Any) -> None:
        raise RuntimeError("no end")


class Narrow(CountEach):
    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None:
        collector.emit([1])


class Mistyped(CountEach):
    def complete(self, state: Any, collector: Any) -> None:
        collector.emit([1, "two"])


class Returns(CountEach):
    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> Any:
        return 5


WRONG = [
    (Raises(), "raised RuntimeError: not this one; the tuple was (n=9)"),
    (Begins(), "raised RuntimeError: no beginning in init()"),
    (Ends(), "raised RuntimeError: no end in complete() of group ('u',)"),
    (Narrow(), "raised ValueError: emit got 1 value(s), expected 2: [1]; the tuple was (n=9)"),
    (Mistyped(), "emitted 'two' (str) for field 'y', which is declared as bigint"),
    (Returns(), "returned 5 from execute(), which must return nothing: change the state in place; the tuple was (n=9)"),
]


@pytest.mark.parametrize(("reducer", "says"), WRONG, ids=[type(reducer).__name__ for reducer, _ in WRONG])
def test_a_mistake_is_told_with_its_tuple(reducer: Any, says: str) -> None:
    check_wrong(OnArrow(), reducer, says)


@pytest.mark.spark
def test_a_worker_tells_it_too(on_spark: Slots) -> None:
    check_wrong(on_spark, *WRONG[0])


def check_wrong(slots: Slots, reducer: Any, says: str) -> None:
    topology = TridentTopology()
    a = stream(topology, "k string, n long", [("u", 9)], name="a")
    b = stream(topology, "k string, n long", [], name="b")
    streams = [a.groupBy("k"), b.groupBy("k")] if isinstance(reducer, Balance) else [a, b]
    topology.multiReduce(streams, "n", reducer, "x long, y long").persistentAggregate(STATE, Count(), "c", name="c")
    with pytest.raises(UserFunctionError) as raised:
        run(slots, topology)
    name = type(reducer).__name__
    assert f"a-b/0:multiReduce({name}): {name} (test_multireduces.py:" in str(raised.value)
    assert says in str(raised.value)


# --- requests ------------------------------------------------------------------------------------------------------


def test_every_request_has_a_reducer_of_its_own() -> None:
    topology = TridentTopology()
    asked = topology.newDRPCStream("ask", "k string, n long")
    big = asked.filter("n", lambda n: n > 1)
    topology.multiReduce([asked, big], "n", CountEach(), "all long, big long")
    (plan,) = cut(topology).requests
    args = pa.table({"number": pa.array([4, 5]), "k": ["u", "u"], "n": [1, 2]})
    answer = answered(compile_request(plan), args, lambda *_: pytest.fail("no state is read"))
    assert rows(answer) == [(4, 1, 0), (5, 1, 1)]

    grouped = TridentTopology()
    asked = grouped.newDRPCStream("ask", "k string, n long")
    grouped.multiReduce([asked.groupBy("k"), asked.groupBy("k")], "n", Balance(), "k, left")
    (plan,) = cut(grouped).requests
    answer = answered(compile_request(plan), args, lambda *_: pytest.fail("no state is read"))
    assert rows(answer) == [(4, "u", 0), (5, "u", 0)]
