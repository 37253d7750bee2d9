"""Columns as pandas Series and back: the dtypes that functions see, and what a declared type accepts."""

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from trident.base.spark_types import arrow_type, parse_type
from trident.base.value_conversion import NotAccepted, to_arrow
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.pandas_columns import WrongDtype, from_series, to_frame, to_series

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, datetime.UTC)
LATE = datetime.datetime(9999, 12, 31, 23, 59, tzinfo=datetime.UTC)  # beyond what nanoseconds can hold


def column(kind: str, *values: Any) -> Column:
    arrow = arrow_type(parse_type(kind))
    return Column.of(pa.array(list(values), arrow))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "array<timestamp>"])
def test_a_function_of_tuples_gives_no_time_finer_than_a_microsecond(kind: str) -> None:
    fine = pd.Timestamp("2024-02-29T12:00:00.000001789", tz="UTC" if kind != "timestamp_ntz" else None)
    given = [fine] if kind.startswith("array") else fine
    with pytest.raises(NotAccepted) as raised:
        to_arrow([None, given], arrow_type(parse_type(kind)))
    assert (raised.value.row, raised.value.why) == (1, "finer than a microsecond; write .floor('us')")
    plain = fine.floor("us")
    found = to_arrow([[plain] if kind.startswith("array") else plain], arrow_type(parse_type(kind)))
    assert found.to_pylist() == [[plain] if kind.startswith("array") else plain]


def test_a_column_of_floats_takes_the_nearest_number_of_its_width() -> None:
    assert to_arrow([2**53 + 1, 1], pa.float64()).to_pylist() == [2.0**53, 1.0]
    assert to_arrow([0.1, math.inf], pa.float32()).to_pylist() == [float(np.float32(0.1)), math.inf]


@pytest.mark.parametrize("values", [[0.5, 1e39], [0.5, -(10**39)], [0.5, 3.4028236e38]])
def test_a_finite_number_beyond_a_float_is_refused(values: list[float]) -> None:
    makes: list[Any] = [
        lambda: to_arrow(values, pa.float32()),
        lambda: to_arrow([values], pa.list_(pa.float32())),
        lambda: from_series(pd.Series(values, dtype="float64"), pa.float32()),
    ]
    for make in makes:
        with pytest.raises(NotAccepted) as raised:
            make()
        assert raised.value.why == "it is beyond the range of a float; declare double, or return infinity"


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        ("long", [1, 2**60], "int64"),
        ("long", [1, None], "float64"),
        ("long", [2**53 + 1, None], "Int64"),
        ("int", [1, None], "float64"),
        ("tinyint", [1, 2], "int8"),
        ("double", [0.5, None], "float64"),
        ("float", [0.5], "float32"),
        ("boolean", [True, False], "bool"),
        ("boolean", [True, None], "object"),
        ("string", ["a", None], "object"),
        ("binary", [b"a", None], "object"),
        ("date", [DAY, None], "object"),
        ("decimal(10,2)", [Decimal("1.50"), None], "object"),
        ("timestamp", [NOON, LATE, None], "datetime64[us, UTC]"),
        ("timestamp_ntz", [NOON.replace(tzinfo=None), None], "datetime64[us]"),
        ("array<long>", [[1, None], None], "object"),
        ("map<string,long>", [[("a", 1)], None], "object"),
    ],
)
def test_the_dtype_of_each_type_and_the_way_back(kind: str, values: list[Any], dtype: str) -> None:
    given_column = column(kind, *values)
    series = to_series(given_column, "x")
    assert str(series.dtype) == dtype and series.name == "x"
    assert from_series(series, given_column.kind).equals(given_column.array())
    frame = to_frame(Columns({"x": given_column}, len(values)), ["x"])
    assert str(frame["x"].dtype) == dtype
    assert from_series(frame["x"], given_column.kind).equals(given_column.array())
    empty = to_series(column(kind), "x")
    assert from_series(empty, given_column.kind).equals(pa.array([], given_column.kind))


def test_nested_values_are_those_of_functions_of_tuples() -> None:
    of_struct = column("struct<a:long,b:array<string>>", {"a": 2**60, "b": ["x", None]}, None)
    series = to_series(of_struct, "s")
    assert series[0] == Row(a=2**60, b=["x", None]) and series[1] is None
    assert from_series(series, of_struct.kind).equals(of_struct.array())
    assert to_series(column("map<string,long>", [("a", 1)]), "m")[0] == {"a": 1}


