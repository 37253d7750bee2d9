"""Combiners that work on whole columns: on both engines, in states, windows and requests as value by value."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.compiler.stage_runner import STATE, Slots, leaving, results, stream
from tests.support.server import RedisServer
from trident import Count, MapGet, SessionWindow, TridentTopology, TumblingCountWindow
from trident.compiler.aggregates.column_combiners import merged
from trident.errors import TopologyError, UserFunctionError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing import TestOutput, TestSource
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Bits:
    """The bits that are set in any of the numbers: by value, and counting its calls."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return 0 if tuple[0] is None else int(tuple[0])

    def combine(self, a: int, b: int) -> int:
        return a | b

    def zero(self) -> int:
        return 0

    def present(self, acc: int) -> str:
        return bin(acc)


class BitColumns(Bits):
    """The same in columns. Its methods for one value say so if they are called."""

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        made = np.zeros(count, np.int64)
        np.bitwise_or.at(made, groups, columns.column(0).fill_null(0).to_numpy())
        return made

    def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
        return np.asarray(a) | np.asarray(b)


class OnlyColumns(BitColumns):
    def init(self, tuple: Any) -> int:
        raise AssertionError("init was called")

    def combine(self, a: int, b: int) -> int:
        raise AssertionError("combine was called")


NUMBERS = [("a", 1), ("b", 2), ("a", 4), ("c", None), ("b", 2)]
MANY = [(f"k{number % 7}", 1 << (number % 40)) for number in range(3000)]


def numbers(*batches: Any) -> Any:
    return stream(TridentTopology(), "k string, n long", *batches)


@pytest.mark.parametrize("batch", [NUMBERS, MANY, []], ids=["few", "many", "none"])
def test_columns_give_what_values_give(engine: Slots, batch: Any) -> None:
    for partial in (False, True):
        verb = "partitionAggregate" if partial else "aggregate"
        by_value = getattr(numbers(batch).groupBy("k"), verb)("n", Bits(), "bits")
        in_columns = getattr(numbers(batch).groupBy("k"), verb)("n", OnlyColumns(), "bits")
        if not partial:
            assert sorted(leaving(engine, in_columns)) == sorted(leaving(engine, by_value))
        else:
            assert {key for key, _ in leaving(engine, in_columns)} == {key for key, _ in batch}
    whole = numbers(batch).aggregate("n", OnlyColumns(), "bits")
    assert leaving(engine, whole) == leaving(engine, numbers(batch).aggregate("n", Bits(), "bits"))


def test_several_batches_of_a_state_are_combined_in_columns(shared_redis: RedisServer, tmp_path: Path) -> None:
    for at, state in enumerate([MemoryMapState.opaque(), RedisMapState.opaque(shared_redis.url)]):
        topology = TridentTopology()
        source = TestSource("k string, n long", [NUMBERS, [("a", 8), ("d", 16)], MANY])
        grouped = topology.newStream("rows", source).groupBy("k")
        grouped.persistentAggregate(state, "n", OnlyColumns(), "bits", name="bits")
        grouped.persistentAggregate(
            MemoryMapState.opaque(), {"n": Count(), "bits": ("n", OnlyColumns())}, name="several"
        )
        requests = topology.newDRPCStream("bits", "k string, n long")
        requests.groupBy("k").aggregate("n", OnlyColumns(), "asked")
        with start_local(topology, name="t", checkpointLocation=tmp_path / str(at)) as running:
            running.processAllAvailable(timeout=30)
            found = dict(running.state("bits").items())
            assert {key: found[key] for key in "abcd"} == {"a": "0b1101", "b": "0b10", "c": "0b0", "d": "0b10000"}
            assert running.state("several")["a"] == trident_row(n=3, bits="0b1101")
            assert [row.asked for row in running.drpc.execute("bits", "x", 5)] == ["0b101"]


def trident_row(**values: Any) -> Any:
    from pyspark.sql import Row

    return Row(**values)


def test_windows_take_them(tmp_path: Path) -> None:
    """By count tuples are seen one by one; sessions fold columns."""
    import datetime

    at = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    rows = [(at + datetime.timedelta(minutes=minute), 1 << bit) for bit, minute in enumerate([0, 2, 61, 62, 300])]
    for config, aggregator in [
        (TumblingCountWindow(2), BitColumns()),
        (SessionWindow("5 minutes", "at"), BitColumns()),
    ]:
        topology = TridentTopology()
        source = FixedBatchSpout("at timestamp, n long", [rows[:3], rows[3:]])
        output = TestOutput()
        windows = topology.newStream("rows", source).window(config, "n", aggregator, "bits", name="w")
        windows.foreachArrow(output)
        with start_local(topology) as running:
            running.processAllAvailable(timeout=30)
        assert [row[-1] for row in output.rows] == ["0b11", "0b1100"]


