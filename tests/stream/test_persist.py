"""Reducers, partitionPersist, newStaticState and queries of them: their nodes, and wrong calls."""

import datetime
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, node, stream
from trident import Count, MapGet, SnapshotGet, TridentTopology, TupleCollectionGet
from trident.base.errors import (
    DuplicateFieldError,
    DuplicateNameError,
    FieldNotFoundError,
    TopologyError,
    TypeDeclarationError,
)
from trident.base.spark_types import ddl
from trident.plan import nodes
from trident.state import MemoryMapState
from trident_state.state_shape import StateKind

STATE = DeclaredState()


class Longest:
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, tuple: Any) -> str:
        return max(curr, tuple.word, key=len)


class Untyped:
    def init(self):  # type: ignore[no-untyped-def]
        return ""

    def reduce(self, curr, tuple):  # type: ignore[no-untyped-def]
        return curr


def keep(state: Any, tuples: Any, collector: Any) -> None: ...


class Keeper:
    keyFields = "word"
    valueType = "date"
    outputType = "string, long"

    def updateState(self, state: Any, tuples: Any, collector: Any) -> None: ...


class Ask:
    outputType = "long"

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return state.multiGet([(arg.word,) for arg in args])

    def execute(self, tuple: Any, result: Any, collector: Any) -> None: ...


# --- reducers -----------------------------------------------------------------------------------------------------


def test_a_reducer_makes_a_state_of_its_own_type() -> None:
    words = stream("word string, n long")
    state = words.groupBy("n").persistentAggregate(STATE, "word", Longest(), "longest")
    assert str(state) == "TridentState('lines.longest': n bigint, longest string; opaque)"
    assert isinstance(node(state), nodes.PersistentReduce)
    assert ddl(state.newValuesStream().schema) == "n bigint, longest string"
    single = words.persistentAggregate(STATE, "word", Untyped(), "longest string", name="single")
    assert ddl(single.schema) == "longest string"


def test_a_reducer_whose_type_nobody_tells_is_refused_with_what_to_write() -> None:
    with pytest.raises(
        TypeDeclarationError,
        match=r"'longest'.*'longest long'.*outputType, or annotate the return "
        r"type of init\(\)",
    ):
        stream("word string").persistentAggregate(STATE, Untyped(), "longest")


def test_a_reducer_that_takes_other_arguments_is_refused() -> None:
    class Wrong:
        def init(self, tuple: Any) -> int:
            return 0

        def reduce(self, curr: int, tuple: Any) -> int:
            return 0

    with pytest.raises(
        TopologyError, match=r"init\(tuple.*\) takes the wrong arguments: init is called without arguments"
    ):
        stream("word string").persistentAggregate(STATE, Wrong(), "n")
    with pytest.raises(TopologyError, match=r"Longest is a class; give an instance of it, Longest\(\)"):
        stream("word string").persistentAggregate(STATE, Longest, "n")
    with pytest.raises(TopologyError, match="returns one field, not 2"):
        stream("word string").persistentAggregate(STATE, Longest(), "a, b")


# --- partitionPersist ---------------------------------------------------------------------------------------------


def test_what_the_state_holds_is_read_from_the_call_the_stream_or_the_updater() -> None:
    words = stream("word string, day date")
    by_call = words.partitionPersist(STATE, keep, keyFields="word, at timestamp", valueType="map<string,int>", name="a")
    assert ddl(by_call.schema) == "word string, at timestamp, value map<string,int>"
    by_updater = words.partitionPersist(STATE, "word", Keeper(), "old, n", name="b")
    assert ddl(by_updater.schema) == "word string, value date"
    assert ddl(by_updater.newValuesStream().schema) == "old string, n bigint"
    assert node(by_updater).inputs == ("word",)
    one = words.partitionPersist(STATE, updater=keep, inputFields="day", valueType="long", name="c")
    assert ddl(one.schema) == "value bigint" and node(one).inputs == ("day",)


