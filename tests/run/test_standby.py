"""Starts that stand by: they wait for their turn, take over once, and can be stopped."""

import contextlib
import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.kills import killed
from tests.support.waiting import wait_until
from trident import Count, TridentTopology
from trident.base.attempt import Holder, Lease
from trident.configuration.settings import Settings
from trident.errors import CodeChangedError, FencedError, StandbyStoppedError, TopologyError
from trident.log.sqlite_log import SqliteLog
from trident.recovery.lease_renewal import LeaseRenewal
from trident.run.running import RunningTopology
from trident.run.standby import LOOK_SECONDS, Standby
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import start_local

HOLDER = Holder(0, "elsewhere", 4711, 1700000000.0, 0.3)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    for left in (*trident.standbys(), *trident.active()):
        left.stop()


def topology() -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", [["a"], ["b"]]))
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
    return made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    """The log of topology "t", as another driver has it open."""
    opened = SqliteLog(tmp_path / "t" / "log.sqlite", "t")
    yield opened
    opened.close()


def standing_by(checkpoint: Path, **options: Any) -> "Future[RunningTopology]":
    """Begin a start that stands by, in a thread; return when it waits."""
    result: Future[RunningTopology] = Future()

    def begin() -> None:
        try:
            given = {"leaseSecs": 0.3, **options}
            result.set_result(start_local(topology(), name="t", checkpointLocation=checkpoint, standby=True, **given))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=begin, daemon=True).start()
    wait_until(lambda: result.done() or any(each.holder is not None for each in trident.standbys()))
    return result


def check_counts(running: RunningTopology) -> None:
    with running:
        running.processAllAvailable(timeout=20)
        assert running.state("count").value == 2


# --- whose turn it is ------------------------------------------------------------------------------------------------


def test_a_standby_of_a_log_that_nobody_holds_starts_at_once(tmp_path: Path) -> None:
    check_counts(standing_by(tmp_path, leaseSecs=60).result(10))


def test_a_standby_takes_over_when_the_driver_gives_the_log_back(tmp_path: Path, log: SqliteLog) -> None:
    lease = log.take(HOLDER)
    result = standing_by(tmp_path, leaseSecs=60)
    assert not result.done()
    log.give_back(lease)
    check_counts(result.result(10))


