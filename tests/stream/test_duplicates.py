"""The calls of dropDuplicates, toTable and joinTable: what they give, and what they say to wrong ones."""

from typing import Any

import pytest

from tests.support.topologies import stream
from trident import Count, MapGet, StatefulStream, Stream, Sum, TridentTopology
from trident.base.spark_types import ddl
from trident.errors import DuplicateNameError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

FIELDS = "id long, at timestamp, n long, tags map<string,string>"


@pytest.fixture
def s() -> Stream:
    return stream(FIELDS)


def test_all_fields_are_the_key_where_none_is_named() -> None:
    distinct = stream("id long, n long").dropDuplicates()
    assert isinstance(distinct, StatefulStream)
    assert distinct.fields == ("id", "n")
    assert repr(distinct.state()) == "TridentState('lines.seen': id bigint, n bigint, firstTxid bigint; opaque)"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("x",), FieldNotFoundError, "no field 'x'"),
        (([],), TopologyError, "name at least one field"),
        (("tags",), TypeDeclarationError, "field 'tags' is map<string,string>: maps cannot be compared"),
        ((MemoryMapState.opaque(), "id"), TopologyError, "is in the position of the fields; write dropDuplicates"),
        (("id", MemoryMapState), TopologyError, "is not a state factory"),
    ],
)
def test_wrong_keys_and_states(s: Stream, arguments: Any, error: Any, says: str) -> None:
    with pytest.raises(error) as raised:
        s.dropDuplicates(*arguments)
    assert says in str(raised.value) and "lines/1:dropDuplicates" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"within": 5}, "within= is a span of event time: also pass timestampField="),
        ({"lateness": 5}, "lateness= is a span of event time: also pass timestampField="),
        ({"timestampField": "at"}, "needs a span for which keys are remembered, such as within='10 minutes'"),
        ({"timestampField": "at", "within": 0}, "within=0: expected a positive duration"),
        ({"timestampField": "at", "within": "soon"}, "within='soon' is not a duration"),
        (
            {"timestampField": "at", "within": "106750000 days"},
            "within='106750000 days': expected at most 10,000 years",
        ),
        ({"timestampField": "at", "within": 5, "lateness": -1}, "lateness=-1: expected a non-negative duration"),
        ({"timestampField": "n", "within": 5}, "field 'n' is bigint, but a window needs a timestamp"),
        ({"timestampField": "when", "within": 5}, "no field 'when' to go by"),
        (
            {"timestampField": "at", "within": 5, "stateFactory": MemoryMapState.opaque(ttlSecs=9)},
            "has ttlSecs, but with a timestampField event time decides how long a key is remembered",
        ),
    ],
)
def test_wrong_times(s: Stream, arguments: Any, says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        s.dropDuplicates("id", **arguments)
    assert says in str(raised.value)


def test_without_event_time_nothing_is_late(s: Stream) -> None:
    distinct = s.dropDuplicates("id")
    with pytest.raises(TopologyError, match=r"lines/1:dropDuplicates\(id\) has no timestampF"):
        distinct.late()
    with pytest.raises(TopologyError, match="has no timestampField, so it has no watermark"):
        distinct.watermark()


def test_two_of_one_stream_need_names(s: Stream) -> None:
    s.dropDuplicates("id")
    with pytest.raises(DuplicateNameError, match="state 'lines.seen' is already updated by"):
        s.dropDuplicates("n")
    assert s.dropDuplicates("n", name="numbers").state().name == "numbers"


def test_requests_are_refused() -> None:
    asked = TridentTopology().newDRPCStream("f", "id long")
    for call in (asked.dropDuplicates, lambda: asked.toTable("id")):
        with pytest.raises(TopologyError, match="DRPC requests cannot update a state"):
            call()


def test_explain_names_the_state_and_its_promise(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout("id long", [])).dropDuplicates("id", name="seen").peek(print)
    topology.explain()
    said = capsys.readouterr().out
    assert "dropDuplicates(id)" in said and "seen" in said and "exactly-once" in said


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_keeps_the_other_fields_or_those_one_names() -> None:
    s = stream("id long, name string, city string")
    assert s.toTable("id").schema.simpleString() == "struct<id:bigint,latest:struct<name:string,city:string>>"
    few = s.toTable("id", valueFields="city", name="few")
    assert few.schema.simpleString() == "struct<id:bigint,latest:struct<city:string>>"
    assert few.newValuesStream().fields == ("id", "city")


def test_a_query_of_a_table_gives_the_fields_that_it_names() -> None:
    topology = TridentTopology()
    table = topology.newStream("users", FixedBatchSpout("id long, name string, city string", [])).toTable("id")
    asked = topology.newStream("asked", FixedBatchSpout("user long", []))
    named = asked.stateQuery(table, "user", MapGet(), "city, name")
    assert ddl(named.schema) == "user bigint, city string, name string"
    assert ddl(asked.stateQuery(table, "user", MapGet(), "city").schema) == "user bigint, city string"
    whole = asked.stateQuery(table, "user", MapGet(), "latest")
    assert ddl(whole.schema) == "user bigint, latest struct<name:string,city:string>"
    with pytest.raises(
        TopologyError, match=r"has the fields \(name, city\), not 'town': name the fields that you want, or"
    ):
        asked.stateQuery(table, "user", MapGet(), "name, town")
    with pytest.raises(TypeDeclarationError, match="'city' is string, not bigint; remove the type"):
        asked.stateQuery(table, "user", MapGet(), "city long")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.project("id").toTable("id"), "has only key fields, so the table would have no value;"),
        (lambda s: s.toTable(MemoryMapState.opaque(), "id"), "is in the position of keyFields; write toTable"),
        (
            lambda s: s.joinTable(s, "id"),
            "is not a state of this topology; make a table of a stream with stream.toTable",
        ),
        (lambda s: s.joinTable(s.toTable("id"), "id", "full"), "joinType='full': expected 'inner' or 'left'"),
        (lambda s: s.joinTable(s.toTable("id"), "at"), "cannot be queried by (at timestamp): its key is (id bigint)"),
        (lambda s: s.joinTable(s.toTable("id", valueFields="n")), "output field 'n' is already a field of the stream"),
        (
            lambda s: s.joinTable(s.persistentAggregate(MemoryMapState.opaque(), Count(), "c")),
            "has no key fields; read it with stateQuery",
        ),
        (lambda s: s.joinTable(s.toTable("id", valueFields="n"), "id", outputFields="a, b"), "names 2 fields (a, b)"),
        (lambda s: s.joinTable(stream(FIELDS).toTable("id")), "belongs to another topology"),
    ],
)
def test_wrong_calls_of_tables(s: Stream, call: Any, says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert says in str(raised.value)


def test_any_state_with_keys_is_a_table() -> None:
    topology = TridentTopology()
    sales = topology.newStream("sales", FixedBatchSpout("id long, n long", [[]]))
    sums = sales.groupBy("id").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total")
    joined = sales.joinTable(sums)
    assert joined.fields == ("id", "n", "total")
    assert sales.joinTable(sums, outputFields="before").fields == ("id", "n", "before")