def test_new_values_are_one_stream_however_often_it_is_asked_for() -> None:
    state = stream("word string").partitionPersist(STATE, Keeper(), "old, n", name="b")
    assert node(state.newValuesStream()) is node(state.newValuesStream())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"valueType": "long"}, TopologyError, "the state needs a name, its identity over restarts"),
        ({"name": "a"}, TypeDeclarationError, "the type of the state's values is not declared: pass valueType='long'"),
        ({"name": "a", "valueType": "lung"}, TypeDeclarationError, "valueType='lung' is not a type"),
        ({"name": "a", "valueType": 3}, TypeDeclarationError, "valueType=3 is not a type"),
        (
            {"name": "a", "valueType": "long", "keyFields": "wort"},
            FieldNotFoundError,
            r"key field 'wort' has no type: .*'wort string'; the fields are \(word string\); did you mean 'word'",
        ),
        (
            {"name": "a", "valueType": "long", "keyFields": "value long"},
            DuplicateFieldError,
            "'value' is already a field of the key",
        ),
        (
            {"name": "a", "valueType": "long", "keyFields": "m map<string,int>"},
            TypeDeclarationError,
            "field 'm' is map<string,int>: maps cannot be compared",
        ),
        ({"name": "a/b", "valueType": "long"}, TopologyError, "cannot be named 'a/b'"),
        (
            {"name": "a", "valueType": "long", "outputFields": "x"},
            TypeDeclarationError,
            "'x' is not declared: .*'x string'",
        ),
    ],
)
def test_what_a_state_lacks_is_said_with_what_to_write(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"lines/1:partitionPersist\(keep\): .*{message}.*keep \(test_persist.py:\d+\)"):
        stream("word string").partitionPersist(STATE, keep, **options)


def test_what_is_no_updater_is_refused() -> None:
    words = stream("word string")

    async def later(state: Any, tuples: Any, collector: Any) -> None: ...

    for wrong, message in (
        (Count(), r"Count\(\) is not a state updater; give a StateUpdater: an object with updateState\(state, tuples"),
        (Keeper, r"Keeper is a class; give an instance of it, Keeper\(\)"),
        (7, "7 is not a state updater"),
        (
            lambda state, tuples: None,
            "takes the wrong arguments: it is called with the state, a list of TridentTuples and a collector",
        ),
        (later, "async function"),
    ):
        with pytest.raises(TopologyError, match=message):
            words.partitionPersist(STATE, wrong, valueType="long", name="a")
    with pytest.raises(TopologyError, match="is not a state factory: .*write partitionPersist"):
        words.partitionPersist(keep, valueType="long", name="a")


def test_an_updater_elsewhere_is_sent_where_it_belongs() -> None:
    with pytest.raises(TopologyError, match="a StateUpdater: use it in partitionPersist"):
        stream("word string").each("word", Keeper(), "x")
    with pytest.raises(TopologyError, match="a ReducerAggregator: use it in aggregate or persistentAggregate"):
        stream("word string").each("word", Longest(), "x")


def test_a_state_takes_one_step_whatever_its_verb() -> None:
    words = stream("word string")
    words.partitionPersist(STATE, Keeper(), name="a")
    with pytest.raises(DuplicateNameError, match=r"'a' is already updated by lines/1:partitionPersist\(Keeper\)"):
        words.persistentAggregate(STATE, Count(), "n", name="a")


def test_an_updater_that_declares_nothing_to_emit_has_no_new_values() -> None:
    state = stream("word string").partitionPersist(STATE, keep, valueType="long", name="a")
    with pytest.raises(
        TopologyError, match=r"'a' declares no output fields: pass outputFields to partitionPersist \(.*\)"
    ):
        state.newValuesStream()


def test_requests_update_no_state() -> None:
    with pytest.raises(TopologyError, match="DRPC requests cannot update a state"):
        TridentTopology().newDRPCStream("ask").partitionPersist(STATE, keep, valueType="long", name="a")


# --- static states ------------------------------------------------------------------------------------------------


