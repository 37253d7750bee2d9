"""Map logics: what a batch makes of a stored value.

Trident's maps are told when a batch begins and ends; ours know by the map's own entry. A batch that "fails after the
state write" has written its keys and not its end. What comes then, in another attempt, has other content here, as in
Trident; in a topology it never has, because it was frozen (`test_guarantees.py`).
"""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.kit import CASES, Case, conforms, ran
from tests.conformance.maps import LEASE, PUT, Fragile, MapAtHand
from trident import Count, MapGet, Sum, TridentTopology, TupleCollectionGet
from trident.base.errors import FailedException, StateCorruptError
from trident.spouts import FixedBatchSpout
from trident.state import CombinerValueUpdater, MemoryMapState, NonTransactionalMap, RemovableMapState
from trident.testing.local import start_local
from trident_state.backing.protocol import META
from trident_state.records.triples import Triples
from trident_state.state_shape import StateKind

OPAQUE, TRANSACTIONAL, PLAIN = StateKind.OPAQUE, StateKind.TRANSACTIONAL, StateKind.NON_TRANSACTIONAL


@conforms("map-opaque-table", differs=True)
def test_an_opaque_value_begins_at_prev_where_its_batch_comes_again(case: Case) -> None:
    """A batch of an earlier txid is not applied; where the state's end was lost too, that is an error."""
    first, again, later, behind = case.expected["after_each"]
    state = MapAtHand(OPAQUE, before=4)
    state.broken_off(5, {"a": 10})
    assert state.stored("a") == _without(first, "returned")
    assert state.values(5, {"a": 3}) == {"a": again["returned"]}
    assert state.stored("a") == _without(again, "returned")
    state.untouched(6)
    then = state.entries[META]
    state.untouched(7, 8)
    assert state.values(9, {"a": 1}) == {"a": later["returned"]}
    assert state.stored("a") == _without(later, "returned")
    assert "behind" in behind["error"]
    assert state.store().apply(*_batch(state, 7, 100)).written == 0
    assert state.stored("a") == behind["stored_unchanged"]
    state.rewound(then)
    with pytest.raises(StateCorruptError, match=r"batch 7"):
        state.update(7, {"a": 100})
    assert state.stored("a") == behind["stored_unchanged"]


