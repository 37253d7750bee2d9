"""Streams of changes on Spark: the same states as those of a model that keeps whole tables."""

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession, functions

from tests.support.change_events import ROW, Connector
from tests.support.changes import FIELDS, History, expected, found, program
from tests.support.server import RedisServer
from trident import Average, Count, Debezium, Sum, TridentTopology, expr
from trident.errors import BatchFailedError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("writers", ["driver", "auto"])
def test_states_over_changes_on_spark(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path, writers: Any
) -> None:
    history, topology = History(21).grow(3, most=25), TridentTopology()

    def make() -> Any:
        if writers == "driver":
            return MemoryMapState.opaque()
        return RedisMapState.opaque(shared_redis.url, writers=writers, buckets=4)

    program(topology, topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)), make)
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        wanted = expected(history.rows.values())
        assert found(running, wanted) == wanted


def test_the_driver_makes_the_changes_of_a_table_that_executors_write(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path
) -> None:
    history, topology = History(24).grow(3, most=25), TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    states = [RedisMapState.opaque(shared_redis.url, writers=how, buckets=4) for how in ("executors", "driver")]
    rows, other = (changes.toTable("id", state, name=f"rows{at}") for at, state in enumerate(states))
    rows.changes().groupBy("g").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="sizes")
    rows.join(other, outputFields="h, w").toTable("id", name="joined")
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        held = history.rows.values()
        assert found(running, ["rows0", "sizes", "joined"]) == {
            "rows0": {key: (g, v) for key, g, v in held},
            "sizes": dict(Counter(g for _, g, _ in held)),
            "joined": {key: (g, v, g, v) for key, g, v in held},
        }


def test_a_native_filter_over_changes(spark: SparkSession, tmp_path: Path) -> None:
    history, topology = History(22).grow(3, most=25), TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    large = changes.filter(expr("v > 2")).each(expr("v * 2"), "w long")
    large.toTable("id", MemoryMapState.opaque(), name="large")
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        wanted = {key: (g, v, 2 * v) for key, g, v in history.rows.values() if v is not None and v > 2}
        assert found(running, ["large"])["large"] == wanted


def test_a_column_that_a_function_makes_of_the_kind_is_refused(spark: SparkSession) -> None:
    def kept(v: Column) -> Column:
        return functions.col("_change_type") != "delete"

    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, History(22).grow(1, most=5).batches)).asChanges("kind")
    changes.filter("v", kept).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with (
        pytest.raises(BatchFailedError, match="which reads '_change_type', and its input fields are v"),
        topology.start(spark=spark, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=120)


def test_events_of_debezium_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    history, topology = History(23).grow(3, most=25), TridentTopology()
    for name, full in (("complete", True), ("by_key", False)):
        connector = Connector(23, full)
        spout = FixedBatchSpout("key binary, value binary", [connector.messages(batch) for batch in history.batches])
        events = topology.newStream(name, spout)
        read = events.asChanges(Debezium(ROW)) if full else events.asUpserts(Debezium(ROW))
        read.toTable("id", MemoryMapState.opaque(), name=f"rows_{name}")
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        wanted = {key: (g, v) for key, g, v in history.rows.values()}
        assert found(running, ["rows_complete", "rows_by_key"]) == {"rows_complete": wanted, "rows_by_key": wanted}


VALUES = "id long, g string, v long, price decimal(10,2), weight double, op string"
KINDS: dict[Any, Any] = {"c": "insert", "b": "update_preimage", "u": "update_postimage", "d": "delete", None: "insert"}


def test_the_functions_of_changes_are_the_same_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        (1, "a", 5, Decimal("1.50"), 0.5, "c"),
        (2, "a", None, None, None, "c"),
        (1, "a", 5, Decimal("1.50"), 0.5, "b"),
        (1, "b", -7, Decimal("-2.25"), -1.5, "u"),
        (3, "b", 4, Decimal("9.99"), 2.0, None),
        (2, "a", None, None, None, "d"),
        (4, "a", 2**62, Decimal("0.01"), 0.0, "c"),
    ]
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(VALUES, [rows])).asChanges("op", KINDS)
    several: dict[str, Any] = {"n": Count(), "v": Sum("v"), "price": Sum("price"), "mean": Average("weight")}
    changes.groupBy("g").persistentAggregate(MemoryMapState.opaque(), several, name="sums")
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        assert found(running, ["sums"])["sums"] == {
            "a": (1, 2**62, Decimal("0.01"), 0.0),
            "b": (2, -3, Decimal("7.74"), 0.25),
        }


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (("a", 1, "x"), "asChanges.*'op' holds 'x', which is not a kind of change; expected 'c', 'b', 'u', 'd', None"),
        (("a", -(2**63), "d"), "9223372036854775808"),
    ],
)
def test_a_tuple_that_sql_cannot_take_gets_the_error_of_the_function(
    spark: SparkSession, tmp_path: Path, row: Any, problem: str
) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("g string, v long, op string", [[("a", 1, "c"), row]]))
    changes = stream.asChanges("op", KINDS)
    changes.groupBy("g").persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "v", name="sums")
    with (
        pytest.raises(BatchFailedError, match=problem),
        topology.start(spark=spark, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=120)
