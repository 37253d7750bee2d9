"""A savepoint: a consistent copy of a running topology, in every kind of store, or none at all."""

import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.state.backing.maps import SqliteMap
from tests.support.forks import BATCHES, LATER, contents, read, save, words
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import (
    Count,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
    dropSavepoint,
    forkTopology,
    listSavepoints,
)
from trident.base import crash_points
from trident.base.errors import FencedError, SavepointError, StateFullError, TopologyConditionError, TopologyError
from trident.files.disk import DiskFiles
from trident.log.sqlite_log import SqliteLog
from trident.run import savepoint_states
from trident.spouts import FeederBatchSpout, FixedBatchSpout, PollingSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* appendonly is off", "ignore:state .* is new"),
]


@pytest.fixture(autouse=True)
def _unheard() -> Iterator[None]:
    yield
    crash_points.listen(None)


def at(point: str, work: Callable[[], object]) -> None:
    """Do some work the first time that a thread is at a point."""
    left = [work]

    def listen(reached: str) -> None:
        if reached == point and left:
            left.pop()()

    crash_points.listen(listen)


def at_second(second: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def homes(folder: Path, server: RedisServer) -> dict[str, Callable[[], Any]]:
    own = functools.partial(SqliteMap, str(folder / "own.db"))
    return {
        "memory": MemoryMapState.opaque,
        "plain memory": MemoryMapState.nonTransactional,
        "forgetful": lambda: MemoryMapState.transactional(ttlSecs="1 day"),
        "redis": lambda: RedisMapState.opaque(server.url, buckets=8, groups=2),
        "plain redis": lambda: RedisMapState.nonTransactional(server.url, buckets=8),
        "ageing": lambda: RedisMapState.transactional(server.url, buckets=8, ttlSecs="1 day"),
        "sqlite": lambda: SqliteMapState.transactional(str(folder / "s.db")),
        "own": lambda: BackingMapState.opaque(lambda identity: own(identity)),
    }


HOMES = ["memory", "plain memory", "forgetful", "redis", "plain redis", "ageing", "sqlite", "own"]


@pytest.mark.parametrize(("home", "few"), [*((home, 5_000) for home in HOMES), ("memory", -1), ("redis", -1)])
def test_a_savepoint_is_as_of_its_batch_and_both_topologies_go_on(
    home: str, few: int, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are committed while the pages of the state are copied: what they change is copied once more.

    `few` keys are left to the pause; with -1 they are copied before it.
    """
    monkeypatch.setattr(savepoint_states, "FEW_KEYS", few)
    state, source = homes(tmp_path, shared_redis)[home], FeederBatchSpout("word string")
    topology = TridentTopology()
    topology.newStream("words", source).groupBy("word").persistentAggregate(state(), Count(), "n", name="counts")
    with start_local(topology, name="first", checkpointLocation=tmp_path) as running:

        def goes_on() -> None:
            source.feed([("dog",), ("new",)])
            running.processAllAvailable(timeout=60)

        source.feed([("dog",), ("cat",)])
        assert read(running) == {"dog": 1, "cat": 1}
        at("savepoint.pages", goes_on)
        info = running.savepoint("before")
        assert info.txids == running.asOfTxid
        source.feed([("dog",)])
        assert read(running) == {"dog": 3, "cat": 1, "new": 1}
        forkTopology("first", "before", "second", tmp_path)
        assert read(running) == {"dog": 3, "cat": 1, "new": 1}
    other, source = homes(tmp_path, shared_redis)[home], FeederBatchSpout("word string")
    topology = TridentTopology()
    topology.newStream("words", source).groupBy("word").persistentAggregate(other(), Count(), "n", name="counts")
    with start_local(topology, name="second", checkpointLocation=tmp_path) as running:
        assert read(running) == {"dog": 2, "cat": 1, "new": 1}
        source.feed([("cat",)])
        assert read(running) == {"dog": 2, "cat": 2, "new": 1}
    topology = TridentTopology()
    source = FeederBatchSpout("word string")
    topology.newStream("words", source).groupBy("word").persistentAggregate(state(), Count(), "n", name="counts")
    with start_local(topology, name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == {"dog": 3, "cat": 1, "new": 1}


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_a_copy_catches_up_in_rounds_while_batches_are_committed(
    home: str, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source never rests: the keys of each round change again during the next one."""
    monkeypatch.setattr(savepoint_states, "FEW_KEYS", -1)

    def rows(position: int | None, limit: int) -> tuple[list[Any], int]:
        first = position or 0
        until = first + 40 if total is None else min(total, first + 40)
        return [(n % 30,) for n in range(first, until)], until

    def program() -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("numbers", PollingSpout("key int", {"numbers": rows}))
        state = homes(tmp_path, shared_redis)[home]()
        stream.groupBy("key").persistentAggregate(state, Count(), "n", name="counts")
        return topology

    total: int | None = None
    with start_local(program(), name="first", checkpointLocation=tmp_path) as running:
        wait_until(lambda: running.asOfTxid["numbers"] > 3)
        infos = [running.savepoint(f"s{number}") for number in range(3)]
    assert all(info.entries["counts"] >= 60 for info in infos), "entries, and keys that changed meanwhile"
    total = 40 * (infos[-1].txids["numbers"] + 5)
    for info in infos:
        forkTopology("first", info.name, f"of-{info.name}", tmp_path)
        found = contents(program(), f"of-{info.name}", tmp_path)
        assert found == Counter(n % 30 for n in range(total))


def test_a_key_that_was_removed_while_it_was_copied_stays_removed(tmp_path: Path) -> None:
    source = FeederBatchSpout("word string, n long")
    topology = TridentTopology()
    topology.newStream("words", source).statefulEach(
        ["word", "n"],
        lambda tuple, state: state.put(tuple.word, tuple.n) if tuple.n else state.delete(tuple.word),
        keyFields="word",
        valueType="long",
        name="last",
    )
    with start_local(topology, name="first", checkpointLocation=tmp_path) as running:

        def goes_on() -> None:
            source.feed([("dog", 0), ("cat", 5)])
            running.processAllAvailable(timeout=60)

        source.feed([("dog", 1), ("cat", 2), ("cow", 3)])
        running.processAllAvailable(timeout=60)
        at("savepoint.pages", goes_on)
        running.savepoint("before")
    forkTopology("first", "before", "second", tmp_path)
    with start_local(topology, name="second", checkpointLocation=tmp_path) as running:
        assert read(running, "last") == {"cat": 5, "cow": 3}


def test_batches_in_flight_are_in_the_savepoint_or_not_at_all(tmp_path: Path) -> None:
    """The source gives another number of rows at each call, so that a replay would differ."""
    sizes = itertools.cycle([3, 1, 7, 2])

    def rows(position: int | None, limit: int) -> tuple[list[Any], int]:
        first = position or 0
        until = min(200, first + next(sizes))
        return [(n % 5, n) for n in range(first, until)], until

    def program() -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("numbers", PollingSpout("key int, n long", {"numbers": rows}, maxRows=50))
        stream.groupBy("key").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
        stream.aggregate(Count(), "n").persistentAggregate(
            SqliteMapState.opaque(str(tmp_path / "s")), "n", Sum(), "all"
        )
        return topology

    expected = Counter[int]()
    for n in range(200):
        expected[n % 5] += n
    with start_local(program(), name="first", checkpointLocation=tmp_path, maxSpoutPending=4) as running:
        taken = [running.savepoint(f"s{number}") for number in range(4)]
        assert read(running, "sums") == expected
    assert [info.name for info in listSavepoints("first", tmp_path)] == ["s0", "s1", "s2", "s3"]
    for info in taken:
        forkTopology("first", info.name, f"of-{info.name}", tmp_path)
        assert contents(program(), f"of-{info.name}", tmp_path, "sums") == expected


SECOND = timedelta(seconds=1)
EVENTS: list[Any] = [
    [("a", at_second(1), 1), ("b", at_second(3), 2)],
    [("a", at_second(12), 4), ("b", at_second(8), 8)],
    [("c", at_second(31), 16), ("a", at_second(5), 32)],
    [("a", at_second(44), 64)],
    [("b", at_second(75), 128)],
]


def over_time(batches: list[Any], redis: str, seen: list[Any]) -> TridentTopology:
    """A window, duplicates, a table, a value without a key, and timers by event time, in two groups."""
    topology = TridentTopology()
    stream = topology.newStream("events", FixedBatchSpout("k string, at timestamp, n long", batches))
    state = RedisMapState.opaque(redis, buckets=8)
    tens = stream.groupBy("k").window(TumblingEventTimeWindow(10, "at"), state, "n", Sum(), "sum", name="tens")
    tens.peek(lambda row: seen.append(("tens", row.k, row.sum)))
    stream.toTable("k", valueFields="n", name="latest")
    stream.dropDuplicates("k", name="seen").peek(lambda row: seen.append(("first", row.k)))
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="all")
    timed = stream.statefulEach(
        lambda row, state: state.setTimer(row.k, row.at + 15 * SECOND),
        "note string",
        keyFields="k",
        valueType="long",
        stateFactory=MemoryMapState.opaque(),
        onTimer=lambda timer, state: timer.key,
        timestampField="at",
        name="timed",
    )
    timed.peek(lambda row: seen.append(("timer", row.note)))
    others = topology.newStream("others", FixedBatchSpout("n long", [[1], [2]]))
    others.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="others")
    return topology


