"""No value passes that the library below does not bear: the gate by declared type, at each door, and its messages."""

import datetime
import decimal
import json
import subprocess
import sys
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.base.value_fuzzer import SCALARS, same
from tests.support.soak import Soak
from trident.base.errors import DRPCArgumentError, DuplicateFieldError, StateKeyError, TypeDeclarationError
from trident.base.json_values import from_json, read_json, read_time
from trident.base.short_texts import short_repr
from trident.base.spark_types import arrow_type, parse_schema, parse_type
from trident.base.value_conversion import NotAccepted, to_arrow, to_python
from trident.drpc.local import Arguments
from trident.reads.keys_from_json import key_of_text

PRICE = pa.decimal128(10, 2)
D = decimal.Decimal
LONG = 10**5000


def str_of(value: object) -> str:
    return short_repr(value)[:40]


@pytest.mark.parametrize("text", ["0", "0.00", "-1.5", "1.500000", "12345678.9", "0e-50", "0e5", "-0.0", "1E+7"])
def test_a_decimal_comes_back_with_its_value(text: str) -> None:
    assert to_arrow([D(text)], PRICE)[0].as_py() == D(text)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (D("1.005"), "it has more than 2 digits after the point"),
        (D("1e-41"), "it has more than 2 digits after the point"),  # Arrow takes it for 0.00
        (D("1e-99999999"), "it has more than 2 digits after the point"),  # Arrow ends the process
        (D("123456789"), "it has more than 8 digits before the point"),
        (D("1e99999999"), "it has more than 8 digits before the point"),
        (LONG, "it has more than 8 digits before the point"),
        (D("NaN"), "a decimal is a finite number; declare double for NaN and infinities"),
        (D("-Infinity"), "a decimal is a finite number; declare double for NaN and infinities"),
        (True, "a bool is not accepted as a number; write int(...)"),
    ],
    ids=str_of,
)
def test_a_decimal_that_the_type_does_not_hold_is_refused(value: Any, why: str) -> None:
    with pytest.raises(NotAccepted) as refused:
        to_arrow([None, value], PRICE)
    assert (refused.value.row, refused.value.why) == (1, why)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (numpy.datetime64("2024-01-01", "ns"), "long"),  # its item() is a bare number
        (numpy.array(5), "array<int>"),
        ({None: 1}, "map<string,int>"),
        ({0.1: 1, 0.1 + 1e-12: 2}, "map<float,int>"),
        ({float("nan"): 1, float("1e999") - float("1e999"): 2}, "map<double,int>"),
        ("\ud800", "string"),
        ({"\ud800": 1}, "map<string,int>"),
        (LONG, "long"),
        (LONG, "double"),
    ],
    ids=str_of,
)
def test_other_values_that_arrow_does_not_bear_are_refused(value: Any, kind: str) -> None:
    with pytest.raises(NotAccepted) as refused:
        to_arrow([value], arrow_type(parse_type(kind)))
    str(refused.value).encode()  # can be sent


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.decimals()
    | st.dates() | st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC))
    | st.builds(lambda sign, digits, exponent: D((sign, digits, exponent)), st.sampled_from([0, 1]),
                st.lists(st.integers(0, 9), min_size=1, max_size=50).map(tuple), st.integers(-(10**9), 10**9)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
declared = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.builds("array<{}>".format, inner) | st.builds("map<string,{}>".format, inner),
    max_leaves=2,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(anything, declared)
def test_any_value_comes_back_exactly_or_is_refused(value: Any, kind: str) -> None:
    target = arrow_type(parse_type(kind))
    try:
        (back,) = to_python(to_arrow([value], target))
    except NotAccepted as error:
        str(error).encode()
    else:
        assert same(value, back, target)


@pytest.mark.parametrize("kind", ["map<array<int>,string>", "map<struct<x:array<int>>,string>"])
def test_a_map_whose_keys_hold_lists_can_be_read(kind: str) -> None:
    key = (1, None) if "struct" not in kind else ((1, None),)
    ((back,),) = (to_python(to_arrow([{key: "a"}], arrow_type(parse_type(kind)))),)
    assert back == {key: "a"}


# --- doors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1e-77", "1e-99999999", "1e99999999", "9" * 5000, "[" * 3000, "NaN"], ids=str_of)
def test_a_key_in_a_url_or_a_shell_is_exact_or_refused(text: str) -> None:
    with pytest.raises((StateKeyError, NotAccepted)):
        to_arrow([key_of_text(text, pa.schema({"price": PRICE}), "prices")], PRICE)


def test_a_long_key_is_shown_briefly() -> None:
    with pytest.raises(StateKeyError) as refused:
        key_of_text("[" * 3000, pa.schema({"n": pa.int64()}), "counts")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("value", "kind", "what"),
    [
        ([1], "double", "is [1] (list)"),
        ({"x": 1}, "float", "is {'x': 1} (dict)"),
        ("1e-77", "decimal(10,2)", "it has more than 2 digits after the point"),
        ("\ud800", "string", "surrogates not allowed"),
        (LONG, "long", "a value of class int that cannot be shown (int)"),
    ],
    ids=str_of,
)
def test_an_argument_of_a_query_is_refused_with_its_value(value: Any, kind: str, what: str) -> None:
    with pytest.raises(DRPCArgumentError, match="DRPC 'f': argument 'v' is") as refused:
        Arguments("f", parse_schema(f"v {kind}")).bind([from_json(value, arrow_type(parse_type(kind)))], {})
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (D("1e400"), "double", "out of the range of double"),
        (1e300, "float", "out of the range of float"),
        (10**400, "double", "out of the range of double"),
        ("2024-01-01T00:00:00.1234567", "timestamp_ntz", "finer than a microsecond"),
        ({"[" * 200_000: 1}, "map<long,int>", "nested too deeply"),
        ({"[1]": 1}, "map<long,int>", "one plain value"),
        ({"1.0": 1, "1.00": 2}, "map<decimal(5,2),int>", "two keys of a map are equal: Decimal('1.00')"),
    ],
    ids=str_of,
)
def test_json_that_would_become_another_value_is_refused(value: Any, kind: str, why: str) -> None:
    with pytest.raises(ValueError, match=".") as refused:
        from_json(value, arrow_type(parse_type(kind)))
    assert why in str(refused.value)


