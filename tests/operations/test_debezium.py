"""Debezium's events: forms of the envelope and of values, and the messages for those that cannot be read."""

import base64
import datetime
import io
import json
import re
from decimal import Decimal
from typing import Any

import pytest

from trident import Debezium
from trident.errors import TopologyError, TypeDeclarationError

NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
MICROS = int(NOON.timestamp()) * 10**6
GONE = "__debezium_unavailable_value"


def event(**members: Any) -> bytes:
    return json.dumps(members).encode()


def row_of(reader: Debezium, **row: Any) -> tuple[Any, ...]:
    """Return the values that a reader finds in an inserted row."""
    ((*values, kind),) = reader(event(op="c", after=row))
    assert kind == "insert"
    return tuple(values)


@pytest.mark.parametrize("wrapped", [False, True])
def test_each_kind_of_event_has_its_changes(wrapped: bool) -> None:
    read = Debezium("id bigint, name string")
    ann, bob = {"id": 7, "name": "Ann", "more": [1]}, {"id": 7, "name": "Bob"}

    def changes(**members: Any) -> list[tuple[Any, ...]]:
        return read(event(schema=None, payload=members) if wrapped else event(**members))

    assert changes(op="c", after=ann) == changes(op="r", after=ann) == [(7, "Ann", "insert")]
    assert changes(op="u", before=ann, after=bob) == [(7, "Ann", "update_preimage"), (7, "Bob", "update_postimage")]
    assert changes(op="d", before=bob, after=None) == [(7, "Bob", "delete")]
    assert changes(op="m", message={"prefix": "x"}) == read(None) == read(event(schema=None, payload=None)) == []


def test_upserts_need_only_the_key_of_a_row_that_goes() -> None:
    read = Debezium("id bigint, name string").upsert
    assert read(event(op="u", before=None, after={"id": 7, "name": "Bob"})) == [(7, "Bob", "update_postimage")]
    assert read(event(op="d", before={"id": 7})) == [(7, None, "delete")]
    assert read(event(op="r", after={"id": 7})) == [(7, None, "insert")]
    assert read(None) == read(event(op="m")) == []


