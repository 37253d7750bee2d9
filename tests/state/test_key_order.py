"""Keys as bytes in the order of their types: the order of Spark, of any fields; ranges and beginnings of them."""

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.state.test_keys import TYPED
from trident.base.value_conversion import type_name
from trident.testing.contracts.stores.ranges import ORDERED, rank
from trident_state.key_order import (
    KeyRange,
    collect_ranges,
    end_of,
    is_stored_in_order,
    order_of,
    order_of_beginning,
    possible_keys,
    stored_range,
    unordered_field,
)
from trident_state.keys import encode_keys

ORDERED_TYPES = {**TYPED, pa.duration("us"): st.timedeltas(datetime.timedelta(-900_000), datetime.timedelta(900_000))}
KINDS = st.lists(st.sampled_from(list(ORDERED_TYPES)), min_size=1, max_size=3)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(KINDS)
    rows = draw(st.lists(st.tuples(*(st.none() | ORDERED_TYPES[kind] for kind in kinds)), max_size=12))
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.table(columns, names=[f"k{at}" for at in range(len(kinds))])


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def ranks_of(table: pa.Table, fields: int) -> list[list[Any]]:
    return [[rank(value) for value in row[:fields]] for row in rows_of(table)]


@settings(max_examples=150, deadline=None)
@given(tables())
def test_bytes_compare_as_the_keys_do(table: pa.Table) -> None:
    orders = order_of(table, table.num_columns).to_pylist()
    ranks = ranks_of(table, table.num_columns)
    for one in range(len(orders)):
        for other in range(len(orders)):
            assert (orders[one] < orders[other]) == (ranks[one] < ranks[other])
            assert (orders[one] == orders[other]) == (ranks[one] == ranks[other])


@settings(max_examples=150, deadline=None)
@given(tables(), st.data())
def test_first_fields_are_the_beginning_of_a_key(table: pa.Table, data: st.DataObject) -> None:
    """All keys with the same first fields lie between these fields' bytes and the end of these."""
    fields = data.draw(st.integers(1, table.num_columns))
    firsts = order_of(table.select(range(fields)), table.num_columns).to_pylist()
    orders, ranks = order_of(table, table.num_columns), ranks_of(table, fields)
    for row, first in enumerate(firsts):
        after = first + b"\0" if fields == table.num_columns else end_of(first)
        held = KeyRange(first, after).holds(orders).to_pylist()
        assert held == [each == ranks[row] for each in ranks]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.binary(max_size=4)), st.binary(max_size=3), st.booleans(), st.sampled_from([pa.string(), pa.binary()])
)
def test_the_keys_that_begin_with_a_text(
    values: list[bytes], beginning: bytes, isLast: bool, kind: pa.DataType
) -> None:
    if kind == pa.string():
        texts: list[Any] = [value.decode("latin-1") for value in values]
        start: Any = beginning.decode("latin-1")
    else:
        texts, start = list(values), beginning
    columns = [pa.array(texts, kind)] + ([] if isLast else [pa.array([1] * len(texts))])
    keys = pa.table(columns, names=["a", "b"][: len(columns)])
    first = order_of_beginning(start, isLast)
    held = KeyRange(first, end_of(first)).holds(order_of(keys, len(columns))).to_pylist()
    assert held == [text.startswith(start) for text in texts]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([pa.string(), pa.binary(), pa.bool_()]))
def test_a_range_of_stored_keys_is_the_same_range(data: st.DataObject, kind: pa.DataType) -> None:
    values = data.draw(st.lists(st.none() | TYPED[kind], max_size=8))
    keys = pa.table({"k": pa.array(values, kind)})
    assert is_stored_in_order(keys.schema)
    orders, stored = order_of(keys, 1), encode_keys(keys)
    ends = st.sampled_from([b"", b"\0", b"\0\0", b"\1", b"\2", *orders.to_pylist()]).flatmap(
        lambda end: st.sampled_from([end, end + b"\0", end + b"\xff"])
    )
    between = KeyRange(data.draw(ends), data.draw(st.none() | ends))
    low, high = stored_range(between, kind)
    assert between.holds(orders).to_pylist() == [low <= key < high for key in stored.to_pylist()]


