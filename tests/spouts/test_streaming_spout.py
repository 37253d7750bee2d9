"""StreamingSpout: batches of Structured Streaming count once, through drivers that die and checkpoints that go."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.spark import CONNECT
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import DataLossError, MissingSessionError, SourceUnreadableError, SparkSetupError, TopologyError
from trident.spouts import SpoutKind, StreamingSpout
from trident.state import MemoryMapState
from trident.testing import crash_at, engines, run_through
from trident_spouts.streaming_query import HeldQuery

pytestmark = pytest.mark.spark
start = engines(["spark"], spark="spark")
classic = pytest.mark.skipif(CONNECT, reason="foreachBatch of Spark Connect runs in another process")


class Source:
    """A folder of JSON files, read one file in a batch, and the checkpoint of the query that reads it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.checkpoint = spark, folder / "in", folder / "query"
        self.folder.mkdir()
        self.files = 0

    def add(self, *words: str) -> None:
        self.files += 1
        hidden = self.folder / f".{self.files}"
        hidden.write_text("".join(json.dumps({"word": word}) + "\n" for word in words))
        os.utime(hidden, (self.files * 10, self.files * 10))  # Spark reads files in the order of their times
        hidden.rename(self.folder / f"{self.files}.json")

    def spout(self, **options: Any) -> StreamingSpout:
        frame = self.spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).json(str(self.folder))
        return StreamingSpout(frame, self.checkpoint, **options)

    def counting(self) -> TridentTopology:
        topology = TridentTopology()
        words = topology.newStream("words", self.spout(kind="transactional")).each("word", str.upper, "loud string")
        words.groupBy("loud").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        return topology


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Source]:
    source = Source(spark, tmp_path)
    source.add("cow", "moon")
    source.add("cow")
    yield source
    assert [query for query in spark.streams.active if query.isActive] == []


@classic
@pytest.mark.parametrize("point", ["emit.after", "freeze.after"])
def test_each_batch_counts_once_though_the_driver_dies(start: Any, source: Source, tmp_path: Path, point: str) -> None:
    """Before it is frozen: Spark hands the batch over again. Behind that: it is let through."""
    source.add("dog")
    options: dict[str, Any] = {"checkpointLocation": tmp_path / "log", "start": start}
    with crash_at(point, 2), run_through(source.counting(), **options) as running:
        assert dict(running.state("counts").items()) == {"COW": 2, "MOON": 1, "DOG": 1}
        source.add("dog")
        running.processAllAvailable(timeout=30)
        assert running.state("counts")["DOG"] == 2


def attempt(txid: int) -> TransactionAttempt:
    return TransactionAttempt(txid, 0, 1)


@classic
def test_spark_commits_a_batch_when_the_next_plan_tells_that_it_is_frozen(source: Source) -> None:
    executor: Any = source.spout().open()
    commits = source.checkpoint / "commits"
    first = executor.plan(attempt(1), None, 0.0)
    assert isinstance(first, dict) and first["batch"] == 0
    assert executor.plan(attempt(1), None, 0.0) == first, "another attempt at the batch has the same plan"
    time.sleep(0.3)
    assert not (commits / "0").exists()
    second = executor.plan(attempt(2), first, 0.0)
    assert second == {"query": first["query"], "batch": 1, "offsets": second["offsets"]}
    assert second["offsets"] != first["offsets"]
    assert (commits / "0").exists() and not (commits / "1").exists()
    executor.close()
    assert not (commits / "1").exists()
    again = source.spout().open()
    assert again.plan(attempt(2), first, 0.0) == second, "Spark hands it over again"
    again.close()
    frozen = source.spout().open()
    assert frozen.plan(attempt(3), second, 0.0) is None, "it was frozen: it is let through"
    assert (commits / "1").exists()
    frozen.close()


@classic
def test_a_checkpoint_that_is_another_one_is_refused(source: Source) -> None:
    executor = source.spout().open()
    first = executor.plan(attempt(1), None, 0.0)
    second = executor.plan(attempt(2), first, 0.0)
    executor.close()
    ahead = source.spout().open()
    with pytest.raises(
        DataLossError,
        match="continues with its batch 1, but the topology's log has no batch of it: another topology read the",
    ):
        ahead.plan(attempt(1), None, 0.0)
    ahead.close()
    shutil.rmtree(source.checkpoint)
    lost = source.spout().open()
    with pytest.raises(
        DataLossError, match=r"belongs to another query \(id \S+\), not to the one that the stream has read"
    ):
        lost.plan(attempt(3), second, 0.0)
    lost.close()


