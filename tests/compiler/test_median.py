"""Median: the exact middle of numbers, by any cut, within its limit; the same as Python's and as Spark's."""

import itertools
import math
import statistics
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.compiler.stage_runner import Slots, leaving, stream
from trident import Median, TridentTopology
from trident.errors import TopologyError, TridentError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

NAN, INF = math.nan, math.inf
SAMPLES: list[tuple[str, list[Any], float | None]] = [
    ("long", [4, None, 1, 3, 1], 2.0),
    ("long", [2**53 + 1, 2**53 + 3], float(2**53 + 2)),
    ("tinyint", [-128, 127], -0.5),
    ("double", [1.0, NAN, NAN], NAN),
    ("double", [NAN, 1.0, 2.0], 2.0),
    ("double", [INF, -INF], NAN),
    ("double", [1.7e308, 1.7e308, 1.6e308, 1.5e308], 1.6499999999999999e308),
    ("double", [0.0, -0.0, -0.0], 0.0),
    ("float", [0.5, 0.25], 0.375),
    ("decimal(38, 2)", [Decimal("123456789012345678901234567890.12")], 1.2345678901234568e29),
    ("decimal(5, 2)", [Decimal("1.10"), Decimal("2.20"), None], 1.6500000000000001),
    ("long", [None, None], None),
    ("long", [], None),
]


def is_same(found: float | None, expected: float | None) -> bool:
    both_nan = found is not None and expected is not None and math.isnan(found) and math.isnan(expected)
    return both_nan or found == expected


def median_of(engine: Slots, kind: str, values: list[Any]) -> float | None:
    rows = stream(TridentTopology(), f"v {kind}", [(value,) for value in values])
    (((found,)),) = leaving(engine, rows.aggregate(Median("v"), "m"))
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "values", "expected"), SAMPLES)
def test_a_batch_on_both_engines(engine: Slots, kind: str, values: list[Any], expected: float | None) -> None:
    assert is_same(median_of(engine, kind, values), expected)


@pytest.mark.spark
def test_it_is_the_median_of_spark(spark: SparkSession) -> None:
    for kind, values, expected in SAMPLES:
        frame = spark.createDataFrame([(value,) for value in values], f"v {kind}")
        (of_spark, half), *_ = frame.select(F.median("v"), F.percentile("v", 0.5)).collect()
        assert is_same(expected, of_spark) and is_same(expected, half), (kind, values, of_spark, half)


numbers = st.one_of(
    *(
        st.lists(st.lists(each | st.none(), max_size=9), min_size=1, max_size=4)
        for each in (st.integers(-5, 5), st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9).map(lambda x: x + 0.0))
    )
)


@given(numbers)
def test_it_is_pythons_median_by_any_cut_and_order(parts: list[list[Any]]) -> None:
    median = Median()
    known = [value for part in parts for value in part if value is not None]
    accumulators = [median.gathered([(value,) for value in part]) for part in parts]
    ways = set()
    for order in itertools.permutations(accumulators):
        whole = median.zero()
        for part in order:
            whole = median.combine(whole, part)
        ways.add(repr(whole))
    assert len(ways) == 1, "the stored value does not depend on the order"
    found = median.present(whole)
    assert found is None if not known else math.isclose(found, statistics.median(known), abs_tol=1e-300)


def run(limit: int, upto: int, checkpoint: Path) -> Any:
    batches = [[("a", 1), ("a", 2), ("a", None)], [("a", 3), ("a", 1)], [("a", 4), ("b", None)]]
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("k string, n long", batches[:upto])).groupBy("k")
    rows.persistentAggregate(MemoryMapState.opaque(), Median("n", limit=limit), "m", name="m")
    with start_local(topology, name="t", checkpointLocation=checkpoint) as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("m").items())


def test_a_state_continues_after_restarts(tmp_path: Path) -> None:
    assert [run(9, upto, tmp_path).get("a") for upto in (1, 2, 3)] == [1.5, 1.5, 2.0]


def test_a_state_beyond_the_limit_stops_and_continues_with_a_greater_one(tmp_path: Path) -> None:
    assert run(3, 2, tmp_path) == {"a": 1.5}
    with pytest.raises(TridentError, match="more than limit=3: restart with a greater limit") as failed:
        run(3, 3, tmp_path)
    assert "is frozen and kept" in str(failed.value)
    assert run(4, 3, tmp_path) == {"a": 2.0, "b": None}


def test_a_batch_beyond_the_limit_fails() -> None:
    rows = stream(TridentTopology(), "n long", [(1,), (2,), (2,), (3,)])
    assert rows.aggregate(Median("n", limit=3), "m").take(1) == [(2.0,)]
    with pytest.raises(
        TridentError, match=r"has 3 of them, more than limit=2: .* or estimate the median with Quantiles\(0.5\)"
    ):
        rows.aggregate(Median("n", limit=2), "m").take(1)


def test_wrong_uses_are_told() -> None:
    rows = stream(TridentTopology(), "word string, n long", [])
    with pytest.raises(TopologyError, match="Median: limit=0: expected"):
        Median("n", limit=0)
    with pytest.raises(TopologyError, match="Median orders numbers of one field, but 'word' is string"):
        rows.aggregate("word", Median(), "m")
    with pytest.raises(ImportError, match="use Median"):
        from trident import Percentile  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match=r"aggregate\('field', Median\(\), 'median'\)"):
        rows.median("n")  # type: ignore[attr-defined]