def test_other_keys_are_not_stored_in_order() -> None:
    assert not is_stored_in_order(pa.schema({"n": pa.int64()}))
    assert not is_stored_in_order(pa.schema({"a": pa.string(), "b": pa.string()}))
    assert unordered_field(pa.schema({"a": pa.string(), "b": pa.list_(pa.int64())})).name == "b"  # type: ignore[union-attr]
    assert unordered_field(pa.schema({"a": pa.string()})) is None


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([pa.int8(), pa.int64(), pa.date32()]))
def test_all_possible_keys_of_a_range(data: st.DataObject, kind: pa.DataType) -> None:
    schema, bits = pa.schema({"k": kind}), kind.bit_width - 1
    numbers = st.sampled_from([-(2**bits), -(2**bits) + 1, -1, 0, 1, 2**bits - 2, 2**bits - 1])
    ends = numbers.map(lambda number: order_of(pa.table({"k": pa.array([number])}), 1)[0].as_py()).flatmap(
        lambda end: st.sampled_from([end, end + b"\0", end[:-1]])
    )
    between = KeyRange(data.draw(ends | st.just(b"\1")), data.draw(ends | st.just(b"\2") | st.none()))
    found = possible_keys(between, schema, 20)
    wide = pa.int64() if kind == pa.int64() else pa.int32()
    listed = [] if found is None else found["k"].cast(pa.int32() if kind == pa.date32() else kind).to_pylist()
    near = {number + step for number in (-(2**bits), 0, 2**bits - 1) for step in range(-25, 26)}
    tried = sorted(number for number in near if -(2**bits) <= number < 2**bits)
    orders = order_of(pa.table({"k": pa.array(tried, wide)}), 1)
    inside = [number for number, held in zip(tried, between.holds(orders).to_pylist(), strict=True) if held]
    assert listed == inside if found is not None else len(inside) > 20


def test_keys_that_cannot_be_listed() -> None:
    everything = KeyRange(b"", None)
    assert possible_keys(everything, pa.schema({"k": pa.int8()}), 1_000) is None, "null may be one of them"
    assert possible_keys(KeyRange(b"\1", None), pa.schema({"k": pa.int8()}), 255) is None
    for kind in (pa.string(), pa.float64(), pa.timestamp("us"), pa.bool_()):
        assert possible_keys(KeyRange(b"\1", b"\1"), pa.schema({"k": kind}), 1_000) is None
    assert possible_keys(KeyRange(b"\1", b"\1"), pa.schema({"k": pa.int8(), "j": pa.int8()}), 1_000) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60_000), max_size=20), max_size=4), st.none() | st.integers(1, 30))
def test_a_range_of_a_scan_keeps_the_first_entries(pages: list[list[int]], most: int | None) -> None:
    schema = pa.schema({"k": pa.int64(), "value": pa.int64()})
    tables = [pa.table([page, [None if key % 7 == 0 else key for key in page]], schema=schema) for page in pages]
    low, high = order_of(pa.table({"k": pa.array([100, 50_000])}), 1).to_pylist()
    (found,) = collect_ranges(tables, schema, [KeyRange(low, high)], most)
    expected = sorted(key for page in pages for key in page if 100 <= key < 50_000 and key % 7)
    assert found["k"].to_pylist() == expected[:most]


def test_a_long_scan_with_a_limit_is_cut_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_state.key_order._KEEP_ROWS", 10)
    schema = pa.schema({"k": pa.int64(), "value": pa.int64()})
    pages = [pa.table([list(range(at, 1_000, 50)), [1] * 20], schema=schema) for at in range(50)]
    (found,) = collect_ranges(pages, schema, [KeyRange(b"", None)], 5)
    assert found["k"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.parametrize("keys", ORDERED)
def test_the_order_is_that_of_spark(keys: str, spark: SparkSession) -> None:
    schema, values = ORDERED[keys]
    ddl = ", ".join(f"{field.name} {type_name(field.type)}" for field in schema)
    frame = spark.createDataFrame([(*key, row) for row, key in enumerate(values)], f"{ddl}, row int")
    ordered = [row.row for row in frame.orderBy(*schema.names).collect()]
    columns = [pa.array([key[at] for key in values], field.type) for at, field in enumerate(schema)]
    assert pc.sort_indices(order_of(pa.table(columns, schema=schema), len(schema))).to_pylist() == ordered
