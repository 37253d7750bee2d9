"""The lag of a source and its growth are part of each batch's progress event, where the source knows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from trident import TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.spouts import ArrowEmission, Budget, FeederBatchSpout, RateSpout, ReadSoFar, SpoutExecutor, SpoutKind
from trident.testing import ManualClock
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT
from trident_spouts.executor import Metadata

START = datetime(2026, 1, 31, tzinfo=UTC)


def sources(spout: Any, clock: ManualClock, seconds: float) -> list[Mapping[str, Any]]:
    """The part `sources` of the event of each batch. While a batch runs, the clock moves on."""
    topology = TridentTopology()
    topology.newStream("rows", spout).foreachArrow(lambda table, txid, attempt: clock.advance(seconds))
    with start_local(topology, clock=clock, maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=60)
        return [event.get("sources", {}) for event in running.recentProgress]


def test_a_topology_that_is_slower_than_its_source_falls_behind() -> None:
    """100 rows come in a second, and each second has one batch of 50 rows; then no more rows come."""
    spout = RateSpout(100, rows=200, startTime=START, maxRowsPerBatch=50)
    events = sources(spout, ManualClock(time=START.timestamp() + 0.99), seconds=1.0)
    assert [event["rows"] for event in events] == [
        {"unit": "rows", "read": 50, "known": 100, "lag": 50},
        {"unit": "rows", "read": 100, "known": 200, "lag": 100, "lagGrowthPerSecond": 50.0},
        {"unit": "rows", "read": 150, "known": 200, "lag": 50, "lagGrowthPerSecond": -50.0},
        {"unit": "rows", "read": 200, "known": 200, "lag": 0, "lagGrowthPerSecond": -50.0},
    ]


def test_without_a_size_that_is_known_there_is_no_lag() -> None:
    feeder = FeederBatchSpout("word string")
    feeder.feed(["cow"])
    assert sources(feeder, ManualClock(), 1.0) == [{}]


class Partitioned(SpoutExecutor):
    """A source of three rows in two partitions, which knows what is left in each, or fails to say so."""

    plans_ahead = True

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        at = previous if isinstance(previous, int) else 0
        return at + 1 if at < 3 else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        return ArrowEmission(pa.table({"n": [metadata]}))

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        if self.broken:
            raise OSError("the server is away")
        done = position if isinstance(position, int) else 0
        return ReadSoFar(done, 3, "messages", {"p": max(0, 2 - done), "q": min(1, 3 - done)})


@dataclass(frozen=True)
class Log:
    broken: bool = False
    kind = SpoutKind.TRANSACTIONAL
    schema = StructType().add("n", "long")

    def open(self) -> SpoutExecutor:
        return Partitioned(self.broken)


def test_a_source_with_partitions_tells_the_lag_of_each() -> None:
    events = sources(Log(), ManualClock(), 1.0)
    assert [event["rows"]["lags"] for event in events] == [{"p": 1, "q": 1}, {"p": 0, "q": 1}, {"p": 0, "q": 0}]
    assert [event["rows"]["lag"] for event in events] == [2, 1, 0]


def test_a_source_that_fails_to_tell_its_lag_holds_no_batch_up(caplog: pytest.LogCaptureFixture) -> None:
    assert sources(Log(broken=True), ManualClock(), 1.0) == [{}, {}, {}]
    assert "spout 'rows' failed in read_so_far()" in caplog.text
    assert "the server is away" in caplog.text
