"""The rows that a state is made of, as text: the same for programs that give the same rows."""

from typing import Any

from trident import Count, Sum, TridentTopology, expr
from trident.plan.readings import reading_of
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
    assert made.conditions == ("expr('w > 1') with w = expr('id + 1')",)


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
