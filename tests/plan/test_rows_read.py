"""The rows that a state is made of, as text: the same for programs that give the same rows."""

from typing import Any

import pytest

from trident import Count, Sum, TridentTopology, col, expr
from trident import functions as F
from trident.plan.rows_read import reading_of
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


def rows(make: Any, fields: str = "id long, g string, v long, op string") -> Any:
    """Return the rows of one origin that an aggregate of `make`'s stream is made of."""
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(fields, [])).asChanges("op", {"c": "insert"})
    state = (
        make(changes)
        .groupBy("g")
        .persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "total": Sum("v")}, name="totals")
    )
    reading = reading_of(state._node)
    assert reading is not None and reading.kind == "changes"
    (only,) = reading.rows
    return only


def test_a_native_condition_has_its_text_and_the_fields_that_it_names() -> None:
    plain = rows(lambda changes: changes.filter(expr("v >  1")))
    assert plain.conditions == ("expr('v > 1')",) and plain.origin == "the stream"
    assert (plain.keys, plain.values) == ({"g": "g"}, {"n": "", "total": "v"})
    made = rows(lambda changes: changes.each(expr("id + 1"), "w long").filter(expr("w > 1")))
    assert made.conditions == ("expr(\"[expr('id + 1')] > 1\")",)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: lambda changes: changes.each({x: col("id") + 1}).filter((col(x) > 1) & (col(x) < 9)),
        lambda x: lambda changes: changes.rename("v", x).filter(col(x) > 1).rename(x, "v"),
        lambda x: lambda changes: changes.each({x: F.struct(n="id")}).filter(col(f"{x}.n") > 1),
        lambda x: (
            lambda changes: changes.each(expr("id + 1"), f"{x} long").filter(expr(f"{x} > 1 and {x.upper()} < 9"))
        ),
    ],
)
def test_the_name_of_a_field_that_a_condition_reads_leaves_no_trace(make: Any) -> None:
    assert rows(make("x")).conditions == rows(make("other_name")).conditions


def test_a_condition_over_a_renamed_field_is_that_over_the_field() -> None:
    renamed = rows(lambda changes: changes.rename("v", "w").filter(col("w") > 1).rename("w", "v"))
    assert renamed.conditions == rows(lambda changes: changes.filter(col("v") > 1)).conditions


def test_a_text_in_a_condition_is_no_name() -> None:
    one = rows(lambda changes: changes.each(expr("g"), "x string").filter(expr("x = 'x'")))
    other = rows(lambda changes: changes.each(expr("g"), "y string").filter(expr("y = 'y'")))
    assert one.conditions != other.conditions


def test_a_field_that_an_expression_replaces_is_another_one() -> None:
    replaced = rows(lambda changes: changes.each(expr("v + 1"), "v long", replace=True))
    assert replaced.values["total"] == "expr('v + 1')"


def test_fields_that_nothing_reads_leave_no_trace() -> None:
    one = rows(lambda changes: changes.filter(expr("v > 1")))
    other = rows(
        lambda changes: changes.each(expr("id + 1"), "w long").filter(expr("v > 1")).project("g", "v"),
        "more string, id long, g string, v long, op string",
    )
    assert (one.conditions, one.keys, one.values) == (other.conditions, other.keys, other.values)


def test_the_outputs_of_a_function_are_told_apart_by_position() -> None:
    def parsed(names: str) -> Any:
        return lambda changes: changes.each("id", lambda id: (id, id), names).drop("v").rename("b", "v")

    assert rows(parsed("a long, b long")).values["total"] == "a function of id [1]"
    assert rows(parsed("b long, a long")).values["total"] == "a function of id"


def test_a_long_derivation_ends_with_a_digest() -> None:
    text = rows(lambda changes: changes.filter(expr("v > " + " + ".join(["1"] * 100)))).conditions[0]
    assert len(text) < 300 and text.endswith(")") and "... (" in text
