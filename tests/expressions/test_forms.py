"""Each form of an expression gives the same values: tuple by tuple, over whole columns, and on Spark."""

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as theirs

from tests.expressions.comparing import (
    Drawn,
    alike,
    by_arrow,
    by_spark,
    drawn,
    failed,
    fails_by_arrow,
    fails_on_spark,
    table_of,
)
from tests.expressions.drawing import Drawing, tuples
from tests.support.soak import Soak
from trident import col, lit, when
from trident import functions as F
from trident.base.spark_types import type_ddl
from trident.expressions.rules import RULES
from trident.expressions.tree import Call, Case, Cast

TABLE = table_of(tuples(random.Random(0), 40))
LATE, EARLY = "Pacific/Kiritimati", "America/St_Johns"


def expressions(seed: int, count: int) -> list[Drawn]:
    """Return random expressions that fit the fields, with their values for the tuples of TABLE."""
    draw = random.Random(seed)
    drawing, found = Drawing(draw), list[Drawn]()
    while len(found) < count:
        one = drawn(drawing.any(draw.choice([1, 1, 2, 2, 3])), TABLE)
        if one is not None:
            found.append(one)
    return found


def good(one: Drawn) -> list[Any]:
    return [value for value in one.values if not failed(value)]


def check_columns(one: Drawn) -> None:
    for times in (1, 3):  # values that repeat are computed once
        made = by_arrow(one, TABLE, times)
        pairs = zip(good(one) * times, made, strict=True)
        assert all(alike(a, b) for a, b in pairs), (one.expression, good(one), made)
    assert fails_by_arrow(one, TABLE) == any(map(failed, one.values)), one.expression


def check_spark(session: SparkSession, many: list[Drawn]) -> None:
    for one, made in zip(many, by_spark(session, many, TABLE), strict=True):
        pairs = [(a, b) for a, b in zip(good(one), made, strict=True) if not alike(a, b)]
        assert not pairs, (one.expression, one.kind, pairs[0])


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_as_tuple_by_tuple(seed: int) -> None:
    some = expressions(seed, 300)
    for one in some:
        check_columns(one)
    assert sum(any(map(failed, one.values)) for one in some) > 30  # else no error was compared


@pytest.mark.parametrize("zone", [LATE, EARLY])
def test_spark_gives_the_same_values_in_each_time_zone(spark: SparkSession, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", zone)
    some = expressions(len(zone), 120)
    for at in range(0, len(some), 40):
        check_spark(session, some[at : at + 40])


def test_spark_fails_for_the_same_tuples(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    wrong = [one for one in expressions(77, 200) if any(map(failed, one.values))][:25]
    for one in wrong:
        rows = [row for row, value in enumerate(one.values) if failed(value)]
        assert fails_on_spark(session, one, TABLE, rows[0]), (one.expression, rows[0])


@pytest.mark.soak
def test_random_expressions_for_long(spark: SparkSession, soak: Soak) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    for draw in soak.draws(100):
        some = expressions(draw.randrange(1 << 32), 40)
        for one in some:
            check_columns(one)
        check_spark(session, some)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (col("i") + 1, "int"),
        (col("b") + col("s"), "smallint"),
        (col("n") * col("i"), "bigint"),
        (col("i") / col("n"), "double"),
        (col("d") + 1, "decimal(11,2)"),
        (col("d") * col("m"), "decimal(16,2)"),
        (col("d") / col("m"), "decimal(16,8)"),
        (col("e") * col("e"), "decimal(38,6)"),
        (col("f") + col("i"), "double"),
        (col("f") * col("f"), "float"),
        (when(col("i") > 0, 1).otherwise(2.5), "double"),
        (F.coalesce("i", lit(None), "n"), "bigint"),
        (col("r.n"), "bigint"),
        (F.struct(a="i", b=col("t")), "struct<a:int,b:string>"),
        (F.date_trunc("hour", "local"), "timestamp_ntz"),
        (F.round("d", 1), "decimal(10,1)"),
        (F.floor("e"), "decimal(29,0)"),
    ],
)
def test_a_type_follows_from_the_fields(expression: Any, kind: str) -> None:
    one = drawn(expression, TABLE)
    assert one is not None
    assert type_ddl(one.kind) == kind


def test_a_part_is_computed_only_where_it_is_needed() -> None:
    guarded = [
        when(col("i") != 0, 10 / col("i")).otherwise(0.0),
        (col("i") != 0) & (10 / col("i") > 1),
        (col("i") == 0) | (10 / col("i") > 1),
        F.coalesce(col("i"), lit(1) % 0),
    ]
    for expression in guarded[:3]:
        one = drawn(expression, TABLE)
        assert one is not None
        assert not any(map(failed, one.values)), expression
        assert not fails_by_arrow(one, TABLE), expression
    last = drawn(guarded[3], TABLE)
    assert last is not None
    nulls = [value is None for value in TABLE["i"].to_pylist()]
    assert [failed(value) for value in last.values] == nulls


def test_every_rule_is_drawn() -> None:
    found: set[str] = set()

    def walk(part: Any) -> None:
        match part:
            case Call(rule=rule, args=args):
                found.add(rule)
                list(map(walk, args))
            case Cast(value=value):
                walk(value)
            case Case(branches=branches, last=last):
                for pair in branches:
                    list(map(walk, pair))
                walk(last)

    drawing = Drawing(random.Random(0))
    for _ in range(3000):
        walk(drawing.any(2))
    assert set(RULES) - found <= {"cast", "getField", "struct"}  # a field in a struct is drawn by its name


def test_pyspark_has_each_function_by_its_name() -> None:
    names = [name for name in F.__all__ if name != "ColumnExpression"]
    assert [name for name in names if not hasattr(theirs, name)] == []


def test_a_text_names_a_field_where_pyspark_takes_a_name() -> None:
    assert repr(F.nullif("t", "u")) == "nullif(col('t'), col('u'))"
    assert repr(F.datediff("day", "day")) == "datediff(col('day'), col('day'))"
    assert repr(F.replace("t", "a", "b")) == "replace(col('t'), 'a', 'b')"
