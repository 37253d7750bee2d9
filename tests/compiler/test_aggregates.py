"""Aggregators of all three kinds, alone and in chains, over batches, groups and partitions; on both engines."""

from decimal import Decimal
from typing import Any

import pytest

from tests.compiler.functions import Longest, Mean, Tally
from tests.compiler.stage_runner import STATE, Slots, leaving, results, run_group, stream
from trident import (
    Average,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Latest,
    Max,
    MaxBy,
    Min,
    Quantiles,
    Sum,
    TopK,
    TridentTopology,
    expr,
)
from trident.base.errors import FailedException, StateValueError, UserFunctionError
from trident.compiler.stages import cut_nodes
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Story:
    """Emits what it sees: on opening, of every tuple, at the end."""

    outputType = "string, bigint"

    def init(self, batchId: int, collector: Any) -> list[int]:
        collector.emit(["open", batchId])
        return [0]

    def aggregate(self, state: list[int], tuple: Any, collector: Any) -> None:
        state[0] += 1
        collector.emit([f"saw {tuple.n}", tuple.n])

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit(["close", state[0]])


class Letters:
    """Emits this many tuples of a letter at the end."""

    outputType = "string"

    def __init__(self, letter: str, times: int) -> None:
        self.letter, self.times = letter, times

    def init(self, batchId: int, collector: Any) -> list[Any]:
        return []

    def aggregate(self, state: list[Any], tuple: Any, collector: Any) -> None:
        pass

    def complete(self, state: list[Any], collector: Any) -> None:
        for at in range(self.times):
            collector.emit([f"{self.letter}{at}"])


class SumOfMagnitudes(Sum):
    """A subclass of a built-in aggregator, with a method of its own."""

    def init(self, tuple: Any) -> int:
        return abs(int(tuple[0]))


class From500:
    """A reducer whose first value is not neutral."""

    outputType = "bigint"

    def init(self) -> int:
        return 500

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.n)


class Presented(From500):
    def present(self, acc: int) -> str:
        return f"<{acc}>"


NUMBERS = [("a", 4), ("b", 9), ("a", 4)]


def numbers(*batches: Any) -> Any:
    return stream(TridentTopology(), "k string, n long", *(batches or (NUMBERS, [])))


# --- three kinds --------------------------------------------------------------------------------------------------


@pytest.mark.connect
def test_an_aggregator_begins_and_ends_once_a_batch_also_an_empty_one(engine: Slots) -> None:
    made = numbers().aggregate(Story(), "what, n")
    assert leaving(engine, made) == [("open", 1), ("saw 4", 4), ("saw 9", 9), ("saw 4", 4), ("close", 3)]
    assert leaving(engine, numbers().aggregate(Story(), "what, n"), batch=1) == [("open", 2), ("close", 0)]


def test_an_aggregator_emits_under_its_group_from_the_first_moment_on(engine: Slots) -> None:
    made = numbers().groupBy("k").aggregate("n", Story(), "what, m")
    assert made.fields == ("k", "what", "m")
    assert sorted(leaving(engine, made)) == sorted(
        [("a", "open", 1), ("a", "saw 4", 4), ("a", "saw 4", 4), ("a", "close", 2)]
        + [("b", "open", 1), ("b", "saw 9", 9), ("b", "close", 1)]
    )
    assert leaving(engine, numbers().groupBy("k").aggregate("n", Story(), "what, m"), batch=1) == []


@pytest.mark.connect
def test_a_reducer_folds_every_tuple_of_a_batch_or_group(engine: Slots) -> None:
    assert leaving(engine, numbers().aggregate("n", From500(), "n")) == [(517,)]
    assert leaving(engine, numbers().aggregate("n", From500(), "n"), batch=1) == [(500,)]
    grouped = numbers().groupBy("k").aggregate("n", From500(), "n")
    assert sorted(leaving(engine, grouped)) == [("a", 508), ("b", 509)]
    assert leaving(engine, numbers().groupBy("k").aggregate("n", From500(), "n"), batch=1) == []