def test_a_function_may_change_what_it_gets_and_the_column_stays() -> None:
    numbers = column("long", 1, 2)
    series = to_series(numbers, "n")
    series[0] = 7
    frame = to_frame(Columns({"n": numbers}, 2), ["n"])
    frame.loc[0, "n"] = 8
    assert numbers.array().to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("series", "kind", "values"),
    [
        (pd.Series([1.0, math.nan]), "long", [1, None]),
        (pd.Series([1, 2]), "double", [1.0, 2.0]),
        (pd.Series([2**60 + 1]), "double", [float(2**60 + 1)]),
        (pd.Series([1, 2], dtype="int64"), "int", [1, 2]),
        (pd.Series([1, pd.NA], dtype="Int64"), "long", [1, None]),
        (pd.Series(["a", pd.NA], dtype="string"), "string", ["a", None]),
        (pd.Series(["a", "b", "a"], dtype="category"), "string", ["a", "b", "a"]),
        (pd.Series([math.nan, math.nan]), "string", [None, None]),
        (pd.Series([None, math.nan, pd.NaT, pd.NA], dtype=object), "long", [None] * 4),
        (pd.Series([1, 2.0, None], dtype=object), "long", [1, 2, None]),
        (pd.Series([2**60 + 1, None], dtype=object), "long", [2**60 + 1, None]),
        (pd.Series([np.int64(3), 4], dtype=object), "decimal(10,2)", [Decimal(3), Decimal(4)]),
        (pd.Series([pd.Timestamp(NOON)]), "timestamp", [NOON]),
        (pd.Series([pd.Timestamp(NOON).tz_convert("Asia/Tokyo")]), "timestamp", [NOON]),
        (
            pd.Series([pd.Timestamp("2024-01-01T00:00:00.000001")]),
            "timestamp_ntz",
            [datetime.datetime(2024, 1, 1, 0, 0, 0, 1)],
        ),
        (pd.Series([np.array([1, 2]), [3]]), "array<long>", [[1, 2], [3]]),
        (pd.Series([True, None], dtype="boolean"), "boolean", [True, None]),
        (pd.Series([0.5]), "float", [0.5]),
    ],
)
def test_what_a_type_accepts(series: Any, kind: str, values: list[Any]) -> None:
    assert from_series(series, arrow_type(parse_type(kind))).to_pylist() == values


@pytest.mark.parametrize(
    ("series", "kind", "row", "why"),
    [
        (pd.Series([1.0, 1.5]), "long", 1, ""),
        (pd.Series([1, 2**40]), "int", 1, ""),
        (pd.Series([1.0, 1e300]), "long", 1, ""),
        (pd.Series(["a", 1], dtype=object), "string", 1, ""),
        (pd.Series([1, True], dtype=object), "long", 1, "a bool is not accepted as a number"),
        (pd.Series([pd.Timestamp("2024-01-01T00:00:00.000000001", tz="UTC")]), "timestamp", 0, r"\.dt\.floor\('us'\)"),
        (pd.Series([pd.Timestamp(1, tz="UTC"), "x"], dtype=object), "timestamp", 0, r"\.dt\.floor\('us'\)"),
        (pd.Series([NOON, NOON.replace(tzinfo=None)], dtype=object), "timestamp", 1, "without a zone"),
        (pd.Series([NOON.replace(tzinfo=None), NOON], dtype=object), "timestamp_ntz", 1, "with a zone"),
        (pd.Series([DAY, NOON.replace(tzinfo=None)], dtype=object), "date", 1, r"write \.date\(\)"),
        (pd.Series([[DAY], [NOON.replace(tzinfo=None)]]), "array<date>", 1, r"write \.date\(\)"),
        (pd.Series([{"at": NOON}, {"at": NOON.replace(tzinfo=None)}]), "struct<at:timestamp>", 1, "without a zone"),
        (pd.Series([b"a", "b"], dtype=object), "binary", 1, ""),
    ],
)
def test_the_first_value_that_does_not_fit_is_named(series: Any, kind: str, row: int, why: str) -> None:
    with pytest.raises(NotAccepted) as refused:
        from_series(series, arrow_type(parse_type(kind)))
    assert refused.value.row == row and (why == "" or pd.Series([refused.value.why]).str.contains(why)[0])


@pytest.mark.parametrize(
    ("series", "kind", "hint"),
    [
        (pd.Series(["1"], dtype="string"), "long", "^$"),
        (pd.Series([1]), "string", "^$"),
        (pd.Series([0.5]), "decimal(10,2)", "^$"),
        (pd.Series([True]), "long", r"write \.astype\('int64'\)"),
        (pd.Series([pd.Timestamp("2024-01-01")]), "timestamp", r"tz_localize\('UTC'\), or declare timestamp_ntz"),
        (pd.Series([pd.Timestamp(NOON)]), "timestamp_ntz", "declare timestamp"),
        (pd.Series([pd.Timestamp(NOON)]), "date", r"write \.dt\.date"),
    ],
)
def test_a_dtype_that_never_fits_is_refused(series: Any, kind: str, hint: str) -> None:
    with pytest.raises(WrongDtype, match=hint):
        from_series(series, arrow_type(parse_type(kind)))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_whole_numbers_pass_pandas_unchanged(values: list[int | None]) -> None:
    numbers = column("long", *values)
    assert from_series(to_series(numbers, "n"), numbers.kind).to_pylist() == values
