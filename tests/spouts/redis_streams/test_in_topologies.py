"""Streams in whole topologies, on both engines: who reads, what a loss does to a run, and what a restart keeps."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.processes import descendants
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base import crash_points
from trident.errors import BatchFailedError, DataLossError, MalformedInputError
from trident.spouts import RedisStreamSpout
from trident.state import MemoryMapState
from trident.testing import EngineStart, engines, start_local

start = engines(spark="spark", marks=[pytest.mark.spark])

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counting(spout: Any, field: str = "word") -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy(field)
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def add(server: RedisServer, stream: str, words: str, first: int = 1) -> None:
    for n, word in enumerate(words.split(), first):
        server.client.xadd(stream, {"word": word, "n": n}, id=f"{n}-0")


def pid_of(word: str) -> int:
    return os.getpid()


def test_both_engines_count_several_streams(start: EngineStart, shared_redis: RedisServer, tmp_path: Path) -> None:
    add(shared_redis, "a", "cow moon cow dog" * 60)
    add(shared_redis, "b", "cow dish")
    spout = RedisStreamSpout(shared_redis.url, ["a", "b"], "word string, n long", maxEntriesPerBatch=150)
    expected = Counter(("cow moon cow dog" * 60).split()) + Counter(["cow", "dish"])
    with start(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        add(shared_redis, "b", "moon", 3)
        running.processAllAvailable(timeout=60)
        assert Counter(dict(running.state("counts").items())) == expected + Counter(["moon"])
        (amount,) = running.readSoFar.values()
        assert (amount.done, amount.total, amount.unit) == (expected.total() + 1, expected.total() + 1, "entries")
        assert amount.lags == {"a": 0, "b": 0}
        told = [event["sources"]["words"] for event in running.recentProgress if event["event"] == "committed"]
        assert told[0]["lag"] > 0 and told[0]["lag"] == sum(told[0]["lags"].values())


@pytest.mark.connect
@pytest.mark.spark
def test_sparks_workers_read_and_run_what_follows(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path
) -> None:
    add(shared_redis, "a", "cow " * 30)
    topology = TridentTopology()
    pids = topology.newStream("words", RedisStreamSpout(shared_redis.url, "a", "word string"))
    pids = pids.each("word", pid_of, "pid int")
    pids.groupBy("pid").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with topology.start(spark, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        counts = dict(running.state("counts").items())
    assert sum(counts.values()) == 30 and os.getpid() not in counts


def test_an_entry_that_cannot_be_read_stops_the_stream_and_is_named(
    start: EngineStart, shared_redis: RedisServer, tmp_path: Path
) -> None:
    add(shared_redis, "a", "cow moon")
    shared_redis.client.xadd("a", {"word": "dog", "n": "many"}, id="7-3")
    spout = RedisStreamSpout(shared_redis.url, "a", "word string, n long")
    running = start(counting(spout), checkpointLocation=tmp_path)
    with pytest.raises(
        BatchFailedError, match="stream 'a', entry 7-3: field 'n': expected bigint, got 'many'"
    ) as caught:
        running.awaitTermination(timeout=60)
    assert isinstance(caught.value.__cause__, MalformedInputError)


def lose_between_plan_and_emit(server: RedisServer, stream: str) -> Any:
    """Delete two entries when the first batch has been planned, and was not read yet."""
    lock, done = threading.Lock(), []

    def at(point: str) -> None:
        with lock:
            if point == "plan.made" and not done:
                done.append(point)
                server.client.xdel(stream, "2-0", "3-0")

    return at


def test_a_transactional_batch_that_lost_entries_stops_the_run_and_an_opaque_one_is_planned_anew(
    start: EngineStart,
    shared_redis: RedisServer,
    tmp_path: Path,
) -> None:
    kinds: Any = ("transactional", "opaque")
    for kind in kinds:
        shared_redis.client.delete("a")
        add(shared_redis, "a", "cow moon dog dish")
        spout = RedisStreamSpout(shared_redis.url, "a", "word string", kind=kind, onDataLoss="warn")
        crash_points.listen(lose_between_plan_and_emit(shared_redis, "a"))
        try:
            running = start(counting(spout), checkpointLocation=tmp_path / kind)
            if kind == "opaque":
                running.processAllAvailable(timeout=60)
                assert dict(running.state("counts").items()) == {"cow": 1, "dish": 1}
            else:
                with pytest.raises(
                    BatchFailedError, match="4 entries after 0-0 up to 4-0, and 2 of them are"
                ) as caught:
                    running.awaitTermination(timeout=60)
                assert isinstance(caught.value.__cause__, DataLossError)
            running.stop()
        finally:
            crash_points.listen(None)
    with start(counting(spout), checkpointLocation=tmp_path / "transactional") as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == {"cow": 1, "dish": 1}, "the next start plans it again"


def test_a_loss_stops_the_run_until_it_is_accepted(
    shared_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(shared_redis, "a", "cow moon")

    def topology(**options: Any) -> TridentTopology:
        return counting(RedisStreamSpout(shared_redis.url, "a", "word string", **options))

    with start_local(topology(), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    add(shared_redis, "a", "dog dish spoon", 3)
    shared_redis.client.xtrim("a", maxlen=1, approximate=False)
    for _ in range(2):
        running = start_local(topology(), checkpointLocation=tmp_path)
        with pytest.raises(BatchFailedError, match="2 entries after 2-0 vanished before being read") as caught:
            running.awaitTermination(timeout=30)
        assert isinstance(caught.value.__cause__, DataLossError)
    with start_local(topology(onDataLoss="warn"), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"cow": 1, "moon": 1, "spoon": 1}
    assert caplog.text.count("Reading continues after 2-0") == 1


def test_latest_is_where_the_first_start_found_it_also_after_a_crash(shared_redis: RedisServer, tmp_path: Path) -> None:
    """The first batch is empty, so that the place is in the log before there is anything to read."""
    add(shared_redis, "a", "cow moon")
    spout = RedisStreamSpout(shared_redis.url, "a", "word string", startingIds="latest")
    with start_local(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    add(shared_redis, "a", "dog", 3)
    with start_local(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"dog": 1}


def test_a_stream_that_a_later_program_adds_begins_and_one_that_it_leaves_out_keeps_its_place(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    add(shared_redis, "a", "cow")
    add(shared_redis, "b", "moon dog")
    for streams, expected in (
        (["a"], {"cow": 1}),
        (["b"], {"cow": 1, "moon": 1, "dog": 1}),
        (["b", "a"], {"cow": 1, "moon": 1, "dog": 1, "dish": 1}),
    ):
        if len(streams) == 2:
            add(shared_redis, "a", "dish", 2)
        spout = RedisStreamSpout(shared_redis.url, streams, "word string")
        with start_local(counting(spout), checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            assert dict(running.state("counts").items()) == expected


def test_an_outage_of_the_server_is_waited_for(redis_server: RedisServer, tmp_path: Path) -> None:
    add(redis_server, "a", "cow")
    spout = RedisStreamSpout(redis_server.url, "a", "word string")
    with start_local(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        redis_server.kill()
        threading.Event().wait(1.5)
        redis_server.start()
        add(redis_server, "a", "dog", 2)
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"cow": 1, "dog": 1}
        assert not [event for event in running.recentProgress if event["event"] == "failed"]


@pytest.mark.spark
def test_workers_that_are_killed_lose_and_double_nothing(
    spark: SparkSession, redis_server: RedisServer, tmp_path: Path
) -> None:
    words = [f"w{n * n % 23}" for n in range(400)]
    spout = RedisStreamSpout(redis_server.url, "a", "word string", maxEntriesPerBatch=100)
    killed = 0
    with counting(spout).start(spark, checkpointLocation=tmp_path, maxAttempts=20) as running:
        for start in range(0, 400, 200):
            add(redis_server, "a", " ".join(words[start : start + 200]), start + 1)
            while sum(dict(running.state("counts").items()).values()) < start + 200:  # a batch must be under way
                daemons = [pid for pid, command in descendants(os.getpid()).items() if "pyspark.daemon" in command]
                with suppress(ProcessLookupError):  # it has just ended by itself
                    if daemons:
                        os.kill(random.choice(daemons), signal.SIGKILL)
                        killed += 1
                        break
                time.sleep(0.02)
            running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == Counter(words)
    assert killed  # a worker that a cancelled task has just ended is none, so not both need be
