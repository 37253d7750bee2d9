"""Streams of changes on Spark: the same states as those of a model that keeps whole tables."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.changes import FIELDS, History, expected, found, program
from tests.support.server import RedisServer
from trident import TridentTopology, expr
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
