"""Expressions in verbs: each, filter and map on both engines, their errors, and tuples on which they fail."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as theirs

from tests.compiler.stage_runner import STATE, Slots, leaving, results, stream
from trident import Count, FilterNull, TridentTopology, col, lit, when
from trident import functions as F
from trident.base.errors import (
    DuplicateFieldError,
    FieldNotFoundError,
    TopologyError,
    TypeDeclarationError,
    UserFunctionError,
)
from trident.compiler.columns import columns as few

FIELDS = "item string, price double, n int"
BIDS = [("a", 2.0, 1), ("b", 10.0, 0), (None, 3.0, 3), ("d", None, 2)]


def bids(batch: list[Any] = BIDS) -> Any:
    return stream(TridentTopology(), FIELDS, batch)


@pytest.fixture(params=[few.FEW, -1], ids=["few", "many"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute few tuples as few, and as if they were many."""
    monkeypatch.setattr(few, "FEW", request.param)


@pytest.mark.connect
@pytest.mark.usefixtures("rows")
def test_several_fields_at_once(engine: Slots) -> None:
    added = bids().each({"euro": col("price") * 0.5, "up": F.upper("item"), "big long": col("n") + 1})
    assert added.schema.simpleString() == "struct<item:string,price:double,n:int,euro:double,up:string,big:bigint>"
    assert leaving(engine, added) == [
        ("a", 2.0, 1, 1.0, "A", 2),
        ("b", 10.0, 0, 5.0, "B", 1),
        (None, 3.0, 3, 1.5, None, 4),
        ("d", None, 2, None, "D", 3),
    ]


@pytest.mark.usefixtures("rows")
def test_one_field_and_one_that_is_replaced(engine: Slots) -> None:
    added = bids().each(col("price") + col("n"), "sum").each({"price": F.round("price", 0)}, replace=True)
    assert [row[-1] for row in leaving(engine, added)] == [3.0, 10.0, 6.0, None]
    assert added.fields == ("item", "price", "n", "sum")


@pytest.mark.connect
@pytest.mark.usefixtures("rows")
def test_a_filter_drops_a_tuple_for_which_its_condition_is_null(engine: Slots) -> None:
    kept = bids().filter((col("price") > 2) & ~col("item").startswith("x"))
    assert [row[0] for row in leaving(engine, kept)] == ["b"]


@pytest.mark.usefixtures("rows")
def test_a_map_replaces_the_tuple(engine: Slots) -> None:
    made = bids().map({"item": F.coalesce("item", lit("?")), "half": when(col("n") > 0, col("price") / col("n"))})
    assert leaving(engine, made) == [("a", 2.0), ("b", None), ("?", 1.0), ("d", None)]
    assert bids().map(col("n") * 2, "twice").fields == ("twice",)


def test_among_functions_in_python(engine: Slots) -> None:
    topology = TridentTopology()
    (
        stream(topology, FIELDS, BIDS)
        .each("n", lambda n: n * 10, "tens int")
        .each({"more": col("tens") + 1})
        .filter("more", FilterNull())
        .filter(col("more") > 11)
        .each("more", str, "text string")
        .groupBy("text")
        .persistentAggregate(STATE, Count(), "count", name="counts")
    )
    assert results(engine, topology) == {"counts": [("21", 1), ("31", 1)]}


@pytest.mark.usefixtures("rows")
def test_a_failing_tuple_is_named_on_both_engines(engine: Slots) -> None:
    made = bids().each({"rate": col("price") / col("n")})
    with pytest.raises(UserFunctionError, match=r"division by zero; in col\('price'\) / col\('n'\); the tuple was"):
        leaving(engine, made)


@pytest.mark.usefixtures("rows")
def test_a_failing_tuple_is_left_out(engine: Slots) -> None:
    made = bids().each({"rate": col("price") / col("n")}, onError="skip")
    assert [row[0] for row in leaving(engine, made)] == ["a", None, "d"]


def test_fields_within_structs() -> None:
    inner = stream(TridentTopology(), "bid struct<price: long, item: struct<id: int>>", [(((5, (7,))),)])
    made = inner.each({"price": col("bid.price") + 1, "id": col("bid.item.id"), "same": col("bid")["item"]["id"]})
    assert made.take(1)[0][1:] == (6, 7, 7)


def test_a_projection_takes_fields_of_structs(engine: Slots) -> None:
    made = bids().map({"bid": F.struct(price="price", n="n"), "item": col("item")}).project("item", "bid.price")
    assert made.fields == ("item", "price")
    assert leaving(engine, made) == [("a", 2.0), ("b", 10.0), (None, 3.0), ("d", None)]


def test_a_stream_of_changes_takes_them() -> None:
    pets = stream(TridentTopology(), "id long, age int, op string", [(1, 2, "c"), (1, 2, "d"), (2, 9, "c")])
    changes = (
        pets.asChanges("op", {"c": "insert", "d": "delete"}).each({"next": col("age") + 1}).filter(col("next") > 3)
    )
    assert changes.toStream().take(9) == [(2, 9, 10, "insert")]


