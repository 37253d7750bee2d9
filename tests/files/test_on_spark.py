"""Spark's executors write large results to a real S3 server, read them there, and put them into a state."""

import io
import logging
import threading
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.files.kit import BATCHES, EXPECTED, options, redis_state, topology
from tests.support.objects import Objects
from tests.support.proxy import Proxy
from tests.support.s3 import SECRET
from tests.support.server import RedisServer
from trident import Count, TridentTopology, publishedFiles, readParquet
from trident.compiler.spark import engine
from trident.compiler.spark.executor_reach import reachable
from trident.compiler.spark.frozen_frames import SparkFrames
from trident.compiler.spark.sessions import Sizes
from trident.compiler.spark.state_puts import SparkPuts
from trident.errors import FilesRefusedError, StateError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import EngineStart, crash_at, engines, run_through

pytestmark = pytest.mark.spark
start = engines(["spark"], spark="spark")


@pytest.fixture(autouse=True)
def by_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors write every result, however small."""
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))


def writers(running: Any) -> set[str]:
    events = [event for event in running.recentProgress if event["event"] == "committed"]
    return {event["states"]["counts"].get("writers", "driver") for event in events}


@pytest.mark.connect
def test_executors_write_and_put_without_a_disk_that_they_share(
    spark: SparkSession, objects: Objects, shared_redis: RedisServer
) -> None:
    state = redis_state(shared_redis, writers="executors", groups=2)
    with topology(state).start(spark, **options(shared_redis, objects)) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == EXPECTED
        assert writers(running) == {"executors"}
    assert objects.names("t/frozen") and not [name for name in objects.names() if "probe" in name or "answer" in name]


@pytest.mark.parametrize("point", ["run.after", "freeze.after", "commit.state.before", "commit.state.after"])
def test_a_driver_that_dies_around_the_freeze_is_followed_by_one_that_counts_right(
    start: EngineStart, point: str, objects: Objects, shared_redis: RedisServer
) -> None:
    made = topology(redis_state(shared_redis, writers="executors", groups=2))
    given = options(shared_redis, objects)
    with crash_at(point, 3), run_through(made, start=start, timeout=120, **given) as running:
        assert dict(running.state("counts").items()) == EXPECTED
    named = given["log"].look("t")
    folders = {"/".join(name.split("/")[1:-1]) for name in objects.names("t/frozen")}
    assert folders == named.folders("words"), "what the dead driver never named is swept"
    named.close()


def test_a_put_that_dies_half_way_is_done_again(
    start: EngineStart, objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the freeze and the marker: some parts are put, and the driver's job fails."""
    real, failed = SparkPuts.put, list[int]()

    def put(self: SparkPuts, frozen: Any, batch: Any) -> Any:
        done = real(self, frozen, batch)
        if not failed:
            failed.append(1)
            raise StateError("the job fails after its puts, on purpose")
        return done

    monkeypatch.setattr(SparkPuts, "put", put)
    made = topology(redis_state(shared_redis, writers="executors", groups=2))
    given = options(shared_redis, objects)
    with pytest.raises(StateError, match="on purpose"), start(made, **given) as running:
        running.processAllAvailable(timeout=120)
    with start(topology(redis_state(shared_redis, writers="executors", groups=2)), **given) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == EXPECTED


def test_outputs_and_later_stages_read_the_objects_in_the_workers(
    start: EngineStart, objects: Objects, shared_redis: RedisServer
) -> None:
    seen: dict[int, list[str]] = {}

    def take(frame: DataFrame, txid: int, attempt: int) -> None:
        seen[txid] = sorted(row.word for row in frame.select("word").collect())

    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    letters = (
        counts.newValuesStream(everyChange=True).each("word", lambda word: word[:4], "start string").groupBy("start")
    )
    letters.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="letters")
    words.foreachBatch(take, name="out")
    with start(made, **options(shared_redis, objects)) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == EXPECTED
        assert dict(running.state("letters").items()) == {"word": sum(len(set(batch)) for batch in BATCHES)}
    assert seen == {number + 1: sorted(batch) for number, batch in enumerate(BATCHES)}


