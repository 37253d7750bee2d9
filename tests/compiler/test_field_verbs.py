"""Verbs that change which fields a tuple has, on either engine: beside Python's work, beside Spark's, and alone."""

import json
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from tests.compiler.functions import Spell, half, split
from tests.compiler.stage_runner import STATE, Slots, leaving, results, rows, run, stream
from trident import Count, DeadLetter, Sum, TridentTopology, expr

WORDS = [("ox", 1, 0.5), ("cow", 2, None), (None, 3, 1.5)]


def words() -> Any:
    return stream(TridentTopology(), "word string, n long, x double", WORDS, [])


def test_drop_leaves_the_other_fields(engine: Slots) -> None:
    dropped = words().drop("n")
    assert dropped.fields == ("word", "x")
    assert sorted(leaving(engine, dropped), key=str) == [("cow", None), ("ox", 0.5), (None, 1.5)]
    assert leaving(engine, words().drop("n"), batch=1) == []


def test_drop_stands_between_functions(engine: Slots) -> None:
    made = words().each("n", float, "m double").drop("n, x").each("m", lambda m: m * 2, "twice double")
    assert sorted(leaving(engine, made), key=str) == [("cow", 2.0, 4.0), ("ox", 1.0, 2.0), (None, 3.0, 6.0)]


@pytest.mark.spark
def test_drop_stands_behind_an_expression(on_spark: Slots) -> None:
    made = words().each(expr("n + x"), "m double").drop("x")
    assert sorted(leaving(on_spark, made), key=str) == [("cow", 2, None), ("ox", 1, 1.5), (None, 3, 4.5)]


def test_rename_gives_other_names_and_two_may_change_theirs(engine: Slots) -> None:
    renamed = words().rename({"word": "x", "x": "word"}).filter("n", lambda n: n < 3)
    assert renamed.fields == ("x", "n", "word")
    assert sorted(leaving(engine, renamed)) == [("cow", 2, None), ("ox", 1, 0.5)]
    assert leaving(engine, words().rename("n", "m"), batch=1) == []


def test_rename_stands_between_functions(engine: Slots) -> None:
    made = words().each("n", float, "m double").rename({"m": "n", "n": "m"}).each("n, m", max, "most double").drop("x")
    assert sorted(leaving(engine, made), key=str) == [("cow", 2, 2.0, 2.0), ("ox", 1, 1.0, 1.0), (None, 3, 3.0, 3.0)]


def test_a_renamed_group_field_is_a_group_field(engine: Slots) -> None:
    topology = TridentTopology()
    fields = stream(topology, "k string, n long", [("a", 1), ("b", 2), ("a", 3)])
    grouped = fields.groupBy("k").rename({"k": "n", "n": "k"})
    grouped.persistentAggregate(STATE, "k", Sum(), "total", name="totals")
    assert results(engine, topology) == {"totals": [("a", 4), ("b", 2)]}


def test_fields_that_nobody_reads_later_need_not_be_there(engine: Slots) -> None:
    topology = TridentTopology()
    made = stream(topology, "word string, n long, x double", WORDS).each("n", float, "m double")
    for number, step in enumerate([made.project("word, m"), made.rename({"word": "m", "m": "word"}), made.drop("n")]):
        first = step.fields[0]
        step.groupBy(first).persistentAggregate(STATE, Count(), "count", name=f"counts{number}")
    counts = [("cow", 1), ("ox", 1), (None, 1)]
    assert results(engine, topology) == dict.fromkeys(("counts0", "counts1", "counts2"), counts)


@pytest.mark.spark
def test_rename_stands_behind_an_expression(on_spark: Slots) -> None:
    made = words().each(expr("n + 1"), "m long").rename({"m": "n", "n": "m"}).filter(expr("n > 2")).drop("x")
    assert sorted(leaving(on_spark, made), key=str) == [("cow", 2, 3), (None, 3, 4)]


# --- each(..., replace=True) -----------------------------------------------------------------------------------------


def test_a_replaced_field_keeps_its_place_and_changes_its_type(engine: Slots) -> None:
    made = words().each("n", str, "n string", replace=True)
    assert made.fields == ("word", "n", "x")
    assert sorted(leaving(engine, made), key=str) == [("cow", "2", None), ("ox", "1", 0.5), (None, "3", 1.5)]
    assert leaving(engine, words().each("n", str, "n string", replace=True), batch=1) == []


def test_some_outputs_replace_fields_and_others_are_appended(engine: Slots) -> None:
    made = words().each("n, x", lambda n, x: (-n, n * 2, x), "m long, n long, x double", replace=True)
    assert made.fields == ("word", "n", "x", "m")
    assert sorted(leaving(engine, made), key=str) == [("cow", 4, None, -2), ("ox", 2, 0.5, -1), (None, 6, 1.5, -3)]


def test_a_function_of_the_whole_tuple_replaces_a_field(engine: Slots) -> None:
    made = words().each(lambda t: t.n + len(t.word or ""), "n long", replace=True).filter("n", lambda n: n > 3)
    assert sorted(leaving(engine, made)) == [("cow", 5, None)]


