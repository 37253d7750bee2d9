"""Spark's executors write a state in a Delta table: exactly the counts that the driver would have written."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState
from trident_state.delta.store import DeltaStore

pytestmark = pytest.mark.spark

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(400)] for batch in range(4)]
EXPECTED = Counter(word for batch in BATCHES for word in batch)


def test_executors_write_the_counts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, by_executors = DeltaStore.commit_batch, list[int]()

    def counted(store: DeltaStore, batch: Any, update: Any, puts: Any) -> Any:
        by_executors.append(sum(len(put.files) for put in puts))
        return commit(store, batch, update, puts)

    monkeypatch.setattr(DeltaStore, "commit_batch", counted)
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    state = DeltaMapState.opaque(tmp_path / "tables", writers="executors")
    words.persistentAggregate(state, Count(), "count", name="counts")
    with made.start(spark, name="writers", checkpointLocation=tmp_path / "ck", requireExactlyOnce=True) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == EXPECTED
    assert len(by_executors) == len(BATCHES) and min(by_executors) >= 1