@pytest.mark.parametrize("cut", range(len(EVENTS)))
def test_a_fork_at_any_batch_does_what_the_whole_run_does(cut: int, tmp_path: Path, shared_redis: RedisServer) -> None:
    whole, before, after = list[Any](), list[Any](), list[Any]()
    expected = contents(over_time(EVENTS, shared_redis.url, whole), "whole", tmp_path, "latest")
    save(over_time(EVENTS[:cut], shared_redis.url, before), tmp_path)
    (info,) = listSavepoints("first", tmp_path)
    assert info.txids == {"events": cut, "others": 2}
    forkTopology("first", "before", "second", tmp_path)
    with start_local(over_time(EVENTS, shared_redis.url, after), name="second", checkpointLocation=tmp_path) as running:
        assert read(running, "latest") == expected
        assert running.state("all").value == 8 and running.state("others").value == 2
    assert sorted(map(str, before + after)) == sorted(map(str, whole))


def test_a_savepoint_waits_for_planned_batches_and_the_run_goes_on_after_a_timeout(tmp_path: Path) -> None:
    held, entered = threading.Event(), threading.Event()

    def slow(word: str) -> str:
        entered.set()
        assert held.wait(60)
        return word

    topology = TridentTopology()
    source = FeederBatchSpout("word string")
    stream = topology.newStream("words", source).map("word", slow, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="first", checkpointLocation=tmp_path) as running:
        source.feed([("dog",)])
        assert entered.wait(60)
        with pytest.raises(TimeoutError, match="no savepoint was taken, and it continues"):
            running.savepoint("before", timeout=0.2)
        assert listSavepoints("first", tmp_path) == []
        assert not list((tmp_path / "first" / "savepoints").glob("*"))
        held.set()
        assert running.savepoint("before").entries == {"counts": 1}
        source.feed([("dog",)])
        assert read(running) == {"dog": 2}