def test_what_leaves_is_what_an_aggregator_presents(engine: Slots) -> None:
    assert leaving(engine, numbers().aggregate("n", Mean(), "mean double")) == [(17 / 3,)]
    assert leaving(engine, numbers().aggregate("n", Mean(), "mean double"), batch=1) == [(None,)]
    assert leaving(engine, numbers().aggregate("n", Presented(), "n")) == [("<517>",)]
    many = numbers([("a", n) for n in range(300)]).groupBy("k").aggregate("n", Mean(), "mean double")
    assert leaving(engine, many) == [("a", 149.5)]


def test_a_subclass_of_a_built_in_aggregator_is_called(engine: Slots) -> None:
    topology = TridentTopology()
    lengths = stream(topology, "k string, n long", [("a", -3), ("a", 4), ("b", -1)]).groupBy("k")
    lengths.persistentAggregate(STATE, "n", SumOfMagnitudes(), "total", name="totals")
    assert results(engine, topology) == {"totals": [("a", 7), ("b", 1)]}
    assert leaving(engine, lengths.aggregate("n", SumOfMagnitudes(), "total")) == [("a", 7), ("b", 1)]


def test_group_fields_come_first_in_their_order_and_nulls_are_a_group(engine: Slots) -> None:
    rows = [("rome", 1, 5), ("oslo", 1, 2), ("rome", 1, 6), ("rome", 2, 1), (None, 2, 3), (None, 2, 4)]
    for aggregator in (Sum(), Tallied()):
        cities = stream(TridentTopology(), "city string, day long, n long", rows)
        made = cities.groupBy("day, city").aggregate("n", aggregator, "total")
        assert made.fields == ("day", "city", "total")
        expected = [(1, "oslo", 2), (1, "rome", 11), (2, None, 7), (2, "rome", 1)]
        assert sorted(leaving(engine, made), key=repr) == sorted(expected, key=repr)


class Tallied:
    """Sum as a reducer."""

    outputType = "long"

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.n)


# --- chains -------------------------------------------------------------------------------------------------------


def test_several_tuples_of_several_members_meet_in_every_combination(engine: Slots) -> None:
    chain = numbers([("g", 1), ("g", 2)]).groupBy("k").chainedAgg()
    made = chain.aggregate("n", Letters("L", 2), "l").aggregate("n", Letters("R", 3), "r").chainEnd()
    expected = [("g", f"L{a}", f"R{b}") for a in range(2) for b in range(3)]
    assert leaving(engine, made) == expected


def test_every_group_has_its_own_combinations(engine: Slots) -> None:
    chain = numbers([("a", 1), ("b", 5), ("a", 2)]).groupBy("k").chainedAgg().aggregate("n", Story(), "what, n")
    made = chain.aggregate(Count(), "c").aggregate("n", Letters("x", 2), "x").chainEnd()
    told = {
        "a": [("open", 1), ("saw 1", 1), ("saw 2", 2), ("close", 2)],
        "b": [("open", 1), ("saw 5", 5), ("close", 1)],
    }
    expected = [(k, *line, len(told[k]) - 2, x) for k in told for line in told[k] for x in ("x0", "x1")]
    assert sorted(leaving(engine, made)) == sorted(expected)


@pytest.mark.connect
def test_a_chain_of_all_three_kinds(engine: Slots) -> None:
    def made() -> Any:
        chain = numbers([("a", 3), ("b", 8)], []).chainedAgg().aggregate(Count(), "count")
        return chain.aggregate("n", From500(), "red").aggregate("n", Sum(), "sum").chainEnd()

    assert leaving(engine, made()) == [(2, 511, 11)]
    assert leaving(engine, made(), batch=1) == [(0, 500, 0)]


