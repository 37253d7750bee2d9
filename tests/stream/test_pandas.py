"""Calls of verbs with functions over pandas objects: what is recognised, and what is refused with which words.

The annotations are texts here, as `from __future__ import annotations` makes them; other tests have the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas
import pandas as pd
import pytest

from tests.support.topologies import node
from trident import Count, TridentTopology, TumblingCountWindow
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.spark_types import ddl
from trident.operations.functions import Call
from trident.plan import nodes
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

FIELDS = "word string, n long, x double"


def tuples() -> Any:
    return TridentTopology().newStream("s", FixedBatchSpout(FIELDS, []))


def of_series(n: pd.Series, x: pandas.Series) -> pd.Series:
    return n + x


def of_typed_series(n: pd.Series[int]) -> pd.Series[int]:
    return n + 1


def of_frame(df: pd.DataFrame) -> pd.DataFrame:
    return df


def with_option(n: pd.Series, by: int = 2) -> pd.Series:
    return n * by


def of_any(*series: pd.Series) -> pd.Series:
    return sum(series[1:], series[0])


class Scaled:
    outputType = "double"

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, n: pd.Series) -> pd.Series:
        return n * self.by

    def method(self, n: pd.Series) -> pd.Series:
        return n * self.by


@pytest.mark.parametrize(
    ("inputs", "function", "call"),
    [
        ("n, x", of_series, Call.SERIES),
        ("n", of_typed_series, Call.SERIES),
        ("n, x", of_frame, Call.PANDAS_FRAME),
        ("n", with_option, Call.SERIES),
        ("n", partial(with_option, by=3), Call.SERIES),
        ("word, n, x", of_any, Call.SERIES),
        ("n", Scaled(2), Call.SERIES),
        ("n", Scaled(2).method, Call.SERIES),
    ],
)
def test_the_annotations_tell_how_a_function_is_called(inputs: str, function: Callable[..., Any], call: Call) -> None:
    each = node(tuples().each(inputs, function, "y double"))
    assert isinstance(each, nodes.Each) and each.function.call is call
    assert not each.function.call.native, "it runs without Spark"


def test_pandas_may_be_imported_for_type_checkers_only() -> None:
    names: dict[str, Any] = {}
    exec("def doubled(n: 'pd.Series[int]') -> 'pd.Series[int]':\n    return n * 2", names)
    assert node(tuples().each("n", names["doubled"], "m long")).function.call is Call.SERIES  # type: ignore[attr-defined]


def test_types_come_from_the_call_or_from_the_object() -> None:
    assert ddl(tuples().each("n", Scaled(2), "y").schema) == f"{ddl(tuples().schema)}, y double"
    assert ddl(tuples().map("n, x", of_frame).schema) == "n bigint, x double"
    assert ddl(tuples().flatMap(of_frame).schema) == ddl(tuples().schema)


def test_a_function_of_values_is_called_as_before() -> None:
    def unfit(n: NoSuchClass) -> int:  # type: ignore[name-defined]  # noqa: F821
        return 1

    assert node(tuples().each("n", unfit, "y long")).function.call is Call.VALUES  # type: ignore[attr-defined]


def half(n: pd.Series, x: Any) -> pd.Series:
    return n


def unannotated(n: pd.Series, x) -> pd.Series:  # type: ignore[no-untyped-def]
    return n


def silent(n: pd.Series):  # type: ignore[no-untyped-def]
    return n


def iterating(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    yield from parts


def iterating_pairs(parts: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame()


def beside(df: pd.DataFrame, n: pd.Series) -> pd.Series:
    return n


def folding(n: pd.Series) -> float:
    return n.mean()


def folding_untyped(n: pd.Series) -> Any:
    return n.mean()


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "half": (
        lambda s: s.each("n, x", half, "y long"),
        "annotations are pandas classes, but 'x' not: annotate every parameter",
    ),
    "unannotated": (lambda s: s.each("n, x", unannotated, "y long"), "annotations are pandas classes, but 'x' not"),
    "silent": (lambda s: s.each("n", silent, "y long"), r"but its return type is not annotated: write -> pd\.Series"),
    "iterator": (
        lambda s: s.each("n", iterating, "y long"),
        r"one slice of the tuples at a time: .* prepare\(context\)",
    ),
    "iterator of tuples": (lambda s: s.flatMap("n", iterating_pairs, "y long"), "Iterator of pandas objects"),
    "beside": (
        lambda s: s.each("n, x", beside, "y long"),
        "a DataFrame contains all input fields, so it must be the only parameter",
    ),
    "no type": (
        lambda s: s.each("n, x", of_series, "y"),
        r"'y' is not declared, and a pandas type does not determine it: .*'y string'",
    ),
    "two outputs": (
        lambda s: s.each("n, x", of_series, "y long, z long"),
        "a Series for 2 output fields .* return a DataFrame",
    ),
    "arguments": (lambda s: s.each("n", of_series, "y long"), r"one pandas Series for each field \(n\)"),
    "frame's arguments": (
        lambda s: s.map("n", lambda_of_frames, "y long"),
        r"one pandas DataFrame of the fields \(n\)|be the only parameter",
    ),
    "filter": (lambda s: s.filter(of_frame), "a filter over pandas objects returns a Series of bool"),
    "value": (
        lambda s: s.each("n", folding, "y double"),
        "return float for all tuples at once; only an aggregate accepts such",
    ),
    "peek": (lambda s: s.peek("n", of_typed_series), "peek takes a plain callable"),
    "split": (
        lambda s: s.split("n", of_typed_series, streams={"a": "x long"}),
        "each tuple",
    ),
    "partition": (lambda s: s.partition("n", of_typed_series), "partition takes a plain callable"),
    "aggregate of rows": (
        lambda s: s.aggregate("n", of_typed_series, "y long"),
        "to return a Series, but an aggregate is one value",
    ),
    "aggregate's type": (
        lambda s: s.aggregate("n", folding_untyped, "y"),
        r"'y double', or annotate the return type of the function, such as -> float",
    ),
    "aggregate's arguments": (
        lambda s: s.aggregate("n, x", folding, "y"),
        r"one pandas Series for each field \(n, "
        r"x\)",
    ),
    "two values": (lambda s: s.aggregate("n", folding, "y double, z double"), "an aggregator returns one field, not 2"),
    "state": (
        lambda s: s.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "n", folding, "y"),
        r"its values for two batches cannot be combined\. Use aggregate .* initColumn",
    ),
    "several in a state": (
        lambda s: s.persistentAggregate(MemoryMapState.opaque(), {"y": ("n", folding), "n": Count()}, name="z"),
        "cannot be combined",
    ),
    "window": (lambda s: s.window(TumblingCountWindow(3), "n", folding, "y", name="w"), "cannot be combined"),
}


def lambda_of_frames(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    return a


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_the_function_and_the_way_out(case: str) -> None:
    call, words = REFUSED[case]
    with pytest.raises((TopologyError, TypeDeclarationError), match=words) as refused:
        call(tuples())
    assert "test_pandas.py:" in str(refused.value), "the function's line and the line of the call"


def test_an_aggregates_type_comes_from_the_annotation_or_the_call() -> None:
    assert ddl(tuples().aggregate("n", folding, "mean").schema) == "mean double"
    assert ddl(tuples().aggregate("n", folding_untyped, "mean decimal(10,2)").schema) == "mean decimal(10,2)"
    grouped = tuples().groupBy("word").aggregate({"mean": ("n", folding), "n": Count()})
    assert ddl(grouped.schema) == "word string, mean double, n bigint"