def test_a_server_that_lost_its_last_writes_is_not_copied_as_it_is(tmp_path: Path, shared_redis: RedisServer) -> None:
    """It is healed before the pause. What it lacked until then is in no batch that the copy looks at."""

    def program(source: FeederBatchSpout, state: Any) -> TridentTopology:
        topology = TridentTopology()
        topology.newStream("words", source).groupBy("word").persistentAggregate(state, Count(), "n", name="counts")
        return topology

    def heals() -> None:
        source.feed([("cow",)])
        running.processAllAvailable(timeout=60)

    client, source = shared_redis.client, FeederBatchSpout("word string")
    counting = program(source, RedisMapState.opaque(shared_redis.url, buckets=8))
    with start_local(counting, name="first", checkpointLocation=tmp_path) as running:
        before = {key: client.dump(key) or b"" for key in client.scan_iter()}
        source.feed([("dog",), ("cat",)])
        assert read(running) == {"dog": 1, "cat": 1}
        at("savepoint.pages", heals)
        with client.pipeline() as falls_back:
            falls_back.flushall()
            for key, content in before.items():
                falls_back.restore(key, 0, content)
            falls_back.execute()
        running.savepoint("before")
        assert read(running) == {"dog": 1, "cat": 1, "cow": 1}
    forkTopology("first", "before", "second", tmp_path)
    forked = program(FeederBatchSpout("word string"), MemoryMapState.opaque())
    assert contents(forked, "second", tmp_path) == {"dog": 1, "cat": 1, "cow": 1}