@pytest.mark.parametrize("silent", [0, 1])
def test_where_a_member_emits_nothing_there_is_no_tuple(engine: Slots, silent: int) -> None:
    members = [Letters("x", 0), Letters("y", 2)]
    chain = numbers().chainedAgg()
    for at in (silent, 1 - silent):
        chain = chain.aggregate("n", members[at], f"f{at}")
    assert leaving(engine, chain.chainEnd()) == []
    assert leaving(engine, numbers().chainedAgg().aggregate("n", Letters("x", 0), "x").chainEnd()) == []
    grouped = numbers().groupBy("k").chainedAgg().aggregate(Count(), "n").aggregate("n", Letters("x", 0), "x")
    assert leaving(engine, grouped.chainEnd()) == []


def test_a_chain_of_combiners_is_one_pass(engine: Slots) -> None:
    rows = [("a", 1), ("b", None), ("a", 5), ("c", 2), ("b", None)]

    def chained(source: Any) -> Any:
        chain = source.aggregate(Count(), "count").aggregate("n", Sum(), "n").aggregate("n", Min(), "least")
        return chain.aggregate("n", Max(), "most")

    grouped = [("a", 2, 6, 1, 5), ("b", 2, 0, None, None), ("c", 1, 2, 2, 2)]
    for with_python in (False, True):
        source = numbers(rows, [])
        source = source.each("n", lambda n: n, "m long").project("k, n") if with_python else source
        assert sorted(leaving(engine, chained(source.groupBy("k").chainedAgg()).chainEnd())) == grouped
        assert leaving(engine, chained(numbers(rows, []).chainedAgg()).chainEnd()) == [(5, 8, 1, 5)]
        assert leaving(engine, chained(numbers(rows, []).chainedAgg()).chainEnd(), batch=1) == [(0, 0, None, None)]
    own = chained(numbers(rows).groupBy("k").chainedAgg()).aggregate("k", Longest(), "word")
    assert sorted(leaving(engine, own.chainEnd())) == [(*row, row[0]) for row in grouped]


def test_a_large_chain_of_combiners_by_arrow_and_by_hand(engine: Slots) -> None:
    rows = [(f"k{n % 7}", n) for n in range(5000)]

    def chained(tally: Any) -> Any:
        chain = numbers(rows).each("n", lambda n: n, "m long").groupBy("k").chainedAgg().aggregate("n", tally, "a")
        return chain.aggregate("n", Sum(), "b").aggregate("m", Max(), "c").aggregate(Count(), "d").chainEnd()

    quick, slow = leaving(engine, chained(Sum())), leaving(engine, chained(Tallied()))
    assert sorted(quick) == sorted(slow)
    assert sorted(leaving(engine, chained(Tally())))[0] == ("k0", 715, sum(range(0, 5000, 7)), 4998, 715)


# --- partitions ---------------------------------------------------------------------------------------------------


def places(n: int, partitions: int) -> int:
    return n % partitions


def parted(*rows: Any) -> Any:
    return numbers(list(rows), []).partition("n", places).parallelismHint(3)


def test_every_partition_is_aggregated_by_itself_also_an_empty_one(engine: Slots) -> None:
    rows = [("a", 3), ("b", 2), ("a", 6), ("b", 5), ("c", 2)]
    every = {
        "combiner": (lambda s: s.partitionAggregate(Count(), "n"), [(2,), (0,), (3,)], [(0,), (0,), (0,)]),
        "own": (lambda s: s.partitionAggregate("k", Longest(), "k"), [("a",), ("",), ("c",)], [("",)] * 3),
        "reducer": (lambda s: s.partitionAggregate("n", From500(), "n"), [(509,), (500,), (509,)], [(500,)] * 3),
        "emitter": (
            lambda s: s.partitionAggregate("n", Letters("x", 1), "x").aggregate(Count(), "n"),
            [(3,)],
            [(3,)],
        ),
        "chain": (
            lambda s: s.chainedAgg().partitionAggregate(Count(), "a").partitionAggregate(Tallied(), "b").chainEnd(),
            [(2, 9), (0, 0), (3, 9)],
            [(0, 0)] * 3,
        ),
        "python": (
            lambda s: s.each("n", lambda n: n + 1, "m long").partitionAggregate("m", Mean(), "m double"),
            [(5.5,), (None,), (4.0,)],
            [(None,)] * 3,
        ),
    }
    for name, (made, some, nothing) in every.items():
        assert leaving(engine, made(parted(*rows))) == some, name
        assert leaving(engine, made(parted(*rows)), batch=1) == nothing, name


