"""The forms of rows that are accepted, and the errors for values that are not of their declared types."""

import datetime
import sys
import types
from decimal import Decimal
from typing import Any

import numpy
import pandas
import pyarrow as pa
import pytest
from pyspark.sql import Row

from trident.errors import SpoutContractError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident_spouts.rows import read_schema, table_of

PAIR = read_schema("word string, n long")
UTC = datetime.UTC


@pytest.mark.parametrize(
    "rows",
    [
        [("cow", 1), ("moon", None)],
        [["cow", 1], ["moon", None]],
        [{"word": "cow", "n": 1}, {"n": None, "word": "moon"}],
        [Row(n=1, word="cow"), Row(word="moon", n=None)],
        [Row("cow", 1), ("moon", None)],
        (pair for pair in [("cow", numpy.int64(1)), ("moon", None)]),
        pa.table({"n": pa.array([1, None], pa.int32()), "word": pa.array(["cow", "moon"], pa.large_string())}),
        pa.table({"word": pa.array(["cow", "moon"]).dictionary_encode(), "n": [1, None]}).to_batches()[0],
        pandas.DataFrame({"word": ["cow", "moon"], "n": [1, None]}),
        pandas.DataFrame({"n": pandas.array([1, None], "Int64"), "word": pandas.Categorical(["cow", "moon"])}),
        pandas.DataFrame({"n": [1, numpy.nan], "word": ["cow", "moon"]}, index=[7, 9], dtype=object),
    ],
)
def test_every_form_of_rows_gives_the_same_table(rows: Any) -> None:
    table = table_of(rows, PAIR, "here")
    assert table.to_pylist() == [{"word": "cow", "n": 1}, {"word": "moon", "n": None}]
    assert table.schema == pa.schema([("word", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize("rows", [[], (), pa.table({"word": pa.array([], pa.string()), "n": pa.array([], pa.int64())})])
def test_no_rows_are_an_empty_table_of_the_schema(rows: Any) -> None:
    assert table_of(rows, PAIR, "here").schema.names == ["word", "n"]


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ("v array<int>", [1, 2]),
        ("v map<string, int>", {"a": 1}),
        ("v struct<a: int>", {"a": 1}),
        ("v struct<a: int>", Row(a=1)),
        ("v decimal(10, 2)", Decimal("1.50")),
        ("v date", datetime.date(2024, 2, 29)),
        ("v timestamp", datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("v timestamp_ntz", datetime.datetime(2024, 1, 1, 12)),
        ("v binary", b"\x00\xff"),
        ("v double", 1),
        ("v boolean", numpy.bool_(True)),
    ],
)
def test_a_scalar_is_the_row_of_one_field(fields: str, value: Any) -> None:
    table = table_of([value], read_schema(fields), "here")
    if isinstance(value, Row):
        value = value.asDict()
    found = table.column("v")[0].as_py()
    assert (dict(found) if fields.startswith("v map") else found) == value


@pytest.mark.parametrize(
    ("fields", "rows", "said"),
    [
        ("word string, n long", [("cow", 1), ("moon", "x")], "here, row 1, field 'n': expected bigint, got 'x' (str)"),
        ("d double", [1, 10**400], "(int); it is greater than the largest double"),
        ("n long", [1, 1.0], "here, row 1, field 'n': expected bigint, got 1.0 (float)"),
        (
            "n long",
            [True],
            "here, row 0, field 'n': expected bigint, got True (bool); a bool is not accepted as a number",
        ),
        ("n int", [2**31], "here, row 0, field 'n': expected int, got 2147483648 (int); "),
        ("n int NOT NULL", [1, None], "here, row 1, field 'n': null, but the field is NOT NULL"),
        (
            "d decimal(3, 1)",
            [Decimal("1.25")],
            "here, row 0, field 'd': expected decimal(3,1), got Decimal('1.25') (Decimal); ",
        ),
        (
            "at timestamp",
            [datetime.datetime(2024, 1, 1)],
            "field 'at': expected timestamp, got datetime.datetime(2024, 1, 1, 0, 0) (datetime)",
        ),
        ("a array<long>", [["x"]], "here, row 0, field 'a': expected array<bigint>, got 'x' (str)"),
        ("a long, b long", [(1, 2, 3)], "here, row 0: (1, 2, 3) (tuple) has 3 values, expected 2"),
        ("a long, b long", ["ab"], "here, row 0: expected a row of 2 fields (a bigint, b bigint), got 'ab' (str)"),
        ("a long, b long", [{"a": 1}], "here, row 0: field 'b' is missing; write None for a null"),
        ("a long, b long", [{"a": 1, "c": 2}], "here, row 0: unknown field 'c'; the fields are (a bigint, b bigint)"),
        ("line string", "the cow", "here is 'the cow' (str); expected a list of rows"),
        ("line string", 5, "here is 5 (int); expected a list of rows"),
        ("n long", pa.table({"n": ["1"]}), "here, field 'n': expected bigint, but the column is string"),
        ("n long", pa.table({"m": [1]}), "here: its columns are (m), but (n bigint) is declared; rename or select"),
        ("n tinyint", pa.table({"n": [300]}), "here, field 'n': expected tinyint, but the column is int64 and"),
        (
            "at timestamp",
            pandas.DataFrame({"at": pandas.to_datetime(["2024-01-01"])}),
            "which has no time zone; add one, or declare timestamp_ntz",
        ),
        ("n long", pandas.DataFrame({"n": [1.5]}), "here, field 'n': expected bigint, but the column is double and"),
        ("n long", pandas.DataFrame({"n": [1, "x"]}), "here, row 1, field 'n': expected bigint, got 'x' (str)"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_the_declared_type(fields: str, rows: Any, said: str) -> None:
    with pytest.raises(SpoutContractError) as caught:
        table_of(rows, read_schema(fields), "here")
    assert said in str(caught.value)


def test_rows_are_read_while_another_thread_imports_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", types.ModuleType("pandas"))  # known, and without any name yet
    assert table_of([("dog", 1)], PAIR, "here").to_pylist() == [{"word": "dog", "n": 1}]


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(SpoutContractError) as caught:
        table_of(["x" * 1000], read_schema("n long"), "here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"word": "string", "n": "long"}, "such as 'word string, n long', or as a StructType, got {'word': 'string', "),
        (["word"], "such as 'word string, n long', or as a StructType, got ['word'] (list)"),
        (None, "such as 'word string, n long', or as a StructType, got None (NoneType)"),
    ],
)
def test_fields_in_another_form_are_refused_with_the_form_to_write(fields: Any, said: str) -> None:
    with pytest.raises(TypeDeclarationError) as refused:
        FixedBatchSpout(fields, [])
    assert said in str(refused.value)


@pytest.mark.parametrize("form", ["string", "large_string", "dictionary", "array", "struct", "map"])
def test_a_text_that_is_not_utf_8_is_refused(form: str) -> None:
    """Arrow's files may hold one. No function can get it: its batch would be frozen, and fail for ever."""
    bad = pa.array([b"a", b"\xff\xfe"]).view(pa.string())
    forms = {
        "string": (bad, "string"),
        "large_string": (pa.array([b"a", b"\xff"], pa.large_binary()).view(pa.large_string()), "string"),
        "dictionary": (bad.dictionary_encode(), "string"),
        "array": (pa.ListArray.from_arrays([0, 1, 2], bad), "array<string>"),
        "struct": (pa.StructArray.from_arrays([bad], ["a"]), "struct<a: string>"),
        "map": (pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), bad), "map<string, string>"),
    }
    column, kind = forms[form]
    with pytest.raises(SpoutContractError, match=r"here, field 'v': expected .*, but .*not UTF-8|invalid UTF8"):
        table_of(pa.table({"v": column}), read_schema(f"v {kind}"), "here")


def test_a_number_beyond_the_range_of_its_field_is_refused() -> None:
    rows = pa.table({"v": [0.5, float("inf"), float("nan"), None, -1e39]})
    with pytest.raises(SpoutContractError, match="field 'v': expected float, but the column is double and has a numbe"):
        table_of(rows, read_schema("v float"), "here")
    assert table_of(rows.slice(0, 2), read_schema("v float"), "here").to_pylist() == [{"v": 0.5}, {"v": float("inf")}]
    assert table_of(rows.slice(3, 1), read_schema("v float"), "here").to_pylist() == [{"v": None}]