def test_executors_without_the_secret_are_told_of_and_the_driver_does_their_work(
    spark: SparkSession,
    objects: Objects,
    shared_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("ONLY_HERE", SECRET)  # Spark's workers were started without it
    given = options(shared_redis, objects)
    given["filesStorage"] = {**objects.server.storage, "secret_access_key": "env:ONLY_HERE"}
    with (
        caplog.at_level(logging.WARNING),
        topology(redis_state(shared_redis, writers="auto")).start(spark, **given) as running,
    ):
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == EXPECTED
        assert writers(running) == {"driver"}
    assert "ONLY_HERE is not set" in caplog.text and SECRET not in caplog.text


@pytest.mark.connect
def test_executors_say_whether_they_reach_the_store(
    spark: SparkSession, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reachable(spark, objects.files())
    assert objects.names() == [], "nothing stays behind"
    monkeypatch.setenv("ONLY_HERE", SECRET)
    assert not reachable(spark, objects.files(secret_access_key="env:ONLY_HERE"))
    monkeypatch.setenv("ONLY_HERE", "wrong")
    with pytest.raises(FilesRefusedError):
        reachable(spark, objects.files(secret_access_key="env:ONLY_HERE"))


def test_no_secret_is_in_sparks_confs_or_plans(
    spark: SparkSession, objects: Objects, shared_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        topology(redis_state(shared_redis, writers="executors")).start(
            spark, **options(shared_redis, objects)
        ) as running,
    ):
        running.processAllAvailable(timeout=120)
        confs = str(spark.sparkContext.getConf().getAll())
    assert SECRET not in caplog.text and SECRET not in confs


@pytest.mark.connect
def test_workers_write_a_parquet_output_and_read_it_without_a_file_system_of_sparks(
    spark: SparkSession, objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = SparkFrames.write_parquet, list[int]()

    def write_parquet(self: SparkFrames, *args: Any) -> Any:
        parts = real(self, *args)
        written.append(len(parts or ()))
        return parts

    monkeypatch.setattr(SparkFrames, "write_parquet", write_parquet)
    url, storage = f"{objects.url}/out", objects.server.storage
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES))
    words.writeParquet(url, storage=storage)
    with made.start(spark, **options(shared_redis, objects)) as running:
        running.processAllAvailable(timeout=120)
    found = Counter(row.word for row in readParquet(spark, url, storage=storage).collect())
    assert found == Counter(EXPECTED)
    later = readParquet(spark, url, afterTxid=5, storage=storage)
    assert Counter(row.word for row in later.collect()) == Counter(BATCHES[5])
    assert readParquet(spark, url, afterTxid=6, storage=storage).collect() == []
    assert len(written) >= 4 and all(written), (
        "the workers wrote the batches, once the first ones were seen to be large"
    )


@pytest.mark.parametrize("point", ["freeze.after", "output.staged", "output.published"])
def test_a_parquet_output_of_the_workers_is_exact_through_a_crash(
    start: EngineStart, point: str, objects: Objects, shared_redis: RedisServer
) -> None:
    url, storage = f"{objects.url}/out", objects.server.storage
    made = TridentTopology()
    made.newStream("words", FixedBatchSpout("word string", BATCHES)).writeParquet(url, storage=storage)
    with crash_at(point, 3), run_through(made, start=start, timeout=120, **options(shared_redis, objects)):
        pass
    names = {url.removeprefix(f"{objects.url}/") for url in publishedFiles(url, storage=storage)}
    assert names == {name for name in objects.names("out") if name.endswith(".parquet")}, "no file beside these"
    files = [pq.ParquetFile(io.BytesIO(bytes(objects.files().read(name)))).read() for name in sorted(names)]
    assert Counter(pa.concat_tables(files)["word"].to_pylist()) == Counter(EXPECTED)


def test_workers_wait_for_a_store_that_is_away_for_a_moment(
    start: EngineStart, objects: Objects, shared_redis: RedisServer
) -> None:
    with Proxy(objects.server.port) as proxy:
        storage = {**objects.server.storage, "endpoint": f"http://127.0.0.1:{proxy.port}", "timeout": "2s"}
        given = {**options(shared_redis, objects), "filesStorage": storage}
        made = topology(redis_state(shared_redis, writers="executors", groups=2))
        with start(made, **given) as running:
            deadline = time.monotonic() + 60
            while not running.recentProgress and time.monotonic() < deadline:
                time.sleep(0.05)
            proxy.hold()
            threading.Timer(4.0, proxy.release).start()
            running.processAllAvailable(timeout=120)
            assert dict(running.state("counts").items()) == EXPECTED
