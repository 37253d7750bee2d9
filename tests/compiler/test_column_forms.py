"""The column forms of built-in aggregators give exactly what their methods for one value give, for all types."""

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.soak import some_of
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    CountDistinct,
    First,
    Last,
    Latest,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    Quantiles,
    Sum,
    TopK,
    TridentTopology,
)
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import to_python, type_name
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import Fold
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.columns.columns import Columns
from trident.compiler.states.shapes import shape_of
from trident.errors import TridentError
from trident.operations.aggregates.registry import builtin_classes
from trident.operations.tuples import tuple_type
from trident.plan.nodes import PersistentAggregate
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_state.binary_arrays import replace_rows
from trident_state.value_rules import combined

NAN = math.nan
KEYS = 4


def decimals(digits: int) -> st.SearchStrategy[Decimal]:
    limit = 10**digits - 1
    return st.one_of(st.integers(-limit, limit), st.integers(-3, 3)).map(
        lambda number: Decimal(number).scaleb(-2) if digits <= 5 else Decimal(f"{number}E-2")
    )


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
    "tinyint": st.integers(-128, 127),
    "double": st.one_of(st.sampled_from([0.0, -0.0, NAN, math.inf, -math.inf, 1.0]), st.floats()),
    "float": st.one_of(st.sampled_from([0.0, -0.0, NAN, math.inf, 1.0]), st.floats(width=32)),
    "decimal(5, 2)": decimals(5),
    "decimal(38, 2)": decimals(38),
    "string": st.one_of(st.sampled_from(["", "a", "b", "\U0001f40b", "\uffee"]), st.text(max_size=3)),
    "binary": st.binary(max_size=2),
    "boolean": st.booleans(),
    "date": st.dates(datetime.date(2024, 1, 1), datetime.date(2024, 1, 5)),
    "timestamp": st.datetimes(
        datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), timezones=st.just(datetime.UTC)
    ),
    "timestamp_ntz": st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)),
}
NUMBERS = ["long", "tinyint", "double", "float", "decimal(5, 2)", "decimal(38, 2)"]
MAKERS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "Count": (Count, ["long"]),
    "Sum": (lambda: Sum("a"), NUMBERS),
    "Min": (lambda: Min("a"), [*VALUES]),
    "Max": (lambda: Max("a"), [*VALUES]),
    "CountDistinct": (lambda: ("a", CountDistinct()), [*VALUES]),
    "CountDistinct of two": (lambda: ("a, b", CountDistinct(4)), ["double"]),
    "CountDistinct, exact": (lambda: ("a", CountDistinct(exact=True)), [*VALUES]),
    "CountDistinct of two, exact": (lambda: ("a, b", CountDistinct(exact=True)), [*VALUES]),
    "Latest": (lambda: ("a, b", Latest("a")), [*VALUES]),
    "Latest by two": (lambda: ("a, b", Latest("b, a")), [*VALUES]),
    "MaxBy of two": (lambda: MaxBy(["b", "s"], "a"), ["double"]),
    "Quantiles": (lambda: ("a", Quantiles(0.5)), NUMBERS),
    "Average": (lambda: Average("a"), NUMBERS),
    "First": (lambda: First("a"), [*VALUES]),
    "First without nulls": (lambda: First("a", ignoreNulls=True), [*VALUES]),
    "Last": (lambda: Last("a"), [*VALUES]),
    "MaxBy": (lambda: MaxBy("b", "a"), [*VALUES]),
    "MinBy": (lambda: MinBy("b", "a"), [*VALUES]),
    "MaxBy of structs": (lambda: MaxBy("s", "a"), ["double"]),
    "Last of lists": (lambda: Last("l"), ["long"]),
    "CollectList": (lambda: CollectList("a"), [*VALUES]),
    "CollectList of structs": (lambda: CollectList("s"), ["long"]),
    "CollectSet": (lambda: CollectSet("a"), [*VALUES]),
    "Median": (lambda: Median("a"), NUMBERS),
    "Median with a limit": (lambda: Median("a", limit=3), ["double", "long"]),
    "TopK(1)": (lambda: ("a", TopK(1)), [*VALUES]),
    "TopK(3)": (lambda: ("a, b", TopK(3)), [*VALUES]),
    "TopK(2) by two": (lambda: ("b, a", TopK(2)), [*VALUES]),
    "TopK(2) ascending": (lambda: ("b, a", TopK(2, ascending=True)), [*VALUES]),
    "TopK(2) in two directions": (lambda: ("b, a", TopK(2, ascending=[True, False])), [*VALUES]),
}
CASES = [(name, kind) for name, (_, its) in MAKERS.items() for kind in its]
NORMAL = [
    (name, kind)
    for name, kind in CASES
    if kind == "double"
    or (name, kind) in [("Average", "long"), ("Average", "decimal(38, 2)"), ("MaxBy", "string")]
    or len(MAKERS[name][1]) == 1
]
QUICK = settings(max_examples=10, deadline=None)


