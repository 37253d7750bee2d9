"""merge, join and multiReduce of a topology: their fields, and wrong calls."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, node, stream
from trident import Count, JoinOutFieldsMode, JoinType, Stream, TridentTopology
from trident.errors import DuplicateFieldError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.plan.traits import summary_of

INNER, OUTER = JoinType.INNER, JoinType.OUTER


@pytest.fixture
def topology() -> TridentTopology:
    return TridentTopology()


@pytest.fixture
def streams(topology: TridentTopology) -> list[Stream]:
    return [stream(f"k{at} long, v{at} string", f"s{at}", topology) for at in range(3)]


def fails(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises(TopologyError) as raised:
        call()
    assert "called at test_topology_joins.py:" in str(raised.value)
    return type(raised.value), str(raised.value)


KEYS = ["k0", "k1", "k2"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"joinType": "left"},
            "s0-s1-s2/0:join(k0): joinType='left' needs two streams, not 3: pass a list with a JoinType for each, "
            "such as [INNER, OUTER, OUTER]",
        ),
        (
            {"joinType": "iner"},
            "unknown joinType 'iner'; expected 'inner', 'left', 'right', 'full', or a list of JoinType.INNER or "
            "JoinType.OUTER for each stream; did you mean 'inner'?",
        ),
        ({"joinType": [INNER, OUTER]}, "joinType lists 2 JoinTypes for 3 streams"),
        (
            {"joinType": [INNER, "left", OUTER]},
            "joinType 'inner', 'left', 'right', 'full' or a list of JoinTypes, not [<JoinType.INNER: 'inner'>",
        ),
        ({"joinType": None}, "joinType 'inner', 'left', 'right', 'full' or a list of JoinTypes, not None"),
        (
            {"mode": "preserved"},
            "unknown mode 'preserved'; expected 'compact' or 'preserve'; did you mean 'preserve'?",
        ),
        ({"mode": 1}, "unknown mode 1; expected 'compact' or 'preserve'"),
        (
            {"mode": "preserve", "outputFields": "k, a, b, c"},
            "outputFields names 4 fields (k, a, b, c) for 6: (k0 bigint, v0 string, k1 bigint, v1 string, k2 bigint, ",
        ),
    ],
)
def test_a_wrong_join(topology: TridentTopology, streams: list[Stream], given: dict[str, Any], says: str) -> None:
    kind, message = fails(lambda: topology.join(streams, KEYS, **given))
    assert kind is TopologyError
    assert says in message


def test_a_join_as_pyspark_or_storm_writes_it_is_led_here(topology: TridentTopology) -> None:
    a, b = stream("k long, x string", "a", topology), stream("k long, y string", "b", topology)
    message = fails(lambda: a.join(b, "k", "left_outer"))[1]
    assert (
        "a-b/0:join(k): 'left_outer' is in the position of outputFields; write joinType='left', or ['left_outer']"
        in message
    )
    message = fails(lambda: a.join(b, "k", joinType="left_outer"))[1]
    assert "unknown joinType 'left_outer'; expected" in message and "did you mean 'left'?" in message
    message = fails(lambda: topology.join(a, "k", b, "k"))[1]  # type: ignore[arg-type]
    assert "join: pass its streams as one list, [Stream(a/0:newStream(" in message
    message = fails(lambda: topology.multiReduce(a, "k", b, "k"))[1]  # type: ignore[arg-type]
    assert "multiReduce: pass its streams as one list, [Stream(a/0" in message
    state = a.groupBy("k").persistentAggregate(DeclaredState(), Count(), "n")
    assert "is not a stream; use its newValuesStream()" in fails(lambda: a.merge(state))[1]  # type: ignore[arg-type]
    assert a.join(b.project("k"), "k", ["left", "x"]).fields == ("left", "x")


def test_names_that_meet_in_preserved_fields_ask_for_others(topology: TridentTopology) -> None:
    a, b = stream("k long, x string", "a", topology), stream("k long, y string", "b", topology)
    kind, message = fails(lambda: a.join(b, "k", mode="preserve"))
    assert kind is DuplicateFieldError
    assert "a-b/0:join(k): field 'k' is given twice in (k, x, k, y); name the fields with outputFields" in message


def test_maps_are_no_keys(topology: TridentTopology) -> None:
    a, b = stream("k map<string,int>", "a", topology), stream("k map<string,int>", "b", topology)
    kind, message = fails(lambda: a.join(b, "k"))
    assert kind is TypeDeclarationError
    assert "field 'k' is map<string,int>: maps cannot be compared" in message


def test_types_and_modes_are_written_in_more_than_one_way(topology: TridentTopology, streams: list[Stream]) -> None:
    a, b, _ = streams
    same: list[Any] = ["left", [INNER, OUTER], ("inner", "outer")]
    assert {node(topology.join([a, b], ["k0", "k1"], joinType=kind)).outer for kind in same} == {(False, True)}
    for kind in (OUTER, "full", "outer"):
        assert node(topology.join(streams, KEYS, joinType=kind)).outer == (True, True, True)
    for mode in (JoinOutFieldsMode.PRESERVE, "preserve"):
        made = topology.join(streams, KEYS, "a, b, c, d, e, f", [INNER, OUTER, INNER], mode)
        assert made.fields == ("a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize(
    ("kind", "mode", "says"),
    [
        ("inner", "compact", "on (k0) = (k1), within ONE batch"),
        ("left", "compact", "left on (k0) = (k1), within ONE batch"),
        ("right", "preserve", "right on (k0) = (k1), all fields kept, within ONE batch"),
        ("full", "compact", "full on (k0) = (k1), within ONE batch"),
    ],
)
def test_a_join_explains_itself(streams: list[Stream], kind: str, mode: str, says: str) -> None:
    made = streams[0].join(streams[1], "k0", otherKeys="k1", joinType=kind, mode=mode)
    assert summary_of(node(made)) == says
    assert says in made.draw("mermaid")


def test_a_join_of_many_says_who_may_be_missing(topology: TridentTopology, streams: list[Stream]) -> None:
    made = topology.join(streams, KEYS, joinType=[INNER, OUTER, INNER])
    assert summary_of(node(made)) == "inner, outer, inner on (k0) = (k1) = (k2), within ONE batch"


def test_a_wrong_source_field(topology: TridentTopology, streams: list[Stream]) -> None:
    a, b, _ = streams
    kind, message = fails(lambda: a.merge(b, sourceField="v0"))
    assert kind is DuplicateFieldError
    assert "s0-s1/0:merge: output field 'v0' is already a field of the merge: (k0 bigint, v0 string)" in message
    message = fails(lambda: a.merge(b, sourceField=True))[1]  # type: ignore[arg-type]
    assert "sourceField is the name of one more field, such as 'source', not True" in message
    assert a.merge(b, sourceField="from").fields == ("k0", "v0", "from")


# --- multiReduce ---------------------------------------------------------------------------------------------------


class Reducer:
    outputType = "long"

    def init(self, collector: Any) -> Any: ...

    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None: ...

    def complete(self, state: Any, collector: Any) -> None: ...


class Grouped:
    def init(self, collector: Any, group: Any) -> Any: ...

    def execute(self, state: Any, streamIndex: int, group: Any, tuple: Any, collector: Any) -> None: ...

    def complete(self, state: Any, group: Any, collector: Any) -> None: ...


Reduce = Callable[[TridentTopology, Stream, Stream], object]

WRONG: list[tuple[Reduce, type[TopologyError], str]] = [
    (
        lambda t, a, b: t.multiReduce([a, b], ["k0", "v0"], Reducer(), "n long"),
        FieldNotFoundError,
        "s0-s1/0:multiReduce(Reducer): no field 'v0' in stream 2; the fields are (k1 bigint, v1 string) [",
    ),
    (
        lambda t, a, b: t.multiReduce([a, b], ["k0"], Reducer(), "n long"),
        TopologyError,
        "multiReduce of 2 streams needs the input fields of each, [fields1, fields2], or None for all fields, not ",
    ),
    (
        lambda t, a, b: t.multiReduce([a], None, Reducer(), "n"),
        TopologyError,
        "a multiReduce needs at least two streams",
    ),
    (
        lambda t, a, b: t.multiReduce([a.groupBy("k0"), b], None, Grouped(), "n long"),  # type: ignore[list-item]
        TopologyError,
        "is not grouped, but other streams are: group all streams, or none",
    ),
    (
        lambda t, a, b: t.multiReduce([a.groupBy("k0"), b.groupBy("v1")], None, Grouped(), "n long"),
        TypeDeclarationError,
        "the keys have different types: (k0 bigint) and (v1 string); make the types equal",
    ),
    (
        lambda t, a, b: t.multiReduce([a.groupBy("k0"), b.groupBy("k1, v1")], None, Grouped(), "n long"),
        TopologyError,
        "the streams have 1 and 2 keys, ('k0',) and ('k1', 'v1')",
    ),
    (
        lambda t, a, b: t.multiReduce([a, b], None, Grouped(), "n long"),  # type: ignore[arg-type]
        TopologyError,
        "init(collector: Any, group: Any) takes the wrong arguments: it is called with (collector), because the "
        "streams are not "
        "grouped",
    ),
    (
        lambda t, a, b: t.multiReduce([a.groupBy("k0"), b.groupBy("k1")], None, Reducer(), "n long"),  # type: ignore[arg-type]
        TopologyError,
        "init(collector: Any) takes the wrong arguments: it is called with (collector, group), because the "
        "streams are grouped",
    ),
    (
        lambda t, a, b: t.multiReduce([a, b], None, Reducer, "n long"),  # type: ignore[arg-type]
        TopologyError,
        "Reducer is a class; give an instance of it, Reducer()",
    ),
    (
        lambda t, a, b: t.multiReduce([a, b], None, len, "n long"),  # type: ignore[arg-type]
        TopologyError,
        "function 'len' is not a MultiReducer: give an object with init(collector), execute(state, streamIndex, tuple, "
        "collector), complete(state, collector)",
    ),
    (
        lambda t, a, b: t.multiReduce([a.groupBy("k0"), b.groupBy("k1")], None, Grouped(), "n, m long"),
        TypeDeclarationError,
        "the type of output field 'n' is not declared: write it with the field, such as 'n string', or",
    ),
    (
        lambda t, a, b: t.multiReduce([a, b], None, Reducer(), "n, m"),
        TypeDeclarationError,
        "its outputType 'long' has 1 types for 2 output fields",
    ),
]


@pytest.mark.parametrize(("make", "error", "says"), WRONG)
def test_a_wrong_multi_reduce(
    topology: TridentTopology, streams: list[Stream], make: Reduce, error: type[TopologyError], says: str
) -> None:
    with pytest.raises(TopologyError) as raised:
        make(topology, *streams[:2])
    assert says in str(raised.value)
    assert type(raised.value) is error
    assert "called at test_topology_joins.py:" in str(raised.value)


def test_a_multi_reduce_explains_itself(topology: TridentTopology, streams: list[Stream]) -> None:
    plain = topology.multiReduce(streams, None, Reducer(), "n")
    assert repr(plain) == "Stream(s0-s1-s2/0:multiReduce(Reducer): n bigint)"
    assert summary_of(node(plain)) == "by partition, within ONE batch"
    grouped = topology.multiReduce(
        [streams[0].groupBy("k0, v0"), streams[1].groupBy("k1, v1")], [[], "v1"], Grouped(), "n long"
    )
    assert summary_of(node(grouped)) == "by (k0, v0) = (k1, v1), within ONE batch"
    box = '{{"multiReduce(Grouped)<br/>n bigint<br/>by (k0, v0) = (k1, v1), within ONE batch"}}'
    assert box in grouped.draw("mermaid")
    requests = topology.newDRPCStream("ask")
    message = fails(lambda: topology.multiReduce([streams[0], requests], None, Reducer(), "n"))[1]
    assert "cannot combine requests of DRPC function 'ask' with batches of s0" in message
