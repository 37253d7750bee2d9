"""Streams of changes on Spark: the same states as those of a model that keeps whole tables."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.change_events import ROW, Connector
from tests.support.changes import FIELDS, History, expected, found, program
from tests.support.server import RedisServer
from trident import Debezium, TridentTopology, expr
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


def test_a_native_filter_over_changes(spark: SparkSession, tmp_path: Path) -> None:
    history, topology = History(22).grow(3, most=25), TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    large = changes.filter(expr("v > 2")).each(expr("v * 2"), "w long")
    large.toTable("id", MemoryMapState.opaque(), name="large")
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        wanted = {key: (g, v, 2 * v) for key, g, v in history.rows.values() if v is not None and v > 2}
        assert found(running, ["large"])["large"] == wanted


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