def test_groups_of_partitions_stay_apart(engine: Slots) -> None:
    rows = [("a", 3), ("b", 2), ("a", 6), ("b", 5), ("a", 2)]
    for aggregator in (Sum(), Tallied()):
        made = parted(*rows).groupBy("k").partitionAggregate("n", aggregator, "n")
        assert sorted(leaving(engine, made)) == [("a", 2), ("a", 9), ("b", 7)]
        assert leaving(engine, parted(*rows).groupBy("k").partitionAggregate("n", aggregator, "n"), batch=1) == []


def test_without_a_hint_the_partitions_are_the_engines(engine: Slots) -> None:
    made = numbers().partitionAggregate(Count(), "n").aggregate("n", Sum(), "n")
    assert leaving(engine, made) == [(3,)]
    grouped = numbers().groupBy("k").partitionAggregate("n", Sum(), "n").groupBy("k").aggregate("n", Sum(), "n")
    assert sorted(leaving(engine, grouped)) == [("a", 8), ("b", 9)]


# --- nothing at all -----------------------------------------------------------------------------------------------


def test_nothing_is_aggregated_also_where_spark_prunes_it(engine: Slots, size: str) -> None:
    def nothing() -> Any:
        return numbers().filter(expr("1 = 0")) if engine.name == "spark" else numbers().filter("n", lambda n: False)

    for aggregator, field, expected in ((Longest(), "k", ""), (Sum(), "n", 0), (Tallied(), "n", 0)):
        assert leaving(engine, nothing().aggregate(field, aggregator, "x")) == [(expected,)]
        assert leaving(engine, nothing().filter("n", is_even).aggregate(field, aggregator, "x")) == [(expected,)]
    assert leaving(engine, nothing().aggregate("n", Story(), "a, b")) == [("open", 1), ("close", 0)]


def test_large_batches_come_to_the_same(engine: Slots, size: str) -> None:
    made = numbers().groupBy("k").chainedAgg().aggregate(Count(), "c").aggregate("n", Tallied(), "t").chainEnd()
    assert sorted(leaving(engine, made)) == [("a", 2, 8), ("b", 1, 9)]
    found = leaving(engine, numbers().aggregate("n", Story(), "what, n"))
    assert (found[0], found[-1], len(found)) == (("open", 1), ("close", 3), 5)