def test_a_state_query_sees_what_is_presented(tmp_path: Path) -> None:
    topology = TridentTopology()
    grouped = topology.newStream("rows", FixedBatchSpout("k string, n long", [NUMBERS])).groupBy("k")
    state = grouped.persistentAggregate(STATE, "n", BitColumns(), "bits", name="bits")
    topology.newDRPCStream("ask", "k string").stateQuery(state, "k", MapGet(), "bits")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=30)
        assert running.drpc.execute("ask", "a")[0].bits == "0b101"


def test_without_combineColumn_partial_results_are_combined_one_by_one(engine: Slots) -> None:
    class Half(Bits):
        def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
            return BitColumns().initColumn(columns, groups, count).tolist()

    assert leaving(engine, numbers(MANY).aggregate("n", Half(), "bits")) == [(bin(2**40 - 1),)]


def test_partial_accumulators_are_merged_in_their_order() -> None:
    numbers = np.array([3, 1, 3, 1, 3, 0])
    values = pa.array(["a", "b", "c", "d", "e", "f"])
    keys, found = merged(
        numbers, values, lambda a, b: pa.array([x + y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)])
    )
    assert (keys.tolist(), found.to_pylist()) == ([0, 1, 3], ["f", "bd", "ace"])


GIVEN = {
    "a scalar": (
        5,
        "returned int from initColumn(); expected a column: a pyarrow.Array, a NumPy array, a pandas Series",
    ),
    "None": (None, "returned NoneType from initColumn(); expected a column"),
    "too few": ([1], "returned 1 accumulators from initColumn() for 3 groups; expected one for each"),
    "texts": (pa.array(["a", "b", "c"]), "returned a column of string from initColumn(); its accumulators are bigint"),
    "fractions": (
        np.array([1.5, 2, 3]),
        "returned a column of float64 from initColumn(); its accumulators are bigint (Float",
    ),
    "a wrong item": ([1, "x", 3], "gave 'x' (str) for field 'bits', which is declared as bigint"),
    "objects": (np.array([object()] * 3), "for field 'bits', which is declared as bigint"),
    "objects of a Series": (pd.Series([1, True, None], dtype=object), "gave True (bool) for field 'bits'"),
}


@pytest.mark.parametrize("what", GIVEN)
def test_what_is_no_column_of_accumulators_is_told(what: str) -> None:
    given, says = GIVEN[what]

    class Wrong(Bits):
        def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
            return given

    with pytest.raises(UserFunctionError) as caught:
        numbers(NUMBERS).groupBy("k").aggregate("n", Wrong(), "bits").take(1)
    assert says in str(caught.value)
    assert "Wrong (test_column_combiners.py:" in str(caught.value)


@pytest.mark.parametrize(
    "column", [pa.chunked_array([[1, 2], [3]]), pd.Series([1, 2, 3]), np.array([1, 2, 3], np.int32), [1, 2, 3]]
)
def test_what_is_a_column_is_taken(column: Any) -> None:
    class Right(Bits):
        def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
            return column

    found = numbers(NUMBERS).groupBy("k").aggregate("n", Right(), "bits").take(5)
    assert sorted(row.bits for row in found) == ["0b1", "0b10", "0b11"]


@pytest.mark.connect
def test_an_error_in_a_column_method_names_it_on_both_engines(engine: Slots) -> None:
    topology = TridentTopology()
    grouped = stream(topology, "k string, n long", NUMBERS).groupBy("k")
    grouped.persistentAggregate(STATE, "n", Failing(), "bits", name="bits")
    with pytest.raises(
        UserFunctionError,
        match=r"Failing \(test_column_combiners.py:\d+\) raised ValueError: no columns today in initColumn\(\)",
    ):
        results(engine, topology)


class Failing(Bits):
    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        raise ValueError("no columns today")


def test_an_error_in_combineColumn_fails_the_commit_and_names_it(tmp_path: Path) -> None:
    class Fails(BitColumns):
        def combineColumn(self, a: pa.Array, b: pa.Array) -> Any:
            raise ValueError("not these")

    topology = TridentTopology()
    grouped = topology.newStream("rows", FixedBatchSpout("k string, n long", [NUMBERS, NUMBERS])).groupBy("k")
    grouped.persistentAggregate(STATE, "n", Fails(), "bits", name="bits")
    running = start_local(topology, maxAttempts=1)
    with pytest.raises(UserFunctionError, match=r"Fails \(.*raised ValueError: not these in combineColumn\(\)"):
        running.processAllAvailable(timeout=30)


def test_column_methods_that_cannot_be_called_are_told() -> None:
    class Short(Bits):
        def initColumn(self, columns: pa.RecordBatch) -> Any:
            return None

    class Alone(Bits):
        def combineColumn(self, a: Any, b: Any) -> Any:
            return a

    rows = numbers(NUMBERS)
    with pytest.raises(TopologyError, match="initColumn is called with a RecordBatch, group numbers and their count"):
        rows.aggregate("n", Short(), "bits")
    with pytest.raises(TopologyError, match="has combineColumn but no initColumn"):
        rows.aggregate("n", Alone(), "bits")
