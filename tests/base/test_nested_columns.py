"""Columns of nested values are made from their parts at once, and are what a check of each value makes."""

import datetime
import decimal
import random
from contextlib import suppress
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import types as kinds
from pyspark.sql import Row

from tests.base.value_fuzzer import a_kind, a_value
from tests.support.soak import Soak
from trident.base import value_conversion as conversions
from trident.base.spark_types import arrow_type, parse_type
from trident.base.value_conversion import NotAccepted, to_arrow

ODD_FORMS = [numpy.int64(7), True, 3, 2.5, "x", b"x", [1], (1, 2), {"x": 1}, {"z": 1}, Row(x=1), decimal.Decimal("NaN")]


def a_fitting(draw: random.Random, kind: pa.DataType) -> Any:
    """Draw a value that is mostly accepted as this type, in one of the forms that are."""
    chance = draw.random()
    if chance < 0.08:
        return None
    if chance < 0.1:
        return draw.choice([*ODD_FORMS, a_value(draw, kind)])
    if kinds.is_list(kind):
        items = [a_fitting(draw, kind.value_type) for _ in range(draw.randint(0, 3))]
        return draw.choice([list, list, tuple])(items)
    if kinds.is_struct(kind):
        members = {kind.field(at).name: a_fitting(draw, kind.field(at).type) for at in range(kind.num_fields)}
        if chance < 0.6:
            return {name: member for name, member in members.items() if draw.random() < 0.95}
        return (
            Row(**dict(sorted(members.items(), key=lambda _: draw.random()))) if chance < 0.8 else (*members.values(),)
        )
    if kinds.is_map(kind):
        entries: dict[Any, Any] = {}
        for _ in range(draw.randint(0, 3)):
            with suppress(TypeError, ValueError, ArithmeticError):  # it has no hash, or no order among the others
                entries[a_fitting(draw, kind.key_type)] = a_fitting(draw, kind.item_type)
        return entries
    return a_scalar(draw, kind)


def a_scalar(draw: random.Random, kind: pa.DataType) -> Any:
    if kinds.is_decimal(kind):
        digits = draw.randint(0, 10 ** draw.randint(0, kind.precision) - 1)
        return decimal.Decimal((draw.randint(0, 1), tuple(map(int, str(digits))), -draw.randint(0, kind.scale)))
    if kinds.is_integer(kind):
        return draw.randint(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if kinds.is_floating(kind):
        return draw.choice([draw.gauss(0, 100), draw.gauss(0, 100), float("nan"), float("inf"), 7, 3.5e38])
    if kinds.is_boolean(kind):
        return draw.random() < 0.5
    if kinds.is_date(kind):
        return datetime.date.fromordinal(draw.randint(1, datetime.date.max.toordinal()))
    if kinds.is_timestamp(kind):
        zone = datetime.timezone(datetime.timedelta(minutes=draw.randint(-800, 800))) if kind.tz else None
        day = datetime.datetime.fromordinal(draw.choice([1, draw.randint(1, 3652059), 3652059]))
        return day.replace(hour=draw.randint(0, 23), microsecond=draw.randint(0, 999_999), tzinfo=zone)
    return draw.choice(["", "é", "\ud800"]) if kinds.is_string(kind) else draw.choice([b"", b"\xff", bytearray(b"a")])


def came(values: list[Any], kind: pa.DataType) -> object:
    try:
        column = to_arrow(values, kind)
    except NotAccepted as error:
        return error.row, error.why, str(error), error.kind
    assert column.type.equals(kind)
    column.validate(full=True)
    return repr(column.to_pylist())


def check(values: list[Any], kind: pa.DataType) -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conversions, "_MANY", 1 << 40)
        expected = came(values, kind)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conversions, "_MANY", 0)
        assert came(values, kind) == expected
    return expected


def check_one(draw: random.Random) -> object:
    kind = arrow_type(parse_type(a_kind(draw)))
    return check([a_fitting(draw, kind) for _ in range(draw.randint(0, draw.choice([3, 30])))], kind)


@settings(max_examples=300, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.integers(0, 2**64))
def test_random_values_become_the_column_of_a_check_of_each(number: int) -> None:
    check_one(random.Random(number))


@pytest.mark.soak
def test_many_random_values_become_the_column_of_a_check_of_each(soak: Soak) -> None:
    for draw in soak.draws(2000):
        check_one(random.Random(draw.getrandbits(64)))


def test_members_that_must_be_there_are_checked_within_structs() -> None:
    kind = pa.list_(pa.struct([pa.field("x", pa.int64(), nullable=False)]))
    check([[{"x": 1}], None, [None]], kind)
    assert "'x' is NOT NULL" in str(check([[{"x": 1}], [{"x": None}]], kind))
