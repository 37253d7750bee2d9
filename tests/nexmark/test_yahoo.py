"""The Yahoo Streaming Benchmark counts every view once in Redis, on both engines, and so does the one by hand."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.yahoo.by_hand import by_hand
from benchmarks.yahoo.events import Advertising, make_advertising
from benchmarks.yahoo.latency import latencies
from benchmarks.yahoo.program import run
from tests.support.server import RedisServer


@pytest.fixture
def data(tmp_path: Path, shared_redis: RedisServer) -> Advertising:
    """Eighty seconds of events in four batches."""
    made = make_advertising(tmp_path / "events", 20_000, 4)
    made.put_campaigns(shared_redis.client)
    return made


def test_the_embedded_engine_counts_each_view_once(
    data: Advertising, tmp_path: Path, shared_redis: RedisServer
) -> None:
    counts = run(data, "embedded", tmp_path / "checkpoint", shared_redis.url)
    assert counts == data.expected and len(counts) > 700


def test_a_latency_ends_with_the_batch_of_a_files_last_row() -> None:
    assert latencies([0.0, 1.0, 2.0], [(0.5, 500), (2.5, 700), (3.0, 300)]) == [0.5, 1.5, 1.0]


@pytest.mark.spark
def test_spark_counts_each_view_once(
    data: Advertising, tmp_path: Path, shared_redis: RedisServer, spark: SparkSession
) -> None:
    assert run(data, "spark", tmp_path / "checkpoint", shared_redis.url, spark) == data.expected


@pytest.mark.spark
def test_foreach_batch_by_hand_counts_each_view_once_if_nothing_fails(
    data: Advertising, tmp_path: Path, shared_redis: RedisServer, spark: SparkSession
) -> None:
    assert by_hand(spark, data, tmp_path / "checkpoint", shared_redis.client) == data.expected
