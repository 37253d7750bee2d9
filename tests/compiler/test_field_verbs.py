"""Verbs that change which fields a tuple has, on either engine: beside Python's work, beside Spark's, and alone."""

from typing import Any

import pytest

from tests.compiler.stage_runner import STATE, Slots, leaving, results, stream
from trident import Count, Sum, TridentTopology, expr

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
