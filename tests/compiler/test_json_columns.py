"""Many values of JSON are read as columns, with the values, the errors and the dead letters of a call for each tuple.

Random messages for random fields are read twice: as columns, and by `FromJson` itself and a check of each value.
"""

import json
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import types as kinds

from tests.base.value_fuzzer import a_json, a_kind, a_number, a_text
from tests.support.soak import Soak
from tests.support.topologies import node, stream
from trident import FromJson
from trident.base import value_conversion as conversions
from trident.base.errors import TridentError
from trident.base.spark_types import arrow_schema
from trident.compiler.columns import kernels
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.kernels import Work, work_of
from trident.operations import json_values

REGISTERED = bytes.fromhex("0000000107")
BINARY = pa.binary()


def work_for(function: FromJson, outputs: str | None = None) -> Work:
    values = stream("value binary")
    work = work_of(node(values.each("value", function, outputs) if outputs else values.each("value", function)))
    assert work is not None
    return work


def columns(messages: list[Any], kind: pa.DataType = BINARY) -> Columns:
    return Columns({"value": Column.of(pa.array(messages, kind))}, len(messages))


def came(work: Work, messages: list[Any], kind: pa.DataType = BINARY) -> tuple[Any, ...]:
    """Return the output tuples, or the error, and what leaves the stream of a step that keeps dead letters."""
    after = frozenset([*work.outputs.names, "value"])
    try:
        made: Any = kernels.kernel(work, after)(columns(messages, kind))
        arrays = [made[name].array() for name in work.outputs.names]
        for array, field in zip(arrays, work.outputs, strict=True):
            assert array.type.equals(field.type)
            array.validate(full=True)
        made = [array.to_pylist() for array in (*arrays, made["value"].array())]
    except TridentError as error:
        made = type(error), str(error)
    letters = Letters()
    catch = kernels.catching(replace(work, caught=Caught(True, pa.schema({"value": kind}))), after)
    kept = catch(columns(messages, kind), letters)
    rest = [kept[name].array() for name in (*work.outputs.names, "value")]
    return repr(made), repr([array.to_pylist() for array in rest]), letters.dead


def check(work: Work, messages: list[Any], kind: pa.DataType = BINARY) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conversions, "_MANY", 1 << 40)
        patched.setattr(kernels, "_partly", lambda work: None)
        expected = came(work, messages, kind)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "_FEWEST", 0)
        patched.setattr(json_values, "_PART", 7)
        patched.setattr(conversions, "_MANY", 0)
        assert came(work, messages, kind) == expected


# --- random messages ----------------------------------------------------------------------------------------------


def a_fitting(draw: random.Random, kind: pa.DataType) -> str:
    """Draw a text of JSON that is mostly read as this type."""
    if draw.random() < 0.1:
        return "null"
    if kinds.is_list(kind):
        return f"[{', '.join(a_fitting(draw, kind.value_type) for _ in range(draw.randint(0, 3)))}]"
    if kinds.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        given = {name: a_fitting(draw, kind.field(name).type) for name in names if draw.random() < 0.9}
        return a_dict({**given, **({"more": a_text_of_json(draw)} if draw.random() < 0.2 else {})})
    if kinds.is_map(kind):
        keys = [json.loads(f'"{a_scalar(draw, kind.key_type).strip(chr(34))}"') for _ in range(draw.randint(0, 3))]
        return a_dict({key: a_fitting(draw, kind.item_type) for key in keys})
    return a_scalar(draw, kind)


