"""Sums of signed numbers mean the same as the combiner that retracts."""

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType

from trident import Average, Count, CountDistinct, Min, Sum, TridentTopology
from trident.errors import TridentError
from trident.operations.changes import Signed
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

KINDS = ("insert", "delete", "update_preimage", "update_postimage")
MAKES: dict[str, Callable[[Random], Any]] = {
    "long": lambda chance: chance.randint(-(2**40), 2**40),
    "int": lambda chance: chance.randint(-9, 9),
    "decimal(12,2)": lambda chance: Decimal(chance.randint(-(10**6), 10**6)) / 100,
    "double": lambda chance: float(chance.randint(-9, 9)),
}
AGGREGATORS = {"n": Count(), "total": Sum("v"), "mean": Average("v")}


def results(kind: str, batches: list[Any], aggregators: Any) -> dict[Any, Any]:
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(f"g long, v {kind}, kind string", batches)).asChanges("kind")
    grouped = changes.groupBy("g")
    if isinstance(aggregators, dict):
        grouped.persistentAggregate(MemoryMapState.opaque(), aggregators, name="state")
    else:
        grouped.persistentAggregate(MemoryMapState.opaque(), aggregators, "value", name="state")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("state").items())


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("size", [12, 300])
def test_sums_are_those_of_the_combiner(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(f"{kind}{size}")
    batches = [
        [
            (chance.randint(0, 5), None if chance.random() < 0.2 else MAKES[kind](chance), chance.choice(KINDS))
            for _ in range(size)
        ]
        for _ in range(3)
    ]
    for aggregators in (AGGREGATORS, Count(), Sum("v"), Average("v")):
        fast = results(kind, batches, aggregators)
        with monkeypatch.context() as patch:
            patch.setattr("trident.stream.changes.signed_plan", lambda *_: None)
            assert results(kind, batches, aggregators) == fast


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_the_least_long_which_no_deletion_could_take_away_is_refused_when_it_comes(kind: str, size: int) -> None:
    with pytest.raises(TridentError, match=r"-9223372036854775808 does not fit a long.*decimal\(20, 0\)"):
        results("long", [[(1, -(2**63), kind)] * size], {"total": Sum("v"), "n": Count()})


@pytest.mark.spark
def test_spark_leaves_the_least_long_to_the_function(spark: SparkSession) -> None:
    _, text = Signed(("sum",)).sql(["kind", "v"], [StringType(), LongType()])
    rows = spark.sql(
        "select * from values ('insert', -9223372036854775807L), ('delete', 5L), ('insert', null) t(kind, v)"
    )
    assert [row[0] for row in rows.selectExpr(text).collect()] == [1 - 2**63, -5, None]
    least = spark.sql("select 'insert' kind, -9223372036854775807L - 1L v")
    with pytest.raises(PySparkException, match="needs the function in Python"):
        least.selectExpr(text).collect()


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
def test_a_sum_of_infinite_numbers_has_no_rest_that_is_a_number() -> None:
    held = results("double", [[(1, math.inf, "insert"), (1, 2.0, "insert")], [(1, math.inf, "delete")]], Sum("v"))
    assert math.isnan(held[1])


LONG = Decimal("12345678901234567890123456789012.345678")
"""More digits than Python's default context keeps."""


class Own(Sum):
    """A subclass, which is called for each tuple."""

    def init(self, tuple: Any) -> Any:
        return tuple[0]


class Greatest(Sum):
    """A subclass that combines in another way, so that it cannot use the `retract` of Sum."""

    def combine(self, a: Any, b: Any) -> Any:
        return max(a, b)


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize("size", [0, 100])
@pytest.mark.parametrize("aggregator", [Sum("v"), Average("v"), Own("v"), {"s": Sum("v"), "m": Min("v")}])
def test_a_decimal_is_taken_away_to_its_last_digit(size: int, aggregator: Any) -> None:
    others = [(2, Decimal(0), "insert")] * size
    batches = [[(1, LONG, "insert"), (1, Decimal("1.5"), "insert")], [(1, LONG, "delete"), *others]]
    held = results("decimal(38,6)", batches, aggregator)[1]
    assert set(held if isinstance(held, tuple) else [held]) == {Decimal("1.5")}


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
def test_a_subclass_that_combines_otherwise_keeps_its_rows() -> None:
    batches = [[(1, 3, "insert"), (1, 7, "insert"), (1, 5, "insert")], [(1, 7, "delete")]]
    assert results("long", batches, Greatest("v")) == {1: 5}


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        ("struct<a:double>", (math.nan,), (1.0,)),
        ("struct<a:array<long>>", ([1],), ([2],)),
        ("array<double>", [math.nan], [1.0]),
        ("double", math.nan, 1.0),
    ],
)
def test_kept_rows_of_any_type_are_taken_away(kind: str, one: Any, two: Any) -> None:
    batches = [[(1, one, "insert"), (1, two, "insert")], [(1, one, "delete")]]
    assert results(kind, batches, {"n": ("v", CountDistinct())}) == {1: (1,)}
    assert results(kind, [*batches, [(1, two, "delete")]], {"n": ("v", CountDistinct())}) == {}


class Forgets(Sum):
    """A retract that returns nothing."""

    def retract(self, a: Any, b: Any) -> Any:
        a -= b


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
def test_a_retract_that_returns_nothing_is_an_error() -> None:
    with pytest.raises(Exception, match=r"retract\(a, b\) of .* returned None"):
        results("long", [[(1, 3, "insert")], [(1, 3, "delete")]], Forgets("v"))


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize("size", [1, 100])
def test_a_struct_may_say_the_kind(size: int) -> None:
    topology = TridentTopology()
    rows = [[(1, (True,))] * size, [(1, (False,))]]
    changes = topology.newStream("s", FixedBatchSpout("g long, op struct<new:boolean>", rows))
    state = changes.asChanges("op", {(True,): "insert", (False,): "delete"})
    state.groupBy("g").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
        assert running.state("n").get(1) == (size - 1 or None)