def test_each_of_many_tuples_replaces_the_field(engine: Slots) -> None:
    lines = stream(TridentTopology(), "line string, n long", [("a dog", 1), ("", 2), ("cat", 3)])
    assert leaving(engine, lines.each("line", split, "line string", replace=True)) == [("a", 1), ("dog", 1), ("cat", 3)]
    spelled = stream(TridentTopology(), "place string, word string", [("?", "ox"), ("?", "")])
    assert leaving(engine, spelled.each("word", Spell(), "word, place", replace=True)) == [(0, "o"), (1, "x")]


def test_later_functions_see_the_new_value_and_one_field_may_be_replaced_often(engine: Slots) -> None:
    made = words().each("n", half, "n double", replace=True).each("n", str, "n string", replace=True)
    made = made.each("n", len, "size long").each("n, size", lambda n, size: f"{n}:{size}", "n string", replace=True)
    assert sorted(row[1] for row in leaving(engine, made)) == ["0.5:3", "1.0:3", "1.5:3"]


def test_a_replaced_field_is_still_read_and_what_replaces_it_need_not_be(engine: Slots) -> None:
    fields = words().each("n", half, "h double")
    read = fields.each("h", str, "h string", replace=True).project("h")
    unread = fields.each("h", str, "h string", replace=True).project("word")
    alone = fields.project("h").each("h", str, "h string", replace=True)
    assert sorted(leaving(engine, read)) == sorted(leaving(engine, alone)) == [("0.5",), ("1.0",), ("1.5",)]
    assert sorted(leaving(engine, unread), key=str) == [("cow",), ("ox",), (None,)]


def test_several_steps_read_the_field_before_and_after(engine: Slots) -> None:
    topology = TridentTopology()
    fields = stream(topology, "k string, n long", [("a", 1), ("b", 2), ("a", 3)])
    replaced = fields.each("n", lambda n: -n, "n long", replace=True)
    replaced.persistentAggregate(STATE, "n", Sum(), "sum", name="after")
    fields.persistentAggregate(STATE, "n", Sum(), "sum", name="before")
    replaced.merge(fields).groupBy("n").persistentAggregate(STATE, Count(), "count", name="both")
    both = [(-1, 1), (-2, 1), (-3, 1), (1, 1), (2, 1), (3, 1)]
    assert results(engine, topology) == {"after": [(-6,)], "before": [(6,)], "both": both}


def test_a_field_beside_the_group_is_replaced_and_the_groups_stay(engine: Slots) -> None:
    topology = TridentTopology()
    fields = stream(topology, "n long, k string", [(1, "a"), (2, "b"), (3, "a")])
    grouped = fields.groupBy("k").each("n", lambda n: n * 10, "n long", replace=True)
    grouped.persistentAggregate(STATE, "n", Sum(), "total", name="totals")
    assert results(engine, topology) == {"totals": [("a", 40), ("b", 20)]}


def test_a_dead_letter_holds_the_field_before_it_was_replaced(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "n string, x double", [("1", 0.5), ("x", 1.5), ("3", 2.5)])
    numbers = lines.each("n", int, "n long", onError=DeadLetter(attempts=0), replace=True)
    numbers = numbers.each("n", lambda n: 6 // (n - 3), "n long", onError="skip", replace=True)
    numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["sum"]) == [(-3,)] and list(result.skipped.values()) == [1]
    (table,) = [table for name, table in result.results.items() if name.endswith("~")]
    assert [json.loads(letter["tuple"]) for letter in table.to_pylist()] == [{"n": "x", "x": 1.5}]


@pytest.mark.connect
@pytest.mark.spark
def test_an_expression_replaces_fields(on_spark: Slots) -> None:
    made = words().each(expr("n + x"), "n double", replace=True).filter(expr("n IS NOT NULL"))
    assert made.fields == ("word", "n", "x")
    assert sorted(leaving(on_spark, made), key=str) == [("ox", 1.5, 0.5), (None, 4.5, 1.5)]
    several = words().each(expr("named_struct('a', x, 'b', upper(word))"), "n double, word string", replace=True)
    assert sorted(leaving(on_spark, several), key=str) == [("COW", None, None), ("OX", 0.5, 0.5), (None, 1.5, 1.5)]
    cast = words().each(expr("CAST(n AS INT)"), "n long", replace=True).each("n", half, "x double", replace=True)
    assert sorted(leaving(on_spark, cast), key=str) == [("cow", 2, 1.0), ("ox", 1, 0.5), (None, 3, 1.5)]
    lines = stream(TridentTopology(), "line string, n long", [("a dog", 1), ("cat", 3)])
    exploded = lines.each(expr("explode(split(line, ' '))"), "line string", replace=True)
    assert leaving(on_spark, exploded) == [("a", 1), ("dog", 1), ("cat", 3)]


@pytest.mark.connect
@pytest.mark.spark
def test_columns_and_udfs_replace_fields_beside_python_functions(on_spark: Slots) -> None:
    made = words().each("n", lambda n: n + 1, "n long", replace=True)
    made = made.each(F.col("n") * 2, "n long", replace=True)
    made = made.each("n", F.udf(lambda n: n + 1, LongType()), "n long", replace=True)
    assert sorted(leaving(on_spark, made), key=str) == [("cow", 7, None), ("ox", 5, 0.5), (None, 9, 1.5)]
    assert sorted(leaving(on_spark, made.project("n"))) == [(5,), (7,), (9,)]
    assert sorted(leaving(on_spark, made.project("x")), key=str) == [(0.5,), (1.5,), (None,)]
