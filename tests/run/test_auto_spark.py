"""Runs whose stages change their engine at random, on a real Spark: the same results, whatever ran where."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.run.test_engine_change_spark import BIG, DIES, ROWS, Taken, big, everything
from tests.support.server import RedisServer
from trident import Count, Sum, TridentTopology, expr, publishedFiles, readParquet
from trident.compiler.auto.choice import EngineChoice, Side, Size
from trident.compiler.auto.deferred_spark import DeferredSpark
from trident.compiler.auto.engine import AutoEngine
from trident.compiler.spark.engine import SparkEngine
from trident.frozen.files import FROZEN
from trident.log import frozen_results
from trident.run.start import start_on
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing import CRASH, DriverCrashedError, EngineStart, TestSource
from trident.testing.local import start_local, start_options

pytestmark = pytest.mark.spark


class AtRandom(EngineChoice):
    """A choice by lot, for each stage of each attempt."""

    def __init__(self, seed: int) -> None:
        super().__init__(10**6, 10**9)
        self._draw = random.Random(seed)
        self.chosen: list[Side] = []

    def choose(self, group: str, stage: int, size: Size, ready: bool) -> Side:
        self.chosen.append(self._draw.choice(["embedded", "spark"]))
        return self.chosen[-1]


def ends(topology: TridentTopology, spark: SparkSession, choice: EngineChoice, inline: int, **options: Any) -> bool:
    """Run the topology until its source has nothing more, or its driver dies. Return whether it died."""
    options = start_options(topology, options)

    def engine(settings: Any) -> AutoEngine:
        return AutoEngine(DeferredSpark(lambda: SparkEngine(spark, settings.files, inline)), choice, True)

    try:
        with start_on(engine, topology, name="t", availableNow=True, **options) as running:
            running.awaitTermination(timeout=120)
    except DriverCrashedError:
        return True
    return False


@pytest.mark.parametrize("where", ["memory", "redis"])
@pytest.mark.parametrize("seed", [1, 2])
def test_drivers_that_die_while_their_stages_change_engines_lose_nothing(
    where: str, seed: int, spark: SparkSession, shared_redis: RedisServer, tmp_path: Path
) -> None:
    script: list[object] = [ROWS[0]]
    for point, batch in zip(DIES, ROWS[1:], strict=True):
        script += [CRASH.at(point), batch]
    source, taken, choice = TestSource("k string, n long, at long", script, "transactional"), Taken(), AtRandom(seed)
    state = MemoryMapState.opaque() if where == "memory" else RedisMapState.opaque(shared_redis.url)
    topology, deaths = everything(source, state, tmp_path / "out", taken), 0
    while ends(topology, spark, choice, 1 << 20, checkpointLocation=tmp_path / "c"):
        deaths += 1
    assert deaths == len(DIES) and {*choice.chosen} == {"embedded", "spark"}
    with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
        assert dict(running.state("counts").items()) == dict.fromkeys(("k0", "k1", "k2"), 12)
        assert dict(running.state("seen").items()) == dict.fromkeys(range(2, 13, 2), 3)
        assert running.state("known").value == 5 * 15
    txids, sums = range(1, 7), [("k0", 3), ("k1", 5), ("k2", 7)]
    assert [taken["rows", txid] for txid in txids] == [sorted(batch) for batch in ROWS]
    assert [taken["minutes", txid] for txid in txids] == [[], *[sums] * 5]
    assert readParquet(spark, tmp_path / "out").count() == 36


def test_large_results_lie_in_files_of_both_engines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", 100)
    choice, taken = AtRandom(3), list[Any]()
    script = [BIG[0], BIG[1], BIG[2], CRASH.at("freeze.after"), BIG[3]]
    topology = big(TestSource("n long, k string", script), tmp_path / "out", taken)
    assert ends(topology, spark, choice, 100, checkpointLocation=tmp_path / "c", maxSpoutPending=1)
    assert not ends(topology, spark, choice, 100, checkpointLocation=tmp_path / "c", maxSpoutPending=1)
    assert (tmp_path / "c" / "t" / FROZEN).is_dir() and [rows for _, rows in taken] == [1500] * 4
    with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
        assert dict(running.state("counts").items()) == dict.fromkeys(range(6000), 1)
    assert readParquet(spark, tmp_path / "out").count() == 6000 and len(publishedFiles(tmp_path / "out")) >= 4


def test_a_state_of_executors_and_steps_of_spark_alone_run_there(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path
) -> None:
    topology, frames = TridentTopology(), list[int]()
    words = topology.newStream("words", TestSource("word string", [["a", "b"], ["a"]]))
    counts = RedisMapState.opaque(shared_redis.url, writers="executors")
    words.groupBy("word").persistentAggregate(counts, Count(), "count", name="counts")
    other = topology.newStream("others", TestSource("n long", [[1, 2], [3]]))
    twice = other.each("n", expr("2 * n"), "twice long")
    sums = twice.persistentAggregate(MemoryMapState.opaque(), "twice", Sum(), "sum", name="sum")
    sums.newValuesStream(everyChange=True).persistentAggregate(
        MemoryMapState.opaque(), Count(), "changes", name="changes"
    )
    other.foreachBatch(lambda frame, txid, attempt: frames.append(frame.count()), name="frames")
    start = EngineStart("auto", lambda: spark)
    with start(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
        assert running.state("sum").value == 12 and frames == [2, 1]
        by_group = {(e["group"], e["txid"]): e["engine"] for e in running.recentProgress if e["event"] == "committed"}
        assert {by_group["words", txid] for txid in (1, 2)} == {"spark"}
        assert by_group["others", 1].split(", ") == ["spark", "embedded"], "the second stage is small"
        (first,) = (e for e in running.recentProgress if (e["group"], e["txid"]) == ("others", 1))
        assert first["stages"] == {"1": "spark", "2": "embedded"}


def test_a_program_with_small_batches_starts_no_jvm_and_one_whose_batches_grow_starts_it(tmp_path: Path) -> None:
    """In a process of its own, without a session."""
    program = """
import sys
from pyspark import SparkContext
from tests.run.test_auto_spark import growing
topology, feeder = growing()
with topology.start(engine="auto", checkpointLocation=sys.argv[1], autoRows=1000) as running:
    feeder.feed([("a",), ("a",)], wait=True, timeout=60)
    print("small", SparkContext._gateway is not None, running.lastProgress["engine"])
    feeder.feed([("a",)] * 3000, wait=True, timeout=200)
    print("grown", SparkContext._gateway is not None, running.state("counts")["a"])
    print(sorted({event["engine"] for event in running.recentProgress}))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == ["small False embedded", "grown True 3002", "['embedded', 'spark']"], done.stderr


def growing() -> tuple[TridentTopology, FeederBatchSpout]:
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = topology.newStream("words", feeder)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology, feeder
