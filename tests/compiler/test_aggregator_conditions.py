"""Aggregators with where=: they give what the same aggregator gives over the tuples that fulfil the condition."""

import math
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.compiler.stage_runner import Slots, leaving, stream
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    CountDistinct,
    FilterNull,
    First,
    Last,
    Latest,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    Negate,
    Quantiles,
    SlidingCountWindow,
    StdDev,
    Sum,
    TopK,
    TridentTopology,
    TumblingEventTimeWindow,
    Variance,
    col,
    expr,
)
from trident.base.spark_types import parse_schema
from trident.errors import TopologyError, TypeDeclarationError, UserFunctionError
from trident.operations.aggregates.registry import builtin_classes
from trident.operations.filtered_aggregators import Filtered
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import TestSource
from trident.testing.local import start_local

FIELDS = "k string, n long, x double, word string"
EACH: dict[str, Callable[[Any], Any]] = {
    "count": lambda where: Count(where=where),
    "sum": lambda where: Sum("n", where=where),
    "least": lambda where: Min("word", where=where),
    "most": lambda where: Max("x", where=where),
    "mean": lambda where: Average("n", where=where),
    "variance": lambda where: Variance("n", where=where),
    "deviation": lambda where: StdDev("n", where=where),
    "middle": lambda where: Median("x", where=where),
    "first": lambda where: First("n", where=where),
    "some": lambda where: First("n", ignoreNulls=True, where=where),
    "last": lambda where: Last("word", where=where),
    "everything": lambda where: CollectList("n", where=where),
    "words": lambda where: CollectSet("word", where=where),
    "of": lambda where: MaxBy("word", "x", where=where),
    "by": lambda where: MinBy("word", "x", where=where),
    "latest": lambda where: ("n, x, word", Latest("n, x", where=where)),
    "best": lambda where: ("n, word", TopK(2, where=where)),
    "distinct": lambda where: ("n, word", CountDistinct(where=where)),
    "exactly": lambda where: ("n, word", CountDistinct(exact=True, where=where)),
    "ranks": lambda where: ("n", Quantiles(0.0, 1.0, where=where)),
}
CHEAP = (col("n") % 3 == 1) & (col("word") != "eve")
EMPTY = {"count": 0, "sum": 0, "distinct": 0, "exactly": 0, "everything": [], "words": [], "best": []}


def holds(row: tuple[Any, ...]) -> bool:
    _, n, _, word = row
    return n is not None and n % 3 == 1 and word is not None and word != "eve"


def of_the_tuple(row: Any) -> bool:
    return holds(tuple(row))