def test_a_query_takes_them() -> None:
    topology = TridentTopology()
    shout = topology.newDRPCStream("shout", "text string").each({"loud": F.upper(F.trim("text"))})
    shout.filter(col("loud") != "").project("loud")
    running = topology.start(engine="embedded")
    try:
        assert running.drpc.execute("shout", " a ") == [("A",)]
        assert running.drpc.execute("shout", " ") == []
    finally:
        running.stop()


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda s: s.each({"x": col("prise") * 2}), FieldNotFoundError, "did you mean 'price'"),
    (
        lambda s: s.each({"x": col("price") + col("item")}),
        TypeDeclarationError,
        "expected numbers, not double and string",
    ),
    (lambda s: s.each({"x": col("item") == 5}), TypeDeclarationError, "no common type; cast one of them"),
    (lambda s: s.filter(col("price")), TypeDeclarationError, "it is double; a filter is a condition"),
    (lambda s: s.filter((col("n") > 1) & "a"), TypeDeclarationError, "expected conditions, not string"),
    (lambda s: s.each({"x int": col("price")}), TypeDeclarationError, r"is double; write .cast\('int'\)"),
    (lambda s: s.each({"x double NOT NULL": col("price")}), TypeDeclarationError, "declare it without NOT NULL"),
    (lambda s: s.each({"x": lit(None)}), TypeDeclarationError, "set its type"),
    (lambda s: s.each({"x": col("price").cast("string")}), TypeDeclarationError, "depends on the Java version"),
    (lambda s: s.each({"x": col("item").cast("timestamp")}), TypeDeclarationError, "has no time zone"),
    (lambda s: s.each({"price": col("price") * 2}), TopologyError, "replace=True"),
    (lambda s: s.each({"x": str}), TopologyError, "a mapping gives expressions"),
    (lambda s: s.each({"x": "price"}), TopologyError, r"'x': 'price' .* write col\('price'\) for the field, or lit\("),
    (
        lambda s: s.each({"x": "n + 1"}),
        TopologyError,
        r"'n \+ 1' is a string, .* or lit\('n \+ 1'\) for the string itself",
    ),
    (lambda s: s.each({"x": col("n"), "y": "prise"}), TopologyError, "'y': 'prise' .* did you mean 'price'"),
    (lambda s: s.map({"x": "price"}), TopologyError, r"write col\('price'\) for the field"),
    (lambda s: s.groupBy("item").each({"x": "price"}), TopologyError, r"write col\('price'\) for the field"),
    (lambda s: s.each({"price": "item"}, replace=True), TopologyError, r"write col\('item'\) for the field"),
    (lambda s: s.each({}), TopologyError, "names no field"),
    (lambda s: s.each({3: col("n")}), TopologyError, "3 is not an output field"),
    (lambda s: s.each("price", col("price") * 2, "x"), TopologyError, "remove inputFields"),
    (lambda s: s.each({"x": col("n")}, outputFields="y"), TopologyError, "cannot be combined with a mapping"),
    (lambda s: s.flatMap(col("n"), "x"), TopologyError, "use map"),
    (lambda s: s.map({"r": F.struct(n="n")}).project("r.m"), TypeDeclarationError, "no field 'm' in the struct"),
    (lambda s: s.map({"r": F.struct(n="n"), "n": col("n")}).project("r.n", "n"), DuplicateFieldError, "names with map"),
    (lambda s: s.project("item.n"), FieldNotFoundError, "no field 'item.n'"),
    (lambda s: s.peek(col("n")), TopologyError, "not an expression"),
    (lambda s: s.partitionBy(col("n")), TopologyError, "does not name fields"),
    (lambda s: s.each({"x": theirs.lit(1)}), TopologyError, "which only Spark can compute"),
    (lambda s: s.filter(col("n") > 1 and col("n") < 5), TopologyError, "has no truth value"),
    (lambda s: s.filter(1 < col("n") < 5), TopologyError, "has no truth value"),
    (lambda s: s.each({"x": col("n").getItem(0)}), TypeDeclarationError, "expected an array or map, not int"),
    (lambda s: s.each({"x": col("n.m")}), TypeDeclarationError, "expected a struct with a field 'm'"),
    (lambda s: s.each({"x": F.date_format("item", "QQQ")}), TopologyError, "expected yyyy, MM"),
    (lambda s: s.each({"x": F.split_part("item", "/", 0)}), TopologyError, "expected 1 for the first part"),
    (lambda s: s.each({"x": col("n").isin()}), TopologyError, "at least one value"),
    (lambda s: s.each({"x": col("price") + [1]}), TopologyError, "is not a constant of an expression"),
    (lambda s: s.each({"x": when(col("n") > 1, 1).otherwise("a")}), TypeDeclarationError, "no common type"),
    (lambda s: s.each({"x": F.sqrt("item")}), TypeDeclarationError, "expected one number, not string"),
]


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_what_is_wrong_is_refused_where_it_is_written(wrong: int) -> None:
    call, error, said = WRONG[wrong]
    with pytest.raises(error, match=said):
        call(bids())
