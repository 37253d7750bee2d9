"""Average, TopK, CountDistinct and Quantiles by themselves."""

import datetime
import functools
import math
import pickle
import random
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident import Average, CountDistinct, Quantiles, TopK
from trident.base.spark_types import parse_schema, type_ddl
from trident.errors import MissingPackageError, TopologyError
from trident.operations.aggregates.base import BuiltinAggregator

ALL = [Average(), TopK(3), CountDistinct(), Quantiles(0.5)]


def fold(aggregator: Any, values: list[Any]) -> Any:
    return functools.reduce(aggregator.combine, [aggregator.init((value,)) for value in values], aggregator.zero())


def shown(aggregator: Any, values: list[Any]) -> Any:
    return aggregator.present(fold(aggregator, values))


# --- what they give -----------------------------------------------------------------------------------------------


def test_an_average_skips_nulls_and_is_null_of_nothing() -> None:
    assert shown(Average(), [2, None, 5]) == 3.5
    assert fold(Average(), [Decimal("0.1")] * 3) == (Decimal("0.3"), 3)
    assert shown(Average(), [None]) is None
    assert shown(Average(), []) is None
    assert fold(Average(), [2**62, 2**62, 2**62]) == (3 * 2**62, 3), "the sum is exact"


def test_top_k_gives_the_greatest_values_with_their_doubles() -> None:
    assert fold(TopK(3), [5, 1, None, 9, 9, 2]) == [9, 9, 5]
    assert fold(TopK(3), [5, None]) == [5]
    assert fold(TopK(3), []) == []
    assert str(fold(TopK(2), [1.0, math.nan, math.inf])) == "[nan, inf]"
    tuples = [(2, "b"), (7, None), (None, "z"), (7, "a"), (7, "b")]
    assert TopK(3).gathered(tuples) == [(7, "b"), (7, "a"), (7, None)]
    assert TopK(1).combine(TopK(1).init((2, "b")), TopK(1).init((2, "c"))) == [(2, "c")]


@given(st.lists(st.none() | st.integers()), st.integers(1, 5))
def test_top_k_is_exact_however_its_parts_meet(values: list[Any], k: int) -> None:
    expected = sorted((value for value in values if value is not None), reverse=True)[:k]
    parts = [TopK(k).gathered([(value,) for value in values[at::3]]) for at in range(3) if values[at::3]]
    assert functools.reduce(TopK(k).combine, parts, TopK(k).zero()) == expected == fold(TopK(k), values)


def test_distinct_values_are_counted_within_the_error() -> None:
    distinct = CountDistinct()
    assert shown(distinct, ["a", "b", None, "a"]) == 2
    assert shown(distinct, []) == 0
    parts = [distinct.gathered([(n % 50_000,) for n in range(at, 200_000, 4)]) for at in range(4)]
    found = distinct.present(functools.reduce(distinct.combine, parts))
    assert abs(found - 50_000) < 5 * 0.016 * 50_000
    assert max(map(len, parts)) < 2_200


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([0.0, -0.0, math.nan, float("nan"), 1.0], 3),
        ([Decimal("1.0"), Decimal("1.00"), Decimal("0E+3"), Decimal("-0")], 2),
        ([Decimal(10**30), Decimal(10**30 + 1), Decimal("1e30")], 2),
        ([b"\x00", b"\x00\x00", b"", b"\xff"], 4),
        ([True, False, True], 2),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], 2),
        (
            [
                datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC),
                datetime.datetime(2020, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
            ],
            1,
        ),
        ([[1, 2], [1], [12], [], [[]], ["1,2"]], 6),
    ],
    ids=["double", "decimal", "long decimal", "binary", "boolean", "date", "timestamp", "array"],
)
def test_values_are_told_apart_as_spark_means_it(values: list[Any], count: int) -> None:
    assert shown(CountDistinct(), values) == count
    assert shown(CountDistinct(), [[value] for value in values]) == count


def test_several_fields_are_counted_together() -> None:
    tuples = [("a", "bc"), ("ab", "c"), ("a", "bc"), ("a", None), ("", "abc")]
    assert CountDistinct().present(CountDistinct().gathered(tuples)) == 3
    assert CountDistinct().present(CountDistinct().gathered([(b"a,b", b"c"), (b"a", b"b,c")])) == 2


def test_quantiles_are_within_the_error() -> None:
    asked = Quantiles(0.0, 0.25, 0.5, 0.99, 1.0)
    values = [float(n) for n in range(100_000)]
    random.Random(7).shuffle(values)
    parts = [asked.gathered([(value,) for value in values[at::5]]) for at in range(5)]
    found = asked.present(functools.reduce(asked.combine, parts))
    assert found is not None
    for rank, value in zip(asked.ranks, found, strict=True):
        assert abs(value / 100_000 - rank) < 0.03, rank
    assert max(map(len, parts)) < 10_000
    assert shown(asked, [None, math.nan]) is None
    assert shown(Quantiles(0.5), [3, 1, 2, None]) == [2.0]


