"""Spark's executors write a state in a Delta table: exactly the counts that the driver would have written."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.state.delta.test_compaction import named
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState

pytestmark = pytest.mark.spark

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(400)] for batch in range(4)]
EXPECTED = Counter(word for batch in BATCHES for word in batch)


def run(spark: SparkSession, folder: Path, aggregator: Any, **options: Any) -> dict[Any, Any]:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    state = DeltaMapState.opaque(folder / "tables", **options)
    words.persistentAggregate(state, aggregator, "count", name="counts")
    with made.start(spark, name="writers", checkpointLocation=folder / "ck", requireExactlyOnce=True) as running:
        running.processAllAvailable(timeout=120)
        return dict(running.state("counts").items())


def test_executors_write_the_counts(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, tmp_path, Count(), writers="executors") == EXPECTED
    assert len(named(tmp_path / "tables" / "writers")) >= len(BATCHES)
