"""First, Last, CollectList, CollectSet, MaxBy, MinBy, Median and the moments: what they give, on both engines."""

import itertools
import math
import statistics
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.stage_runner import Slots, leaving, stream
from trident import (
    Aggregator,
    CollectList,
    CollectSet,
    First,
    Last,
    MaxBy,
    Median,
    MinBy,
    StdDev,
    StdDevPop,
    TridentTopology,
    Variance,
    VarPop,
)
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import Fold, merge_partials
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.columns.columns import Columns
from trident.errors import TopologyError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import TestSource
from trident.testing.local import start_local

NAN = math.nan
ENTERING = pa.schema({"k": pa.string(), "n": pa.int64()})
ROWS = [("a", None, 2.0), ("b", 7, NAN), ("a", 3, 9.0), ("b", 5, 1.0), ("a", 3, 9.0), ("c", None, None)]
AGGREGATORS: list[tuple[Any, dict[str, Any], Any]] = [
    (First("n"), {"a": None, "b": 7, "c": None}, None),
    (First("n", ignoreNulls=True), {"a": 3, "b": 7, "c": None}, None),
    (Last("n"), {"a": 3, "b": 5, "c": None}, None),
    (Last("x", ignoreNulls=True), {"a": 9.0, "b": 1.0, "c": None}, None),
    (CollectList("n"), {"a": [3, 3], "b": [7, 5], "c": []}, []),
    (CollectSet("n"), {"a": [3], "b": [5, 7], "c": []}, []),
    (MaxBy("n", "x"), {"a": 3, "b": 7, "c": None}, None),
    (MinBy("n", "x"), {"a": None, "b": 5, "c": None}, None),
    (MaxBy("x", "n"), {"a": 9.0, "b": NAN, "c": None}, None),
    (Variance("n"), {"a": 0.0, "b": 2.0, "c": None}, None),
    (VarPop("n"), {"a": 0.0, "b": 1.0, "c": None}, None),
    (StdDev("n"), {"a": 0.0, "b": 2**0.5, "c": None}, None),
    (Median("n"), {"a": 3.0, "b": 6.0, "c": None}, None),
    (Median("x"), {"a": 9.0, "b": NAN, "c": None}, None),
    (StdDevPop("n"), {"a": 0.0, "b": 1.0, "c": None}, None),
]
IDS = [repr(aggregator) for aggregator, _, _ in AGGREGATORS]


def rows(*batches: Any, fields: str = "k string, n long, x double") -> Any:
    return stream(TridentTopology(), fields, *batches)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, abs_tol=1e-12)
    return bool(found == expected)


@pytest.mark.parametrize(("aggregator", "expected", "empty"), AGGREGATORS, ids=IDS)
def test_groups_and_empty_batches(engine: Slots, aggregator: Any, expected: Any, empty: Any) -> None:
    found = dict(leaving(engine, rows(ROWS).groupBy("k").aggregate(aggregator, "out")))
    assert found.keys() == expected.keys()
    assert all(same(found[key], expected[key]) for key in expected), found
    ((of_nothing,),) = leaving(engine, rows([]).aggregate(aggregator, "out"))
    assert of_nothing == empty


@pytest.mark.parametrize(("aggregator", "expected", "empty"), AGGREGATORS, ids=IDS)
def test_beside_an_aggregator_that_sees_every_tuple(aggregator: Any, expected: Any, empty: Any) -> None:
    class Seen(Aggregator):
        outputType = "long"

        def init(self, batchId: Any, collector: Any) -> list[int]:
            return [0]

        def aggregate(self, state: Any, tuple: Any, collector: Any) -> None:
            state[0] += 1

        def complete(self, state: Any, collector: Any) -> None:
            collector.emit(state)

    found = rows(ROWS).groupBy("k").chainedAgg().aggregate(aggregator, "out").aggregate(Seen(), "seen").chainEnd()
    by_key = {row.k: row.out for row in found.take(9)}
    assert all(same(by_key[key], expected[key]) for key in expected), by_key


