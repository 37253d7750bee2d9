"""Runs whose files lie on a real HDFS, and whose log lies in Redis: crashes, an absent NameNode, outputs, resets."""

import io
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.files.kit import BATCHES, EXPECTED, options, redis_state, state_of, topology
from tests.support.hdfs import Hdfs
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident import TridentTopology, openState, publishedFiles, readParquet
from trident.compiler.spark import engine
from trident.compiler.spark.sessions import Sizes
from trident.errors import LogMismatchError, TopologyError
from trident.files import hdfs as module
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.testing import crash_at, run_through
from trident.testing.local import start_local

POINTS = ["run.after", "freeze.before", "freeze.after", "commit.state.after", "snapshot.before", "snapshot.published"]


def counted(made: Any, given: dict[str, Any]) -> dict[str, int]:
    with start_local(made, **given) as running:
        running.processAllAvailable(timeout=60)
        return dict(running.state("counts").items())


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("point", some_of(POINTS, ["freeze.before", "snapshot.published"]))
def test_a_driver_that_dies_at_any_step_is_followed_by_one_that_counts_right(
    point: str, hdfs: Hdfs, shared_redis: RedisServer
) -> None:
    made, given = topology(state_of("memory", shared_redis)), options(shared_redis, hdfs)
    with crash_at(point, 1 if point.startswith("snapshot") else 3), run_through(made, **given) as running:
        assert dict(running.state("counts").items()) == EXPECTED
    log = given["log"].look("t")
    folders = {"/".join(name.split("/")[1:-1]) for name in hdfs.names("t/frozen")}
    assert folders == log.folders("words"), "what the dead driver never named is swept"
    log.close()
    assert hdfs.names("t/states") and "t/log.uuid" in hdfs.names()
    with openState("t", "counts", log=given["log"], **hdfs.options) as counts:
        assert dict(counts.items()) == EXPECTED


@pytest.mark.usefixtures("in_files")
def test_nothing_is_lost_while_the_namenode_stands_still(
    hdfs: Hdfs, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    made, given = topology(state_of("memory", shared_redis)), options(shared_redis, hdfs)
    with start_local(made, **given, maxAttempts=50) as running:
        try:
            hdfs.server.hold()
            deadline = time.monotonic() + 30
            while not (failed := [event for event in running.recentProgress if event["event"] == "failed"]):
                assert time.monotonic() < deadline, "nothing noticed that the NameNode does not answer"
                time.sleep(0.05)
        finally:
            hdfs.server.release()
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == EXPECTED
    assert all("FilesUnavailableError" in event["error"] for event in failed)


@pytest.mark.usefixtures("in_files")
def test_a_reset_takes_the_files_of_this_log_alone(hdfs: Hdfs, shared_redis: RedisServer, tmp_path: Path) -> None:
    given = options(shared_redis, hdfs)
    made = topology(state_of("memory", shared_redis))
    assert counted(made, given) == EXPECTED
    with pytest.raises(
        LogMismatchError, match=f"are at {hdfs.url}/t, according to its log: give filesLocation='{hdfs.url}'"
    ):
        start_local(made, name="t", log=given["log"], checkpointLocation=tmp_path)
    another = RedisLog(shared_redis.url, prefix="another", requireDurable=False)
    with pytest.raises(LogMismatchError, match="belongs to another log"):
        start_local(made, **{**given, "log": another})
    hdfs.files().create("t/out/rows.parquet", b"somebody's")
    made.reset("t", log=given["log"], **hdfs.options)
    assert hdfs.names() == ["t/out/rows.parquet"]


def test_options_of_object_stores_are_refused(hdfs: Hdfs, shared_redis: RedisServer) -> None:
    made, given = topology(state_of("memory", shared_redis)), options(shared_redis, hdfs)
    with pytest.raises(TopologyError, match="filesStorage= is for object stores. HDFS takes its options from"):
        start_local(made, **given, filesStorage={"region": "a"})
    words = made.newStream("more", FixedBatchSpout("word string", [["a"]]))
    with pytest.raises(TopologyError, match="storage= is for object stores. HDFS takes its options from"):
        words.writeParquet(f"{hdfs.url}/out", storage={"region": "a"})


# --- a Parquet output -------------------------------------------------------------------------------------------------


def published(hdfs: Hdfs) -> Counter[str]:
    """Count the words in the files that `publishedFiles` gives, which must be all files that are there."""
    names = [url.removeprefix(f"{hdfs.url}/") for url in publishedFiles(f"{hdfs.url}/out")]
    assert sorted(names) == [name for name in hdfs.names("out") if name.endswith(".parquet")]
    return Counter(
        word
        for name in names
        for word in pq.ParquetFile(io.BytesIO(bytes(hdfs.files().read(name)))).read()["word"].to_pylist()
    )


@pytest.mark.parametrize("point", some_of(["freeze.after", "output.staged", "output.published"], ["output.staged"]))
def test_each_row_of_an_output_is_published_once_through_a_crash(
    point: str, hdfs: Hdfs, shared_redis: RedisServer
) -> None:
    made = TridentTopology()
    made.newStream("words", FixedBatchSpout("word string", BATCHES)).writeParquet(f"{hdfs.url}/out")
    with crash_at(point, 3), run_through(made, **options(shared_redis, hdfs)):
        pass
    assert published(hdfs) == Counter(EXPECTED)


# --- Spark's executors ------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_executors_write_to_hdfs_and_read_there(
    spark: SparkSession, hdfs: Hdfs, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))  # every result counts as large
    made = topology(redis_state(shared_redis, writers="executors", groups=2), first=4)
    made.newStream("rows", FixedBatchSpout("word string", BATCHES[:2])).writeParquet(f"{hdfs.url}/out", name="out")
    with made.start(spark, **options(shared_redis, hdfs)) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == Counter(BATCHES[4] + BATCHES[5])
        events = [event["states"] for event in running.recentProgress if event["event"] == "committed"]
    assert {states["counts"]["writers"] for states in events if "counts" in states} == {"executors"}
    assert hdfs.names("t/frozen") and not [name for name in hdfs.names() if "probe" in name or "answer" in name]
    rows = readParquet(spark, f"{hdfs.url}/out").collect()
    assert Counter(row.word for row in rows) == Counter(BATCHES[0] + BATCHES[1])
