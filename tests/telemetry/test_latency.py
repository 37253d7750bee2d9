"""The complete latency of messages: from the source's own time to COMMITTED, by the spouts that know it."""

import datetime
import math
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.metrics import LONG_SECONDS
from trident.spouts import (
    ArrowEmission,
    BatchSpout,
    FeederBatchSpout,
    FileSpout,
    FixedBatchSpout,
    OpaquePartitionedSpout,
    RateSpout,
    RedisStreamSpout,
    SourceSpan,
)
from trident.state import MemoryMapState
from trident.telemetry.latency import Latencies
from trident.testing import ManualClock, engines, start_local
from trident_spouts.source_times import MOST_SPANS, spans_of

start = engines(spark="spark", marks=[pytest.mark.spark])

SENT = 1_000.0


def counting(spout: Any) -> TridentTopology:
    topology = TridentTopology()
    rows = topology.newStream("rows", spout)
    rows.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def latencies(topology: TridentTopology, clock: ManualClock) -> tuple[Any, list[Any]]:
    """Return a run that has ended, and the latencies of its batches by stream."""
    with start_local(topology, name="t", clock=clock) as running:
        running.processAllAvailable(timeout=20)
    return running, [event.get("latencyMs") for event in running.recentProgress if event["event"] == "committed"]


def test_each_row_of_a_rate_spout_counts_from_the_moment_it_was_due() -> None:
    begin = datetime.datetime.fromtimestamp(SENT, datetime.UTC)
    spout = RateSpout(1, rows=11, startTime=begin, maxRowsPerBatch=9)
    running, events = latencies(counting(spout), ManualClock(SENT + 10))
    first, second = (event["rows"] for event in events)
    assert first == {
        **{"count": 9, "mean": 6000.0, "p50": 6000.0, "p99": 10000.0, "max": 10000.0},
        "buckets": {"2500": 1, "5000": 3, "10000": 5},
    }
    assert second == {
        "count": 2,
        "mean": 500.0,
        "p50": 0.0,
        "p99": 1000.0,
        "max": 1000.0,
        "buckets": {"10": 1, "1000": 1},
    }
    labels = {"topology": "t", "group": "rows", "stream": "rows"}
    assert running.metrics.value("trident_message_latency_seconds", **labels) == 11
    (metric,) = [each for each in running.metrics.collect() if each.name == "trident_message_latency_seconds"]
    samples = {(each.name.rpartition("_")[2], each.labels.get("le")): each.value for each in metric.samples}
    assert (samples["sum", None], samples["count", None]) == (55, 11)
    bounds = ("0.01", "1.0", "2.5", "5.0", "10.0", "86400.0", "+Inf")
    assert [samples["bucket", bound] for bound in bounds] == [1, 2, 3, 6, 11, 11, 11]