@classic
def test_a_query_that_fails_is_told_with_the_reason(source: Source) -> None:
    executor = source.spout().open()
    first = executor.plan(attempt(1), None, 0.0)
    executor.close()
    (source.checkpoint / "offsets" / ".0.crc").unlink()
    (source.checkpoint / "offsets" / "0").write_text("no offsets")
    broken = source.spout().open()
    for _ in range(2):
        with pytest.raises(
            SourceUnreadableError, match="StreamingSpout: the streaming query has failed: .*(?i:malformed)"
        ):
            broken.plan(attempt(1), None, 0.0)
    with pytest.raises(SourceUnreadableError, match="the streaming query no longer has batch 0"):
        broken.emit(attempt(1), first)
    broken.close()


@classic
def test_what_it_says_of_itself_and_refuses(source: Source) -> None:
    spout = source.spout(kind="transactional")
    assert spout.kind is SpoutKind.TRANSACTIONAL and spout.needs_spark
    assert re.fullmatch(r"StreamingSpout\(DataFrame\[word string\], '.*/query', kind='transactional'\)", repr(spout))
    with pytest.raises(
        TopologyError, match="StreamingSpout: kind='exact' is not one of 'transactional', 'opaque', 'non"
    ):
        source.spout(kind="exact")
    with pytest.raises(
        TopologyError, match=r"frame=DataFrame.*: expected a streaming DataFrame, made by spark.readStream"
    ):
        StreamingSpout(source.spark.range(3), "x")
    with pytest.raises(MissingSessionError, match="its spout reads with Spark only"):
        source.counting().start(engine="embedded")


@pytest.mark.skipif(not CONNECT, reason="it is about Spark Connect")
def test_a_dataframe_of_spark_connect_is_refused(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load()
    with pytest.raises(
        SparkSetupError, match="StreamingSpout: the DataFrame is from Spark Connect, whose foreachBatch"
    ):
        StreamingSpout(frame, "checkpoint")


# --- a query that is slow ---------------------------------------------------------------------------------------------


@classic
def test_a_query_that_is_slow_is_not_empty(
    start: Any, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark hands its batch over long after a plan has given up waiting for it, and then the run ends by itself."""
    hold, waits = HeldQuery._hold, list[str | None]()

    def late(self: HeldQuery, frame: Any, batch: int) -> None:
        until = time.monotonic() + 60
        while self.waits_for is None and time.monotonic() < until:
            time.sleep(0.05)
        waits.append(self.waits_for)
        hold(self, frame, batch)

    monkeypatch.setattr(HeldQuery, "_hold", late)
    monkeypatch.setattr("trident_spouts.streaming_query._PATIENCE_SECS", 0.2)
    with start(source.counting(), checkpointLocation=tmp_path / "log", availableNow=True) as running:
        assert running.awaitTermination(timeout=90)
        assert dict(running.state("counts").items()) == {"COW": 2, "MOON": 1}
    assert waits[0] == "the streaming query is still looking for data"


@classic
def test_between_two_triggers_a_query_is_not_empty(source: Source) -> None:
    """The file lies there, but the trigger looks only every two seconds."""
    executor: Any = source.spout(trigger={"processingTime": "2 seconds"}).open()
    first = executor.plan(attempt(1), None, 0.0)
    second = executor.plan(attempt(2), first, 0.0)
    assert executor.plan(attempt(3), second, 0.0) is None and executor.waits_for() is None
    source.add("dog")
    assert executor.plan(attempt(3), second, 0.0) is not None
    executor.close()


# --- a checkpoint that is older than the log --------------------------------------------------------------------------


@classic
@pytest.mark.parametrize("how", ["older-copy", "last-files-lost", "much-older"])
def test_a_checkpoint_that_is_older_than_the_log_is_refused(source: Source, tmp_path: Path, how: str) -> None:
    """Spark plans a batch anew under a number that was counted, over what is there now."""
    source.add("dog")
    backup = tmp_path / "backup"
    plan: Any = None
    executor: Any = source.spout().open()
    for batch in range(3):
        plan = executor.plan(attempt(batch + 1), plan, 0.0)
        if batch == {"older-copy": 1, "much-older": 0, "last-files-lost": 9}[how]:
            shutil.copytree(source.checkpoint, backup)
    assert plan["batch"] == 2
    executor.close()
    if how == "last-files-lost":
        for part in ("offsets", "commits", "sources/0"):
            for file in (source.checkpoint / part).glob("*2*"):
                file.unlink()
    else:
        shutil.rmtree(source.checkpoint)
        backup.rename(source.checkpoint)
    source.add("hen")
    again: Any = source.spout().open()
    with pytest.raises(DataLossError) as refused:  # whether Spark has planned batch 2 anew by now or not
        again.plan(attempt(4), plan, 0.0)
    assert "the last batch that this stream has counted" in str(refused.value)
    assert "newStream(..., anew=True): everything that the source still has then counts twice" in str(refused.value)
    again.close()
