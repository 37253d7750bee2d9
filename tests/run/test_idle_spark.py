"""An idle topology on Spark runs no job, and takes next to nothing of a core; sized batches on Spark lose no row."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.processes import cpu_seconds
from tests.support.spark import CONNECT
from trident import Count, TridentTopology
from trident.spouts import FileSpout, RateSpout
from trident.state import MemoryMapState

pytestmark = pytest.mark.spark


def counting(spout: object) -> TridentTopology:
    topology = TridentTopology()
    field = spout.schema.names[-1]  # type: ignore[attr-defined]
    rows = topology.newStream("rows", spout).groupBy(field)
    rows.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.mark.skipif(CONNECT, reason="a client cannot count its server's jobs")
def test_an_idle_source_costs_no_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cow\nmoon\n")
    jobs = spark.sparkContext._jsc.sc().dagScheduler()  # type: ignore[union-attr]
    with counting(FileSpout(tmp_path / "*.txt")).start(spark, name="idle") as running:
        running.processAllAvailable(timeout=120)
        before = jobs.numTotalJobs()
        assert before > 0
        for _ in range(5):
            running.processAllAvailable(timeout=60)
        time.sleep(2)
        assert jobs.numTotalJobs() == before
        (tmp_path / "b.txt").write_text("cow\n")
        running.processAllAvailable(timeout=120)
        assert jobs.numTotalJobs() > before, "the count sees a job"


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_an_idle_topology_takes_less_than_two_percent_of_a_core(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cow\nmoon\n")
    with counting(FileSpout(tmp_path / "*.txt")).start(spark, name="idle") as running:
        running.processAllAvailable(timeout=120)
        time.sleep(10)  # the JVM's compiler and garbage collector come to rest
        cpu, began = cpu_seconds(), time.monotonic()
        time.sleep(20)
        share = (cpu_seconds() - cpu) / (time.monotonic() - began)
    assert share < 0.02, f"{share:.1%}"


def test_sized_batches_of_a_rate_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """No target is as short as what a batch costs on Spark: the batches shrink, and every row counts once."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    spout = RateSpout(1000, rows=30_000, keys=7, skew=1.0, startTime=start, maxRowsPerBatch=12_000, numPartitions=2)
    with counting(spout).start(spark, name="sized", checkpointLocation=tmp_path, targetBatchSecs=0.01) as running:
        running.processAllAvailable(timeout=120)
        rows = [event["numInputRows"] for event in running.recentProgress]
        assert sum(running.state("counts").values()) == sum(rows) == 30_000
        assert rows[0] == 12_000
        assert min(rows) <= 6_000, rows