def is_even(n: int) -> bool:
    return n % 2 == 0


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Batches that are run as small ones, and as large ones: with adaptive plans."""
    if request.param == "large":
        monkeypatch.setattr("trident.compiler.spark.sessions.SMALL_ROWS", -1)
    return request.param


# --- what goes wrong ----------------------------------------------------------------------------------------------


class Wrong(Letters):
    """Fails in the method that `how` names."""

    def __init__(self, how: str) -> None:
        super().__init__("x", 1)
        self.how = how

    def init(self, batchId: int, collector: Any) -> list[Any]:
        if self.how == "init":
            raise ValueError("not today")
        return []

    def aggregate(self, state: list[Any], tuple: Any, collector: Any) -> Any:
        if self.how == "aggregate":
            raise ValueError("no such thing")
        if self.how == "returns":
            return 7
        if self.how == "width":
            collector.emit(["a", "b"])
        if self.how == "type":
            collector.emit([5])
        if self.how == "failed":
            raise FailedException("once more")
        return None

    def complete(self, state: list[Any], collector: Any) -> None:
        if self.how == "complete":
            raise ValueError("never ends")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("init", "raised ValueError: not today in init()"),
        ("aggregate", "raised ValueError: no such thing; the tuple was (n=4)"),
        ("complete", "raised ValueError: never ends in complete()"),
        ("returns", "returned 7 from aggregate(); the tuple was (n=4) (change the state in place"),
        ("width", "emit got 2 value(s), expected 1: ['a', 'b']; the tuple was (n=4)"),
        ("type", "gave 5 (int) for field 'x', which is declared as string"),
        ("failed", "once more"),
    ],
)
def test_what_goes_wrong_in_an_aggregator_is_told(engine: Slots, how: str, says: str) -> None:
    with pytest.raises((UserFunctionError, FailedException)) as raised:
        leaving(engine, numbers().aggregate("n", Wrong(how), "x"))
    assert says in str(raised.value)
    assert how == "failed" or "s/1:aggregate(Wrong): Wrong (test_aggregates.py:" in str(raised.value)


class RaisesReducing:
    outputType = "long"

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr // 0


def test_what_goes_wrong_in_a_reducer_is_told(engine: Slots) -> None:
    with pytest.raises(UserFunctionError, match="raised ZeroDivisionError.*; the tuple was \\(n=4\\)"):
        leaving(engine, numbers().aggregate("n", RaisesReducing(), "x"))


# --- built-in ones ------------------------------------------------------------------------------------------------


@pytest.mark.connect
def test_built_in_aggregators_of_a_batch_of_groups_and_of_partitions(engine: Slots) -> None:
    rows = [("a", 4), ("b", 9), ("a", 4), ("a", None), ("c", None)]

    def chained(chain: Any, verb: str) -> Any:
        for aggregator, name in ((Average(), "mean"), (TopK(2), "top"), (CountDistinct(), "d"), (Quantiles(1.0), "q")):
            chain = getattr(chain, verb)("n", aggregator, name)
        return chain.chainEnd()

    of_nothing = (None, [], 0, None)
    groups = [("a", 4.0, [4, 4], 1, [4.0]), ("b", 9.0, [9], 1, [9.0]), ("c", *of_nothing)]
    for python in (False, True):
        source = numbers(rows, []).each("n", lambda n: n, "m long").project("k, n") if python else numbers(rows, [])
        assert sorted(leaving(engine, chained(source.groupBy("k").chainedAgg(), "aggregate"))) == groups
    assert leaving(engine, chained(numbers(rows).chainedAgg(), "aggregate")) == [(17 / 3, [9, 4], 2, [9.0])]
    assert leaving(engine, chained(numbers(rows, []).chainedAgg(), "aggregate"), batch=1) == [of_nothing]
    found = leaving(engine, chained(parted(("a", 4), ("b", 9), ("a", 1)).chainedAgg(), "partitionAggregate"))
    assert found == [(9.0, [9], 1, [9.0]), (2.5, [4, 1], 2, [4.0]), of_nothing]


@pytest.mark.parametrize("kind", ["int", "long", "double", "decimal(10,2)"])
def test_an_average_is_the_same_in_spark_and_in_python(engine: Slots, kind: str) -> None:
    number = Decimal if kind.startswith("decimal") else float if kind == "double" else int
    rows = [("a", number(4)), ("b", number(9)), ("a", number(1)), ("a", None), ("c", None)]

    def made(python: bool) -> Any:
        source = stream(TridentTopology(), f"k string, n {kind}", rows)
        return source.filter("k", lambda k: True) if python else source

    for python in (False, True):
        grouped = made(python).groupBy("k").aggregate("n", Average(), "mean double")
        assert sorted(leaving(engine, grouped)) == [("a", 2.5), ("b", 9.0), ("c", None)]
        state = made(python).groupBy("k").persistentAggregate(STATE, "n", Average(), "mean", name="means")
        (group,) = cut_nodes([state._node], {}).groups
        held = run_group(engine, group).results["means"].to_pylist()  # type: ignore[union-attr]
        assert sorted((row["k"], row["mean"]["total"], row["mean"]["count"]) for row in held) == [
            ("a", 5, 2), ("b", 9, 1), ("c", 0, 0),
        ]  # fmt: skip


def test_what_states_hold_of_built_in_aggregators_meets_over_batches() -> None:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", [("a", 4), ("a", 7)], [("a", 7), ("b", 1)])
    for aggregator, name in ((Average(), "mean"), (TopK(2), "top"), (CountDistinct(), "d"), (Quantiles(0.0, 1), "q")):
        words.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", aggregator, "x", name=name)
    with start_local(topology) as running:
        running.processAllAvailable()
        found = {name: (running.state(name)["a"], running.state(name)["b"]) for name in ("mean", "top", "d", "q")}
    assert found == {"mean": (6.0, 1.0), "top": ([7, 7], [1]), "d": (2, 1), "q": ([4.0, 7.0], [1.0, 1.0])}


# --- sums beyond their type ---------------------------------------------------------------------------------------

WIDER = (
    "convert its input field to a double or a decimal(38, 0) first, with each({'n': col('n').cast('double')}, "
    "replace=True); or filter such values out"
)


def test_a_sum_beyond_its_type_names_the_step_the_field_and_the_way_out(engine: Slots) -> None:
    for aggregator in (Sum(), Average()):
        name = type(aggregator).__name__
        for grouped in (False, True):
            beyond = stream(TridentTopology(), "k string, n long", [("a", 2**63 - 1), ("a", 1)])
            found = (beyond.groupBy("k") if grouped else beyond).aggregate("n", aggregator, "x")
            with pytest.raises(UserFunctionError) as raised:
                leaving(engine, found)
            assert str(raised.value).startswith(f"s/1:aggregate({name}): the sum of 'n' does not fit bigint; {WIDER}")
    decimals = stream(TridentTopology(), "d decimal(38,0)", [(Decimal(10**38 - 1),), (Decimal(1),)])
    with pytest.raises(
        UserFunctionError, match=r"does not fit decimal\(38,0\); convert its input field to a double first, with"
    ):
        leaving(engine, decimals.aggregate("d", Sum(), "x"))


@pytest.mark.parametrize("grouped", [False, True])
def test_a_sum_that_comes_back_into_its_type_is_exact(engine: Slots, grouped: bool) -> None:
    most, least = 2**63 - 1, -(2**63)
    values = [most, most, 1, -5, least, None, least, 7, least, most, 2]
    rows = [("a", value) for value in values] + [("b", least), ("b", -1), ("b", 1), ("c", None), ("d", -1)]
    numbers = stream(TridentTopology(), "k string, n long", rows)
    totals = {"a": sum(value for value in values if value is not None), "b": least, "c": 0, "d": -1}
    means = {"a": totals["a"] / 10, "b": least / 3, "c": None, "d": -1.0}
    if grouped:
        found = leaving(engine, numbers.groupBy("k").aggregate({"sum": Sum("n"), "mean": Average("n")}))
        assert sorted(found) == [(key, totals[key], means[key]) for key in "abcd"]
    else:
        assert leaving(engine, numbers.aggregate("n", Sum(), "sum")) == [(sum(totals.values()),)]


def test_the_way_out_of_a_sum_beyond_its_type_is_one(engine: Slots, request: pytest.FixtureRequest) -> None:
    beyond = stream(TridentTopology(), "n long", [(2**63 - 1,), (1,)])
    doubles = beyond.each("n", float, "n double", replace=True)
    assert leaving(engine, doubles.aggregate("n", Average(), "x")) == [(2.0**62,)]
    if "spark" in request.node.callspec.id:
        doubles = beyond.each(expr("cast(n as double)"), "n double", replace=True)
        assert leaving(engine, doubles.aggregate("n", Average(), "x")) == [(2.0**62,)]
        decimals = beyond.each(expr("cast(n as decimal(38, 0))"), "n decimal(38, 0)", replace=True)
        assert leaving(engine, decimals.aggregate("n", Sum(), "x")) == [(Decimal(2**63),)]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("aggregator", [Sum("n"), Average("n")], ids=["Sum", "Average"])
def test_a_states_sum_beyond_its_type_names_the_way_out(aggregator: Any, several: bool) -> None:
    name, topology = type(aggregator).__name__, TridentTopology()
    moments = stream(topology, "n long", *[[(1_700_000_000_000_000_000,)] * 3] * 3)
    what: Any = ({"mean": aggregator, "count": Count()},) if several else (aggregator, "mean")
    moments.persistentAggregate(MemoryMapState.opaque(), *what, name="means")
    with pytest.raises(StateValueError) as raised, start_local(topology) as running:
        running.processAllAvailable()
    message = str(raised.value)
    assert f"{name} of the stored " in message and "510000000000000000" in message and "shapes.py" not in message
    assert f"(topology.reset or the command trident reset); then {WIDER}" in message


class Wide:
    """A combiner of long values whose combinations do not fit."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return 2**62

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0


