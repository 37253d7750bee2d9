"""Values of JSON and Avro mean the same on both engines; those that cannot be read become dead letters."""

from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, leaving, stream
from tests.operations.test_avro_values import FIELDS, ORDER, USER, VALUE, registered, written
from trident import FromAvro, FromJson, TridentTopology

JSON = [
    b'{"n": 1, "at": "2024-02-29T12:00:00Z", "where": {"city": "Ulm"}}',
    None,
    b'{"n": "x"}',
    b"\0\0\0\0\7{}",
    b"{}",
]


@pytest.mark.connect
def test_both_engines_read_json_and_avro(engine: Slots) -> None:
    topology = TridentTopology()
    values = stream(topology, "value binary", [(value,) for value in JSON], [])
    read = FromJson("n bigint, at timestamp, where struct<city: string>")
    found = values.each("value", read, onError="skip").project("n, at, where")
    (first, *nulls) = sorted(leaving(engine, found), key=lambda row: row[0] is None)
    assert (first[0], first[1].isoformat(), first[2]["city"]) == (1, "2024-02-29T12:00:00+00:00", "Ulm")
    assert nulls == [(None, None, None)] * 2

    rows = [(written(ORDER, VALUE),), (None,), (b"\1",)]
    avro = stream(TridentTopology(), "value binary", rows, [])
    found = avro.each("value", FromAvro(FIELDS, schema=ORDER), onError="skip").project("n, price, id")
    expected: list[Any] = [(7, VALUE["price"], str(VALUE["id"])), (None, None, None)]
    assert sorted(leaving(engine, found), key=repr) == sorted(expected, key=repr)


@pytest.mark.connect
def test_both_engines_read_a_registrys_values(engine: Slots) -> None:
    rows = [(registered(7, USER, {"id": 3}),), (registered(8, USER, {"id": 4}),)]
    values = stream(TridentTopology(), "value binary", rows, [])
    found = values.each("value", FromAvro("id bigint", registry={7: USER}), onError="skip").project("id")
    assert leaving(engine, found) == [(3,)]
