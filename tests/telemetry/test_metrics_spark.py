"""Metrics of a run on Spark: exact, although a worker process dies in the first attempt."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

pytestmark = pytest.mark.spark


def test_a_worker_that_dies_in_an_attempt_adds_nothing_to_the_counts(spark: SparkSession, tmp_path: Path) -> None:
    died = str(tmp_path / "died")

    def inverse(n: int) -> int:
        if n == 3 and not os.path.exists(died):
            Path(died).touch()
            os._exit(1)
        return 6 // n

    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[1, 0, 2, 0], [3, 0]]))
    inverses = numbers.each("n", inverse, "m long", onError="skip")
    numbers.countMetric("seen_total", by="n")
    inverses.countMetric("inverses_total", labels="m")
    inverses.groupBy("m").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    options = {"name": "dies", "checkpointLocation": tmp_path / "checkpoint", "maxAttempts": 5}
    with topology.start(spark, **options) as running:
        running.processAllAvailable(timeout=120)
        metrics, labels = running.metrics, {"topology": "dies", "group": "numbers"}
        assert os.path.exists(died)
        assert metrics.value("trident_failures_total", phase="run", **labels) >= 1
        assert metrics.value("trident_batches_committed_total", **labels) == 2
        assert metrics.value("trident_batches_replayed_total", **labels) == 1
        assert metrics.value("trident_input_rows_total", **labels) == 6
        assert metrics.value("seen_total", **labels) == 6
        assert [metrics.value("inverses_total", m=m, **labels) for m in ("6", "3", "2")] == [1, 1, 1]
        (step,) = {name for event in running.recentProgress for name in event.get("skipped", {})}
        assert metrics.value("trident_skipped_tuples_total", step=step, **labels) == 3
        assert metrics.value("trident_step_in_tuples_total", step=step, **labels) == 6
        assert metrics.value("trident_step_out_tuples_total", step=step, **labels) == 3
