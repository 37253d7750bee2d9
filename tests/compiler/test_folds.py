"""Folds over columns: by Arrow and by Python, whole and in parts, always the same."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.functions import Tally
from tests.compiler.stage_runner import rows
from trident import Count, Max, Min, Sum
from trident.base.callsite import site_of
from trident.base.errors import UserFunctionError
from trident.base.spark_types import parse_type, spark_schema
from trident.compiler.aggregates.folds import (
    Fold,
    FoldMember,
    FoldSpec,
    arrow_merge,
    arrow_partial,
    fold_columns,
    merge_partials,
)
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.spark.worker_aggregates import ArrowFold
from trident.operations.aggregators import Aggregation

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("n", pa.int64())])
KEYS = {"k": ["a", "b", "", None], "x": [0.0, -0.0, float("nan"), math.inf, None, 1.5]}
TUPLES = st.lists(
    st.tuples(
        st.sampled_from(KEYS["k"]),
        st.sampled_from(KEYS["x"]),
        st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63)])),
    ),
    max_size=60,
)


def spec(aggregator: Any, keys: str) -> FoldSpec:
    inputs = () if isinstance(aggregator, Count) else ("n",)
    kind = parse_type("bigint")
    aggregation = Aggregation(aggregator, site_of(aggregator), "out", kind, getattr(aggregator, "native", None))
    key_schema = pa.schema([SCHEMA.field(name) for name in keys])
    return FoldSpec.of(key_schema, FoldMember(Where("fold", site_of(aggregator), inputs), aggregation))


def columns(tuples: list[Any]) -> Columns:
    arrays = [pa.array([row[at] for row in tuples], field.type) for at, field in enumerate(SCHEMA)]
    return Columns.of(pa.table(arrays, schema=SCHEMA), SCHEMA)


def folded(fold_spec: FoldSpec, tuples: list[Any]) -> Any:
    def run() -> Columns:
        fold = Fold(fold_spec)
        fold.add_tuples(columns(tuples))
        return fold.result()

    return outcome(run, fold_spec)


def outcome(run: Any, fold_spec: FoldSpec) -> Any:
    """Return the rows as text, because NaN differs from itself; or "overflow" where a sum does not fit."""
    try:
        return repr(rows(run().table(fold_spec.schema)))
    except UserFunctionError as error:
        if not any(says in str(error) for says in ("(int) for field 'out', ", "of 'n' does not fit bigint")):
            raise
        return "overflow"


def sums_may_overflow(tuples: list[Any]) -> bool:
    """Return whether the sum of some of these numbers is beyond bigint."""
    numbers = [n for _, _, n in tuples if n is not None]
    return sum(n for n in numbers if n > 0) >= 2**63 or sum(n for n in numbers if n < 0) < -(2**63)


@settings(deadline=None, max_examples=150)
@given(
    tuples=TUPLES,
    cut_at=st.integers(0, 60),
    keys=st.sampled_from(["k", "x", "kx", ""]),
    aggregator=st.sampled_from([Count(), Sum(), Min(), Max(), Tally()]),
)
def test_every_way_gives_the_same(tuples: list[Any], cut_at: int, keys: str, aggregator: Any) -> None:
    how = spec(aggregator, keys)
    expected = folded(how, tuples)
    parts = [columns(tuples[:cut_at]), columns(tuples[cut_at:])]
    if isinstance(aggregator, Sum) and sums_may_overflow(tuples):  # in some orders: never another number
        within = [outcome(lambda: fold_columns(how, parts), how), expected]
        assert len({*within} - {"overflow"}) <= 1
        return
    assert outcome(lambda: fold_columns(how, parts), how) == expected
    quick = [arrow_partial(how, part) for part in parts]
    if all(part is not None for part in quick):
        merged = outcome(lambda: arrow_merge(how, [part for part in quick if part is not None]), how)
        assert merged == expected
    partials = []
    for part in parts:
        fold = Fold(how)
        try:
            fold.add_tuples(part)
            partials.append(fold.result())
        except UserFunctionError:
            return  # one part overflows by itself
    both = concat(partials).table(how.schema)
    if both.num_rows or keys:
        for few in (256, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("trident.compiler.aggregates.folds._FEW", few)
                assert outcome(lambda: merge_partials(how, both), how) == expected


def test_arrows_own_grouping_is_taken_where_it_says_what_spark_says() -> None:
    many = columns([("a", 1.0, 5)] * 300)
    assert arrow_partial(spec(Count(), "kx"), many) is not None
    assert arrow_partial(spec(Sum(), "k"), many) is not None
    assert arrow_partial(spec(Sum(), "k"), columns([("a", 1.0, 2**62)] * 3)) is None, "it would overflow"
    assert arrow_partial(spec(Tally(), "k"), many) is None
    assert arrow_partial(spec(Count(), ""), many) is None


def test_quick_folds_meet_before_they_are_many() -> None:
    how = spec(Count(), "k")
    quick = ArrowFold(how)
    for at in range(60):
        assert quick.add(columns([(f"key{n}", None, None) for n in range(at, at + 4000)]))
    assert quick._rows <= 4 * 4100 + 104_000
    (found,) = quick.results()
    counts = dict(rows(found.table(how.schema)))
    assert len(counts) == 4059 and counts["key59"] == 60 and sum(counts.values()) == 240_000


def test_keys_meet_as_in_spark() -> None:
    schema = pa.schema([("x", pa.list_(pa.float64())), ("s", pa.struct([("y", pa.float32())]))])
    values = {"x": [[0.0, None], [-0.0, None], [math.nan]], "s": [{"y": math.nan}, {"y": math.nan}, None]}
    found = Columns.of(pa.table(values, schema=schema), schema)
    index = KeyNumbers(schema.types)
    assert index.numbers([found["x"], found["s"]], 3) == [0, 0, 1]
    x, s = index.columns()
    assert x.array().to_pylist()[0] == [0.0, None] and s.array().to_pylist()[1] is None
    assert spark_schema(schema).names == ["x", "s"]


@pytest.mark.parametrize("aggregator", [Count(), Sum()], ids=["count", "sum"])
def test_large_folds_are_arrows(aggregator: Any) -> None:
    many = columns([(f"k{n % 7}", None, n) for n in range(5000)])
    found = dict(rows(fold_columns(spec(aggregator, "k"), [many]).table(spec(aggregator, "k").schema)))
    by_hand = [n for n in range(5000) if n % 7 == 3]
    assert found["k3"] == (len(by_hand) if isinstance(aggregator, Count) else sum(by_hand))