def test_infinities_are_taken_where_they_are_meant() -> None:
    assert from_json("Infinity", pa.float32()) == from_json(float("inf"), pa.float64()) == float("inf")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "1e99999999999999999999", ""], ids=str_of
)
def test_a_text_that_is_no_json_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError, match=".") as refused:
        read_json(text)
    assert "sys." not in str(refused.value)


def test_a_time_keeps_its_zeros_beyond_the_microsecond() -> None:
    assert read_time("2024-01-01T00:00:00.123456000Z").microsecond == 123456


# --- declared types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["s struct<a:int,A:int>", "s array<struct<a:int,a:int>>", "m map<int,struct<x:int,X:int>>"]
)
def test_fields_of_a_struct_that_differ_in_case_alone_are_refused(text: str) -> None:
    with pytest.raises(DuplicateFieldError, match="in the struct of field '[sm]'"):
        parse_schema(text)


def test_types_within_types_without_end_are_refused() -> None:
    with pytest.raises(TypeDeclarationError, match="nested too deeply"):
        parse_type("array<" * 20_000 + "int" + ">" * 20_000)


# --- the fuzzer ---------------------------------------------------------------------------------------------------


def fuzz(seed: int, count: int) -> dict[str, int]:
    """Take random values through every door, in a process that may die."""
    command = [sys.executable, "-m", "tests.base.value_fuzzer", str(seed), str(count)]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0, f"{command[1:]}: {child.returncode} after {child.stdout[-40:]}{child.stderr[-2000:]}"
    came: dict[str, int] = json.loads(child.stdout.splitlines()[-1])
    return came


def test_random_values_at_every_door() -> None:
    came = fuzz(seed=7, count=3000)
    assert sum(came.values()) == 3000
    assert came["taken"] > 300


@pytest.mark.soak
def test_many_random_values_at_every_door(soak: Soak) -> None:
    for draw in soak.draws(50):
        fuzz(seed=draw.getrandbits(32), count=20_000)
