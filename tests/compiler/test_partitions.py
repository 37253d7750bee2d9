"""Partitions: how many there are, which tuples are in which, and that operations know theirs; on both engines."""

from collections import defaultdict
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, answered, run, stream, table
from trident import Count, Function, TridentTopology
from trident.base.errors import TopologyError, UserFunctionError
from trident.plan.nodes import walk
from trident.plan.partitions import partition_counts
from trident.state import MemoryMapState


class Place(Function):
    """Appends the partition that it runs in, and how many there are."""

    outputType = "int, int"

    def prepare(self, context: Any) -> None:
        self.at = context.partitionIndex, context.numPartitions

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit(self.at)


NUMBERS = [(n,) for n in range(40)]
FEW = [("u", 1), ("v", 2), ("u", 3), ("w", 4)]


def placed(
    engine: Slots, topology: TridentTopology, streams: Any, batch: int = 0, attempt: int = 0
) -> dict[int, list[Any]]:
    """Return the tuples of each partition; check that each number is below the number of partitions."""
    seen = streams.each(Place(), "at, of")
    name = seen.groupBy(*seen.fields).persistentAggregate(MemoryMapState.opaque(), Count(), "times", name="seen").name
    found = defaultdict(list)
    for row in run(engine, topology, batch, attempt).results[name].to_pylist():
        *values, at, of, times = row.values()
        assert of is None or 0 <= at < of
        found[at] += [tuple(values)] * times
    return {at: sorted(rows) for at, rows in sorted(found.items())}


@pytest.mark.connect
def test_a_shuffle_spreads_the_tuples_over_as_many_partitions_as_are_asked_for(engine: Slots) -> None:
    topology = TridentTopology()
    found = placed(engine, topology, stream(topology, "n long", NUMBERS).shuffle().parallelismHint(4))
    assert list(found) == [0, 1, 2, 3]
    assert sorted(row for rows in found.values() for row in rows) == NUMBERS


def test_a_hint_at_a_spout_spreads_its_tuples(engine: Slots) -> None:
    topology = TridentTopology()
    found = placed(engine, topology, stream(topology, "n long", NUMBERS).parallelismHint(3))
    assert list(found) == [0, 1, 2] and sum(map(len, found.values())) == 40


@pytest.mark.connect
def test_equal_fields_meet_in_one_partition_the_same_in_every_batch(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", FEW, [("w", 5), ("u", 6), ("v", 7)])
    words = words.partitionBy("k").parallelismHint(3)
    first, second = (
        {k: at for at, rows in placed(engine, each, by, batch).items() for k, _ in rows}
        for batch, (each, by) in enumerate([(topology, words)] + [_again()])
    )
    assert first == second


def _again() -> tuple[TridentTopology, Any]:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", FEW, [("w", 5), ("u", 6), ("v", 7)])
    return topology, words.partitionBy("k").parallelismHint(3)


def test_a_broadcast_gives_every_tuple_to_every_partition(engine: Slots) -> None:
    topology = TridentTopology()
    found = placed(engine, topology, stream(topology, "n long", [(1,), (2,)]).broadcast().parallelismHint(3))
    assert found == {at: [(1,), (2,)] for at in range(3)}


def test_without_a_hint_a_broadcast_gives_one_copy(engine: Slots) -> None:
    topology = TridentTopology()
    assert placed(engine, topology, stream(topology, "n long", NUMBERS).broadcast()) == {0: NUMBERS}


def test_global_is_the_first_partition_for_every_batch(engine: Slots) -> None:
    for batch in range(2):
        topology = TridentTopology()
        numbers = stream(topology, "n long", NUMBERS, NUMBERS)
        assert placed(engine, topology, numbers.global_().parallelismHint(3), batch) == {0: NUMBERS}


def test_a_batch_goes_to_one_partition_the_same_at_every_attempt(engine: Slots) -> None:
    places = []
    for batch, attempt in [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)]:
        topology = TridentTopology()
        numbers = stream(topology, "n long", *[NUMBERS] * 4).batchGlobal().parallelismHint(3)
        (place,) = placed(engine, topology, numbers, batch, attempt)
        places.append(place)
    assert places[0] == places[1] and len(set(places)) > 1