@pytest.mark.parametrize("aggregator", ALL, ids=lambda each: type(each).__name__)
@given(st.lists(st.none() | st.integers(-1000, 1000), max_size=20), st.integers(0, 20))
def test_many_at_once_are_the_same_as_one_by_one(aggregator: Any, values: list[Any], at: int) -> None:
    parts = [[(value,) for value in part] for part in (values[:at], values[at:])]
    gathered = functools.reduce(
        aggregator.combine, [aggregator.gathered(part) for part in parts if part], aggregator.zero()
    )
    show = getattr(aggregator, "present", lambda acc: acc)
    assert show(gathered) == show(fold(aggregator, values))


# --- types, and what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregator", "fields", "gives"),
    [
        (Average(), "n int", "struct<total:bigint,count:bigint>"),
        (Average(), "n float", "struct<total:double,count:bigint>"),
        (Average(), "n decimal(10,2)", "struct<total:decimal(20,2),count:bigint>"),
        (TopK(2), "n date", "array<date>"),
        (TopK(2), "n double, who string", "array<struct<n:double,who:string>>"),
        (CountDistinct(), "a string, b array<int>", "binary"),
        (Quantiles(0.5), "n decimal(10,2)", "binary"),
    ],
)
def test_the_accumulators_type_follows_from_the_input(aggregator: BuiltinAggregator, fields: str, gives: str) -> None:
    schema = parse_schema(fields)
    assert aggregator.problem(schema) == ""
    assert type_ddl(aggregator.type_of(schema)) == gives


@pytest.mark.parametrize(
    ("aggregator", "fields", "says"),
    [
        (Average(), "a int, b int", "Average adds numbers of one input field, not of 2 (a int, b int)"),
        (Average(), "a string", "Average adds numbers of one field, but 'a' is string"),
        (TopK(2), "a array<int>", "TopK compares values, but 'a' is array<int>: remove this field"),
        (CountDistinct(), "a map<int,int>", "CountDistinct cannot compare maps, and 'a' is map<int,int>"),
        (Quantiles(0.5), "a date", "Quantiles orders numbers of one field, but 'a' is date"),
    ],
)
def test_fields_that_do_not_fit(aggregator: BuiltinAggregator, fields: str, says: str) -> None:
    assert says in aggregator.problem(parse_schema(fields))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TopK(0), "TopK: k=0: expected a whole number of at least 1"),
        (lambda: TopK(True), "k=True: expected a whole number"),
        (lambda: CountDistinct(3), "CountDistinct: lgK=3: expected a whole number from 4 to 21"),
        (
            lambda: Quantiles(),
            "Quantiles takes one or more ranks from 0 to 1, but got none; name the field before the aggregator, as in "
            "('price',",
        ),
        (lambda: Quantiles("v"), "got 'v'; name the field before the aggregator, as in ('v', Quantiles(0.5, 0.99))"),
        (
            lambda: CountDistinct("v"),
            "lgK must be a whole number; name a field before the aggregator, as in ('v',",
        ),
        (
            lambda: CountDistinct("v", exact=True),
            "lgK must be a whole number; name a field before the aggregator, as in ('v',",
        ),
        (
            lambda: TopK("v"),
            "TopK('v'): k must be a whole number; name a field before the aggregator, as in ('v', TopK(",
        ),
        (lambda: Quantiles(50), "takes one or more ranks from 0 to 1, but got 50"),
        (lambda: Quantiles(0.5, k=1), "Quantiles: k=1: expected a whole number from 8 to 65535"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Any, says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        make()
    assert says in str(raised.value)


def test_the_ranks_0_and_1_are_the_least_and_the_greatest_value() -> None:
    ends = Quantiles(0.0, 1.0)
    values = [float(n * 7919 % 10_007) for n in range(6000)] + [-5.5, 99_999.0]
    sketch = ends.combine(
        ends.gathered([(value,) for value in values[:3000]]), ends.gathered([(v,) for v in values[3000:]])
    )
    assert ends.present(sketch) == [-5.5, 99_999.0]


@pytest.mark.parametrize("make", [lambda: CountDistinct(), lambda: Quantiles(0.5)], ids=["distinct", "quantiles"])
def test_without_the_extra_one_is_told_what_to_install(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingPackageError, match=r"needs the package datasketches.*'trident-pyspark\[sketches\]'"):
        make()


def test_they_are_equal_by_value_and_travel_by_pickle() -> None:
    for aggregator in ALL:
        assert pickle.loads(pickle.dumps(aggregator)) == aggregator  # noqa: S301
    assert Quantiles(0.5) != Quantiles(0.9) and TopK(1) != TopK(2)
    assert repr(Quantiles(0.5)) == "Quantiles(ranks=(0.5,), k=200)"