@pytest.mark.parametrize(("aggregator", "expected", "empty"), AGGREGATORS, ids=IDS)
def test_states_over_batches_by_any_cut_give_the_same(aggregator: Any, expected: Any, empty: Any) -> None:
    for cut in range(len(ROWS) + 1):
        topology = TridentTopology()
        source = TestSource("k string, n long, x double", [ROWS[:cut], ROWS[cut:]])
        grouped = topology.newStream("rows", source).groupBy("k")
        grouped.persistentAggregate(MemoryMapState.opaque(), aggregator, "out", name="one")
        grouped.persistentAggregate(MemoryMapState.opaque(), {"out": aggregator}, name="several")
        with start_local(topology) as running:
            running.processAllAvailable(timeout=30)
            found = dict(running.state("one").items())
            several = dict(running.state("several").items())
        assert found.keys() == several.keys() - {key for key in "c" if expected[key] is None and key not in found}
        assert several.keys() == expected.keys()
        assert all(same(found.get(key), expected[key]) for key in expected), (cut, found)
        assert all(same(several[key].out, expected[key]) for key in expected), (cut, several)


def test_the_order_within_a_batch_is_that_of_its_partitions(engine: Slots) -> None:
    """Many tuples, so that on Spark several partitions fold them and Arrow's batches are several."""
    many = [("a", number, 1.0) for number in range(30_000)]
    made = rows(many).each("n", lambda n: n, "m long").groupBy("k")
    chain = made.aggregate({"first": First("m"), "last": Last("m"), "all": CollectList("m"), "top": MaxBy("m", "x")})
    ((_, first, last, everything, top),) = leaving(engine, chain)
    assert (first, last, top) == (0, 29_999, 0)
    assert everything == list(range(30_000))


def test_of_equal_values_the_first_tuple_counts() -> None:
    found = rows([("a", 1, 5.0), ("a", 2, 5.0), ("a", 3, 4.0), ("a", 4, 4.0)])
    assert found.aggregate({"top": MaxBy("n", "x"), "low": MinBy("n", "x")}).take(1)[0] == (1, 3)


def test_a_set_takes_equal_doubles_for_one() -> None:
    found = rows([("a", 1, 0.0), ("a", 1, -0.0), ("a", 1, NAN), ("a", 1, NAN), ("a", 1, -1.0)])
    (value,) = found.aggregate(CollectSet("x"), "set").take(1)[0]
    assert value[:2] == [-1.0, 0.0]
    assert math.isnan(value[2])
    assert len(value) == 3


def test_any_type_is_collected_and_decimals_are_measured() -> None:
    batch = [(["x", "y"], {"k": 1}, Decimal("1.50")), (["z"], {"k": 2}, Decimal("2.50"))]
    made = rows(batch, fields="l array<string>, m map<string, long>, d decimal(5,2)")
    several = {"l": CollectList("l"), "m": Last("m"), "v": Variance("d"), "best": MaxBy("m", "d")}
    assert made.aggregate(several).take(1)[0] == ([["x", "y"], ["z"]], {"k": 2}, 0.5, {"k": 2})


@pytest.mark.parametrize(
    "batch", [[NAN], [math.inf], [-math.inf, None], [1.0, math.inf], [math.inf, math.inf]], ids=str
)
def test_values_that_are_not_finite_have_no_deviation(batch: list[Any]) -> None:
    """In columns, value by value, and over changes."""
    one = [(value,) for value in batch]
    (found,) = rows(one, fields="v double").aggregate({"var": VarPop("v"), "dev": StdDevPop("v")}).take(1)
    assert math.isnan(found.var) and math.isnan(found.dev)
    acc = reduce(VarPop().combine, [VarPop().init((value,)) for value in batch])
    assert math.isnan(VarPop().present(acc) or 0.0)
    topology = TridentTopology()
    changes = stream(topology, "v double, op string", [(value, "insert") for value in batch]).asChanges("op")
    changes.persistentAggregate(MemoryMapState.opaque(), VarPop("v"), "var", name="var")
    with topology.start(engine="embedded", name="deviation") as running:
        running.processAllAvailable(timeout=30)
        assert math.isnan(running.state("var").value)


values = st.lists(st.floats(-1e6, 1e6) | st.none(), max_size=30)