def drawn(count: int, seed: int) -> list[tuple[Any, ...]]:
    draws = random.Random(seed)
    words = ["ann", "bob", "eve", None]
    return [
        (
            draws.choice("abcd"),
            draws.choice([None, *range(20)]),
            draws.choice([None, 0.0, -0.0, 2.5, math.nan, 7.0]),
            draws.choice(words),
        )
        for _ in range(count)
    ] + [("never", 3, 1.0, "eve"), ("never", None, None, None)]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, abs_tol=1e-9)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def expected(rows: list[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Return each key's aggregates without a condition over the rows that fulfil it; of no tuples for other keys."""
    kept = stream(TridentTopology(), FIELDS, [row for row in rows if holds(row)])
    found = {
        row[0]: tuple(row[1:]) for row in kept.groupBy("k").aggregate({n: f(None) for n, f in EACH.items()}).take(99)
    }
    nothing = tuple(EMPTY.get(name) for name in EACH)
    return {key: found.get(key, nothing) for key in sorted({row[0] for row in rows})}


def test_every_aggregator_is_tested() -> None:
    tested = [f(None) for f in EACH.values()]
    kinds = {type(each[1] if isinstance(each, tuple) else each) for each in tested}
    assert {each.__name__ for each in set(builtin_classes()) - kinds} <= {"VarPop", "StdDevPop"}


@pytest.mark.parametrize("condition", [CHEAP, of_the_tuple], ids=["an expression", "a function"])
@pytest.mark.parametrize("count", [12, 3_000])
def test_groups_of_a_batch(engine: Slots, condition: Any, count: int) -> None:
    rows = drawn(count, 7)
    grouped = stream(TridentTopology(), FIELDS, rows).groupBy("k")
    found = {row[0]: row[1:] for row in leaving(engine, grouped.aggregate({n: f(condition) for n, f in EACH.items()}))}
    for key, values in expected(rows).items():
        wrong = [n for n, a, b in zip(EACH, plain(found[key]), values, strict=True) if not same(a, b)]
        assert not wrong, (key, wrong, found[key], values)


def plain(values: Any) -> Any:
    """Return structs as tuples."""
    if isinstance(values, dict):
        return tuple(values.values())
    return [plain(each) for each in values] if isinstance(values, list | tuple) else values


def test_the_whole_batch_and_an_empty_one(engine: Slots) -> None:
    several = {"n": Count(where=col("n") > 1), "all": Count(), "most": Max("n", where=col("n") < 2)}
    for batch, found in [([("a", 1, 1.0, "w"), ("a", 2, 1.0, "w")], (1, 2, 1)), ([], (0, 0, None))]:
        assert leaving(engine, stream(TridentTopology(), FIELDS, batch).aggregate(several)) == [found]


def test_partitions_and_a_chain(engine: Slots) -> None:
    rows = drawn(500, 3)
    chain = stream(TridentTopology(), FIELDS, rows).groupBy("k").chainedAgg()
    chain = chain.aggregate(Count(where=CHEAP), "a").aggregate(TopK(1, where=CHEAP), "best").aggregate(Count(), "b")
    found = {key: (a, b, len(best)) for key, a, best, b in leaving(engine, chain.chainEnd())}
    for key, (a, b, best) in found.items():
        own = [row for row in rows if row[0] == key]
        assert (a, b, best) == (sum(map(holds, own)), len(own), min(1, sum(map(holds, own))))
    parts = (
        stream(TridentTopology(), FIELDS, rows).partitionAggregate(Count(where=CHEAP), "n").aggregate("n", Sum(), "n")
    )
    assert leaving(engine, parts) == [(sum(map(holds, rows)),)]


@pytest.mark.parametrize("kind", ["opaque", "transactional"])
@pytest.mark.parametrize("condition", [CHEAP, of_the_tuple], ids=["an expression", "a function"])
def test_states_over_batches(kind: str, condition: Any) -> None:
    rows = drawn(900, 11)
    topology = TridentTopology()
    source = TestSource(FIELDS, [rows[:5], rows[5:300], rows[300:]])
    grouped = topology.newStream("rows", source).groupBy("k")
    factory = getattr(MemoryMapState, kind)
    grouped.persistentAggregate(factory(), {n: f(condition) for n, f in EACH.items()}, name="several")
    grouped.persistentAggregate(factory(), Count(where=condition), "count", name="one")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        several, one = dict(running.state("several").items()), dict(running.state("one").items())
    for key, values in expected(rows).items():
        assert one[key] == values[0]
        wrong = [n for n, a, b in zip(EACH, several[key], values, strict=True) if not same(plain(a), b)]
        assert not wrong, (key, wrong, several[key], values)


def test_a_restart_may_have_another_condition(tmp_path: Path) -> None:
    """The values of a state are those of the aggregator alone."""
    batches = [[(n,) for n in part] for part in ([1, 5, 9], [2, 6, 12], [3, 7])]
    for upto, condition in ((1, None), (2, col("n") > 5), (3, lambda row: row.n < 5)):
        topology = TridentTopology()
        numbers = topology.newStream("rows", FixedBatchSpout("n long", batches[:upto]))
        several = {"n": Count(where=condition), "all": CollectList("n", where=condition)}
        numbers.persistentAggregate(MemoryMapState.opaque(), several, name="s")
        numbers.persistentAggregate(MemoryMapState.opaque(), Count(where=condition), "n", name="n")
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            found, count = running.state("s")[()], running.state("n")[()]
    assert (found, count) == ((6, [1, 5, 9, 6, 12, 3]), 6)


def test_changes_take_their_part_away() -> None:
    """The number of a condition's tuples, their sum, and the values that remain, after any insertions and deletions."""
    draws, there, batches = random.Random(5), list[tuple[Any, ...]](), list[Any]()
    for _ in range(12):
        batch = []
        for _ in range(20):
            if there and draws.random() < 0.45:
                row, kind = there.pop(draws.randrange(len(there))), "delete"
            else:
                row, kind = (draws.choice("ab"), draws.randrange(9), 1.0, draws.choice(["ann", "eve"])), "insert"
                there.append(row)
            batch.append((*row, kind))
        batches.append(batch)
    several = {
        "all": Count(),
        "count": Count(where=CHEAP),
        "sum": Sum("n", where=CHEAP),
        "words": CollectSet("word", where=CHEAP),
        "best": ("n, word", TopK(3, where=CHEAP)),
    }
    topology = TridentTopology()
    changes = topology.newStream("rows", TestSource(f"{FIELDS}, op string", batches)).asChanges("op").groupBy("k")
    changes.persistentAggregate(MemoryMapState.opaque(), several, name="several")
    changes.persistentAggregate(MemoryMapState.opaque(), {n: several[n] for n in ("count", "sum")}, name="sums")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        found, sums = dict(running.state("several").items()), dict(running.state("sums").items())
    for key in {row[0] for row in there}:
        kept = [row for row in there if row[0] == key and holds(row)]
        assert found[key][:3] == (len([r for r in there if r[0] == key]), len(kept), sum(row[1] for row in kept))
        assert sums[key] == (len(kept), sum(row[1] for row in kept))
        assert found[key].words == sorted({row[3] for row in kept})
        assert [tuple(row) for row in found[key].best] == sorted(((r[1], r[3]) for r in kept), reverse=True)[:3]


def test_windows_by_time_and_by_count() -> None:
    times = [datetime(2026, 1, 1, 10, minute, tzinfo=UTC) for minute in range(40)]
    rows = [(time, number, number % 2 == 0) for number, time in enumerate(times)]
    topology = TridentTopology()
    source = TestSource("at timestamp, n long, even boolean", [rows[:15], rows[15:]])
    moments = topology.newStream("rows", source)
    tens = moments.window(
        TumblingEventTimeWindow("10 minutes", "at"),
        {"even": Count(where=col("even")), "last": Last("n", where=col("even")), "all": Count()},
        name="tens",
    )
    tens.project("even, last, all").toTable("last", name="seen")
    tens.late().toTable("n", name="late")
    counted = moments.window(SlidingCountWindow(4, 2), Sum("n", where=lambda row: row.even), "total", name="fours")
    counted.persistentAggregate(MemoryMapState.opaque(), CollectList("total"), "totals", name="totals")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        seen = {last: tuple(value) for last, value in running.state("seen").items()}
        (totals,) = running.state("totals").values()
    assert seen == {last: (5, 10) for last in (8, 18, 28)}
    ends = range(2, len(rows) + 1, 2)
    assert totals == [sum(n for _, n, even in rows[max(0, end - 4) : end] if even) for end in ends]


def test_a_condition_is_computed_once_for_all_aggregators() -> None:
    cheap = col("n") < 10
    rows = TridentTopology().newStream("rows", FixedBatchSpout(FIELDS, []))
    rows.aggregate({"a": Count(where=cheap), "b": Count(where=col("n") < 10), "c": Sum("n", where=cheap)})
    steps = [node.step for node in rows._register._nodes if ".where" in node.step]
    assert len(steps) == 3, "the condition, 1 or 0 for it, and n where it is true"


def test_a_filter_and_a_function_of_pandas_may_be_the_condition(engine: Slots) -> None:
    import pandas as pd

    def even(df: pd.DataFrame) -> pd.Series:
        return df["n"] % 2 == 0

    rows = stream(TridentTopology(), "k string, n long", [("a", 1), ("b", 2), (None, 4)])
    several = {"even": Count(where=even), "whole": Count(where=FilterNull()), "none": Count(where=Negate(FilterNull()))}
    assert leaving(engine, rows.aggregate({**several, "some": ("n", First(where=even))})) == [(2, 2, 1, 2)]


@pytest.mark.spark
def test_sql_on_spark(spark: Any) -> None:
    from tests.compiler.stage_runner import OnSpark

    rows = stream(TridentTopology(), "k string, n long", [("a", 1), ("b", 2), (None, None)])
    slots = OnSpark(spark)
    try:
        several = {"big": Count(where=expr("n > 1")), "first": ("k", First(where=expr("n > 1")))}
        assert leaving(slots, rows.aggregate(several)) == [(1, "b")]
    finally:
        slots.close()


@pytest.mark.parametrize(
    ("condition", "kind", "says"),
    [
        (col("n"), TypeDeclarationError, "it is bigint; a filter is a condition, such as col('n') > 3"),
        (col("m") > 1, TopologyError, "no field 'm'; the fields are (n bigint)"),
        ("n > 1", TopologyError, "'n > 1' is not an operation; give a callable"),
        (
            lambda a, b: True,
            TopologyError,
            "takes the wrong arguments: it is called with one TridentTuple of all fields",
        ),
        (Sum(), TopologyError, "is an aggregator: use it in aggregate"),
    ],
)
def test_wrong_conditions_are_told(condition: Any, kind: type[Exception], says: str) -> None:
    rows = stream(TridentTopology(), "n long", [])
    for call in (
        lambda: rows.aggregate("n", Sum(where=condition), "total"),
        lambda: rows.persistentAggregate(MemoryMapState.opaque(), {"total": Sum("n", where=condition)}, name="s"),
    ):
        with pytest.raises(kind, match=re.escape(says)):
            call()


@pytest.mark.parametrize("function", [lambda row: row.n / 0 > 1, lambda row: None, lambda row: 1])
def test_a_condition_that_fails_names_itself_and_the_tuple(engine: Slots, function: Any) -> None:
    rows = stream(TridentTopology(), "n long", [(7,)])
    with pytest.raises(UserFunctionError, match=r"aggregate\(Sum\).where: .*test_aggregator_conditions.*n=7"):
        leaving(engine, rows.aggregate("n", Sum(where=function), "total"))


def test_a_column_of_accumulators_is_made_for_groups_without_a_tuple_that_counts() -> None:

    filtered = Filtered(TopK(2), parse_schema("n long"))
    batch = pa.record_batch({"n": [3, 1, 2], "where": [True, None, False]})
    assert filtered.initColumn(batch, np.array([0, 1, 1]), 2).to_pylist() == [[3], []]
    assert filtered.initColumn(batch.slice(1), np.array([0, 1]), 2).to_pylist() == [[], []]