def a_dict(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


def a_scalar(draw: random.Random, kind: pa.DataType) -> str:
    if kinds.is_decimal(kind):
        digits = draw.randint(0, 10 ** draw.randint(0, kind.precision) - 1)
        scale = draw.randint(0, kind.scale)
        text = f"{draw.choice(['', '-'])}{digits // 10**scale}" + (f".{digits % 10**scale:0{scale}}" if scale else "")
        return draw.choice([text, text, f'"{text}"', f"{text}e{draw.choice([0, -1, 2])}"])
    if kinds.is_integer(kind):
        return str(draw.randint(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1))
    if kinds.is_floating(kind):
        return draw.choice([a_number(draw), repr(draw.gauss(0, 100)), '"NaN"', '"-Infinity"', "3.5e38", "3.4028236e38"])
    if kinds.is_boolean(kind):
        return draw.choice(["true", "false"])
    day = f"{draw.randint(1, 9999):04}-{draw.randint(1, 12):02}-{draw.randint(1, 29):02}"
    if kinds.is_date(kind):
        return f'"{day}"'
    if kinds.is_timestamp(kind):
        time = f"{draw.randint(0, 24):02}:{draw.randint(0, 60):02}:{draw.randint(0, 60):02}"
        fraction = draw.choice(["", "", ".5", ".123456", ",25", ".1234560", ".1234567"])
        zone = draw.choice(["Z", "+01:00", "-05:30", "+14:00", "+23:59", "+0100", "+24:00", "-00:00"])
        return f'"{day}{draw.choice("TTT t")}{time}{fraction}{zone if kind.tz or draw.random() < 0.1 else ""}"'
    if kinds.is_binary(kind):
        return draw.choice(['"AQI="', '""', '"AQI"', '"A Q="'])
    return draw.choice(['"x"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '""', '"two words"', '"\\ud800"'])


def a_text_of_json(draw: random.Random) -> str:
    return draw.choice(
        ["1", "1e999", "[{}]", '{"a": [1.50]}', '"\\ud800"', "9" * 5000, "NaN", _DEEP, f"{_DEEP[:400]}{_DEEP[-400:]}"]
    )


_DEEP = "[" * 2000 + "]" * 2000  # a limit depends on how deep the caller is, so no random message is near it


def a_message(draw: random.Random, fields: pa.Schema) -> bytes | None:
    """Draw a message, one in four of which is odd."""
    chance = draw.random()
    if chance < 0.04:
        return None
    texts = {field.name: a_fitting(draw, field.type) for field in fields if draw.random() < 0.95}
    if chance < 0.15:
        name = draw.choice(fields.names)
        try:
            texts[name] = json.dumps(a_json(draw, fields.field(name).type))
        except RecursionError:
            texts[name] = "1"
    elif chance < 0.2:
        texts[draw.choice(fields.names)] = a_text(draw)
    elif chance < 0.23:
        texts["more"] = a_text_of_json(draw)
    message = a_dict(texts).encode(errors="surrogatepass")
    if chance > 0.98:
        return draw.choice(
            [b"", b"[1]", b"\0\0\0\0\1{}", b"\xef\xbb\xbf" + message, message[:-1], message + b" x", b"7"]
        )
    if chance > 0.96:
        return message[:-1] + draw.choice([b', "f": 1', b', "f": null', b"\xff", b"\x01", b","]) + b"}"
    return draw.choice([message, message, b" \n" + message + b"\r\t", REGISTERED + message])


def check_one(draw: random.Random) -> None:
    names = ["f", "g", "h"][: draw.randint(1, 3)]
    declared = [f"{name} {a_kind(draw)}{draw.choice([''] * 9 + [' not null'])}" for name in names]
    numbers, zone = draw.choice(["strict", "strict", "lenient"]), draw.choice([None, None, "Europe/Berlin"])
    registry = draw.random() < 0.2
    function = FromJson(", ".join(declared), registry=registry, numbers=numbers, timeZone=zone)
    fields = arrow_schema(function.outputFields)
    messages = [a_message(draw, fields) for _ in range(draw.randint(1, 40))]
    if registry:
        messages = [m if m is None or draw.random() < 0.02 else REGISTERED + m for m in messages]
    check(work_for(function), messages)


@settings(max_examples=400, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.integers(0, 2**64))
def test_random_messages_are_read_as_by_calls(number: int) -> None:
    check_one(random.Random(number))


@pytest.mark.soak
def test_many_random_messages_are_read_as_by_calls(soak: Soak) -> None:
    for draw in soak.draws(200):
        check_one(random.Random(draw.getrandbits(64)))


# --- single rules -------------------------------------------------------------------------------------------------

ORDER = "id string, total decimal(12,2), at timestamp, items array<struct<sku:string,price:decimal(10,2)>>"


def an_order(number: int, **other: Any) -> bytes:
    items = [{"sku": "k", "price": 0.5 * number}] * (number % 3)
    order = {"id": f"o{number}", "total": number / 4, "at": "2024-02-29T12:00:00+01:00", "items": items}
    return json.dumps({**order, **other}).encode()


def test_orders_are_read_without_a_call_for_any_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(self: FromJson, value: object) -> Any:
        raise AssertionError("it is called")

    monkeypatch.setattr(FromJson, "__call__", called)
    orders = [an_order(number, note="\u00e9", total=total) for number, total in enumerate([1, 2.5, "7.25", None] * 100)]
    work = work_for(FromJson(ORDER))
    made = kernels.kernel(work, frozenset(["total"]))(columns([*orders, None]))
    assert made["total"].values()[:3] == [Decimal("1.00"), Decimal("2.50"), Decimal("7.25")]
    assert made.rows == 401


def test_one_wrong_message_costs_no_call_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, call = [], FromJson.__call__
    monkeypatch.setattr(FromJson, "__call__", lambda self, value: calls.append(value) or call(self, value))
    orders = [an_order(number) for number in range(1000)]
    orders[500] = an_order(500, total="1.005")
    work = replace(work_for(FromJson(ORDER)), caught=Caught(True, pa.schema({"value": BINARY})))
    letters = Letters()
    kept = kernels.catching(work, frozenset(["id"]))(columns(orders), letters)
    assert [*kept["id"].values()] == [f"o{number}" for number in range(1000) if number != 500]
    assert "field 'total': expected decimal(12,2), got \"1.005\"" in letters.dead[0]["message"]
    assert set(calls) == {orders[500]}


@pytest.mark.parametrize(
    "value",
    ["1e-99999999", "1e99999999", "0e-99999999", "-1e-99999999", '"1e-99999999"', "9" * 4000, "1." + "0" * 9000],
)
@pytest.mark.parametrize("kind", ["decimal(38,38)", "decimal(10,0)", "array<decimal(10,2)>", "double", "bigint"])
def test_extreme_numbers_have_the_meaning_of_a_call(value: str, kind: str) -> None:
    text = f'{{"f": [{value}]}}' if kind.startswith("array") else f'{{"f": {value}}}'
    check(work_for(FromJson(f"f {kind}")), [b'{"f": null}', text.encode()])


@pytest.mark.parametrize("outputs", ["f bigint", "f int not null", "g decimal(10,2)"])
def test_a_call_may_declare_other_types(outputs: str) -> None:
    name, kind = outputs.split(" ", 1)
    source = FromJson("f int" if name == "f" else "g decimal(12,2)")
    check(work_for(source, outputs), [f'{{"{name}": {n}}}'.encode() for n in (7, 8)])
    check(work_for(source, outputs), [f'{{"{name}": {n}}}'.encode() for n in (7, "null", 12345678901)])


def test_texts_are_read_as_binaries_are() -> None:
    check(work_for(FromJson("f decimal(5,2)")), ['{"f": 1.25}', None, '{"f": 1.255}', "\ufeff{}"], pa.string())


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "array<timestamp>", "date"])
@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00",
        "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "9998-12-31T23:59:59Z", "2024-02-30T00:00:00Z",
        "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00.1234560Z", "2024-01-01T00:00:00.123456789Z",
        "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00-00:00", "2024-01-01T00:00Z", "2024-01-01",
        "20240101", "2024-01-01T00:00:00Z\\n", "1969-12-31 23:59:59.5+00:00:30",
    ],
)  # fmt: skip
def test_times_have_the_meaning_of_a_call(text: str, kind: str) -> None:
    message = f'{{"f": ["{text}"]}}' if kind.startswith("array") else f'{{"f": "{text}"}}'
    check(work_for(FromJson(f"f {kind}")), [b'{"f": null}', message.encode()])
    check(work_for(FromJson(f"f {kind}", timeZone="Europe/Berlin")), [message.encode()])