def test_values_have_the_forms_that_the_options_name() -> None:
    fields = "price decimal(10, 2), at timestamp, local timestamp_ntz, day date, x double, raw binary"
    precise = base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode()
    read = Debezium(fields, decimals="precise", timestamps="micros")
    expected = (Decimal("-123.45"), NOON, NOON.replace(tzinfo=None), NOON.date(), 1.5, b"hi")
    raw = {"day": 19782, "x": 1.5, "raw": "aGk="}
    assert row_of(read, price=precise, at=MICROS, local=MICROS, **raw) == expected
    assert row_of(read, price={"scale": 2, "value": precise}, at="2024-02-29T12:00:00Z", local=None)[:2] == expected[:2]
    millis = Debezium("price decimal(10, 2), at timestamp", decimals="string", timestamps="millis")
    assert row_of(millis, price="-123.45", at=MICROS // 1000) == expected[:2]
    nanos = Debezium("price decimal(10, 2), at timestamp", decimals="double", timestamps="nanos")
    assert row_of(nanos, price=-123.45, at=MICROS * 1000) == expected[:2]
    assert row_of(Debezium("days array<date>, who struct<n: int>"), days=[0, None], who={"n": 1, "m": 2}) == (
        [datetime.date(1970, 1, 1), None],
        {"n": 1},
    )


@pytest.mark.parametrize(
    ("fields", "options", "row", "problem"),
    [
        ("n bigint", {}, {"n": "7"}, "field 'n': expected bigint, got \"7\""),
        ("n bigint NOT NULL", {}, {}, "field 'n': null, but the field is NOT NULL"),
        ("p decimal(10, 2)", {}, {"p": "AfQ="}, "set decimals='precise' or 'string'"),
        ("p decimal(10, 2)", {"decimals": "double"}, {"p": "1.5"}, "set decimals='precise' or 'string'"),
        ("p decimal(10, 2)", {"decimals": "precise"}, {"p": "12.5"}, "which is not base64"),
        ("p decimal(10, 2)", {"decimals": "string"}, {"p": "1.234"}, "field 'p': expected decimal(10,2)"),
        (
            "p decimal(10, 2)",
            {"decimals": "precise"},
            {"p": {"scale": 5, "value": "AN4="}},
            "field 'p': expected decimal(10,2), got \"0.00222\"",
        ),
        ("at timestamp", {}, {"at": MICROS}, "set timestamps='millis', 'micros' or 'nanos'"),
        ("at timestamp", {"timestamps": "nanos"}, {"at": 1}, "finer resolution than microseconds"),
        ("at timestamp", {"timestamps": "millis"}, {"at": MICROS * 1000}, "outside the years 1 to 9999"),
        ("day date", {}, {"day": 10**9}, "outside the years 1 to 9999"),
        ("t string", {}, {"t": GONE}, "field 't': the database did not send the value"),
        ("t binary", {}, {"t": base64.b64encode(GONE.encode()).decode()}, "the database did not send the value"),
    ],
)
def test_a_value_in_another_form_is_told(fields: str, options: Any, row: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        row_of(Debezium(fields, **options), **row)


def test_a_value_that_an_update_left_unchanged_is_that_of_before() -> None:
    read = Debezium("id bigint, text string, raw binary")
    before, raw = {"id": 7, "text": "long", "raw": "aGk="}, base64.b64encode(GONE.encode()).decode()
    after = {"id": 7, "text": GONE, "raw": raw}
    assert read(event(op="u", before=before, after=after))[1] == (7, "long", b"hi", "update_postimage")
    with pytest.raises(ValueError, match="REPLICA IDENTITY FULL"):
        read.upsert(event(op="u", before=None, after=after))


def test_an_array_or_a_map_that_an_update_left_unchanged_is_that_of_before() -> None:
    read = Debezium("texts array<string>, numbers array<int>, pairs map<string, string>")
    before = {"texts": ["x", "y"], "numbers": [1], "pairs": {"a": "b"}}
    after = {"texts": [GONE], "numbers": [*GONE.encode()], "pairs": {GONE: GONE}}
    assert read(event(op="u", before=before, after=after))[1] == (["x", "y"], [1], {"a": "b"}, "update_postimage")
    for name, value in after.items():
        with pytest.raises(ValueError, match="the database did not send the value"):
            read.upsert(event(op="u", before=None, after={**before, name: value}))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (event(op="u", before=None, after={}), "the row before the update is missing, so no aggregate"),
        (event(op="d", before={"id": 7}), "the deleted row lacks 'name', so no aggregate could remove it"),
        (event(op="d", before={"name": "x"}), "the deleted row lacks 'id'"),
        (event(op="c", before=None), "expected an object as 'after' of an event with op 'c', got None"),
        (event(op="t"), "the table was truncated"),
        (event(op="x"), "expected an event of Debezium, with 'op' one of"),
        (event(id=7, name="Ann"), "got an object with 'id', 'name', op None. If a transform"),
        (b"[1]", "expected an event of Debezium, with 'op' one of"),
        (b'{"op": NaN}', "expected an event of Debezium in JSON"),
        (b"\xff", "expected an event of Debezium in JSON"),
        (bytes(5) + event(op="t"), "for JSON use Debezium(..., registry=True), for Avro Debezium(..., registry={"),
    ],
)
def test_an_event_that_cannot_be_read_is_told(value: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Debezium("id bigint, name string")(value)


@pytest.mark.parametrize(
    ("fields", "options", "error", "problem"),
    [
        ("id", {}, TypeDeclarationError, "type"),
        ("id long, _change_type string", {}, TopologyError, "which the kinds of change"),
        ("id long", {"decimals": "exact"}, TopologyError, "Debezium: decimals='exact'"),
        ("id long", {"timestamps": "seconds"}, TopologyError, "Debezium: timestamps='seconds'"),
        ("id long", {"registry": 7}, TopologyError, "expected True, or a mapping from numbers to schemas"),
        ("id long", {"schema": "{}"}, TopologyError, "Debezium: schema='{}' is not an Avro schema"),
        ("id long", {"schema": "long", "registry": {1: "long"}}, TopologyError, "expected either schema="),
    ],
)
def test_wrong_arguments_are_refused(fields: str, options: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=re.escape(problem)):
        Debezium(fields, **options)


def test_a_registry_of_json_puts_five_bytes_before_an_event() -> None:
    value = event(op="c", after={"id": 7})
    assert Debezium("id bigint", registry=True)(bytes.fromhex("0000000107") + value) == [(7, "insert")]
    with pytest.raises(ValueError, match="Omit registry="):
        Debezium("id bigint", registry=True)(value)


def test_avro_has_the_same_envelope() -> None:
    fastavro = pytest.importorskip("fastavro")
    row = {"type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "long"},
        {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}},
    ]}  # fmt: skip
    schema = {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ]}  # fmt: skip
    out = io.BytesIO()
    values = {"id": 7, "day": 19782, "at": NOON, "price": Decimal("1.50")}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"before": values, "after": None, "op": "d"})
    fields = "id bigint, day date, at timestamp, price decimal(10, 2)"
    changes = [(7, NOON.date(), NOON, Decimal("1.50"), "delete")]
    assert Debezium(fields, schema=schema)(out.getvalue()) == changes
    registered = bytes.fromhex("0000000107") + out.getvalue()
    assert Debezium(fields, registry={263: schema})(registered) == changes
    with pytest.raises(ValueError, match="has the number 263, but registry= has only 8: add this schema there"):
        Debezium(fields, registry={8: schema})(registered)
    assert Debezium(fields, schema=schema)(None) == []


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}


@pytest.mark.parametrize(
    ("field", "kind", "value", "problem"),
    [
        ("n decimal(10, 2)", DECIMAL, Decimal("2.2222"),
         "field 'n': expected decimal(10,2), got \"2.2222\""),
        ("n long", DECIMAL, Decimal("2.5"),
         "field 'n': expected bigint, got \"2.5"),
        ("at string", {"type": "long", "logicalType": "timestamp-millis"},
         datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "field 'at': expected string, got \"2024-01-01"),
        ("b string", "bytes", b"\x00\xff", "field 'b': expected string, got \"b'"),
    ],
)  # fmt: skip
def test_a_value_of_avro_that_is_no_json_is_shown(field: str, kind: Any, value: object, problem: str) -> None:
    fastavro = pytest.importorskip("fastavro")
    row = {"type": "record", "name": "V", "fields": [{"name": field.split()[0], "type": ["null", kind]}]}
    schema = {
        "type": "record",
        "name": "Event",
        "fields": [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "V"]},
                   {"name": "op", "type": "string"}],
    }  # fmt: skip
    out = io.BytesIO()
    after = {field.split()[0]: value}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"before": None, "after": after, "op": "c"})
    with pytest.raises(ValueError, match=re.escape(problem)):
        Debezium(field, schema=schema)(out.getvalue())
    assert repr(Debezium("id long")) == "Debezium('id bigint')"