def test_entries_of_redis_streams_count_from_their_ids(start: Any, shared_redis: RedisServer, tmp_path: Path) -> None:
    for n in range(3):
        shared_redis.client.xadd("words", {"word": "a"}, id=f"{int(SENT) * 1000 + n}-0")
    spout = RedisStreamSpout(shared_redis.url, "words", "word string")
    with start(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert running.lastProgress is not None
        latency, committed = running.lastProgress["latencyMs"]["rows"], running.lastProgress["timestamp"]
    passed = datetime.datetime.fromisoformat(committed).timestamp() - SENT
    assert latency["count"] == 3 and latency["buckets"] == {"inf": 3}
    assert abs(latency["max"] / 1000 - passed) < 5  # of the last entry of the page, for all of it


@pytest.mark.parametrize("form", ["text", "parquet"])
def test_lines_and_rows_of_files_count_from_the_files_change(start: Any, form: str, tmp_path: Path) -> None:
    """Two files of one batch share its rows by their bytes."""
    for name, age in (("a", 100), ("b", 3000)):
        file = tmp_path / f"{name}.{form}"
        file.write_text("x\n" * 4) if form == "text" else pq.write_table(pa.table({"line": ["x"] * 4}), file)
        os.utime(file, (time.time() - age,) * 2)
    spout = FileSpout(str(tmp_path / f"*.{form}"), format=form, schema="line string" if form == "parquet" else None)
    with start(counting(spout), checkpointLocation=tmp_path / "ck") as running:
        running.processAllAvailable(timeout=60)
        assert running.lastProgress is not None
        latency = running.lastProgress["latencyMs"]["rows"]
    assert (latency["count"], latency["buckets"]) == (8, {"300000": 4, "3600000": 4})


def test_a_fed_batch_counts_from_feed_and_a_clock_that_differs_as_0() -> None:
    feeder = FeederBatchSpout("word string")
    feeder.feed(["a", "b"])
    feeder.feed([])
    _, (behind, empty) = latencies(counting(feeder), ManualClock(SENT))  # decades before the feeder's clock
    assert behind["rows"]["count"] == 2 and behind["rows"]["max"] == 0 and empty is None


def test_a_source_without_times_has_no_latency() -> None:
    running, events = latencies(counting(FixedBatchSpout("word string", [["a"]])), ManualClock(SENT))
    assert events == [None]
    assert [each.name for each in running.metrics.collect() if "latency" in each.name] == []


class Timed(BatchSpout):
    """Emits one batch with times as they are given."""

    outputFields = "word string"

    def __init__(self, times: Any) -> None:
        self.times = times

    def emitBatch(self, batchId: int) -> Any:
        table = pa.table({"word": ["a", "b"]})
        return ArrowEmission(table, source_times=self.times) if batchId == 1 else None


class TimedParts(OpaquePartitionedSpout):
    """Emits one batch of two partitions with times as they are given."""

    outputFields = "word string"

    def __init__(self, times: Any) -> None:
        self.times = times

    def getPartitions(self) -> list[str]:
        return ["p", "q"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        table = pa.table({"word": ["a"]})
        return (ArrowEmission(table, source_times=self.times), 1) if lastMetadata is None else (None, 1)


def test_a_spout_of_a_user_gives_the_times_of_its_rows() -> None:
    _, (event,) = latencies(counting(Timed([(SENT - 3, SENT - 2, 2)])), ManualClock(SENT))
    assert event["rows"]["buckets"] == {"2500": 1, "5000": 1}
    _, (event,) = latencies(counting(TimedParts([(SENT - 3, SENT - 3, 1)])), ManualClock(SENT))
    assert event["rows"]["buckets"] == {"5000": 2}


@pytest.mark.parametrize("times", [[(2.0, 1.0, 2)], [(math.nan, 1.0, 2)], [(1.0, 2.0, 0)], 7, [("a", "b", 2)]])
@pytest.mark.parametrize("spout", [Timed, TimedParts])
def test_wrong_times_are_logged_and_fail_no_batch(spout: Any, times: Any, caplog: pytest.LogCaptureFixture) -> None:
    running, events = latencies(counting(spout(times)), ManualClock(SENT))
    assert events == [None] and running.state("counts").value == 2
    assert ": its source_times are left out" in caplog.text


@pytest.mark.parametrize("number", [1, 2, 63, 64, 65, 1000, 100_000])
def test_many_times_are_kept_as_few_spans_that_lose_no_message(number: int) -> None:
    times = pa.chunked_array([pa.array([n * n * 1000 for n in range(number)], pa.timestamp("us", "UTC"))])
    spans = spans_of(times)
    assert sum(span.tuples for span in spans) == number and len(spans) <= MOST_SPANS
    assert spans[0].oldest == 0 and spans[-1].newest == (number - 1) ** 2 / 1000
    now = spans[-1].newest
    found, exact = Latencies.of(spans, now), sorted(now - n * n / 1000 for n in range(number))
    assert found.count == number == sum(found.buckets().values())
    assert found.points[0][0] == 0 and len(found.points) <= 1000
    for share in (0.5, 0.99):
        expected = exact[math.ceil(share * number) - 1]
        assert abs(found.quantile(share) - expected) <= 0.05 * now


def test_a_long_span_is_spread_evenly_over_its_buckets() -> None:
    found = Latencies.of([SourceSpan(0.0, 100.0, 1_000_000)], 100.0)
    assert found.count == 1_000_000 and abs(found.sum / 1_000_000 - 50) < 0.1
    assert abs(found.buckets()[60.0] - 300_000) < 2_000
    assert set(found.buckets()) <= {*LONG_SECONDS, math.inf}
