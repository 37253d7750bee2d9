"""The promise for every pair of spout and state, beside the one of Storm's Trident."""

import pytest

from tests.support.topologies import DeclaredSpout, DeclaredState, node
from trident import Count, MapGet, TridentTopology
from trident.errors import GuaranteeError
from trident.plan.guarantee import Promise, check_exactly_once, guarantee_of, guarantees
from trident_spouts.executor import SpoutKind
from trident_state.state_shape import StateKind

TX, OPAQUE, PLAIN = SpoutKind.TRANSACTIONAL, SpoutKind.OPAQUE, SpoutKind.NON_TRANSACTIONAL


def topology_of(state: DeclaredState, *kinds: SpoutKind) -> TridentTopology:
    topology = TridentTopology()
    streams = [topology.newStream(f"s{at}", DeclaredSpout(kind)) for at, kind in enumerate(kinds)]
    merged = streams[0] if len(streams) == 1 else topology.merge(*streams)
    merged.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    return topology


ADDED = "not exactly-once: a replayed batch is added again"
SKIPPED = "not exactly-once: a replay with other tuples is skipped"
OTHER = "not exactly-once: a failed batch is not replayed as it was"
HOLE = "exactly-once, except for keys that only a failed attempt touched"


@pytest.mark.parametrize(
    ("spout", "state", "promise", "trident"),
    [
        (TX, StateKind.TRANSACTIONAL, Promise.EXACTLY_ONCE, "exactly-once"),
        (TX, StateKind.OPAQUE, Promise.EXACTLY_ONCE, "exactly-once"),
        (TX, StateKind.NON_TRANSACTIONAL, Promise.AT_LEAST_ONCE, ADDED),
        (OPAQUE, StateKind.TRANSACTIONAL, Promise.EXACTLY_ONCE, SKIPPED),
        (OPAQUE, StateKind.OPAQUE, Promise.EXACTLY_ONCE, HOLE),
        (OPAQUE, StateKind.NON_TRANSACTIONAL, Promise.AT_LEAST_ONCE, ADDED),
        (PLAIN, StateKind.TRANSACTIONAL, Promise.BATCHES_ONCE, OTHER),
        (PLAIN, StateKind.OPAQUE, Promise.BATCHES_ONCE, OTHER),
        (PLAIN, StateKind.NON_TRANSACTIONAL, Promise.NOTHING, OTHER),
    ],
)
def test_nine_cells(spout: SpoutKind, state: StateKind, promise: Promise, trident: str) -> None:
    (guarantee,) = guarantees(topology_of(DeclaredState(state), spout).sinks)
    assert (guarantee.promise, guarantee.trident, guarantee.spouts) == (promise, trident, (("s0", spout),))
    assert guarantee.exactlyOnce == (promise is Promise.EXACTLY_ONCE)


def test_the_weakest_of_several_spouts_decides() -> None:
    for kinds in ((TX, PLAIN), (OPAQUE, PLAIN), (PLAIN, TX, OPAQUE)):
        assert guarantees(topology_of(DeclaredState(), *kinds).sinks)[0].promise is Promise.BATCHES_ONCE
    guarantee = guarantees(topology_of(DeclaredState(StateKind.TRANSACTIONAL), TX, OPAQUE).sinks)[0]
    assert (guarantee.promise, guarantee.trident[:16]) == (Promise.EXACTLY_ONCE, "not exactly-once")


def test_a_store_without_a_conditional_put_is_exact_on_conditions() -> None:
    topology = topology_of(DeclaredState(fenced=False), TX)
    (guarantee,) = guarantees(topology.sinks)
    assert not guarantee.exactlyOnce
    assert (
        str(guarantee) == "exactly-once, only while one driver lives and the store loses nothing: it has no "
        "conditional put"
    )
    assert (
        guarantees(topology_of(DeclaredState(StateKind.NON_TRANSACTIONAL, fenced=False), TX).sinks)[0].condition == ""
    )


def test_a_state_behind_new_values_hangs_on_the_same_spouts() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", DeclaredSpout(OPAQUE))
    counts = words.groupBy("word").persistentAggregate(DeclaredState(), Count(), "count")
    total = counts.newValuesStream(everyChange=True).persistentAggregate(DeclaredState(), Count(), "keys", name="keys")
    assert guarantee_of(node(total)).spouts == (("words", OPAQUE),)


def test_a_state_of_values_of_a_weaker_state_depends_on_it() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", DeclaredSpout(OPAQUE))
    weak = words.groupBy("word").persistentAggregate(
        DeclaredState(StateKind.NON_TRANSACTIONAL), Count(), "count", name="weak"
    )
    behind = weak.newValuesStream(everyChange=True).persistentAggregate(DeclaredState(), Count(), "n", name="behind")
    asking = words.stateQuery(weak, "word", MapGet(), "known")
    asked = asking.persistentAggregate(DeclaredState(), Count(), "n", name="asked")
    for state in (behind, asked):
        guarantee = guarantee_of(node(state))
        assert str(guarantee) == "exactly-once, for the values of weak, which is nonTransactional"
        assert not guarantee.exactlyOnce
    with pytest.raises(GuaranteeError, match=r"behind \(.*\): .*; make those states transactional or opaque"):
        check_exactly_once(topology)


def test_requiring_exactly_once_names_every_weaker_state_and_its_way_out() -> None:
    check_exactly_once(topology_of(DeclaredState(), TX))
    topology = topology_of(DeclaredState(StateKind.NON_TRANSACTIONAL), TX)
    topology.newStream("p", DeclaredSpout(PLAIN)).persistentAggregate(DeclaredState(), Count(), "n", name="some")
    topology.newStream("q", DeclaredSpout(TX)).persistentAggregate(
        DeclaredState(fenced=False), Count(), "n", name="own"
    )
    with pytest.raises(GuaranteeError) as raised:
        check_exactly_once(topology)
    lines = [line.partition(": ") for line in str(raised.value).splitlines()[1:]]
    assert [line[0] for line in lines] == [
        "  counts (nonTransactional, DeclaredState) from s0 (transactional)",
        "  some (opaque, DeclaredState) from p (nonTransactional)",
        "  own (opaque, DeclaredState) from q (transactional)",
    ]
    assert [line[2].rpartition("; ")[2] for line in lines] == [
        "make the state transactional or opaque",
        "use a transactional or opaque spout",
        "use a store of this library, or a BackingMap with a conditional put",
    ]
