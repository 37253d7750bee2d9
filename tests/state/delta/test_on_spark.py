"""Spark's executors write a state in a Delta table: exactly the counts that the driver would have written."""

import math
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.waiting import wait_until
from trident import Count, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState, MemoryMapState
from trident_state.delta import compaction
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


def test_sums_of_doubles_are_those_in_memory_whoever_writes_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_SMALL", 1)
    many = [(f"k{n}", 1.0) for n in range(100)]
    batches = [[("rounds", 1e16), *many], *[[("rounds", 1.0), ("none", math.nan)]] * 10]
    for batch, number in ((1, 1e308), (2, 1e308), (3, -1e308)):
        batches[batch] = [*batches[batch], ("beyond", number)]
    made = TridentTopology()
    stream = made.newStream("s", FixedBatchSpout("k string, v double", batches)).groupBy("k")
    tables = tmp_path / "tables"
    states = {
        "memory": MemoryMapState.opaque(),
        "driver": DeltaMapState.opaque(tables),
        "executors": DeltaMapState.opaque(tables, writers="executors"),
    }
    for name, state in states.items():
        stream.persistentAggregate(state, {"n": Count(), "sum": Sum("v")}, name=name)
    with made.start(spark, name="sums", checkpointLocation=tmp_path / "ck", requireExactlyOnce=True) as running:
        running.processAllAvailable(timeout=240)
        for name in ("driver", "executors"):
            wait_until(lambda name=name: any((tables / "sums" / name).glob("2-[!2]*.parquet")), 60)  # type: ignore[misc]
        found = {name: {key: (row.n, row.sum) for key, row in running.state(name).items()} for name in states}
    bits = {name: {key: (n, struct.pack("d", total)) for key, (n, total) in all.items()} for name, all in found.items()}
    assert (found["memory"]["rounds"], found["memory"]["beyond"]) == ((11, 1e16), (3, math.inf))
    assert bits["driver"] == bits["memory"] == bits["executors"]
