"""Executors update sessions: exactly what the driver would have made, also of groups without a tuple in the batch."""

import datetime
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.run.taking import Taking
from tests.support.server import RedisServer
from trident import SessionWindow, Sum, TridentTopology
from trident.compiler.spark.state_puts import SparkPuts
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident_spouts.shared_reading import SharesEmission

pytestmark = pytest.mark.spark


class Each:
    """An aggregator that tells every tuple of a session, in their order."""

    outputFields = "all string"

    def init(self, batchId: Any, collector: Any) -> list[int]:
        return []

    def aggregate(self, state: list[int], tuple: Any, collector: Any) -> None:
        state.append(tuple.n)

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit([str(state)])


START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def visits(batch: int) -> list[tuple[Any, ...]]:
    """The tuples of a batch: of some words only, so that others are due without any. Some are late, or have no time."""
    chance = random.Random(batch)
    rows = []
    for n in range(250):
        seconds = batch * 300 + chance.randint(-150, 299)
        at = None if n % 50 == 49 else START + datetime.timedelta(seconds=seconds)
        rows.append((f"word{(batch % 3) * 40 + chance.randint(0, 39)}", batch * 1000 + n, at))
    return rows


def sessions(state: Any, batches: int, *aggregator: Any) -> tuple[TridentTopology, Taking]:
    topology, taking = TridentTopology(), Taking()
    given = [*map(visits, range(4)), [("word500", 9, START + datetime.timedelta(hours=9))]][:batches]
    stream = topology.newStream("words", FixedBatchSpout("word string, n long, at timestamp", given))
    config = SessionWindow("1 minute", "at", lateness="1 minute")
    grouped = stream.groupBy("word").window(config, state, "n", *aggregator, name="sessions")
    grouped.foreachArrow(taking)
    return topology, taking


@pytest.mark.parametrize("aggregator", [(Sum(), "sum"), (Each(),)], ids=["combined", "gathered"])
def test_sessions_by_executors_are_the_drivers(
    shared_redis: RedisServer,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[str],
    aggregator: Any,
) -> None:
    """Also those of words that are due and have no tuple in the batch; a restart lies between."""
    monkeypatch.setattr("trident.compiler.frozen_parts.PART_ROWS", 70)
    in_driver = list[int]()
    loading = SharesEmission.arrow
    monkeypatch.setattr(SharesEmission, "arrow", lambda self: in_driver.append(1) or loading(self))
    held, emitted, dropped = [], [], []
    for writers in ("driver", "executors"):
        state = RedisMapState.opaque(shared_redis.url, writers=writers, prefix=writers, buckets=16, groups=4)
        made.clear()
        events, rows = list[dict[str, Any]](), dict[Any, Any]()
        for batches in (3, 5):
            topology, taking = sessions(state, batches, *aggregator)
            with topology.start(spark, name="visits", checkpointLocation=tmp_path / writers) as running:
                running.processAllAvailable(timeout=300)
                events += running.recentProgress
                held.append(dict(running.state("sessions").items()))
            rows |= taking.rows
        assert list(held[-1]) == ["word500"], "the last tuple closes all others"
        dropped.append(
            [e["states"]["sessions"]["numRowsDroppedByWatermark"] for e in events if e["event"] == "committed"]
        )
        indexes = list(shared_redis.client.scan_iter(f"{writers}:*:due"))
        assert [shared_redis.client.zcard(name) for name in indexes] == [1]
        emitted.append(rows)
        assert len(made) == (0 if writers == "driver" else 5)
    assert not in_driver, "no tuple came to the driver from the executors' files"
    assert held[0] == held[2] and held[1] == held[3] and len(held[0]) > 30
    assert emitted[0] == emitted[1] and len(emitted[0]) > 100
    without = {(txid, word) for txid, word in emitted[0] if word not in {row[0] for row in visits(txid - 1)}}
    assert len(without) > 30, "most sessions leave in a batch that has no tuple of theirs"
    assert dropped[0] == dropped[1] and sum(dropped[0]) > 20


def test_a_search_for_the_latest_time_that_hangs_is_stopped(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run user code: the question of a query, which lies before the window."""
    asking, released, stopped = SparkPuts.latest, threading.Event(), list[object]()

    def hangs_once(puts: SparkPuts, *asked: Any) -> pa.Table:
        if not stopped:
            released.wait(60)
        return asking(puts, *asked)

    def cancel(puts: SparkPuts, job: object) -> None:
        stopped.append(job)
        released.set()

    monkeypatch.setattr(SparkPuts, "latest", hangs_once)
    monkeypatch.setattr(SparkPuts, "cancel", cancel)
    topology, taking = sessions(RedisMapState.opaque(shared_redis.url, writers="executors"), 1, Sum(), "sum")
    with topology.start(spark, name="visits", checkpointLocation=tmp_path, messageTimeoutSecs=5) as running:
        running.processAllAvailable(timeout=120)
        failed = [event["error"] for event in running.recentProgress if event["event"] == "failed"]
        held = dict(running.state("sessions").items())
    assert len(stopped) == 1 and any("watermark, batch 1 ran longer" in error for error in failed)
    assert held and taking.rows