def _without(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


def _batch(state: MapAtHand, txid: int, value: int) -> tuple[Any, Any]:
    return LEASE, state._of(txid, {"a": value})


def test_a_transactional_value_stays_where_its_batch_comes_again() -> None:
    state = MapAtHand(TRANSACTIONAL, before=4)
    state.broken_off(5, {"a": 10})
    assert state.values(5, {"a": 3, "b": 2}) == {"a": 10, "b": 2}, "what was not written is"
    assert state.values(6, {"a": 1}) == {"a": 11}
    assert state.records() == {("a",): {"txid": 6, "value": 11}, ("b",): {"txid": 5, "value": 2}}


@conforms("map-nontransactional-table", differs=True)
def test_a_nontransactional_value_counts_whatever_comes(case: Case) -> None:
    """Of any txid that comes; an earlier one does not come any more, and none comes without a txid."""
    state = MapAtHand(PLAIN, before=4)
    state.broken_off(5, {"a": 10})
    found = [state.read("a")]
    found += [state.values(5, {"a": 3})["a"]]
    state.untouched(6, 7, 8)
    found += [state.values(9, {"a": 1})["a"]]
    assert found == case.expected["values"][:3]
    assert state.store().apply(*_batch(state, 7, 100)).written == 0
    stored = Triples.bare(pa.array([found[-1]]))
    for txid in (5, 7, 9, 40):  # the rule itself asks for no txid
        turn = NonTransactionalMap.turn(stored, txid)
        assert turn.rows.all() and turn.base == stored.values
    assert state.stored("a") == {"value": 14}


@conforms("opaque-txid-gap")
def test_batches_that_do_not_touch_a_key_leave_it_alone(case: Case) -> None:
    state = MapAtHand(OPAQUE, before=2)
    state.update(3, {"a": 4})
    state.untouched(*range(4, 40))
    state.update(40, {"a": 1})
    assert state.stored("a") == case.expected["stored"]


# --- puts ----------------------------------------------------------------------------------------------------------


@conforms("map-multiput", differs=True)
@pytest.mark.parametrize("kind", [OPAQUE, TRANSACTIONAL], ids=lambda kind: kind.value)
def test_a_put_takes_the_place_of_what_is_there(case: Case, kind: StateKind) -> None:
    """At the map, then through an updater of a topology. A transactional map keeps what its batch wrote before."""
    expected = case.expected[kind.value]
    state = MapAtHand(kind, before=21)
    state.put_off(22, {"e": 60})
    assert state.stored("e") == expected[0]
    state.update(22, {"e": 61}, PUT)
    kept = {"txid": 22, "value": 60}
    assert state.stored("e") == (expected[1] if kind is OPAQUE else kept)
    state.update(23, {"e": None}, PUT)
    assert state.stored("e") == expected[2]
    state.update(24, {"e": 4})
    assert state.stored("e") == expected[3]


@pytest.mark.parametrize("kind", [OPAQUE, TRANSACTIONAL], ids=lambda kind: kind.value)
def test_the_last_put_of_a_batch_stays_and_a_null_is_nothing(kind: StateKind, tmp_path: Path) -> None:
    """The same through an updater: txids 22, 23 and 24 are 1, 2 and 3 here."""
    home, seen = Fragile(kind, times=0), []

    def update(state: RemovableMapState, tuples: Any, collector: Any) -> None:
        for t in tuples:
            if t.n is None or t.n >= 60:
                state.multiPut(["e"], [t.n])
            else:
                state.multiUpdate(["e"], [CombinerValueUpdater(Sum(), t.n)])
        seen.append(state.multiGet(["e"]))

    def after(batches: list[Any]) -> Any:
        topology = TridentTopology()
        puts = topology.newStream("s", FixedBatchSpout("n long", batches))
        puts.partitionPersist(home.state, update, keyFields="k string", valueType="long", name="held")
        with ran(topology, tmp_path):
            return home.records("k string", "long")[("e",)]

    batches: list[Any] = [[60, 61], [None], [4]]
    found = [after(batches[:upto]) for upto in (1, 2, 3)]
    assert seen == [[61], [None], [4]]
    expected = CASES["map-multiput"].expected[kind.value]
    assert found == [{**given, "txid": given["txid"] - 21} for given in expected[1:]]


# --- reads ---------------------------------------------------------------------------------------------------------


@conforms("map-query-outside-commit", differs=True)
def test_a_query_sees_what_is_committed_and_the_newest_where_it_is_asked_for(case: Case) -> None:
    state = MapAtHand(OPAQUE, before=4)
    state.update(5, {"a": 3})
    state.untouched(6, 7, 8)
    state.broken_off(9, {"a": 1})
    assert state.read("a", asOf=None) == case.expected["query_result"]
    assert state.read("a", asOf=8) == 3


def test_while_a_commit_waits_for_its_store_queries_see_what_is_committed(tmp_path: Path) -> None:
    home = Fragile(OPAQUE, times=10_000)
    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout("k string, n long", [[("a", 3)], [("a", 1)]]))
    sums = words.groupBy("k").persistentAggregate(home.state, "n", Sum(), "sum", name="sums")
    topology.newDRPCStream("ask").stateQuery(sums, "args", MapGet(), "sum")
    with start_local(topology, name="conformance", checkpointLocation=tmp_path) as running:
        while home.broken is None:
            time.sleep(0.001)
        assert running.state("sums")["a"] == 3
        assert [tuple(row) for row in running.drpc.execute("ask", "a")] == [("a", 3)]
        assert running.state("sums", isolation="latest")["a"] == 4
        home.times = 0
        running.processAllAvailable(timeout=30)
        assert running.state("sums")["a"] == 4


# --- removal -------------------------------------------------------------------------------------------------------