@pytest.mark.connect
def test_a_function_of_the_user_chooses(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", FEW).filter("n", lambda n: n > 1)
    found = placed(engine, topology, words.partition("n", lambda n, count: n % count).parallelismHint(3))
    assert found == {0: [("u", 3)], 1: [("w", 4)], 2: [("v", 2)]}


def test_a_function_may_choose_several_partitions_and_see_the_whole_tuple(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", FEW)

    def choose(t: Any, count: int) -> Any:
        return [0, count - 1] if t.k == "u" else 1

    found = placed(engine, topology, words.partition(choose).parallelismHint(3).project("n"))
    assert found == {0: [(1,), (3,)], 1: [(2,), (4,)], 2: [(1,), (3,)]}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (lambda n, count: 3, r"chose partition 3; expected 0 to 2"),
        (lambda n, count: -1, r"chose partition -1; expected 0 to 2"),
        (lambda n, count: "0", r"chose partition '0'; expected 0 to 2"),
        (lambda n, count: [], r"it returned no partition; to drop tuples use a filter"),
        (lambda n, count: n / 0, r"ZeroDivisionError: division by zero; the tuple was \(n=0\)"),
    ],
)
def test_a_choice_that_is_none_is_an_error_with_its_tuple(engine: Slots, choice: Any, message: str) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", NUMBERS).partition("n", choice).parallelismHint(3)
    with pytest.raises(UserFunctionError, match=message):
        placed(engine, topology, numbers)


def test_identity_leaves_tuples_where_they_are_and_hints_meet(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "k string, n long", FEW).partition("n", lambda n, count: n % count)
    found = placed(engine, topology, words.identityPartition().filter("n", lambda n: n < 4).parallelismHint(3))
    assert found == {0: [("u", 3)], 1: [("u", 1)], 2: [("v", 2)]}


def test_local_or_shuffle_moves_nothing_where_the_numbers_fit(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "n long", NUMBERS).partition("n", lambda n, count: 0).parallelismHint(2)
    assert placed(engine, topology, words.localOrShuffle().parallelismHint(2)) == {0: NUMBERS}
    topology = TridentTopology()
    words = stream(topology, "n long", NUMBERS).partition("n", lambda n, count: 0).parallelismHint(2)
    assert list(placed(engine, topology, words.localOrShuffle().parallelismHint(3))) == [0, 1, 2]


@pytest.mark.connect
def test_merged_streams_share_partitions_by_their_index(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "n long", [(1,), (2,), (3,)], name="a").partition("n", lambda n, count: n % count)
    b = stream(topology, "n long", [(11,), (12,), (13,)], name="b").partition("n", lambda n, count: n % count)
    found = placed(engine, topology, a.merge(b).parallelismHint(3))
    assert found == {0: [(3,), (12,)], 1: [(1,), (13,)], 2: [(2,), (11,)]}


def test_two_branches_of_a_stream_each_know_their_own_partition(engine: Slots) -> None:
    """Spark numbers the tasks of both branches in one sequence; an operation gets the number in its own stream."""
    topology = TridentTopology()
    numbers = stream(topology, "n long", NUMBERS)
    for name, count in (("two", 2), ("three", 3)):
        seen = numbers.partition("n", lambda n, count: n % count).parallelismHint(count).each(Place(), "at, of")
        wrong = seen.filter("n, at, of", lambda n, at, of: n % of != at)
        wrong.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
    assert [table.num_rows for table in run(engine, topology).results.values()] == [0, 0]


def test_an_aggregate_and_a_join_have_the_partitions_of_a_hint_too(engine: Slots) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", NUMBERS)
    counts = numbers.each("n", lambda n: n % 10, "d long").groupBy("d").aggregate(Count(), "count")
    found = placed(engine, topology, counts.parallelismHint(4))
    assert sorted(row for rows in found.values() for row in rows) == [(d, 4) for d in range(10)]
    assert len(found) > 1
    topology = TridentTopology()
    numbers = stream(topology, "n long", NUMBERS)
    whole = placed(engine, topology, numbers.aggregate(Count(), "count").parallelismHint(4))
    assert list(whole.values()) == [[(40,)]]


class Lived(Function):
    """Emits how often it was prepared, and raises where it is used before `prepare` or after `cleanup`."""

    outputType = "int"

    def __init__(self) -> None:
        self.prepared = 0
        self.over = False

    def prepare(self, context: Any) -> None:
        self.prepared += 1

    def execute(self, tuple: Any, collector: Any) -> None:
        assert not self.over
        collector.emit([self.prepared])

    def cleanup(self) -> None:
        self.over = True


def test_an_operation_is_prepared_once_a_partition_and_batch_and_the_given_one_never(engine: Slots) -> None:
    topology, given = TridentTopology(), Lived()
    seen = stream(topology, "n long", NUMBERS).shuffle().parallelismHint(2).each(given, "lives")
    seen.groupBy("lives").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="lives")
    for _ in range(2):
        assert run(engine, topology).results["lives"].to_pylist() == [{"lives": 1, "count": 40}]
    assert given.prepared == 0 and not given.over


