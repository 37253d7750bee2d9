"""Names as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.base.errors import TopologyError
from trident.base.names import check_name, did_you_mean, field_names, quote, split_top, unquote
from trident.base.short_texts import brief
from trident.base.spark_types import parse_schema


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("a", ("a",)),
        ("a, b", ("a", "b")),
        (" a ,b ", ("a", "b")),
        ("`a, b`, c", ("a, b", "c")),
        ("`a``b`", ("a`b",)),
        (["a", "b, c"], ("a", "b, c")),
        (("a",), ("a",)),
        ([], ()),
        ("", ()),
        ("a b", ("a b",)),
    ],
)
def test_fields_are_split_at_top_level_commas_and_lists_are_literal(fields: str | list[str], names: tuple[str]) -> None:
    assert field_names(fields) == names


@pytest.mark.parametrize("fields", ["a,", ",", "a,,b", [""], [None], [1]])
def test_an_empty_name_is_none(fields: list[str]) -> None:
    with pytest.raises(TopologyError, match="does not name fields: write 'a', 'a, b' or"):
        field_names(fields)


def test_brackets_and_backticks_protect_their_commas() -> None:
    assert split_top("a decimal(5,2), b struct<x:int,y:map<int,int>>, `c,d` int") == [
        "a decimal(5,2)",
        "b struct<x:int,y:map<int,int>>",
        "`c,d` int",
    ]


@given(st.text(min_size=1))
def test_a_quoted_name_is_read_back(name: str) -> None:
    assert unquote(quote(name)) == name or "`" not in quote(name)
    if all(char.isprintable() for char in name):
        assert parse_schema(f"{quote(name)} int").names == [name]


@pytest.mark.parametrize(
    ("name", "near"),
    [("group_by", "groupBy"), ("GROUPBY", "groupBy"), ("groupby", "groupBy"), ("grupBy", "groupBy"), ("xyz", None)],
)
def test_what_may_have_been_meant(name: str, near: str | None) -> None:
    assert did_you_mean(name, ["each", "groupBy"]) == ("" if near is None else f"; did you mean {near!r}?")


def test_a_name_that_is_an_identity_is_checked() -> None:
    assert check_name("a state", "a.b-c_9") == "a.b-c_9"
    with pytest.raises(TopologyError, match="a state cannot be named '_a': a name has letters a to z, digits, "):
        check_name("a state", "_a")
    with pytest.raises(TopologyError, match="a state cannot be named 'a\\\\n'"):
        check_name("a state", "a\n")


def test_a_name_is_as_long_as_that_of_a_file_at_most() -> None:
    assert check_name("topology", "a" * 255) == "a" * 255
    with pytest.raises(TopologyError, match="topology cannot be named aaa.*: it has 256 characters; the limit is 255"):
        check_name("topology", "a" * 256)


def test_values_in_errors_are_short_and_show_no_address() -> None:
    assert brief(brief) == "function 'brief'"
    assert brief(object()) == "an object of class 'object'"
    assert len(brief("x" * 500)) == 80
