"""Tuples with names where values go by position, and nulls where none may be: no field gets what is not its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import Row

from trident import Function, TridentTopology
from trident.errors import SpoutContractError, StateKeyError, UserFunctionError
from trident.operations.tuples import TridentTuple
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Swapped(NamedTuple):
    b: int
    a: int


WRONG = [Swapped(b=2, a=1), Row(b=2, a=1), TridentTuple(b=2, a=1), Row(c=3, a=1)]


class Emits(Function):
    outputType = "long, long"

    def __init__(self, value: Any) -> None:
        self.value = value

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit(self.value)


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(
    "of",
    [
        lambda numbers, value: numbers.each("n", lambda n: value, "a long, b long"),
        lambda numbers, value: numbers.map("n", lambda n: value, "a long, b long"),
        lambda numbers, value: numbers.flatMap("n", lambda n: [value], "a long, b long"),
        lambda numbers, value: numbers.each("n", Emits(value), "a, b"),
        lambda numbers, value: numbers.split("n", lambda n: ("x", value), streams={"x": "a long, b long"}).x,
    ],
    ids=["each", "map", "flatMap", "emit", "split"],
)
def test_a_result_with_a_field_at_another_position_is_refused(of: Callable[..., Any], value: Any) -> None:
    numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[1]]))
    with pytest.raises(UserFunctionError, match=r"it has 'a' at another position; give the values in the order of"):
        of(numbers, value).take(1)


def test_other_names_and_the_right_order_pass() -> None:
    numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[1]]))
    for value in (Row(a=1, b=2), Row(x=1, y=2), Row(a=1, y=2), TridentTuple(a=1, b=2), (1, 2)):
        assert numbers.map("n", lambda n, value=value: value, "a long, b long").take(1) == [Row(a=1, b=2)]


def test_rows_of_a_spout_and_keys_too() -> None:
    with pytest.raises(SpoutContractError, match="it has 'a' at another position"):
        FixedBatchSpout("a long, b long", [[Swapped(b=2, a=1)]])
    topology = TridentTopology()
    pairs = topology.newStream("pairs", FixedBatchSpout("a long, b long", [[(1, 2)]]))
    pairs.toTable("a, b", MemoryMapState.opaque(), valueFields="a", name="pairs")
    with start_local(topology) as running:
        running.processAllAvailable(20)
        view = running.state("pairs")
        assert (1, 2) in view and Row(a=1, b=2) in view
        with pytest.raises(StateKeyError, match="it has 'a' at another position"):
            view.get(Swapped(b=2, a=1))


@pytest.mark.parametrize(
    "of",
    [
        lambda numbers: numbers.each("n", lambda n: None if n == 2 else n, "m long NOT NULL"),
        lambda numbers: numbers.map("n", lambda n: (n, None if n == 2 else n), "n long, m long NOT NULL"),
        lambda numbers: numbers.flatMap("n", lambda n: [None], "m long NOT NULL"),
        lambda numbers: numbers.each("n", lambda n: {"m": None}, "s struct<m:long NOT NULL>"),
        lambda numbers: numbers.each("n", _of_series, "m long NOT NULL"),
        lambda numbers: numbers.each("n", Emits([None]), "m long NOT NULL"),
    ],
    ids=["each", "map", "flatMap", "struct", "pandas", "emit"],
)
def test_a_null_in_a_field_that_is_not_null_is_refused(of: Callable[..., Any]) -> None:
    """Spark would fail at it without the step's name."""
    numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[1, 2]]))
    with pytest.raises(UserFunctionError, match=r"'m' is NOT NULL"):
        of(numbers).take(2)


def _of_series(n: pd.Series) -> pd.Series:
    return n.where(n != 2)