def test_an_inactive_topology_stays_inactive(tmp_path: Path) -> None:
    with start_local(words(), name="first", checkpointLocation=tmp_path, active=False) as running:
        assert running.savepoint("nothing-yet").txids == {"words": 0}
        assert running.condition == "INACTIVE"
        running.activate()
        assert read(running) == {"dog": 2, "cat": 1}
    forkTopology("first", "nothing-yet", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}


def test_one_savepoint_at_a_time_and_each_name_once(tmp_path: Path) -> None:
    errors = list[Exception]()

    def another() -> None:
        for call in (lambda: running.savepoint("other"), running.deactivate):
            try:
                call()
            except TopologyConditionError as error:
                errors.append(error)

    with start_local(words(), name="first", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        at("savepoint.state", another)
        running.savepoint("before")
        with pytest.raises(SavepointError, match=r"there is a savepoint 'before' at .*dropSavepoint"):
            running.savepoint("before")
        with pytest.raises(TopologyError, match="savepoint"):
            running.savepoint("../before")
        dropSavepoint("first", "before", tmp_path)
        running.savepoint("before")
    assert "is already taking a savepoint" in str(errors[0])
    assert "takes a savepoint: deactivate() has to wait until savepoint() returns" in str(errors[1])
    with pytest.raises(TopologyConditionError, match="cannot savepoint topology 'first': it is STOPPED"):
        running.savepoint("late")


def test_a_topology_without_a_place_has_no_savepoint() -> None:
    with (
        start_local(words(), name="first") as running,
        pytest.raises(SavepointError, match="has no location for a savepoint"),
    ):
        running.savepoint("before")


def test_a_driver_whose_log_was_taken_over_publishes_nothing(tmp_path: Path) -> None:
    """Another driver takes the log while the states are copied: what is copied may have batches of both."""

    def overtake() -> None:
        other = SqliteLog(tmp_path / "first" / "log.sqlite", "first")
        other.take()
        other.close()

    running = start_local(words(), name="first", checkpointLocation=tmp_path)
    running.processAllAvailable(timeout=60)
    at("savepoint.state", overtake)
    with pytest.raises(FencedError):
        running.savepoint("before")
    running.stop()
    assert listSavepoints("first", tmp_path) == []


def test_a_savepoint_keeps_its_files_while_a_later_driver_begins_one_of_its_name(tmp_path: Path) -> None:
    """The driver is replaced after its last look at the log; the later one dies while it copies."""

    class Died(Exception):
        pass

    def die() -> None:
        raise Died

    def replaced() -> None:
        running.stop()
        with start_local(words(), name="first", checkpointLocation=tmp_path) as later:
            read(later)
            at("savepoint.state", die)
            with pytest.raises(Died):
                later.savepoint("before")

    running = start_local(words(), name="first", checkpointLocation=tmp_path)
    read(running)
    at("savepoint.files", replaced)
    running.savepoint("before")
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}


def test_a_savepoint_whose_files_were_deleted_is_none(tmp_path: Path) -> None:
    """The driver is replaced after its last look at the log; the later one completes its own, which is dropped."""

    def replaced() -> None:
        running.stop()
        with start_local(words(), name="first", checkpointLocation=tmp_path) as later:
            read(later)
            later.savepoint("before")
        dropSavepoint("first", "before", tmp_path)

    running = start_local(words(), name="first", checkpointLocation=tmp_path)
    read(running)
    at("savepoint.files", replaced)
    with pytest.raises(SavepointError, match="the files of savepoint 'before' .* were deleted before it was complete"):
        running.savepoint("before")
    assert listSavepoints("first", tmp_path) == []


def test_a_savepoint_keeps_its_files_while_a_former_one_of_its_name_is_dropped(tmp_path: Path) -> None:
    with start_local(words(), name="first", checkpointLocation=tmp_path) as running:
        read(running)
        running.savepoint("before")
        at("savepoint.dropped", lambda: running.savepoint("before"))
        dropSavepoint("first", "before", tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}