def test_a_standby_waits_as_long_as_the_driver_renews_its_lease(
    tmp_path: Path, log: SqliteLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trident")
    lease = log.take(HOLDER)
    renewal = LeaseRenewal(log, "t", 0.3)
    renewal.begin(lease)
    result = standing_by(tmp_path)
    time.sleep(1.2)
    assert not result.done() and log.lease() == lease
    renewal.stop()
    began = time.monotonic()
    with result.result(10) as running:
        assert time.monotonic() - began > 0.15
        status = running.status["lease"]
        assert (status["epoch"], status["pid"]) == (2, os.getpid()) and status["since"] > 1700000000
        with pytest.raises(FencedError, match=r"epoch 2; this driver has 1"):
            log.sync(lease)
        check_counts(running)
    assert "the driver of epoch 1 has its log (process 4711 on elsewhere, since 2023-11-14 22:13:20 UTC)" in caplog.text
    assert "(process 4711 on elsewhere, since 2023-11-14 22:13:20 UTC) did not renew its lease for 0.3 s" in caplog.text


def test_a_standby_waits_as_long_as_the_driver_was_promised(tmp_path: Path, log: SqliteLog) -> None:
    """The driver renews its lease rarely, because it was started with a long one."""
    log.take(Holder(0, "elsewhere", 4711, 1700000000.0, 60.0))
    result = standing_by(tmp_path, leaseSecs=0.2)
    time.sleep(0.8)
    assert not result.done()
    trident.standbys()[0].stop()
    with pytest.raises(StandbyStoppedError):
        result.result(10)


class _Clock:
    """A clock that a process sees which was stopped for a while now and then."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1000.0
        return self.now

    def time(self) -> float:
        return time.time()


def test_a_time_without_a_look_is_not_taken_for_silence(tmp_path: Path, log: SqliteLog) -> None:
    """A machine that sleeps, or a log that is away, holds up driver and standby alike."""
    log.take(HOLDER)
    waiting, looks = Standby(Settings(tmp_path / "t", True, name="t", leaseSecs=10 * LOOK_SECONDS, clock=_Clock())), []
    waiting._pause = looks.append  # type: ignore[method-assign]
    waiting.wait(log)
    assert len(looks) >= 5


# --- one of several --------------------------------------------------------------------------------------------------


def test_a_standby_that_was_slower_waits_on(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one takes the log between the last look and the take."""
    caplog.set_level(logging.INFO, "trident")
    log.take(HOLDER)
    take, leases = SqliteLog.take, list[Lease]()

    def other_first(self: SqliteLog, *how: Any) -> Lease:
        if not leases:
            leases.append(take(log, HOLDER))
        return take(self, *how)

    monkeypatch.setattr(SqliteLog, "take", other_first)
    result = standing_by(tmp_path)
    wait_until(lambda: "another driver took the log first; this driver waits as a standby" in caplog.text)
    assert log.lease() == leases[0], "the winner keeps it"
    log.give_back(leases[0])
    check_counts(result.result(10))


def test_a_standby_waits_on_while_the_file_is_locked(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver was stopped in the middle of a write, and then dies: only that ends its lock."""
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *where, **how: connect(*where, **{**how, "timeout": 0.05}))
    log.take(HOLDER)
    result = standing_by(tmp_path)
    driver = connect(tmp_path / "t" / "log.sqlite", isolation_level=None)
    driver.execute("BEGIN IMMEDIATE")
    wait_until(lambda: "cannot take over: the log" in caplog.text)
    assert "database is locked; this driver waits as a standby" in caplog.text and not result.done()
    driver.close()
    check_counts(result.result(10))


# --- stops -----------------------------------------------------------------------------------------------------------


def test_a_standby_can_be_stopped_and_took_nothing(tmp_path: Path, log: SqliteLog) -> None:
    lease = log.take(HOLDER)
    result = standing_by(tmp_path, leaseSecs=60)
    (waiting,) = trident.standbys()
    assert repr(waiting).startswith("<Standby 't': process 4711 on elsewhere")
    waiting.stop()
    with pytest.raises(StandbyStoppedError, match="'t' was stopped while it was a standby; it did not take over"):
        result.result(1)
    assert trident.standbys() == [] and log.lease() == lease


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_standby_in_the_main_thread(tmp_path: Path, log: SqliteLog, number: signal.Signals) -> None:
    lease = log.take(HOLDER)

    def send() -> None:
        wait_until(lambda: any(each.holder is not None for each in trident.standbys()))
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        start_local(topology(), name="t", checkpointLocation=tmp_path, standby=True, leaseSecs=60)
    assert signal.getsignal(signal.SIGTERM) is before
    assert trident.standbys() == [] and log.lease() == lease


def test_a_stop_in_the_middle_of_the_takeover_stops_the_run(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = SqliteLog.take

    def stopped_meanwhile(self: SqliteLog, *how: Any) -> Lease:
        trident.standbys()[0].stop_soon()
        return take(self, *how)

    log.give_back(log.take(HOLDER))
    monkeypatch.setattr(SqliteLog, "take", stopped_meanwhile)
    with pytest.raises(StandbyStoppedError):
        standing_by(tmp_path).result(10)
    assert log.lease() == Lease(2, ""), "it gave the log back"


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"standby": "yes"}, "standby='yes': expected True or False"),
        ({"takeover": 1}, "takeover=1: expected True or False"),
        ({"standby": True, "takeover": True}, "a standby waits, a takeover does not"),
        ({"takeover": False}, "takeover=False has no effect without standby=True: a start takes over at once"),
        ({"leaseSecs": 0}, "leaseSecs=0"),
        ({"leaseSecs": "soon"}, "leaseSecs='soon' is not a duration"),
    ],
)
def test_options_that_say_nothing_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        start_local(topology(), name="t", checkpointLocation=tmp_path, **options)


def test_a_standby_needs_a_log_that_others_share() -> None:
    with pytest.raises(TopologyError, match=r"give checkpointLocation=, or log=RedisLog"):
        start_local(topology(), name="t", standby=True)


@pytest.mark.parametrize("options", [{}, {"takeover": True}, {"standby": False}])
def test_a_start_takes_over_at_once(tmp_path: Path, log: SqliteLog, options: dict[str, Any]) -> None:
    log.take(HOLDER)
    began = time.monotonic()
    with start_local(topology(), name="t", checkpointLocation=tmp_path, leaseSecs=60, **options) as running:
        assert time.monotonic() - began < 30
        check_counts(running)


def test_a_run_without_a_log_that_others_share_renews_nothing(tmp_path: Path) -> None:
    def renewing() -> bool:
        return any(thread.name == "trident-lease" for thread in threading.enumerate())

    with start_local(topology(), name="t"):
        assert not renewing()
    with start_local(topology(), name="t", checkpointLocation=tmp_path):
        assert renewing()
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not renewing(), 2)
    assert not renewing()


def test_a_standby_of_an_older_program_takes_no_log_with_a_batch_of_the_newer_one(tmp_path: Path) -> None:
    """Only the newer program can commit its frozen batch."""

    def counting(newer: bool) -> TridentTopology:
        made = TridentTopology()
        words = made.newStream("words", FixedBatchSpout("word string", [["a"], ["b"], ["a"]]))
        words = words.each("word", str.upper, "word string", replace=True) if newer else words
        words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
        return made

    def run(newer: bool, **options: Any) -> dict[str, int]:
        with start_local(counting(newer), name="t", checkpointLocation=tmp_path, **options) as running:
            running.processAllAvailable(timeout=30)
            return dict(running.state("count").items())

    killed("freeze.after", lambda: run(newer=True, maxSpoutPending=1))
    with contextlib.closing(SqliteLog(tmp_path / "t" / "log.sqlite", "t")) as log:
        before = log.lease()
    for _ in range(2):
        with pytest.raises(CodeChangedError):
            run(newer=False, standby=True)
    with contextlib.closing(SqliteLog(tmp_path / "t" / "log.sqlite", "t")) as log:
        after = log.lease()
        assert before is not None and after is not None and after.epoch == before.epoch
    assert run(newer=True) == {"A": 2, "B": 1}
