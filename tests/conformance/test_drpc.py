"""Requests that read states."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.kit import Case, conforms, raises, ran, unordered
from trident import (
    Count,
    FilterNull,
    MapGet,
    QueryFunction,
    Stream,
    Sum,
    TridentState,
    TridentTopology,
    TupleCollectionGet,
)
from trident.base.errors import TopologyError, UserFunctionError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


def split(args: str) -> Iterator[str]:
    yield from args.split()


def counting(case: Case) -> tuple[TridentTopology, TridentState]:
    """The state that the requests read, kept in two partitions."""
    topology = TridentTopology()
    words = case.stream(topology, "w string").partitionBy("w").parallelismHint(2).groupBy("w")
    return topology, words.persistentAggregate(MemoryMapState.opaque(), Count(), "c", name="counts")


def asking(topology: TridentTopology) -> Stream:
    return topology.newDRPCStream("ask").each("args", split, "w string")


def answers(case: Case, topology: TridentTopology) -> list[list[tuple[Any, ...]]]:
    """What each of the case's queries is answered, once its batches are committed."""
    with ran(topology) as running:
        return [[tuple(row) for row in running.drpc.execute("ask", query)] for query in case.input["queries"]]


def expected(case: Case) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in rows] for rows in case.expected["results"]]


@conforms("drpc-sum")
def test_an_empty_request_is_answered_with_zero(case: Case) -> None:
    topology, counts = counting(case)
    found = asking(topology).groupBy("w").stateQuery(counts, "w", MapGet(), "c").each("c", FilterNull())
    found.aggregate("c", Sum(), "total").project("total")
    assert answers(case, topology) == expected(case)


@conforms("drpc-missing-key")
def test_a_key_that_is_not_there_is_null(case: Case) -> None:
    topology, counts = counting(case)
    asking(topology).groupBy("w").stateQuery(counts, "w", MapGet(), "c").project("w, c")
    (found,), (wanted,) = answers(case, topology), expected(case)
    assert unordered(found) == unordered(wanted)


@conforms("drpc-dump-broadcast", differs=True)
def test_a_broadcast_request_meets_every_entry_once(case: Case) -> None:
    """A state is whole wherever it is asked, so a broadcast to one partition is enough."""
    topology, counts = counting(case)
    asked = topology.newDRPCStream("ask").broadcast().stateQuery(counts, TupleCollectionGet(), "w, c")
    asked.project("w, c")
    (found,), (wanted,) = answers(case, topology), expected(case)
    assert unordered(found) == unordered(wanted)


def test_a_broadcast_to_several_partitions_meets_a_state_in_each() -> None:
    topology = TridentTopology()
    held = static(topology)
    asked = topology.newDRPCStream("ask").broadcast().parallelismHint(2)
    asked.stateQuery(held, TupleCollectionGet(), "w, c").project("w, c")
    with ran(topology) as running:
        assert [tuple(row) for row in running.drpc.execute("ask", "any")] == [("x", 1)] * 2


@conforms("drpc-static-state")
def test_a_state_that_nobody_writes(case: Case) -> None:
    topology = TridentTopology()
    held = topology.newStaticState({"x": 1, "y": 2}, keyFields="k string", valueType="long")
    topology.newStream("s", FixedBatchSpout("n long", [])).persistentAggregate(MemoryMapState.opaque(), Count(), "n")
    topology.newDRPCStream("ask").stateQuery(held, "args", MapGet(), "v")
    assert answers(case, topology) == expected(case)


class Spelled(QueryFunction):
    """Emits every letter of a word; counts how often the state is asked."""

    outputType = "string"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        self.asked.append(len(args))
        return state.multiGet([arg.w for arg in args])

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        for letter in tuple.w:
            if letter != "-":
                collector.emit([letter])


class Short(Spelled):
    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return []


def static(topology: TridentTopology) -> TridentState:
    topology.newStream("s", FixedBatchSpout("n long", [])).persistentAggregate(MemoryMapState.opaque(), Count(), "n")
    return topology.newStaticState({"x": 1}, keyFields="k string", valueType="long")


@conforms("query-result-size")
def test_a_query_function_that_forgets_a_tuple_is_told_so(case: Case) -> None:
    topology = TridentTopology()
    asking(topology).stateQuery(static(topology), "w", Short(), "c")
    with raises(case, UserFunctionError, r"Short \(test_drpc.py:\d+\) returned 0 results for 1 tuple"):
        answers(case, topology)


@conforms("query-multi-emit")
def test_what_a_query_function_emits_is_appended_and_it_is_asked_once(case: Case) -> None:
    topology, spelled = TridentTopology(), Spelled()
    asking(topology).stateQuery(static(topology), "w", spelled, "c").project("w, c")
    assert answers(case, topology) == expected(case)
    assert spelled.asked == [3], "once a batch of tuples"


def test_a_query_function_is_not_asked_for_nothing() -> None:
    topology, spelled = TridentTopology(), Spelled()
    asking(topology).stateQuery(static(topology), "w", spelled, "c").project("w, c")
    with ran(topology) as running:
        assert running.drpc.execute("ask", "") == []
    assert spelled.asked == []


@conforms("drpc-batch-mix", differs=True)
def test_requests_and_batches_do_not_mix(case: Case) -> None:
    """Told where it is written, and not when the topology is built."""
    topology = TridentTopology()
    batches = topology.newStream("s", FixedBatchSpout("args string", []))
    requests = topology.newDRPCStream("ask")
    mixes: list[Callable[[], object]] = [
        lambda: topology.merge(requests, batches),
        lambda: topology.join([batches, requests], ["args", "args"]),
        lambda: requests.merge(batches),
    ]
    for mix in mixes:
        with raises(case, TopologyError, r"DRPC"):
            mix()


# --- what Trident does by accident -----------------------------------------------------------------------------------


def test_two_leaves_are_two_answers_and_refused() -> None:
    """In Trident the one that was made last is the answer."""
    topology = TridentTopology()
    asked = topology.newDRPCStream("ask")
    asked.each("args", len, "n int")
    asked.project("args")
    static(topology)
    with pytest.raises(TopologyError, match=r"'ask' has 2 answers"), ran(topology):
        pass


def test_a_request_writes_no_state() -> None:
    """In Trident such a topology cannot be submitted."""
    asked = TridentTopology().newDRPCStream("ask")
    with pytest.raises(TopologyError, match="requests cannot update a state"):
        asked.partitionPersist(MemoryMapState.opaque(), lambda *_: None, valueType="long", name="held")
    with pytest.raises(TopologyError, match="requests cannot update a state"):
        asked.groupBy("args").persistentAggregate(MemoryMapState.opaque(), Count(), "n")


def test_a_state_without_keys_and_a_removed_key_are_not_among_a_states_entries() -> None:
    """Trident lists nulls of removed keys, and the global value among the others."""

    def forget(state: Any, tuples: Any, collector: Any) -> None:
        state.multiPut([t.w for t in tuples], [1] * len(tuples))
        state.multiRemove([t.w for t in tuples if t.w == "elm"])

    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout("w string", [["oak", "elm"]]))
    held = words.partitionPersist(MemoryMapState.opaque(), forget, keyFields="w", valueType="long", name="held")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="total")
    topology.newDRPCStream("ask").stateQuery(held, TupleCollectionGet(), "w, one").project("w, one")
    with ran(topology) as running:
        assert [tuple(row) for row in running.drpc.execute("ask", "any")] == [("oak", 1)]