@conforms("map-remove-lifecycle", differs=True)
def test_a_removed_key_is_gone_for_everybody_and_back_for_the_replay(case: Case) -> None:
    """Entries that are gone are not listed; when their room is taken back nobody can see."""
    during, replayed = case.expected["during_2"], case.expected["start_of_replay_2"]
    seen: list[Any] = []

    def update(state: Any, tuples: Any, collector: Any) -> None:
        puts = {t.k: t.n for t in tuples if t.n is not None}
        removed = [t.k for t in tuples if t.n is None]
        seen.append(state.multiGet(["a"])[0])
        state.multiPut(list(puts), list(puts.values()))
        state.multiRemove(removed)
        if removed:
            seen.append((state.multiGet(["a"])[0], sorted(state.getTuples())))
            if len(seen) == 3:
                raise FailedException("the batch is tried again")

    topology = TridentTopology()
    rows = [[("a", 1), ("b", 2)], [("a", None)], [("b", 3)]]
    held = topology.newStream("s", FixedBatchSpout("k string, n long", rows)).partitionPersist(
        MemoryMapState.opaque(), update, keyFields="k", valueType="long", name="held"
    )
    topology.newDRPCStream("dump").stateQuery(held, TupleCollectionGet(), "k, n").project("k, n")
    with ran(topology) as running:
        assert dict(running.state("held").items()) == {"b": 3}
        assert [tuple(row) for row in running.drpc.execute("dump", "x")] == [("b", 3)]
    listed = [tuple(row) for row in during["tuples"] if row[1] is not None]
    there = (during["get a"], listed)
    assert seen == [None, replayed["get a"], there, replayed["get a"], there, None]


def test_a_put_after_a_removal_in_one_batch_stays() -> None:
    """Trident loses it: the key stands on its list of removals."""

    def update(state: RemovableMapState, tuples: Any, collector: Any) -> None:
        state.multiRemove([t.k for t in tuples])
        state.multiPut([t.k for t in tuples], [t.n for t in tuples])

    topology = TridentTopology()
    rows = [[("a", 1)], [("a", 2)], [("b", 3)]]
    topology.newStream("s", FixedBatchSpout("k string, n long", rows)).partitionPersist(
        MemoryMapState.opaque(), update, keyFields="k", valueType="long", name="held"
    )
    with ran(topology) as running:
        assert dict(running.state("held").items()) == {"a": 2, "b": 3}


# --- caches, one global value --------------------------------------------------------------------------------------


class Elsewhere:
    """A store that others write too; notes what it is asked."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def multiGet(self, keys: Any) -> list[Any]:
        return [self.entries.get(key[0]) for key in keys]


@conforms("cachedmap-negative-and-lru", differs=True)
def test_no_cache_hides_what_a_store_holds(case: Case) -> None:
    store = Elsewhere()
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout("n long", [])).persistentAggregate(MemoryMapState.opaque(), Count(), "n")
    held = topology.newStaticState(store, keyFields="k string", valueType="string")
    topology.newDRPCStream("get").flatMap("args", str.split, "k string").stateQuery(held, "k", MapGet(), "v")
    with start_local(topology, name="conformance") as running:

        def get(keys: str) -> list[Any]:
            return [row.v for row in running.drpc.execute("get", keys)]

        missing = get("q")
        store.entries["q"] = "ext"
        reads = [*missing, *get("q"), get("r s"), *get("q")]
    assert reads == [None, "ext", [None, None], "ext"]
    assert case.expected["reads"] == [None, None, [None, None], "ext"], "what Trident serves"


@conforms("snapshot-fixed-key", differs=True)
def test_a_state_without_keys_is_one_value_under_no_key(case: Case) -> None:
    topology = TridentTopology()
    numbers = topology.newStream("s", case.spout("n long"))
    total = numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="total")
    topology.newDRPCStream("dump").stateQuery(total, TupleCollectionGet(), "count").project("count")
    with ran(topology) as running:
        assert running.state("total").value == case.expected["get"]
        assert dict(running.state("total").items()) == {(): 4}
        ((*reserved, dumped),) = [tuple(row) for row in running.drpc.execute("dump", "x")]
        assert (reserved, dumped) == ([], case.expected["dump"][0][1])
