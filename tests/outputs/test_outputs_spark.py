"""Batches handed over as DataFrames: small ones and large ones, from every stage."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.open_batches import first_time
from trident import Count, TridentTopology, expr, publishedFiles, readParquet
from trident.compiler.parquet_files import FolderTarget, WriteFrozen
from trident.compiler.spark import frozen_frames
from trident.compiler.spark.engine import SparkEngine
from trident.errors import BatchFailedError, LogCorruptError, OutputError
from trident.run.start import start_on
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.spark

WORDS = [["a", "b", "a"], [], ["b"]]


def started(topology: TridentTopology, spark: SparkSession, checkpoint: Path, inline: int = 32 << 20) -> Any:
    return start_on(
        lambda settings: SparkEngine(spark, settings.files, inline), topology, name="t", checkpointLocation=checkpoint
    )


def test_the_tuples_and_the_new_values_of_every_batch_come_as_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    found: dict[str, list[Any]] = {"loud": [], "totals": [], "plain": []}

    def into(name: str) -> Any:
        def take(df: DataFrame, txid: int, attempt: int) -> None:
            assert df.sparkSession is not spark
            found[name].append((txid, sorted(tuple(row) for row in df.collect())))

        return take

    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", WORDS))
    stream.foreachBatch(into("plain"), name="plain")
    stream.each("word", lambda w: w.upper(), "loud string").foreachBatch(into("loud"), name="loud")
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    counts.newValuesStream().foreachBatch(into("totals"), name="totals")
    with started(topology, spark, tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert found["plain"] == [(1, [("a",), ("a",), ("b",)]), (2, []), (3, [("b",)])]
    assert found["loud"] == [(1, [("a", "A"), ("a", "A"), ("b", "B")]), (2, []), (3, [("b", "B")])]
    assert found["totals"] == [(1, [("a", 2), ("b", 1)]), (2, []), (3, [("b", 2)])]


def test_what_spark_refuses_in_a_function_has_the_name_that_spark_gives_it(spark: SparkSession, tmp_path: Path) -> None:
    def take(df: DataFrame, txid: int, attempt: int) -> None:
        df.select("wort").show()

    topology = TridentTopology()
    topology.newStream("words", FixedBatchSpout("word string", WORDS)).foreachBatch(take)
    where = r"words/1:foreachBatch.*: take \(test_outputs_spark.py:\d+\)"
    said = rf"{where} raised AnalysisException: \[UNRESOLVED_COLUMN.*wort.*; it was called with batch 1, attempt 0"
    with (
        pytest.raises(OutputError, match=said),
        topology.start(spark, name="t", checkpointLocation=str(tmp_path), maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)


def test_a_large_batch_is_read_where_it_was_frozen_and_checked_there(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []

    def count(df: DataFrame, txid: int, attempt: int) -> None:
        if txid == 3:
            (file,) = list((tmp_path / "t" / "frozen").rglob("*-3-*/*.arrow"))[:1]
            file.write_bytes(file.read_bytes()[:-1] + b"x")
        seen.append((txid, df.count(), df.selectExpr("sum(n)").first()[0]))  # type: ignore[index]

    topology = TridentTopology()
    rows = [[(n,) for n in range(start, start + 3000)] for start in (0, 3000, 6000)]
    topology.newStream("numbers", FixedBatchSpout("n long", rows)).foreachBatch(count)
    running = started(topology, spark, tmp_path, inline=100)
    with pytest.raises(LogCorruptError, match="damaged"):
        running.processAllAvailable(timeout=60)
    running.stop()
    assert seen == [(1, 3000, sum(range(3000))), (2, 3000, sum(range(3000, 6000)))]


def test_large_batches_are_written_by_the_workers_and_read_back(spark: SparkSession, tmp_path: Path) -> None:
    topology, out = TridentTopology(), tmp_path / "out"
    rows = [[(n, f"k{n % 3}") for n in range(start, start + 1500)] for start in (0, 1500, 3000)]
    numbers = topology.newStream("numbers", FixedBatchSpout("n long, k string", rows))
    numbers.writeParquet(out, partitionBy="k")
    with started(topology, spark, tmp_path / "checkpoint", inline=100) as running:
        running.processAllAvailable(timeout=60)
    assert list((tmp_path / "checkpoint" / "t" / "frozen").rglob("*-3-*/*.arrow")), "the last one came as files"
    found = readParquet(spark, out)
    assert found.dtypes == [("n", "bigint"), ("k", "string")]
    assert sorted(tuple(row) for row in found.collect()) == sorted(row for batch in rows for row in batch)
    assert readParquet(spark, out, afterTxid=2).count() == 1500 and readParquet(spark, out, afterTxid=3).count() == 0
    assert len(publishedFiles(out)) >= 9
    plain = spark.read.parquet(str(out))
    assert plain.where("txid = 2 and k = 'k1'").count() == 500, "any other reader sees the folders as fields"


@dataclass(frozen=True, slots=True)
class OnAnotherHost(WriteFrozen):
    """A worker that joined later. Once, the path of the output leads to another folder on its machine."""

    local: Path = Path()

    def _run(self, batches: Any) -> Any:
        target = self.target
        if first_time(self.local / "joined"):
            (self.local / "own").mkdir()
            target = FolderTarget(self.local / "own")
        yield from WriteFrozen(self.files, self.frozen, target, self.partitions)._run(batches)


def test_a_parquet_file_that_the_driver_does_not_find_is_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen_frames, "WriteFrozen", partial(OnAnotherHost, local=tmp_path))
    topology, out = TridentTopology(), tmp_path / "out"
    rows = [[(n,) for n in range(start, start + 1500)] for start in (0, 1500, 3000)]
    topology.newStream("numbers", FixedBatchSpout("n long", rows)).writeParquet(out)
    with started(topology, spark, tmp_path / "checkpoint", inline=100) as running:
        running.processAllAvailable(timeout=120)
        [failed] = [event for event in running.recentProgress if event["event"] == "failed"]
    assert failed["phase"] == "commit" and "but the driver does not find 1 of them there" in failed["error"]
    assert sorted(row.n for row in readParquet(spark, out).collect()) == list(range(4500))


def test_a_best_effort_branch_runs_beside_the_batches(spark: SparkSession, tmp_path: Path) -> None:
    topology, taken = TridentTopology(), []
    words = topology.newStream("words", FixedBatchSpout("word string", WORDS))
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    branch = words.bestEffort().each("word", lambda w: w.upper() if w == "a" else 1 // 0, "loud string", onError="skip")
    branch.foreachBatch(lambda df, txid, attempt: taken.append((txid, df.count())))
    with started(topology, spark, tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert running.state("n").value == 4
    assert sorted(taken) == [(1, 2), (2, 0), (3, 0)], "the end of a run waits for what is under way"


def test_spark_reads_whole_batches_once_each_while_they_are_published(spark: SparkSession, tmp_path: Path) -> None:
    """Whenever one looks, it is the batches 1 to n, and a DataFrame keeps showing those that were there."""
    topology, feeder = TridentTopology(), FeederBatchSpout("batch long, n long")
    topology.newStream("numbers", feeder).writeParquet(tmp_path / "out", partitionBy="n")
    first, last = None, 0
    with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
        for batch in range(1, 41):
            feeder.feed([(batch, n) for n in range(3)])
        deadline = time.monotonic() + 60
        while last < 40 and time.monotonic() < deadline:
            frame = readParquet(spark, tmp_path / "out")
            found = sorted(map(tuple, frame.collect()))
            last = max((batch for batch, _ in found), default=0)
            assert found == [(batch, n) for batch in range(1, last + 1) for n in range(3)]
            first = first or (frame, found)
        running.processAllAvailable(timeout=20)
    assert last == 40 and first is not None
    assert sorted(map(tuple, first[0].collect())) == first[1]


def test_a_text_that_can_name_no_folder_fails_its_batch_before_the_freeze(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds it in a native plan. A later program may filter it out."""

    def program(most: int) -> TridentTopology:
        topology = TridentTopology()
        words = topology.newStream(
            "words", FixedBatchSpout("word string, n long", [[("a", 1)], [("b" * 300, 2), ("c", 3)]])
        )
        short = words.filter(expr(f"length(word) < {most}"))
        short.writeParquet(tmp_path / "out", partitionBy="word", name="out")
        return topology

    with (
        pytest.raises(BatchFailedError, match="field 'word' has a text of 300 characters, which is too long"),
        started(program(400), spark, tmp_path / "checkpoint") as running,
    ):
        running.processAllAvailable(timeout=60)
    with started(program(200), spark, tmp_path / "checkpoint") as running:
        running.processAllAvailable(timeout=60)
    assert sorted(row.word for row in readParquet(spark, tmp_path / "out").collect()) == ["a", "c"]
