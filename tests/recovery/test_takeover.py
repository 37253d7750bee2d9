"""A driver that was taken over says so, whatever strange thing it meets: never that a log or a state is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trident
from tests.support.server import RedisServer
from trident import Count, MapGet, Sum, TridentTopology
from trident.base import crash_points
from trident.base.attempt import Lease
from trident.base.errors import (
    FencedError,
    LogCorruptError,
    LogError,
    SnapshotMovedError,
    StateLostError,
    UserFunctionError,
)
from trident.compiler.stages import cut
from trident.configuration.settings import Settings
from trident.log.frozen_results import freeze
from trident.log.protocol import BatchRecord, Birth, Members, StreamRecord
from trident.log.sqlite_log import SqliteLog
from trident.recovery.acquisition import begin
from trident.recovery.takeover import explained
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    crash_points.listen(None)
    for running in trident.active():
        running.stop()


def counting(state: Any, spout: Any) -> TridentTopology:
    topology = TridentTopology()
    topology.newStream("words", spout).groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    return topology


def log_of(checkpoint: Path) -> SqliteLog:
    """Another handle of the log of topology "wc"."""
    return SqliteLog(checkpoint / "wc" / "log.sqlite", "wc")


def at(point: str, times: int, thing: Callable[[], object]) -> None:
    """Have something happen when a point is reached for the n-th time."""
    left = times

    def heard(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if left == 0:
            crash_points.listen(None)
            thing()

    crash_points.listen(heard)


# --- what is explained ---------------------------------------------------------------------------------------------


def test_an_error_of_a_driver_that_was_taken_over_tells_by_whom_and_what_it_met(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    ours = log.take()
    met = StateLostError("state 'counts' is gone")
    assert explained(met, log, ours) is met
    log.take()
    found = explained(met, log, ours)
    assert isinstance(found, FencedError) and found.__cause__ is met
    assert str(found) == (
        "another driver has taken this topology over (epoch 2); this driver stops. Its last error: state 'counts' "
        "is gone"
    )
    log.close()


def test_a_driver_that_gave_the_log_back_took_nothing_over(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    lease, met = log.take(), StateLostError("state 'counts' is gone")

    class GivenBack(SqliteLog):
        def lease(self) -> Lease:
            return Lease(lease.epoch, "")

    after = GivenBack(tmp_path / "wc" / "log.sqlite", "wc")
    assert explained(met, after, lease) is met
    assert isinstance(explained(met, after, Lease(0, "earlier")), FencedError)
    for each in (log, after):
        each.close()


def test_what_a_user_function_raised_stays_what_it_is(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    ours = log.take()
    log.take()
    raised = UserFunctionError("it raised")
    assert explained(raised, log, ours) is raised
    log.close()


def test_an_error_of_this_library_over_another_programs_batch_is_the_takeover(tmp_path: Path) -> None:
    """A batch of a program with more fields: code of this library fails on it before any write is fenced."""
    log = log_of(tmp_path)
    first = log.take()
    failed = ValueError("zip() argument 2 is longer than argument 1")
    assert explained(failed, log, first) is failed
    log.take()
    assert str(explained(failed, log, first)).startswith("another driver has taken this topology over (epoch 2)")
    assert explained(failed, log, first).__cause__ is failed
    log.close()


def test_where_the_log_cannot_be_asked_the_error_stays_what_it_is(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    ours = log.take()
    log.close()
    met = LogError("the log cannot be used")
    assert explained(met, log, ours) is met


# --- a start -------------------------------------------------------------------------------------------------------


@contextmanager
def beginning(checkpoint: Path, state: Any) -> Iterator[Callable[[], object]]:
    """A start of another driver, without a run behind it."""
    log = log_of(checkpoint)
    program = cut(counting(state, FeederBatchSpout("word string")))
    try:
        yield lambda: begin(program, log, Settings(checkpoint / "wc", True, name="wc"))
    finally:
        log.close()


def a_whole_run(checkpoint: Path, state: Any) -> None:
    with start_local(
        counting(state, FixedBatchSpout("word string", [["a"]])), name="wc", checkpointLocation=checkpoint
    ) as running:
        running.processAllAvailable(timeout=20)


def test_a_start_that_was_overtaken_does_not_say_that_the_log_is_an_old_copy(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, births, calls = RedisMapState.opaque(shared_redis.url), SqliteLog.births, [0]

    def read_late(self: SqliteLog) -> dict[str, Birth]:
        """How far the groups came was read before; what is read from here on is of a later moment."""
        calls[0] += 1
        if calls[0] == 2:
            a_whole_run(tmp_path, state)
        return births(self)

    at("start.log.taken", 1, lambda: monkeypatch.setattr(SqliteLog, "births", read_late))
    with (
        beginning(tmp_path, state) as start,
        pytest.raises(FencedError, match=r"\(epoch 2\).*last error: .* is at txid 1, but .* old copy"),
    ):
        start()


def test_a_start_that_was_overtaken_at_its_end_does_not_say_that_its_state_is_lost(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    state = RedisMapState.opaque(shared_redis.url)
    a_whole_run(tmp_path, state)

    def taken_over_and_lost() -> None:
        taken_over_and_trimmed(tmp_path, 1)
        shared_redis.client.flushall()

    at("start.done", 1, taken_over_and_lost)
    with pytest.raises(
        FencedError, match=r"\(epoch 3\).*last error: .*'counts' is at txid 0.*the log cannot restore the state"
    ):
        a_whole_run(tmp_path, state)


def test_a_start_that_was_overtaken_does_not_say_that_its_output_is_another_ones(tmp_path: Path) -> None:
    topology, place = TridentTopology(), tmp_path / "out"
    topology.newStream("words", FixedBatchSpout("word string", [["a"]])).writeParquet(place)

    def taken_over_and_written() -> None:
        log_of(tmp_path).take()
        place.mkdir()
        (place / "theirs.csv").touch()

    at("start.done", 1, taken_over_and_written)
    with pytest.raises(FencedError, match=r"\(epoch 2\).*last error: .*contains other files \(theirs.csv\)"):
        start_local(topology, name="wc", checkpointLocation=tmp_path)


def test_a_start_that_was_overtaken_does_not_say_that_its_program_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = SqliteLog.members

    def read_early(self: SqliteLog) -> Members:
        """The groups are read when another driver has founded them, and has died with a batch that waits."""
        monkeypatch.setattr(SqliteLog, "members", members)
        read, log = members(self), log_of(tmp_path)
        lease = log.take()
        log.enroll(lease, Members({"words": StreamRecord("words")}, {}, {"words": 0}))
        counted = pa.table({"word": ["a"], "count": [1]})
        log.freeze(lease, "words", 1, BatchRecord({}, 0.0, "{}"), {"words": 1}, {"counts": freeze(counted)})
        log.close()
        return read

    monkeypatch.setattr(SqliteLog, "members", read_early)
    with (
        beginning(tmp_path, MemoryMapState.opaque()) as start,
        pytest.raises(FencedError, match=r"\(epoch 1\).*last error: .*has no such group \(it has words~2\)"),
    ):
        start()


def test_a_take_whose_outcome_is_unknown_is_not_taken_for_another_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = SqliteLog.take

    def taken_and_no_reply(self: SqliteLog, *how: Any) -> Lease:
        take(self, *how)
        raise LogError("the log cannot be used: disk I/O error")

    monkeypatch.setattr(SqliteLog, "take", taken_and_no_reply)
    with beginning(tmp_path, MemoryMapState.opaque()) as start, pytest.raises(LogError, match="disk I/O error"):
        start()


# --- a run ---------------------------------------------------------------------------------------------------------


def taken_over_and_trimmed(checkpoint: Path, upto: int) -> None:
    """A later driver has committed up to a batch and let its content go."""
    log = log_of(checkpoint)
    log.trim(log.take(), "words", upto, 0, 0)
    log.close()


def test_a_run_that_was_taken_over_does_not_say_that_its_log_is_corrupt(tmp_path: Path) -> None:
    def die() -> None:
        raise LogError("the first driver ends over a frozen batch")

    feeder = FeederBatchSpout("word string")
    topology = counting(MemoryMapState.opaque(), feeder)
    at("commit.before", 1, die)
    feeder.feed(["a"])
    with (
        pytest.raises(LogError, match="ends over a frozen"),
        start_local(topology, name="wc", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)
    at("commit.before", 1, lambda: taken_over_and_trimmed(tmp_path, 1))
    with (
        pytest.raises(FencedError, match=r"\(epoch 3\).*last error: .*lacks the frozen results of batch 1") as found,
        start_local(topology, name="wc", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)
    assert isinstance(found.value.__cause__, LogCorruptError)


def test_a_run_that_was_taken_over_does_not_say_that_its_state_is_lost(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    def taken_over_and_lost() -> None:
        taken_over_and_trimmed(tmp_path, 1)
        shared_redis.client.flushall()

    feeder = FeederBatchSpout("word string")
    topology = counting(RedisMapState.opaque(shared_redis.url), feeder)
    at("commit.before", 2, taken_over_and_lost)
    for word in "ab":
        feeder.feed([word])
    with (
        pytest.raises(
            FencedError, match=r"\(epoch 2\).*last error: .*'counts' is at txid 0.*the log cannot restore the state"
        ) as found,
        start_local(topology, name="wc", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)
    assert isinstance(found.value.__cause__, StateLostError)


def test_a_run_that_was_taken_over_does_not_say_that_what_it_queries_has_moved(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """A store that went on is waited for, in case it is another topology's: here the query's state is our own."""
    feeder, state = FeederBatchSpout("word string"), RedisMapState.opaque(shared_redis.url)
    topology = TridentTopology()
    words = topology.newStream("words", feeder)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    before = words.stateQuery(counts, "word", MapGet(), "before").groupBy("word")
    before.persistentAggregate(RedisMapState.opaque(shared_redis.url), "before", Sum(), "sum", name="sums")

    def taken_over() -> None:
        log = log_of(tmp_path)
        begin(cut(topology), log, Settings(tmp_path / "wc", True, name="wc"))
        log.close()

    at("commit.before", 1, taken_over)
    feeder.feed(["a"])
    with (
        pytest.raises(FencedError, match=r"\(epoch 2\).*last error: .*another driver has taken it over") as found,
        start_local(topology, name="wc", checkpointLocation=tmp_path, commitRetrySecs=0) as running,
    ):
        running.processAllAvailable(timeout=20)
    assert isinstance(found.value.__cause__, SnapshotMovedError)
