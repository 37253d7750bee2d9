"""What steps that write states give on: persistentAggregate, partitionPersist, newValuesStream."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import Case, Seen, conforms, ran, unordered
from tests.conformance.maps import NOTHING_WRITTEN, Fragile, MapAtHand, of_records, totals
from trident import Count, FailedException, MapGet, Sum, TridentTopology
from trident.base.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MapState, MemoryMapState
from trident_state.state_shape import StateKind


class Appended:
    """A reducer that begins with "<"."""

    def __init__(self) -> None:
        self.begun = 0

    def init(self) -> str:
        self.begun += 1
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return f"{curr}{tuple.c}"


@conforms("pa-grouped-reducer")
def test_a_reducer_goes_on_from_what_is_stored(case: Case, tmp_path: Path) -> None:
    assert case.faults == ["txid 2 attempt 0 fails after the state write"]
    home, seen = Fragile(StateKind.TRANSACTIONAL), Seen()
    topology = TridentTopology()
    first, failed, again = case.rows()
    assert failed == again
    words = topology.newStream("s", FixedBatchSpout("k string, c string", [first, failed])).groupBy("k")
    joined = words.persistentAggregate(home.state, "c", Appended(), "acc", name="acc")
    values = joined.newValuesStream()
    assert list(values.fields) == case.expected["fields_new_values"]
    seen.watch(values)
    with ran(topology, tmp_path):
        pass
    assert home.broken is not None
    assert home.records("k string", "string") == of_records(case.expected["final"])
    expected = [case.expected["new_values"][name] for name in ("1:0", "2:1")]
    assert [unordered(rows) for rows in seen.batches] == [unordered(rows) for rows in expected]


@conforms("pa-new-values-into-second-state")
def test_one_batch_commits_several_states_one_after_the_other(case: Case, tmp_path: Path) -> None:
    first, second, seen = Fragile(StateKind.TRANSACTIONAL), Fragile(StateKind.TRANSACTIONAL, times=0), Seen()
    topology = TridentTopology()
    source = topology.newStream("s", case.spout("k string, n long")).groupBy("k")
    sums = source.persistentAggregate(first.state, "n", Sum(), "sum", name="first")
    counts = (
        sums.newValuesStream(everyChange=True)
        .groupBy("sum")
        .persistentAggregate(second.state, Count(), "count", name="second")
    )
    seen.watch(counts.newValuesStream())
    with ran(topology, tmp_path):
        pass
    assert first.records("k string", "long") == of_records(case.expected["first"])
    assert second.records("sum long", "long") == of_records(case.expected["second"])
    expected = case.expected["new_values_second"].values()
    assert [unordered(rows) for rows in seen.batches] == [unordered(rows) for rows in expected]


@conforms("pa-partial-partition-failure")
def test_what_is_half_written_is_written_whole_once(case: Case, tmp_path: Path) -> None:
    """At the map as the case has it, two states of a partition each; then one state that is written key by key."""
    parts = {"a": MapAtHand(StateKind.OPAQUE), "b": MapAtHand(StateKind.OPAQUE)}
    for key, state in parts.items():
        state.update(1, {key: totals(case.rows()[0])[key]})
    parts["a"].broken_off(2, {"a": 10})
    parts["b"].broken_off(2, {"b": 20}, NOTHING_WRITTEN)
    assert parts["a"].records() == of_records(case.expected["p0_after_fail"])
    assert parts["b"].records() == of_records(case.expected["p1_after_fail"])
    for key, state in parts.items():
        state.update(2, {key: totals(case.rows()[2])[key]})
    assert parts["a"].records() == of_records(case.expected["p0"])
    assert parts["b"].records() == of_records(case.expected["p1"])

    home = Fragile(StateKind.OPAQUE, most=1)
    topology = TridentTopology()
    source = topology.newStream("s", FixedBatchSpout("k string, n long", case.rows()[:2]))
    source.groupBy("k").persistentAggregate(home.state, "n", Sum(), "sum", name="sums")
    with ran(topology, tmp_path) as running:
        assert dict(running.state("sums").items()) == {"a": 11, "b": 22}
    assert home.records_when_broken("k string", "long") == of_records(
        case.expected["p0_after_fail"] + case.expected["p1_after_fail"]
    )
    assert home.records("k string", "long") == of_records(case.expected["p0"] + case.expected["p1"])


@conforms("pp-once-per-batch")
def test_an_updater_sees_a_batch_once_and_nothing_of_an_empty_one(case: Case) -> None:
    calls: list[list[Any]] = []

    def put(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        calls.append([tuple(row) for row in tuples])
        state.multiPut([t.k for t in tuples], [t.v for t in tuples])
        collector.emit([len(tuples)])

    topology, seen = TridentTopology(), Seen()
    source = topology.newStream("s", case.spout("k string, v long"))
    held = source.partitionPersist(
        MemoryMapState.opaque(), "k, v", put, "wrote long", keyFields="k", valueType="long", name="held"
    )
    seen.watch(held.newValuesStream())
    with ran(topology) as running:
        assert dict(running.state("held").items()) == case.expected["state"]
        assert running.state("held").asOfTxid == 2, "the empty batch is committed as well"
    assert calls == case.rows()[:1] and len(calls) == case.expected["updater_calls"]
    assert seen.batches == [[(3,)]] and case.expected["new_values"] == {"1:0": [[3]], "2:0": []}


@conforms("pp-no-output-fields", differs=True)
def test_an_updater_that_declares_nothing_to_emit_has_no_new_values(case: Case) -> None:
    assert case.expected["fields"] == []
    topology = TridentTopology()
    source = topology.newStream("s", case.spout("k string"))
    held = source.partitionPersist(
        MemoryMapState.opaque(), lambda state, tuples, collector: None, keyFields="k", valueType="long", name="held"
    )
    with pytest.raises(TopologyError, match=r"'held' declares no output fields: .*test_persistent\.py:\d+.*'word"):
        held.newValuesStream()


# --- beside the cases ----------------------------------------------------------------------------------------------


def test_a_state_without_groups_has_one_new_value_in_every_batch_also_an_empty_one() -> None:
    """A combiner writes zero() in the first batch; a reducer has nothing to do in an empty one."""
    topology, counted, folded = TridentTopology(), Seen(), Seen()
    source = topology.newStream("s", FixedBatchSpout("c string", [[], ["a", "b"], [], ["c"]]))
    memory = MemoryMapState.transactional()
    counted.watch(source.persistentAggregate(memory, Count(), "n", name="n").newValuesStream(), "counted")
    folded.watch(source.persistentAggregate(memory, "c", Appended(), "s string", name="s").newValuesStream(), "folded")
    with ran(topology) as running:
        assert (running.state("n").value, running.state("s").value) == (3, "<abc")
    assert counted.batches == [[(0,)], [(2,)], [(2,)], [(3,)]]
    assert folded.batches == [[("<ab",)], [("<abc",)]]


def test_init_is_asked_only_where_nothing_is_stored() -> None:
    topology, appended = TridentTopology(), Appended()
    source = topology.newStream("s", FixedBatchSpout("k string, c string", [[("x", "a")], [("x", "b"), ("y", "c")]]))
    source.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "c", appended, "acc string", name="acc")
    with ran(topology) as running:
        assert dict(running.state("acc").items()) == {"x": "<ab", "y": "<c"}
    assert appended.begun == 2


def test_a_batch_asks_a_state_that_it_updates_as_it_was_before(tmp_path: Path) -> None:
    """In Trident before or after, as it happens. Behind the update it is asked as it is then."""
    topology, before, after = TridentTopology(), Seen(), Seen()
    source = topology.newStream("s", FixedBatchSpout("k string, n long", [[("a", 1)], [("a", 2)]]))
    sums = source.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    before.watch(source.stateQuery(sums, "k", MapGet(), "sum"), "before")
    after.watch(sums.newValuesStream().stateQuery(sums, "k", MapGet(), "again"), "after")
    with ran(topology, tmp_path):
        pass
    assert before.batches == [[("a", 1, None)], [("a", 2, 1)]]
    assert after.batches == [[("a", 1, 1)], [("a", 3, 3)]]


@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_what_stands_before_a_query_does_not_change_its_answer(kind: str, tmp_path: Path) -> None:
    """A query, a table, a window or an update before it makes a later stage, which runs once the state is written."""
    topology, named, twice, once, behind = TridentTopology(), Seen(), Seen(), Seen(), Seen()
    source = topology.newStream("s", FixedBatchSpout("k string, n long", [[("a", 1)], [("a", 2)], [("a", 3)]]))
    state = getattr(MemoryMapState, kind)()
    counts = source.groupBy("k").persistentAggregate(state, Count(), "c", name="counts")
    names = topology.newStaticState({"a": "Ann"}, keyFields="k string", valueType="string", name="names")
    with_name = source.stateQuery(names, "k", MapGet(), "name")
    named.watch(with_name.stateQuery(counts, "k", MapGet(), "c").project("n", "c"), "named")
    asked = source.stateQuery(counts, "k", MapGet(), "c").stateQuery(counts, "k", MapGet(), "again")
    twice.watch(asked.project("c", "again"), "twice")
    first = source.dropDuplicates("n", name="first").project("k", "n")
    once.watch(first.stateQuery(counts, "k", MapGet(), "c").project("n", "c"), "once")
    sums = source.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    updated = sums.newValuesStream().stateQuery(counts, "k", MapGet(), "c").stateQuery(sums, "k", MapGet(), "again")
    behind.watch(updated.project("sum", "c", "again"), "behind")
    with ran(topology, tmp_path):
        pass
    assert named.batches == once.batches == [[(1, None)], [(2, 1)], [(3, 2)]]
    assert twice.batches == [[(None, None)], [(1, 1)], [(2, 2)]]
    assert behind.batches == [[(1, None, 1)], [(3, 1, 3)], [(6, 2, 6)]]


def test_updates_of_one_key_in_one_call_all_count() -> None:
    """In Trident all but the last are lost."""

    def count(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiUpdate([t.k for t in tuples], [lambda old: (old or 0) + 1 for _ in tuples])

    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout("k string", [["a", "b", "a"], ["a"]]))
    words.partitionPersist(MemoryMapState.opaque(), count, keyFields="k", valueType="long", name="held")
    with ran(topology) as running:
        assert dict(running.state("held").items()) == {"a": 3, "b": 1}


def test_an_updater_that_raised_leaves_a_state_that_can_be_read_and_written() -> None:
    """In Trident queries are given the values before until a next batch ends."""
    failures = [FailedException("once")]

    def count(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiUpdate([t.k for t in tuples], [lambda old: (old or 0) + 1 for _ in tuples])
        if failures and tuples[0].k == "b":
            raise failures.pop()

    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout("k string", [["a"], ["b"]]))
    words.partitionPersist(MemoryMapState.opaque(), count, keyFields="k", valueType="long", name="held")
    with ran(topology) as running:
        assert dict(running.state("held").items()) == {"a": 1, "b": 1}


def test_the_neutral_value_comes_in_once_for_nothing_however_many_partitions_there_are() -> None:
    """Trident takes zero() into every partial result and into their sum: one that is not neutral shows how many."""

    class From100:
        outputType = "long"

        def init(self, tuple: Any) -> int:
            return int(tuple[0])

        def combine(self, a: int, b: int) -> int:
            return a + b

        def zero(self) -> int:
            return 100

    for count in (1, 3):
        topology, seen = TridentTopology(), Seen()
        numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, 2, 3], []])).shuffle().parallelismHint(count)
        seen.watch(numbers.aggregate("n", From100(), "sum"))
        with ran(topology):
            pass
        assert seen.batches == [[(6,)], [(100,)]]
