"""Verbs that change which fields a tuple has, on either engine: beside Python's work, beside Spark's, and alone."""

from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, leaving, stream
from trident import TridentTopology, expr

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