def test_a_static_state_is_entries_an_object_or_another_topologys() -> None:
    topology = TridentTopology()
    given = topology.newStaticState({1: "x"}, keyFields="n long", valueType="string")
    assert str(given) == "TridentState('static1': n bigint, value string; static)"
    others = topology.newStaticState(
        DeclaredState(StateKind.OPAQUE), keyFields="word string", valueType="long", name="counts", topology="wordcount"
    )
    assert node(others).writer == "wordcount"

    class Asked:
        keyFields = "day date"
        valueType = "string"

        def multiGet(self, keys: list[datetime.date]) -> list[str]:
            return ["" for _ in keys]

    assert ddl(topology.newStaticState(Asked(), name="asked").schema) == "day date, value string"
    with pytest.raises(TopologyError, match="'counts' is only read here and has no new values"):
        others.newValuesStream()


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            MemoryMapState.opaque(),
            {"name": "a", "topology": "t"},
            r"MemoryMapState.opaque\(\) is in the memory of the driver",
        ),
        (STATE, {"name": "a"}, r"the state in .* name=, .* and topology=, the name of the topology"),
        ({}, {"topology": "t"}, "is not the state of a topology: remove topology='t'"),
        (keep, {}, "function 'keep' is not a readable state: pass the factory with which its topology writes it"),
    ],
)
def test_a_static_state_that_nobody_could_read_is_refused(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        TridentTopology().newStaticState(given, valueType="long", **options)


def test_a_static_state_and_one_of_our_own_do_not_share_a_name() -> None:
    topology = TridentTopology()
    words = stream("word string", topology=topology)
    topology.newStaticState({}, keyFields="word string", valueType="long", name="a")
    with pytest.raises(DuplicateNameError, match="state 'a' is a static state"):
        words.persistentAggregate(STATE, Count(), "n", name="a")
    words.persistentAggregate(STATE, Count(), "n", name="b")
    with pytest.raises(DuplicateNameError, match="state 'b' is already updated by"):
        topology.newStaticState({}, keyFields="word string", valueType="long", name="b")


# --- asking -------------------------------------------------------------------------------------------------------


def test_queries_know_what_each_state_holds() -> None:
    topology = TridentTopology()
    words = stream("word string, n long", topology=topology)
    kept = words.partitionPersist(STATE, Keeper(), name="kept")
    total = words.persistentAggregate(STATE, "word", Longest(), "longest", name="longest")
    asked = words.stateQuery(kept, "word", MapGet(), "day").stateQuery(total, SnapshotGet(), "longest")
    assert ddl(asked.schema) == "word string, n bigint, day date, longest string"
    listed = words.project("n").stateQuery(kept, TupleCollectionGet(), "word, day")
    assert ddl(listed.schema) == "n bigint, word string, day date" and node(listed).inputs == ()
    assert ddl(words.stateQuery(kept, "word, n", Ask(), "x").schema) == "word string, n bigint, x bigint"


@pytest.mark.parametrize(
    ("function", "outputs", "error", "message"),
    [
        (SnapshotGet(), "x", TopologyError, r"'kept' has the key fields \(word string\): give MapGet\(\)"),
        (
            TupleCollectionGet(),
            "x",
            TopologyError,
            r"an entry of state 'kept' is \(word, value\): name 2 output fields",
        ),
        (TupleCollectionGet(), "x long, y", TypeDeclarationError, "'x' is string, not bigint; remove the type"),
        (TupleCollectionGet(), "x, y long", TypeDeclarationError, "'kept' holds date, not bigint; remove the type"),
        (MapGet(), "x, y", TopologyError, r"MapGet returns one field, not 2 \(x, y\)"),
    ],
)
def test_what_a_query_cannot_ask_is_refused(function: Any, outputs: str, error: type[Exception], message: str) -> None:
    words = stream("word string")
    kept = words.partitionPersist(STATE, Keeper(), name="kept")
    with pytest.raises(error, match=message):
        words.stateQuery(kept, function, outputs)