def test_a_combine_that_a_store_calls_is_told_with_its_own_place() -> None:
    topology = TridentTopology()
    stream(topology, "n long", [(1,)], [(1,)]).persistentAggregate(MemoryMapState.opaque(), Wide(), "x", name="wide")
    where = (
        rf"Wide.combine \(test_aggregates.py:{Wide.combine.__code__.co_firstlineno}\), returned int 9223372036854775808"
    )
    with pytest.raises(StateValueError, match=where), start_local(topology) as running:
        running.processAllAvailable()


# --- what comes too late, and what never runs ---------------------------------------------------------------------


class Keeping(Wrong):
    """Keeps its collector."""

    kept: Any = None

    def complete(self, state: list[Any], collector: Any) -> None:
        Keeping.kept = collector


def test_an_aggregators_collector_ends_with_its_batch() -> None:
    topology = TridentTopology()
    stream(topology, "n long", [(4,)]).aggregate("n", Keeping(""), "x").peek(print)
    with start_local(topology) as running:
        running.processAllAvailable()
    with pytest.raises(RuntimeError, match="on the collector of a call that has ended"):
        Keeping.kept.emit(["x"])


class Yielding(Wrong):
    """Returns a generator from `complete`."""

    def complete(self, state: list[Any], collector: Any) -> Any:
        return (collector.emit([text]) for text in "ab")


