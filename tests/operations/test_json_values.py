"""FromJson reads members strictly by name and type, says what it cannot read, and knows a schema registry's form."""

import datetime
import decimal
import json
import math
from typing import Any

import pytest

from tests.support.topologies import stream
from trident import FromJson
from trident.base.json_values import to_json
from trident.errors import TopologyError, TypeDeclarationError

REGISTERED = bytes.fromhex("0000000107") + b'{"n": 1}'


@pytest.mark.parametrize("quick", [True, False])
def test_members_are_read_by_name_and_type(quick: bool) -> None:
    fields = "n int, x double, word string, flag boolean, day date, at timestamp, tags array<string>, raw binary"
    nested = ", where struct<city: string, at: date>, more map<string, bigint>"
    read = FromJson(fields + nested + ("" if quick else ", price decimal(20, 10)"))
    text = (
        '{"raw": "aGk=", "n": 1, "x": 2, "word": "tea", "flag": true, "day": "2024-02-29",'
        '"at": "2024-02-29T12:00:00Z",'
        '"tags": ["a", null], "where": {"city": "Ulm", "at": "2024-01-01", "zip": 1}, "more": {"a": 1}, "unknown": [1],'
        '"price": 0.1234567891}'
    )
    day, noon = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    where = {"city": "Ulm", "at": datetime.date(2024, 1, 1)}
    expected: tuple[Any, ...] = (1, 2, "tea", True, day, noon, ["a", None], b"hi", where, {"a": 1})
    for value in (text, text.encode()):
        assert read(value) == expected + (() if quick else (decimal.Decimal("0.1234567891"),))
    assert read("{}") == read(None) == (None,) * (10 if quick else 11)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "expected a JSON object: Expecting value at column 1"),
        (b"[1]", r"expected a JSON object, got \[1\]"),
        (b'{"n": 1', "expected a JSON object: "),
        (b'{"n": 1} x', "expected a JSON object: Extra data"),
        (b'{"n": NaN}', "NaN is not a JSON value"),
        (b'{"n": "1"}', r"""field 'n': expected bigint, got "1" \(numbers="lenient" reads it\)"""),
        (b'{"n": true}', "field 'n': expected bigint, got true"),
        (b'{"n": 1.5}', r"field 'n': expected bigint, got 1\.5"),
        (b'{"day": "2024-02-30"}', """field 'day': expected date, got "2024-02-30\""""),
        (b'{"n": \xff}', "can't decode byte 0xff"),
        (
            REGISTERED,
            r": for JSON use FromJson\(..., registry=True\), for Avro",
        ),
    ],
)
def test_what_cannot_be_read_is_told(value: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FromJson("n bigint, day date, tags array<string>")(value)


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [("decimal(5,2)", "1.0", "1.00"), ("timestamp", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00")],
)
@pytest.mark.parametrize("within", ["map<{},bigint>", "array<map<{},bigint>>"])
def test_equal_keys_of_a_map_are_refused(key: str, one: str, other: str, within: str) -> None:
    entries = f'{{"{one}": 1, "{other}": 2}}'
    value = entries if within.startswith("map") else f"[{entries}]"
    with pytest.raises(ValueError, match=r"field 'm': expected .*map<.* \(two keys of a map are equal\)"):
        FromJson(f"m {within.format(key)}")(f'{{"m": {value}}}')


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", ["float", "double", "array<double>", "map<string,double>"])
def test_numbers_that_json_does_not_have_come_back(value: float, kind: str) -> None:
    """Outputs write them as texts: a topic of rows must be readable as the rows that were written."""
    whole = {"array<double>": [value, None], "map<string,double>": {"k": value}}.get(kind, value)
    assert repr(FromJson(f"v {kind}")(to_json({"v": whole}))[0]) == repr(whole)


@pytest.mark.parametrize("text", ["nan", "inf", "+Infinity", "1"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="field 'v': expected double"):
        FromJson("v double")(json.dumps({"v": text}))


def test_a_member_that_must_be_there_is_missed() -> None:
    with pytest.raises(ValueError, match="field 'n': null, but the field is NOT NULL"):
        FromJson("n bigint not null")(b"{}")


def test_options_of_files_mean_the_same_here() -> None:
    read = FromJson("n bigint, at timestamp", numbers="lenient", timeZone="Europe/Berlin")
    (n, at) = read('{"n": 517.0, "at": "2024-07-01T12:00:00"}')
    assert n == 517 and at.astimezone(datetime.UTC).hour == 10


def test_a_registrys_form_is_taken_off_and_demanded() -> None:
    read = FromJson("n bigint", registry=True)
    assert read(REGISTERED) == (1,)
    for bare in (b'{"n": 1}', b"\0", '{"n": 1}'):
        with pytest.raises(ValueError, match=r"expected a value of a schema registry's serializer.*got b'"):
            read(bare)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ("at timestamp", '{"at": "2026-01-01T00:00:00"}'),
        ("o struct<at: timestamp>", '{"o": {"at": "2026-01-01T00:00:00"}}'),
        ("times array<timestamp>", '{"times": ["2026-01-01T00:00:00"]}'),
    ],
)
def test_a_time_without_a_zone_says_which_option_gives_one(fields: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"it has no time zone: declare timestamp_ntz, or set timeZone="):
        FromJson(fields)(value)
    assert FromJson(fields, timeZone="UTC")(value) != (None,)


def test_a_verb_knows_its_fields_and_may_name_others() -> None:
    values = stream("key string, value binary")
    assert values.each("value", FromJson("user bigint, tags array<string>")).fields == ("key", "value", "user", "tags")
    assert values.each("value", FromJson("user bigint"), "who bigint").fields == ("key", "value", "who")
    assert values.map("value", FromJson("user bigint")).fields == ("user",)
    with pytest.raises(TopologyError, match="a filter takes no outputFields"):
        values.filter("value", FromJson("user bigint"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fields": ""}, "expected a field name"),
        ({"fields": 7}, "FromJson: fields=7: expected fields with their types, such as 'user bigint"),
        ({"fields": "user"}, "user"),
        ({"fields": "user long", "registry": "yes"}, "FromJson: registry='yes': expected True or False"),
        ({"fields": "user long", "numbers": "any"}, "FromJson: numbers='any' is not one of"),
        ({"fields": "user long", "timeZone": "Nowhere"}, "FromJson: timeZone='Nowhere'"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TopologyError, TypeDeclarationError), match=message):
        FromJson(**arguments)
