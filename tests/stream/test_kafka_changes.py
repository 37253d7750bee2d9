"""The verb writeChanges: its call, its errors, the messages that it makes, and how it is explained."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row

from tests.support.topologies import stream
from trident import ChangeStream, TridentTopology
from trident.errors import TopologyError
from trident.operations.upserts import Storable, UpsertMessage
from trident.spouts import FixedBatchSpout

FIELDS = "id long, g string, h string, raw binary, m map<string, long>, op string"
HERE = ("h:1", "t")
CALLS: list[tuple[Callable[[ChangeStream], object], str]] = [
    (lambda s: s.writeChanges("", "t", "id"), "s/2:writeChanges: bootstrapServers='' (str): expected 'host:port'"),
    (lambda s: s.writeChanges("h:1", "a b", "id"), "topic='a b' (str): expected the name of a topic, such as"),
    (lambda s: s.writeChanges(*HERE, "ix"), "no field 'ix'"),
    (lambda s: s.writeChanges(*HERE, []), "name at least one field"),
    (
        lambda s: s.writeChanges(*HERE, "_change_type"),
        "'_change_type' holds the kind of each change and cannot be part of the key",
    ),
    (lambda s: s.writeChanges(*HERE, "m"), "field 'm' is map<string,bigint>: maps cannot be compared"),
    (
        lambda s: s.writeChanges(*HERE, "id", valueFields="g, _change_type"),
        "'_change_type' is not a field of the row, but the kind of its change",
    ),
    (
        lambda s: s.writeChanges(*HERE, "id", keyFormat="raw"),
        "keyFormat='raw' takes one field of type string or binary, but the fields are (id bigint); name one",
    ),
    (
        lambda s: s.writeChanges(*HERE, "id", valueFields="g, h", valueFormat="raw"),
        "valueFormat='raw' takes one field of type string or binary, but the fields are (g string, h string)",
    ),
    (
        lambda s: s.writeChanges(*HERE, "id", valueFormat="avro"),  # type: ignore[arg-type]
        "valueFormat='avro' is not one of 'json', 'raw'",
    ),
    (
        lambda s: s.writeChanges(*HERE, "id", guarantee="once"),  # type: ignore[arg-type]
        "guarantee='once' is not one of 'exactly-once', 'at-least-once'",
    ),
    (
        lambda s: s.writeChanges(*HERE, "id", options={"enable.idempotence": False}),
        "options: 'enable.idempotence' is set by writeChanges itself; use guarantee=",
    ),
    (lambda s: s.shuffle().writeChanges(*HERE, "id"), "s/2:shuffle"),
    (lambda s: s.partitionBy("g").writeChanges(*HERE, "id"), "may spread changes of a key over several partitions"),
]


@pytest.fixture
def s() -> ChangeStream:
    return TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]])).asChanges("op")


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call(s: ChangeStream, call: Callable[[ChangeStream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert says in str(raised.value)


def test_changes_whose_keys_stay_in_one_partition_and_changes_of_a_state_are_taken(s: ChangeStream) -> None:
    assert s.partitionBy("id").writeChanges(*HERE, ["id", "g"]).fields == s.fields
    table = s.toTable("id", valueFields="g", name="table")
    table.changes().shuffle().writeChanges(*HERE, "id", keyFormat="json", name="of_table")


def test_an_ordinary_stream_has_no_such_verb() -> None:
    with pytest.raises(AttributeError, match="writeChanges"):
        stream("v string").writeChanges("h:1", "t", "v")  # type: ignore[attr-defined]


def test_it_is_explained_with_its_promise(s: ChangeStream, capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, [[]])).asChanges("op")
    assert changes.writeChanges(*HERE, "id", name="rows") is changes
    changes.writeChanges(*HERE, "id", guarantee="at-least-once", name="second")
    topology.explain()
    told = capsys.readouterr().out
    assert "output rows, into the topic t: exactly-once" in told
    assert "output second, into the topic t: at-least-once" in told


# --- the messages ---------------------------------------------------------------------------------------------------


def test_a_row_becomes_json_and_a_row_that_is_taken_away_has_no_value() -> None:
    message = UpsertMessage(("id", "day"), ("id", "name"), raw_key=False, raw_value=False)
    key = '{"id":7,"day":"2024-02-29"}'
    day = datetime.date(2024, 2, 29)
    for kind in ("insert", "update_postimage"):
        assert message(kind, 7, day, 7, "Zoë") == (key, '{"id":7,"name":"Zoë"}')
    for kind in ("delete", "update_preimage"):
        assert message(kind, 7, day, 7, "Zoë") == (key, None)
    of_zero = UpsertMessage(("x",), ("x",), False, False)
    assert of_zero("delete", -0.0, 0.0) == ('{"x":0.0}', None)
    assert of_zero("delete", [Row(v=-0.0)], None) == ('{"x":[{"v":0.0}]}', None)


def test_raw_fields_are_taken_as_they_are() -> None:
    message = UpsertMessage(("g",), ("raw",), raw_key=True, raw_value=True)
    assert message("insert", "a", b"\x00") == ("a", b"\x00")
    assert message("delete", "a", None) == ("a", None)
    with pytest.raises(ValueError, match="field 'raw' is null, but a message without value deletes the key"):
        message("insert", "a", None)


@pytest.mark.parametrize("made", [UpsertMessage(("a", "b"), ("a",), False, False), Storable(("a", "b"), 2)])
def test_a_null_in_the_key_is_an_error(made: Any) -> None:
    kind = ("insert",) if isinstance(made, UpsertMessage) else ()
    with pytest.raises(ValueError, match="key field 'b' is null: expected a value in each key field"):
        made(*kind, 1, None)