def test_a_complete_whose_body_nothing_runs_is_told(engine: Slots) -> None:
    with pytest.raises(UserFunctionError, match=r"raised TypeError: it returned a generator.*in complete\(\)"):
        leaving(engine, numbers().aggregate("n", Yielding(""), "x"))


@pytest.mark.parametrize("keys", ["", "key"])
def test_the_order_of_tuples_goes_from_partition_to_partition(engine: Slots, keys: str) -> None:
    """A batch that has several partitions on Spark. In the later one the marked tuple has the smaller number."""
    marked = (4_000, 4_510)
    rows = [(n, 0, n if n in marked else None, int(n in marked)) for n in range(9_000)]
    numbers = stream(TridentTopology(), "n long, key long, mark long, rank long", rows)
    how = {
        "first": ("mark", First(ignoreNulls=True)),
        "last": ("mark", Last(ignoreNulls=True)),
        "list": ("mark", CollectList()),
        "best": MaxBy("n", "rank"),
        "latest": ("n, rank", Latest("rank")),
    }
    together = numbers.groupBy(keys).aggregate(how) if keys else numbers.aggregate(how)
    (row,) = leaving(engine, together)
    first, last, values, best, latest = row[len(row) - 5 :]
    assert (first, last, list(values), best, latest["n"]) == (4_000, 4_510, [*marked], 4_000, 4_510)