@given(st.lists(values, min_size=1, max_size=4), st.sampled_from([0.0, 1e9]))
def test_moments_are_those_of_pythons_statistics(parts: list[list[Any]], offset: float) -> None:
    """Also where values are large and near one another, in columns and value by value."""
    parts = [[None if value is None else value / 1e6 + offset for value in part] for part in parts]
    known = [value for part in parts for value in part if value is not None]
    made = TridentTopology().newStream("v", FixedBatchSpout("v double", [[(value,) for p in parts for value in p]]))
    (found,) = made.aggregate({"pop": VarPop("v"), "sample": Variance("v")}).take(1)
    by_value = Variance()
    acc = by_value.zero()
    for part in parts:
        own = by_value.zero()
        for value in part:
            own = by_value.combine(own, by_value.init((value,)))
        acc = by_value.combine(acc, own)
    assert found.pop is None if not known else math.isclose(found.pop, statistics.pvariance(known), abs_tol=1e-6)
    if len(known) < 2:
        assert found.sample is None
        assert by_value.present(acc) is None
    else:
        assert math.isclose(found.sample, statistics.variance(known), rel_tol=1e-6, abs_tol=1e-6)
        assert math.isclose(by_value.present(acc) or 0.0, statistics.variance(known), rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MaxBy("n"), r"MaxBy\('n'\) names one field, but takes two: name both, MaxBy\('value', 'by'\)"),
        (lambda: MaxBy(1, 2), r"MaxBy: 1 is not a field; write MaxBy\('value', 'by'\)"),
        (lambda: First("n", ignoreNulls="yes"), "First: ignoreNulls='yes': expected True or False"),
        (lambda: StdDev(3), r"StdDev\(3\): give the name of one field, such as StdDev\('price'\)"),
        (
            lambda: rows([]).aggregate(MaxBy(), "out"),
            r"MaxBy takes two input fields, the value and the field to order by,",
        ),
        (lambda: rows([]).aggregate(First(), "out"), r"First takes one input field, not 3"),
        (
            lambda: rows([]).aggregate("k", Variance(), "out"),
            r"Variance measures numbers of one field, but 'k' is string",
        ),
        (lambda: rows([]).aggregate("k", First(), "out long"), r"First over string returns string, not bigint"),
    ],
)
def test_wrong_uses_are_told(make: Any, says: str) -> None:
    with pytest.raises((TopologyError, TypeDeclarationError), match=says):
        make()


def test_the_names_of_spark_lead_to_them() -> None:
    from pyspark.sql import functions as F

    for function, says in [(F.max_by, "MaxBy"), (F.stddev_pop, "StdDevPop"), (F.median, "Median")]:
        with pytest.raises(TopologyError, match=f"give {says}"):
            rows([]).aggregate("n", function, "out")
    with pytest.raises(ImportError, match=r"use MaxBy\('value', 'by'\)"):
        from trident import ArgMax  # type: ignore[attr-defined]  # noqa: F401


def test_a_restart_goes_on_with_what_is_stored(tmp_path: Path) -> None:
    several = {"first": First("n"), "all": CollectList("n"), "top": MaxBy("n", "x"), "v": Variance("n")}
    several["middle"] = Median("n")
    for upto in (1, 2):
        topology = TridentTopology()
        source = FixedBatchSpout("k string, n long, x double", [ROWS[:3], ROWS[3:]][:upto])
        grouped = topology.newStream("rows", source).groupBy("k")
        grouped.persistentAggregate(MemoryMapState.opaque(), several, name="s")
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            found = running.state("s")["b"]
    assert found == (7, [7, 5], 7, 2.0, 6.0)


def test_partial_results_of_several_partitions_are_put_in_order_whichever_comes_first() -> None:
    """Spark's shuffle brings them in any order."""
    parts = [("a", [1, None, 2]), ("a", [3, 4]), ("a", [5])]
    positions = [Position(7, 0), Position(7, 1 << 40), Position(8, 0)]
    several = {"first": First("n"), "last": Last("n"), "all": CollectList("n"), "top": MaxBy("n", "k")}
    node = rows([], fields="k string, n long").groupBy("k").aggregate(several)._node
    spec = fold_spec(node)
    partials = []
    for (key, numbers), position in zip(parts, positions, strict=True):
        fold = Fold(spec, position)
        fold.add_tuples(Columns.of(pa.table({"k": [key] * len(numbers), "n": numbers}), ENTERING))
        partials.append(fold.result().table(spec.schema))
    for order in itertools.permutations(partials):
        merged = spec.presented(merge_partials(spec, pa.concat_tables(order)))
        assert [tuple(row.values()) for row in merged.table(spec.leaving).to_pylist()] == [
            ("a", 1, 5, [1, 2, 3, 4, 5], 1)
        ]