def test_a_savepoint_with_a_damaged_manifest_is_dropped_with_its_files(tmp_path: Path) -> None:
    save(words(), tmp_path)
    folder = tmp_path / "first" / "savepoints"
    (folder / "before.json").write_bytes(b"{")
    dropSavepoint("first", "before", tmp_path)
    assert not list(folder.iterdir())


def test_a_savepoint_whose_publication_fails_half_way_is_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest was written, and the answer of the file store was lost."""
    create = DiskFiles.create

    def unanswered(self: DiskFiles, name: str, content: bytes) -> bool:
        create(self, name, content)
        raise OSError("no answer")

    with start_local(words(), name="first", checkpointLocation=tmp_path) as running:
        read(running)
        monkeypatch.setattr(DiskFiles, "create", unanswered)
        with pytest.raises(OSError, match="no answer"):
            running.savepoint("before")
        monkeypatch.undo()
    assert [info.name for info in listSavepoints("first", tmp_path)] == ["before"]
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}


def test_a_group_that_has_ended_with_a_batch_that_waits_is_not_saved(tmp_path: Path) -> None:
    topology, other = words(), FeederBatchSpout("word string")
    full = MemoryMapState.opaque(maxBytes=1)
    topology.newStream("others", other).groupBy("word").persistentAggregate(full, Count(), "n", name="full")
    running = start_local(topology, name="first", checkpointLocation=tmp_path, commitRetrySecs=0)
    other.feed([("dog",)])
    with pytest.raises(StateFullError):
        running.processAllAvailable(timeout=60)
    with pytest.raises(SavepointError, match=r"batch 1 of group 'others' is frozen but not committed"):
        running.savepoint("before")
    assert listSavepoints("first", tmp_path) == []
    running.stop()


def test_what_the_log_no_longer_has_is_copied_at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log drops the batches that were committed while the pages were copied."""
    source = FeederBatchSpout("word string")
    topology = TridentTopology()
    topology.newStream("words", source).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="counts"
    )
    with start_local(topology, name="first", checkpointLocation=tmp_path) as running:

        def goes_on() -> None:
            source.feed([("dog",), ("new",)])
            running.processAllAvailable(timeout=60)
            log, lease = running._context.log, running._context.begun.lease
            for store in running._context.begun.stores.values():
                store.snapshot()
            log.trim(lease, "words", running.asOfTxid["words"], 0, 0)

        source.feed([("dog",), ("cat",)])
        running.processAllAvailable(timeout=60)
        at("savepoint.pages", goes_on)
        assert running.savepoint("before").entries == {"counts": 3}
    forkTopology("first", "before", "second", tmp_path)
    with start_local(topology, name="second", checkpointLocation=tmp_path) as running:
        assert read(running) == {"dog": 2, "cat": 1, "new": 1}


def test_a_savepoint_whose_driver_died_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = tmp_path / "first" / "savepoints" / "before-0123"
    save(words(), tmp_path, "other")
    folder.mkdir()
    (folder / "state-1.arrow").write_bytes(b"half")
    assert [info.name for info in listSavepoints("first", tmp_path)] == ["other"]
    save(words(), tmp_path)
    assert not folder.exists()
    assert [info.name for info in listSavepoints("first", tmp_path)] == ["other", "before"]


@pytest.mark.spark
def test_a_savepoint_of_a_topology_on_spark(spark: SparkSession, tmp_path: Path, shared_redis: RedisServer) -> None:
    state = lambda: RedisMapState.opaque(shared_redis.url, buckets=8)  # noqa: E731
    with words(BATCHES, state()).start(spark, name="first", checkpointLocation=str(tmp_path)) as running:
        running.processAllAvailable(timeout=120)
        running.savepoint("before")
    forkTopology("first", "before", "second", tmp_path)
    with words(LATER, state()).start(spark, name="second", checkpointLocation=str(tmp_path)) as running:
        assert read(running) == {"dog": 3, "cat": 1, "cow": 1}
    assert contents(words([*BATCHES, ["cat"]], state()), "first", tmp_path) == {"dog": 2, "cat": 2}
