"""Many tuples of a batch to few: aggregators of three kinds, over the batch, its groups, its partitions, in chains."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots
from tests.conformance.kit import (
    Case,
    Rows,
    check,
    check_places,
    compare,
    conforms,
    emitted,
    lying,
    placed,
    raises,
    sink,
    sinks,
)
from trident import Count, FilterNull, FirstN, Stream, Sum, TridentTopology
from trident.base.errors import DuplicateFieldError, TopologyError
from trident.spouts import FixedBatchSpout


class From500:
    """A reducer that begins with 500 and adds n."""

    outputType = "long"

    def init(self) -> int:
        return 500

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.n)


class Telling:
    """An aggregator that tells everything that happens to it."""

    outputType = "string"

    def init(self, batchId: Any, collector: Any) -> list[int]:
        collector.emit(["open"])
        return [0]

    def aggregate(self, state: list[int], tuple: Any, collector: Any) -> None:
        state[0] += 1
        collector.emit([f"saw:{tuple.n}"])

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit([f"close:{state[0]}"])


class Emits:
    """An aggregator that emits these, when all tuples are there."""

    outputType = "string"

    def __init__(self, *values: str) -> None:
        self.values = values

    def init(self, batchId: Any, collector: Any) -> None: ...

    def aggregate(self, state: Any, tuple: Any, collector: Any) -> None: ...

    def complete(self, state: Any, collector: Any) -> None:
        for value in self.values:
            collector.emit([value])


@conforms("agg-partition-count")
def test_an_empty_partition_counts_nothing_and_says_so(case: Case, engine: Slots) -> None:
    for batch, name in enumerate(["1:0", "2:0"]):
        topology = TridentTopology()
        counts = case.stream(topology, "n long").partitionAggregate(Count(), "c")
        check_places(case.expected["emits_per_partition"][name], lying(engine, topology, counts, batch))


@pytest.mark.parametrize(
    ("aggregator", "given"),
    [
        (From500(), {0: [(503,)], 1: [(500,)]}),
        (Telling(), {0: [("open",), ("saw:1",), ("saw:2",), ("close:2",)], 1: [("open",), ("close:0",)]}),
        (Emits(), {}),
    ],
    ids=["reducer", "aggregator", "none"],
)
def test_every_kind_works_on_every_partition(engine: Slots, aggregator: Any, given: Any) -> None:
    topology = TridentTopology()
    numbers = placed(topology, "n long", [[[(1,), (2,)], []]])
    assert lying(engine, topology, numbers.partitionAggregate("n", aggregator, "x")) == given


@conforms("agg-global-three-kinds")
def test_over_a_batch_each_kind_gives_its_answer_also_for_nothing(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    numbers = case.stream(topology, "n long")
    for name, aggregator in (("combiner", Sum()), ("reducer", From500()), ("aggregator", Telling())):
        sink(numbers.aggregate("n", aggregator, "x"), name)
    sink(numbers.groupBy("n").aggregate(Count(), "c"), "grouped")
    found = emitted(engine, topology, 2)
    found["grouped@1:0"].sort()  # their order says nothing
    compare(found, {name: [tuple(row) for row in rows] for name, rows in case.expected["emits"].items()}, case.match)


@conforms("agg-group-field-order")
def test_group_fields_come_first_in_their_order_and_null_is_a_group(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "city string, day int, n long")
    check(case, engine, topology, out=stream.groupBy("day, city").aggregate("n", Sum(), "tot"))


@pytest.mark.parametrize("aggregator", [From500(), Telling(), Emits("L", "R")], ids=["reducer", "aggregator", "emits"])
def test_groups_are_told_apart_by_value_and_type_for_every_kind(engine: Slots, aggregator: Any) -> None:
    """What init emits stands under its own group: Trident fails for the first one and mixes up the others."""
    topology = TridentTopology()
    rows = [(0.0, "1", 1), (-0.0, "1", 2), (None, "1", 3), (float("nan"), "1", 4), (float("nan"), None, 5)]
    grouped = topology.newStream("s", FixedBatchSpout("d double, s string, n long", [rows, []])).groupBy("s, d")
    sink(grouped.aggregate("n", aggregator, "x"))
    found = emitted(engine, topology, 2)
    groups: dict[Any, list[Any]] = {}
    for s, d, x in found["out@1:0"]:
        groups.setdefault(repr((s, None if d is None else d + 0.0)), []).append(x)
    numbers = {"('1', 0.0)": [1, 2], "('1', None)": [3], "('1', nan)": [4], "(None, nan)": [5]}
    expected: dict[type, Any] = {
        From500: lambda ns: [500 + sum(ns)],
        Telling: lambda ns: ["open", *(f"saw:{n}" for n in ns), f"close:{len(ns)}"],
        Emits: lambda ns: ["L", "R"],
    }
    assert groups == {key: expected[type(aggregator)](ns) for key, ns in numbers.items()}
    assert found["out@2:0"] == [], "no group, no tuple"


# --- chains --------------------------------------------------------------------------------------------------------


@conforms("agg-chain-product")
def test_what_members_emit_is_multiplied_the_last_one_fastest(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    grouped = case.stream(topology, "k string, n long").groupBy("k")
    chain = grouped.chainedAgg().aggregate("n", Emits("L0", "L1"), "l").aggregate("n", Emits("R0", "R1", "R2"), "r")
    check(case, engine, topology, out=chain.chainEnd())


@conforms("agg-chain-mixed")
def test_a_chain_of_all_kinds_also_for_nothing(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    chain = case.stream(topology, "n long").chainedAgg()
    chain = chain.aggregate(Count(), "cnt").aggregate("n", From500(), "red").aggregate("n", Sum(), "sum")
    check(case, engine, topology, out=chain.chainEnd())


@conforms("agg-chain-single-zero-emitter")
def test_a_chain_of_one_that_emits_nothing_gives_nothing(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    check(case, engine, topology, out=case.stream(topology, "n long").chainedAgg().aggregate(Emits(), "x").chainEnd())


def chain_of(stream: Any, *members: Any) -> Stream:
    chain = stream.chainedAgg()
    for at, member in enumerate(members):
        inputs = () if isinstance(member, Count) else ("n",)
        chain = chain.aggregate(*inputs, member, f"m{at}")
    made: Stream = chain.chainEnd()
    return made


def test_a_member_that_emits_nothing_leaves_no_tuple_of_the_others(engine: Slots) -> None:
    """In Trident the batch fails."""
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("k long, n long", [[(1, 2), (2, 3)], []]))
    sink(chain_of(numbers, Emits("a", "b"), Emits()), "last")
    sink(chain_of(numbers.groupBy("k"), Emits(), Count()), "first")
    sink(chain_of(numbers.groupBy("k"), Sum(), Count()), "combiners")
    found = emitted(engine, topology, 2)
    assert found["last@1:0"] == found["first@1:0"] == found["last@2:0"] == found["combiners@2:0"] == []
    assert sorted(found["combiners@1:0"]) == [(1, 2, 1), (2, 3, 1)]


def test_a_chain_over_partitions(engine: Slots) -> None:
    topology = TridentTopology()
    numbers = placed(topology, "n long", [[[(1,), (2,)], [], [(3,)]]])
    chain = numbers.chainedAgg().partitionAggregate(Count(), "c").partitionAggregate("n", From500(), "r").chainEnd()
    assert lying(engine, topology, chain) == {0: [(2, 503)], 1: [(0, 500)], 2: [(1, 503)]}


@conforms("val-chained-duplicate-output")
def test_members_of_a_chain_give_fields_of_their_own(case: Case) -> None:
    numbers = TridentTopology().newStream("s", FixedBatchSpout("n long", []))
    with raises(case, DuplicateFieldError, r"'c'.*Count"):
        numbers.chainedAgg().aggregate(Count(), "c").aggregate("n", From500(), "c")


def test_a_chain_is_of_one_kind_and_not_empty() -> None:
    numbers = TridentTopology().newStream("s", FixedBatchSpout("n long", []))
    with pytest.raises(TopologyError):
        numbers.chainedAgg().chainEnd()
    with pytest.raises(TopologyError):
        numbers.chainedAgg().aggregate(Count(), "a").partitionAggregate(Count(), "b")


def test_an_output_may_have_an_inputs_name(engine: Slots) -> None:
    """In Trident a combiner's may not, and the others' may."""
    for aggregator in (Sum(), From500()):
        topology = TridentTopology()
        sink(topology.newStream("s", FixedBatchSpout("n long", [[1, 2]])).aggregate("n", aggregator, "n"))
        assert sinks(topology, engine, 0)["out"] in ([(3,)], [(503,)])


def test_a_sum_is_of_its_fields_kind_and_skips_nulls(engine: Slots) -> None:
    """Trident cuts floats to whole numbers, fails for a null, and gives an int for nothing."""
    topology = TridentTopology()
    rows = [(1, 1.5, Decimal("0.10")), (2**31, 2.25, None), (None, None, Decimal("0.20"))]
    numbers = topology.newStream("s", FixedBatchSpout("i int, f float, d decimal(10,2)", [[*rows[:1], rows[2]], []]))
    longs = topology.newStream("l", FixedBatchSpout("i long, f double, d decimal(10,2)", [rows, []]))
    whole = topology.merge(numbers.map(lambda t: (t.i, t.f, t.d), "i long, f double, d decimal(10,2)"), longs)
    chain = whole.chainedAgg()
    for name in "ifd":
        chain = chain.aggregate(name, Sum(), f"sum_{name}")
    sink(chain.chainEnd())
    found = emitted(engine, topology, 2)
    assert found == {"out@1:0": [(2**31 + 2, 5.25, Decimal("0.60"))], "out@2:0": [(0, 0.0, Decimal("0.00"))]}


# --- whole tuples --------------------------------------------------------------------------------------------------


@conforms("op-first-n")
def test_the_first_tuples_of_a_batch_in_their_order(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "id string, p long")
    for name, assembly in (
        ("asc", FirstN(2, "p")),
        ("desc", FirstN(2, "p", True)),
        ("all", FirstN(9, "p")),
        ("any", FirstN(3)),
    ):
        sink(stream.applyAssembly(assembly), name)
    found = sinks(topology, engine, 0)
    unsorted = found.pop("any")
    expected = {name.partition("@")[0]: [tuple(row) for row in rows] for name, rows in case.expected["emits"].items()}
    compare(found, expected, case.match)
    assert len(set(unsorted)) == case.expected["unsorted_count"]
    assert set(unsorted) <= {row for rows in case.rows() for row in rows}


def test_the_first_of_nothing_are_none_and_nulls_come_last(engine: Slots) -> None:
    """In Trident a null in the sort field ends the worker."""
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("id string, p long", [[("a", None), ("b", 2), ("c", 1)], []]))
    sink(numbers.applyAssembly(FirstN(3, "p")), "asc")
    sink(numbers.applyAssembly(FirstN(3, "p", True)), "desc")
    sink(numbers.applyAssembly(FirstN(3)), "any")
    assert sinks(topology, engine, 0)["asc"] == [("c", 1), ("b", 2), ("a", None)]
    assert sinks(topology, engine, 0)["desc"] == [("b", 2), ("c", 1), ("a", None)]
    assert sinks(topology, engine, 1) == {"asc": [], "desc": [], "any": []}


EXTREMES: dict[str, Callable[[Stream], Stream]] = {
    "minBy": lambda s: s.minBy("p"),
    "maxBy": lambda s: s.maxBy("p"),
    "minBy, turned round": lambda s: s.minBy("p", lambda a, b: b - a),
    "min": lambda s: s.filter("p", FilterNull()).min(lambda a, b: a.p - b.p),
    "max": lambda s: s.filter("p", FilterNull()).max(lambda a, b: a.p - b.p),
}


@pytest.mark.parametrize("verb", EXTREMES)
def test_the_least_and_greatest_tuple_is_of_its_partition_the_last_of_equals(engine: Slots, verb: str) -> None:
    """Nulls are skipped. A partition without tuples, or of nulls alone, gives none; in Trident reading it fails."""
    topology = TridentTopology()
    parts: list[Rows] = [[("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", None)], [], [("f", None)], [("g", 7)]]
    stream = placed(topology, "id string, p long", [parts])
    least = verb in ("minBy", "min")
    assert lying(engine, topology, EXTREMES[verb](stream)) == {0: [("c", 1) if least else ("d", 2)], 3: [("g", 7)]}


def test_over_the_batch_it_is_one_tuple(engine: Slots) -> None:
    topology = TridentTopology()
    stream = placed(topology, "id string, p long", [[[("a", 1), ("b", 9)], [], [("c", 1), ("d", None)]]])
    sink(stream.minBy("p", scope="batch"), "least")
    sink(stream.maxBy("p", scope="batch"), "greatest")
    assert sinks(topology, engine, 0) == {"least": [("c", 1)], "greatest": [("b", 9)]}
