"""What is wrong about a topology is told where it is written."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.kit import Case, conforms, raises
from tests.support.topologies import DeclaredSpout, DeclaredState
from trident import Count, FirstN, MapGet, Stream, Sum, TridentState, TridentTopology
from trident.base.errors import (
    DuplicateFieldError,
    FieldNotFoundError,
    GuaranteeError,
    TopologyError,
)
from trident.plan.guarantee import Promise, guarantees
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind
from trident_state.state_shape import StateKind

MEMORY = MemoryMapState.opaque()


class Added:
    """A reducer."""

    outputType = "long"

    def init(self) -> int:
        return 500

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.n)


class Reduces:
    """A reducer of several streams."""

    def init(self, collector: Any) -> None: ...

    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None: ...

    def complete(self, state: Any, collector: Any) -> None: ...


def nothing(state: Any, tuples: Any, collector: Any) -> None: ...


def counts(topology: TridentTopology) -> TridentState:
    words = topology.newStream("counted", FixedBatchSpout("w string", []))
    return words.groupBy("w").persistentAggregate(MEMORY, Count(), "c", name="counts")


SELECTING: dict[str, Callable[[TridentTopology, Stream], object]] = {
    "each": lambda topology, s: s.each("zz", len, "m int"),
    "filter": lambda topology, s: s.filter("zz", bool),
    "map": lambda topology, s: s.map("zz", len, "m int"),
    "flatMap": lambda topology, s: s.flatMap("zz", list, "m int"),
    "peek": lambda topology, s: s.peek("zz", print),
    "project": lambda topology, s: s.project("k, zz"),
    "groupBy": lambda topology, s: s.groupBy("zz"),
    "partitionBy": lambda topology, s: s.partitionBy("k", "zz"),
    "partition": lambda topology, s: s.partition("zz", lambda zz, count: 0),
    "aggregate": lambda topology, s: s.aggregate("zz", Sum(), "m"),
    "grouped aggregate": lambda topology, s: s.groupBy("k").aggregate("zz", Sum(), "m"),
    "partitionAggregate": lambda topology, s: s.partitionAggregate("zz", Sum(), "m"),
    "chained aggregate": lambda topology, s: s.chainedAgg().aggregate("zz", Sum(), "m"),
    "minBy": lambda topology, s: s.minBy("zz"),
    "FirstN": lambda topology, s: s.applyAssembly(FirstN(2, "zz")),
    "multiReduce": lambda topology, s: topology.multiReduce([s, counted(topology)], ["zz", "w"], Reduces(), "m long"),
    "window": lambda topology, s: s.tumblingWindow(3, "zz", Sum(), "m", name="w"),
    "split": lambda topology, s: s.split("zz", list, streams={"a": "n long"}),
    "stateQuery": lambda topology, s: s.stateQuery(counts(topology), "zz", MapGet(), "c"),
    "partitionPersist": lambda topology, s: s.partitionPersist(MEMORY, "zz", nothing, valueType="long", name="x"),
    "persistentAggregate": lambda topology, s: s.persistentAggregate(MEMORY, "zz", Sum(), "m"),
    "grouped persistentAggregate": lambda topology, s: s.groupBy("k").persistentAggregate(MEMORY, "zz", Sum(), "m"),
    "join": lambda topology, s: topology.join([s, counted(topology)], ["zz", "w"]),
    "join's other": lambda topology, s: topology.join([s, counted(topology)], ["k", "zz"]),
}


def counted(topology: TridentTopology) -> Stream:
    return topology.newStream("other", FixedBatchSpout("w string", []))


@conforms("val-missing-field")
def test_a_field_that_is_not_there_is_named_with_those_that_are(case: Case) -> None:
    for verb, select in SELECTING.items():
        topology = TridentTopology()
        s = topology.newStream("s", FixedBatchSpout("k string, n long", []))
        there = r"\(w string\)|w\b" if verb == "join's other" else r"k.*n"
        with raises(case, FieldNotFoundError, rf"'zz'.*({there})"):
            select(topology, s)
            pytest.fail(f"{verb} takes a field that is not there")


ADDING: dict[str, Callable[[TridentTopology, Stream], object]] = {
    "each": lambda topology, s: s.each("n", lambda n: n, "n long"),
    "each, twice the same": lambda topology, s: s.each("n", lambda n: (n, n), "a long, a long"),
    "map": lambda topology, s: s.map(lambda t: (t.n, t.n), "a long, a long"),
    "flatMap": lambda topology, s: s.flatMap(lambda t: [(t.n, t.n)], "a long, a long"),
    "stateQuery": lambda topology, s: s.stateQuery(counts(topology), "k", MapGet(), "n"),
    "grouped aggregate": lambda topology, s: s.groupBy("k").aggregate("n", Sum(), "k"),
    "grouped reducer's aggregate": lambda topology, s: s.groupBy("k").aggregate("n", Added(), "k long"),
    "grouped persistentAggregate": lambda topology, s: s.groupBy("k").persistentAggregate(MEMORY, "n", Sum(), "k"),
    "grouped reducer": lambda topology, s: s.groupBy("k").persistentAggregate(MEMORY, "n", Added(), "k long"),
    "join": lambda topology, s: topology.join([s, counted(topology)], ["k", "w"], "a, a"),
    "project": lambda topology, s: s.project("n, n"),
    "groupBy": lambda topology, s: s.groupBy("k", "k"),
}


@conforms("val-duplicate-field")
def test_no_field_comes_twice(case: Case) -> None:
    for verb, add in ADDING.items():
        topology = TridentTopology()
        s = topology.newStream("s", FixedBatchSpout("k string, n long", []))
        with raises(case, DuplicateFieldError, r"field '?[kna]\b|'[kna]'"):
            add(topology, s)
            pytest.fail(f"{verb} gives a field twice")


@conforms("val-combiner-two-outputs", differs=True)
@pytest.mark.parametrize("group", [("k",), ()], ids=["grouped", "global"])
@pytest.mark.parametrize("aggregator", [Sum(), Added()], ids=["combiner", "reducer"])
def test_an_aggregator_gives_one_field(case: Case, group: tuple[str, ...], aggregator: Any) -> None:
    assert case.ideal == {"global": "build error"}
    s = TridentTopology().newStream("s", FixedBatchSpout("k string, n long", []))
    stream = s.groupBy(*group) if group else s
    with raises(case, TopologyError, r"one field, not 2 \(a, b\)|returns one"):
        stream.persistentAggregate(MEMORY, "n", aggregator, "a long, b long")


@conforms("val-spout-state-pairing", differs=True)
def test_a_weak_pairing_is_told_and_can_be_refused(case: Case) -> None:
    """An opaque spout and a transactional state are exact here; a non-transactional spout never is."""
    assert "refuse unless" in case.ideal["note"]
    promised = {}
    for spout in SpoutKind:
        for state in StateKind:
            topology = TridentTopology()
            words = topology.newStream("s", DeclaredSpout(spout)).groupBy("word")
            words.persistentAggregate(DeclaredState(state), Count(), "count", name="counts")
            (found,) = guarantees(topology.sinks)
            promised[spout, state] = found.promise
            if found.promise is not Promise.EXACTLY_ONCE:
                with pytest.raises(GuaranteeError, match=rf"counts.*{state.value}.*{spout.value}"):
                    start_local(topology, name="conformance", checkpointLocation="no", requireExactlyOnce=True)
    exact = {pair for pair, promise in promised.items() if promise is Promise.EXACTLY_ONCE}
    txid = (StateKind.TRANSACTIONAL, StateKind.OPAQUE)
    assert exact == {(spout, state) for spout in (SpoutKind.TRANSACTIONAL, SpoutKind.OPAQUE) for state in txid}


# --- what Trident does not raise -------------------------------------------------------------------------------------


def test_what_trident_lets_pass() -> None:
    """Other numbers of fields in a merge or a join's keys, names taken twice, keys that are not the state's."""
    topology = TridentTopology()
    s = topology.newStream("s", FixedBatchSpout("k string, n long", []))
    w = topology.newStream("w", FixedBatchSpout("w string", []))
    state = w.groupBy("w").persistentAggregate(MEMORY, Count(), "c", name="counts")
    for wrong in (
        lambda: topology.merge(s, w),
        lambda: topology.join([s, w], ["k, n", "w"]),
        lambda: topology.join([s, w], ["k", "w"], "only"),
        lambda: topology.newStream("s", FixedBatchSpout("x long", [])),
        lambda: s.persistentAggregate(MEMORY, Count(), "c", name="counts"),
        lambda: s.stateQuery(state, "n", MapGet(), "c"),
        lambda: s.stateQuery(state, "k, n", MapGet(), "c"),
        lambda: s.groupBy(),
    ):
        with pytest.raises(TopologyError):
            wrong()
