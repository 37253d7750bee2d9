"""The verbs asUpserts and asChanges(Debezium), and the verbs that a stream of upserts refuses."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from trident import ChangeStream, Count, Debezium, FromJson, Stream, TridentTopology, UpsertStream
from trident.errors import FieldNotFoundError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


def messages(fields: str = "key binary, value binary") -> Stream:
    return TridentTopology().newStream("s", FixedBatchSpout(fields, [[]]))


def test_events_become_changes_or_upserts_with_the_declared_fields() -> None:
    reader = Debezium("id long NOT NULL, name string")
    changes, upserts = messages().asChanges(reader), messages().asUpserts(reader)
    assert isinstance(changes, ChangeStream) and isinstance(upserts, UpsertStream)
    assert changes.fields == upserts.fields == ("id", "name", "_change_type")
    assert changes._node.step == "s/1:asChanges(Debezium)"
    assert isinstance(upserts.toTable("id").changes(), ChangeStream)
    assert type(upserts.toStream()) is Stream


def test_a_null_value_deletes_its_key() -> None:
    rows = [[(b"7", b'{"name": "Ann"}'), (b"7", None)]]
    stream = TridentTopology().newStream("s", FixedBatchSpout("key binary, value binary", rows))
    read = stream.each("key", int, "id long").each("value", FromJson("name string"))
    assert [tuple(row) for row in read.asUpserts().take(2)] == [
        (b"7", 7, "Ann", "insert"),
        (b"7", 7, None, "delete"),
    ]
    assert read.asUpserts("key").fields == ("value", "id", "name", "_change_type")


@pytest.mark.parametrize("verb", ["filter", "each", "map", "groupBy", "persistentAggregate", "window", "writeParquet"])
def test_verbs_that_need_the_row_before_are_of_the_tables_changes(verb: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no verb '{verb}', because it lacks .*table's changes\(\)"):
        getattr(messages().asUpserts(), verb)


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda s: s.asUpserts(7), "7 is not the name of a field; write asUpserts([valueField]), or"),
        (lambda s: s.asChanges(7), "7 is not the name of a field; write asChanges([kindField,] [kinds]), or"),
        (lambda s: s.asChanges(Debezium("id long"), {"c": "insert"}), "Debezium events already contain their kinds"),
        (lambda s: s.asUpserts("key").toStream().asUpserts("value"), "already has a field '_change_type'"),
        (lambda s: s.shuffle().asUpserts(Debezium("id long, n long")).toTable("id"), "the last change of a key"),
        (lambda s: s.asUpserts(Debezium("id long, n long")).toTable("_change_type"), "cannot be part of the key"),
    ],
)
def test_wrong_calls_are_refused(write: Callable[[Stream], Any], problem: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(problem)) as refused:
        write(messages())
    assert "test_upserts.py" in str(refused.value)


def test_events_are_in_the_field_value() -> None:
    with pytest.raises(FieldNotFoundError, match="no field 'value'"):
        messages("payload binary").asChanges(Debezium("id long"))
    with pytest.raises(AttributeError, match="did you mean 'toTable'"):
        _ = messages().asUpserts().toTabel  # type: ignore[attr-defined]
    counts = messages().asUpserts(Debezium("id long, g string")).toTable("id").changes()
    counts.groupBy("g").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