class Ends(Function):
    """Fails in `prepare`, in `cleanup` or in both."""

    outputType = "int"

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    def prepare(self, context: Any) -> None:
        if self.wrong == "prepare":
            raise OSError("no connection")

    def execute(self, tuple: Any, collector: Any) -> None:
        if self.wrong == "both":
            raise OSError("no connection")
        collector.emit([1])

    def cleanup(self) -> None:
        if self.wrong != "prepare":
            raise OSError("not closed")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("prepare", r"raised OSError: no connection in prepare\(\)"),
        ("cleanup", r"raised OSError: not closed in cleanup\(\)"),
        ("both", r"raised OSError: no connection; the tuple was"),
    ],
)
def test_errors_at_the_beginning_and_the_end_are_reported(engine: Slots, wrong: str, message: str) -> None:
    topology = TridentTopology()
    seen = stream(topology, "n long", NUMBERS).each(Ends(wrong), "one")
    seen.groupBy("one").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="ones")
    with pytest.raises(UserFunctionError, match=message):
        run(engine, topology)


def test_a_request_is_spread_and_answered_as_if_it_were_alone() -> None:
    from trident.compiler.arrow.evaluation import compile_request
    from trident.compiler.stages import cut

    topology = TridentTopology()
    asked = topology.newDRPCStream("places", "n long").flatMap(lambda t: range(t.n), "m long")
    asked.partition("m", lambda m, count: m % count).parallelismHint(2).each(Place(), "at, of")
    (plan,) = cut(topology).requests
    found = answered(compile_request(plan), table("request long, n long", (7, 3), (9, 1)), None)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [
        (7, 0, 0, 2),
        (7, 1, 1, 2),
        (7, 2, 0, 2),
        (9, 0, 0, 2),
    ]


# --- how many ----------------------------------------------------------------------------------------------------


def counts(last: Any) -> list[int | None]:
    nodes = walk(last._node)
    found = partition_counts(nodes)
    return [found[id(node)] for node in nodes]


def test_the_greatest_hint_of_a_section_holds_for_all_of_it() -> None:
    numbers = stream(TridentTopology(), "n long", NUMBERS)
    assert counts(numbers.parallelismHint(2).filter("n", bool).parallelismHint(5).shuffle().project("n")) == [
        5,
        5,
        5,
        5,
        None,
        None,
    ]


def test_a_stream_that_is_used_twice_has_one_number() -> None:
    numbers = stream(TridentTopology(), "n long", NUMBERS)
    left, right = numbers.filter("n", bool).parallelismHint(3), numbers.project("n")
    assert counts(left.merge(right)) == [3, 3, 3, 3, 3]


def test_wrong_calls() -> None:
    numbers = stream(TridentTopology(), "n long, m map<string,long>", [])
    with pytest.raises(TopologyError, match=r"count=0: expected a whole number of at least 1"):
        numbers.parallelismHint(0)
    with pytest.raises(TopologyError, match=r"count=True: expected a whole number of at least 1"):
        numbers.parallelismHint(True)
    with pytest.raises(TopologyError, match=r"field 'm' is map<string,bigint>: maps cannot be compared"):
        numbers.partitionBy("m")
    with pytest.raises(TopologyError, match=r"one argument for each field \(n\) and the number of partitions"):
        numbers.partition("n", lambda n: 0)
    with pytest.raises(TopologyError, match=r"cannot be named 'a b'"):
        numbers.name("a b")
    with pytest.raises(AttributeError, match=r"did you mean 'global_'"):
        numbers.globl  # noqa: B018


class Late(Function):
    """Emits through the collector of a call that has ended: in the next call, or in `cleanup`."""

    outputType = "long"

    def __init__(self, when: str) -> None:
        self.when = when
        self.kept: list[Any] = []

    def prepare(self, context: Any) -> None: ...

    def execute(self, tuple: Any, collector: Any) -> None:
        if self.when == "execute" and self.kept:
            self.kept[0].emit([tuple.n])
        self.kept.append(collector)

    def cleanup(self) -> None:
        if self.when == "cleanup":
            self.kept[0].emit([1])


@pytest.mark.parametrize("when", ["execute", "cleanup"])
def test_a_tuple_that_comes_after_its_call_is_an_error_and_not_lost(engine: Slots, when: str) -> None:
    topology = TridentTopology()
    seen = stream(topology, "n long", NUMBERS).each("n", Late(when), "m")
    seen.groupBy("m").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="late")
    with pytest.raises(UserFunctionError, match=r".* a call that has ended, so"):
        run(engine, topology)