def node_of(name: str, kind: str) -> PersistentAggregate:
    fields = f"k long, a {kind}, b double, s struct<x: {kind}, y: string>, l array<long>"
    topology = TridentTopology()
    grouped = topology.newStream("rows", FixedBatchSpout(fields, [[]])).groupBy("k")
    made = MAKERS[name][0]()
    grouped.persistentAggregate(MemoryMapState.opaque(), *(made if isinstance(made, tuple) else (made,)), "out")
    (node,) = [node for node in topology.nodes if isinstance(node, PersistentAggregate)]
    return node


def batches(kind: str) -> st.SearchStrategy[list[list[tuple[Any, ...]]]]:
    """Return batches of (key, a, b, s, l)."""
    a, b = st.none() | VALUES[kind], st.none() | st.sampled_from([1.0, 0.0, -0.0, NAN])
    structs = st.none() | st.tuples(a, st.sampled_from(["x", None]))
    row = st.tuples(st.integers(0, KEYS - 1), a, b, structs, st.none() | st.lists(st.integers(0, 2), max_size=2))
    return st.lists(st.lists(row, max_size=10), min_size=2, max_size=4)


def columns_of(node: PersistentAggregate, rows: list[tuple[Any, ...]]) -> Columns:
    schema = arrow_schema(node.source.schema)
    arrays = []
    for at, field in enumerate(schema):
        values = [row[at] for row in rows]
        if field.name == "s":
            values = [None if value is None else dict(zip("xy", value, strict=True)) for value in values]
        arrays.append(pa.array(values, field.type))
    return Columns.of(pa.table(arrays, schema=schema), schema)


def outcome(work: Callable[[], pa.Array]) -> tuple[str, str]:
    """Return the type and every bit that a reader could see of a column, or the error."""
    try:
        column = work()
    except TridentError as error:
        return type(error).__name__, str(error)
    column.validate(full=True)
    return type_name(column.type), repr(column.to_pylist())


def folds(node: PersistentAggregate, parts: list[list[tuple[Any, ...]]], few: bool) -> Callable[[], pa.Array]:
    """Return a function that folds all parts in one batch, in the order of keys."""

    def work() -> pa.Array:
        fold = Fold(fold_spec(node), Position(5), few)
        for rows in parts:
            fold.add_tuples(columns_of(node, rows))
        table = fold.result().table(fold_spec(node).schema)
        return table.sort_by("k").column("out").combine_chunks()

    return work


@pytest.mark.parametrize("case", some_of(CASES, NORMAL), ids=str)
@QUICK
@given(data=st.data())
def test_a_state_combines_columns_as_value_by_value(case: tuple[str, str], data: st.DataObject) -> None:
    name, kind = case
    node = node_of(name, kind)
    shape, spec = shape_of(node), fold_spec(node)
    in_columns, by_value = replace(shape.combine, native=None), replace(shape.combine, native=None, columns=None)
    assert shape.combine.columns is not None
    stored = pa.nulls(KEYS, shape.value)
    for txid, rows in enumerate(data.draw(batches(kind)), start=1):
        fold = Fold(spec, Position(txid))
        try:
            fold.add_tuples(columns_of(node, rows))
            result = fold.result()
        except TridentError:
            return  # compared by the next test
        rows_of_keys, deltas = np.array(result["k"].values(), np.int64), result["out"].array()
        before = stored.take(pa.array(rows_of_keys))
        found, expected = (outcome(partial(combined, how, before, deltas)) for how in (in_columns, by_value))
        assert found == expected
        if not found[1].startswith("["):
            return
        stored = replace_rows(stored, rows_of_keys, combined(shape.combine, before, deltas))


@pytest.mark.parametrize("case", some_of(CASES, NORMAL), ids=str)
@QUICK
@given(data=st.data())
def test_tuples_fold_in_columns_as_value_by_value(case: tuple[str, str], data: st.DataObject) -> None:
    name, kind = case
    node = node_of(name, kind)
    aggregator: Any = node.aggregation.aggregator
    parts = data.draw(batches(kind))
    if name in ("Average", "Sum", "Median with a limit"):  # the parts of a fold fail in another order
        parts = [[row for part in parts for row in part]]
    found = outcome(folds(node, parts, few=False))
    if aggregator.gathers or aggregator.native:
        assert found == outcome(folds(node, parts, few=True))
        return
    presented = getattr(aggregator, "present", lambda value: value)

    def present(acc: Any) -> Any:
        value = presented(acc)
        return tuple(value) if isinstance(value, tuple) else value  # a Row, or the tuple of one

    make, rows = tuple_type(node.inputs), [row for part in parts for row in part]
    expected = []
    for key in sorted({row[0] for row in rows}):
        own = columns_of(node, [row for row in rows if row[0] == key])
        values = zip(*(to_python(own[name].array()) for name in node.inputs), strict=True)
        acc = reduce(
            lambda a, b: a if b is None else b if a is None else aggregator.combine(a, b),
            (aggregator.init(make(each)) for each in values),
        )
        expected.append(None if acc is None else present(acc))
    made = folds(node, parts, few=False)()
    assert repr([None if acc is None else present(acc) for acc in to_python(made)]) == repr(expected)


def test_every_built_in_aggregator_has_a_column_form() -> None:
    for kind in builtin_classes():
        assert callable(kind.initColumn) and callable(kind.combineColumn), kind  # type: ignore[attr-defined]
