"""Early results on Spark: the same as those of the model, also if executors update the sessions."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compiler.test_early_results import drawn
from tests.compiler.window_runner import FIELDS, secs
from tests.run.test_early_results import check, program, timed
from tests.support.early_windows import Windows
from tests.support.server import RedisServer
from trident import SessionWindow, Sum, TridentTopology, TumblingDurationWindow
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState

pytestmark = pytest.mark.spark


@pytest.fixture
def batches() -> Iterator[list[Any]]:
    return [rows for rows, _ in drawn(Random(4))][:4]  # type: ignore[return-value]


def test_states_over_early_results_on_spark(spark: SparkSession, tmp_path: Path, batches: list[Any]) -> None:
    topology = TridentTopology()
    models = program(topology.newStream("s", FixedBatchSpout(FIELDS, list(map(timed, batches)))), MemoryMapState.opaque)
    whole = topology.newStream("t", FixedBatchSpout(FIELDS, list(map(timed, [[], *batches]))))
    days = TumblingDurationWindow("3650 days")
    whole.window(days, "n", Sum(), "x", name="days", emit="changes").toTable("windowStart", name="days.table")
    for model in models.values():
        for rows in batches:
            model.add(rows)
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        check(running, models)
        assert [row.x for _, row in running.state("days.table").items()] == [sum(n for b in batches for _, _, n in b)]


def test_executors_make_the_early_results_of_sessions(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path, batches: list[Any], made: list[str]
) -> None:
    topology, config = TridentTopology(), SessionWindow(5, "at", lateness=9)
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=4)
    stream = topology.newStream("s", FixedBatchSpout(FIELDS, list(map(timed, batches))))
    early = stream.groupBy("k").window(config, state, "n", Sum(), "x", name="visits", emit="changes")
    early.toTable("windowStart, k", name="table")
    early.persistentAggregate(MemoryMapState.opaque(), "x", Sum(), "sum", name="sum")
    model = Windows(config)
    for rows in batches:
        model.add(rows)
    with topology.start(spark=spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        table = {(secs(start), secs(row.windowEnd), (k,)): row.x for (start, k), row in running.state("table").items()}
        assert table == {window: sum(ns) for window, ns in model.now().items()}
        assert dict(running.state("sum").items()) == {(): sum(map(sum, model.now().values()))}
    assert made
