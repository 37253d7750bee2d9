"""FromAvro reads records by the schema that they were written by, and refuses bytes that are not wholly of it."""

import datetime
import decimal
import io
import json
import uuid
from typing import Any

import fastavro
import pytest

from tests.support.topologies import stream
from trident import FromAvro
from trident.errors import TopologyError, TypeDeclarationError

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
WHERE = {
    "type": "record",
    "name": "Where",
    "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "word", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": DECIMAL},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "places", "type": {"type": "array", "items": WHERE}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
    ],
}
VALUE = {
    "n": 7, "word": None, "at": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC),
    "day": datetime.date(2024, 2, 29), "price": decimal.Decimal("1.50"), "id": uuid.UUID(int=1), "kind": "B",
    "places": [{"city": "Ulm", "zip": 1}], "more": {"a": 0.5},
}  # fmt: skip
FIELDS = (
    "more map<string, double>, n bigint, word string, at timestamp, day date, price decimal(9, 2), id string, "
    "kind string, places array<struct<city: string>>, absent int"
)
USER: Any = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def registered(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(schema, value)


@pytest.mark.parametrize("as_text", [False, True])
def test_fields_are_read_by_name(as_text: bool) -> None:
    read = FromAvro(FIELDS, schema=json.dumps(ORDER) if as_text else ORDER)
    expected = {**VALUE, "id": str(VALUE["id"]), "places": [{"city": "Ulm"}], "absent": None}
    assert read(written(ORDER, VALUE)) == tuple(expected[name] for name in read.outputFields.names)
    assert read(None) == (None,) * 10


def test_each_number_of_a_registry_has_its_schema() -> None:
    later: Any = {**USER, "fields": [{"name": "name", "type": "string"}, *USER["fields"]]}
    read = FromAvro("id bigint, name string", registry={7: USER, 300: later})
    assert read(registered(7, USER, {"id": 1})) == (1, None)
    assert read(registered(300, later, {"id": 2, "name": "ann"})) == (2, "ann")
    with pytest.raises(
        ValueError, match="its schema has the number 8, but registry= has only 7, 300: add this schema there"
    ):
        read(registered(8, USER, {"id": 1}))
    with pytest.raises(ValueError, match=r"expected a value of a schema registry's serializer.*got b'\\x02'"):
        read(written(USER, {"id": 1}))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "not written with this schema"),
        (b"\x02\x04", "not written with this schema: 1 bytes remain after the value$"),
        (
            registered(7, USER, {"id": 1}),
            r"5 bytes remain after the value; it looks like a value of a .* use registry=\{number: schema\} i",
        ),
        ("text", "expected binary, got .*: Avro values are not strings"),
    ],
)
def test_what_cannot_be_read_is_told(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FromAvro("id bigint", schema=USER)(value)


def test_a_value_that_is_no_record_is_told() -> None:
    with pytest.raises(ValueError, match="expected a record, got 1"):
        FromAvro("id bigint", schema="long")(b"\x02")


def test_a_verb_knows_its_fields() -> None:
    assert stream("value binary").each("value", FromAvro("id bigint", schema=USER)).fields == ("value", "id")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "FromAvro: expected either schema=, one schema for all values, or registry="),
        ({"schema": USER, "registry": {1: USER}}, "expected either schema="),
        ({"schema": {"type": "recod"}}, r"FromAvro: schema=.* is not an Avro schema \("),
        ({"schema": "{"}, "is not an Avro schema"),
        ({"registry": {}}, "expected a mapping from numbers to schemas"),
        ({"registry": {"7": USER}}, "expected a mapping from numbers to schemas"),
        ({"registry": {7: "nothing"}}, r"FromAvro: registry\[7\]='nothing' is not an Avro schema"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TopologyError, TypeDeclarationError), match=message):
        FromAvro("id bigint", **arguments)
