"""A restored topology counts each tuple since the savepoint once in its states, and sees no txid twice."""

import functools
import itertools
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.faults import forking
from tests.state.backing.maps import SqliteMap
from tests.support.forks import BATCHES, LATER, OTHER, SAVED, WHOLE, contents, read, save, words
from tests.support.kills import killed
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import (
    Count,
    Evolution,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
    dropState,
    openState,
    openTopology,
    restoreTopology,
)
from trident.errors import (
    LogError,
    SavepointError,
    StateEndedError,
    StateRecoveringError,
    StateShapeError,
    TopologyActiveError,
    TopologyError,
    TxidNotKeptError,
)
from trident.log import RedisLog, frozen_results
from trident.log.protocol import TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.run import backfill
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import BackingMapState, DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* appendonly is off", "ignore:state .* is new"),
]


# --- states -----------------------------------------------------------------------------------------------------------

STATES: dict[str, Callable[[str, Path], Any]] = {
    "memory": lambda redis, where: MemoryMapState.opaque(),
    "transactional memory": lambda redis, where: MemoryMapState.transactional(),
    "non-transactional memory": lambda redis, where: MemoryMapState.nonTransactional(),
    "redis": lambda redis, where: RedisMapState.opaque(redis, buckets=8, groups=2),
    "json": lambda redis, where: RedisMapState.transactional(redis, buckets=8, values="json"),
    "sqlite": lambda redis, where: SqliteMapState.opaque(str(where / "s.db")),
    "map": lambda redis, where: BackingMapState.opaque(functools.partial(SqliteMap, str(where / "own.db"))),
    "delta": lambda redis, where: DeltaMapState.opaque(str(where / "delta")),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_restored_state_has_the_savepoints_values_and_the_tuples_since(
    kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state = functools.partial(STATES[kind], shared_redis.url, tmp_path)
    save(words(state=state()), tmp_path)
    assert contents(words(LATER, state()), "first", tmp_path) == WHOLE
    for _ in range(2):
        restoreTopology("first", "before", tmp_path)
        with start_local(words(state=state()), name="first", checkpointLocation=tmp_path, active=False) as running:
            assert dict(running.state("counts").items()) == SAVED
    assert contents(words(OTHER, state()), "first", tmp_path) == {**SAVED, "owl": 2}
    restoreTopology("first", "before", tmp_path)
    for _ in range(2):
        assert contents(words(LATER, state()), "first", tmp_path) == WHOLE


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_txids_go_on(kind: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    """So neither a reader nor an output sees a txid with two contents."""
    seen = list[int]()

    def program(batches: list[Any]) -> TridentTopology:
        topology = words(batches)
        stream = topology.newStream("more", FixedBatchSpout("word string", batches))
        stream.foreachArrow(lambda table, txid, attempt: seen.append(txid), name="out")
        stream.writeParquet(str(tmp_path / "out"))
        return topology

    log = RedisLog(shared_redis.url, requireDurable=False) if kind == "redis" else None
    given: dict[str, Any] = {"log": log} if log else {}
    save(program(BATCHES), tmp_path, **given)
    contents(program(LATER), "first", tmp_path, **given)
    restoreTopology("first", "before", tmp_path, log=log)
    with start_local(program(OTHER), name="first", checkpointLocation=tmp_path, **given) as running:
        assert read(running) == {**SAVED, "owl": 2}
        assert running.asOfTxid == {"words": 6, "more": 6}
        times = [running.state("counts", asOf=txid).get("owl") for txid in (5, 6)]
        assert times == [1, 2]
    assert seen == [1, 2, 3, 5, 6]
    written = sorted(path.name for path in (tmp_path / "out").rglob("*.parquet"))
    assert len(written) == 5, written


def test_each_state_of_a_large_program_is_restored(tmp_path: Path, shared_redis: RedisServer) -> None:
    """States in five kinds of stores, one of them in a second stage, over a source whose replays differ."""
    url, start = shared_redis.url, functools.partial(forking.start, "first")
    with start(forking.TOTAL, url, tmp_path) as running:
        assert forking.found(running) == forking.expected(forking.TOTAL)
        running.savepoint("mid")
    with start(forking.MORE, url, tmp_path) as running:
        assert forking.found(running) == forking.expected(forking.MORE)
    restoreTopology("first", "mid", tmp_path)
    with start(forking.TOTAL, url, tmp_path) as running:
        assert forking.found(running) == forking.expected(forking.TOTAL)
    for _ in range(2):
        with start(forking.MORE, url, tmp_path) as running:
            assert forking.found(running) == forking.expected(forking.MORE)


def test_windows_joins_and_duplicates_are_restored_with_their_memory(tmp_path: Path) -> None:
    at = [datetime.fromtimestamp(second, UTC) for second in range(60)]
    rows: list[Any] = [[("a", 1, at[0]), ("a", 1, at[0]), ("b", 2, at[5])], [("a", 3, at[12]), ("b", 2, at[5])]]
    more: list[Any] = [*rows, [("a", 4, at[14]), ("b", 2, at[5])], [("c", 5, at[40])], [("d", 6, at[59])]]

    def program(batches: list[Any]) -> TridentTopology:
        topology = TridentTopology()
        spout = FixedBatchSpout("word string, n long, at timestamp", batches)
        stream = topology.newStream("words", spout).dropDuplicates(["word", "n"], MemoryMapState.opaque(), name="once")
        window = TumblingEventTimeWindow(10, "at")
        windows = stream.groupBy("word").window(window, MemoryMapState.opaque(), "n", Sum(), "sum", name="tens")
        windows.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "sum", Sum(), "sum", name="sums")
        return topology

    save(program(rows), tmp_path)
    expected = contents(program(more), "first", tmp_path, "sums")
    assert expected == {"a": 8, "b": 2, "c": 5}
    restoreTopology("first", "before", tmp_path)
    assert contents(program(more), "first", tmp_path, "sums") == expected


def test_states_that_the_savepoint_lacks_begin_empty_and_dropped_ones_come_back(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    def program(batches: list[Any], *names: str) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string", batches)).groupBy("word")
        for name in names:
            store = RedisMapState.opaque(shared_redis.url) if name == "added" else MemoryMapState.opaque()
            stream.persistentAggregate(store, Count(), "n", name=name)
        return topology

    save(program(BATCHES, "counts", "gone"), tmp_path)
    assert contents(program(LATER, "counts", "gone", "added"), "first", tmp_path, "added") == {"dog": 1, "cow": 1}
    dropState("first", "gone", tmp_path)
    restoreTopology("first", "before", tmp_path)
    with start_local(program(OTHER, "counts", "gone", "added"), name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == read(running, "gone") == {**SAVED, "owl": 2}
        assert read(running, "added") == {"owl": 2}


def test_a_large_state_is_in_files_that_the_next_run_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", 10)
    save(words(), tmp_path)
    contents(words(LATER), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    assert contents(words(OTHER), "first", tmp_path) == {**SAVED, "owl": 2}
    snapshots = tmp_path / "first" / "states" / "counts"
    named = json.loads(_manifest(tmp_path))["segments"] if snapshots.exists() else []
    assert len(list(snapshots.iterdir())) <= max(1, len(named)), "the snapshots from before the restore are deleted"


def _manifest(where: Path) -> bytes:
    log = SqliteLog(where / "first" / "log.sqlite", "first", reading=True)
    return log.manifest("counts") or b'{"segments": []}'


@pytest.mark.parametrize("kind", sorted(STATES.keys() - {"non-transactional memory"}))
def test_a_changed_program_may_follow_and_a_former_one(kind: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    several, evolve = {"n": Count(), "sum": Sum("n")}, Evolution("long", lambda n: (n, 1000 * n), by="Count")
    factory = STATES[kind](shared_redis.url, tmp_path)
    rows: list[Any] = [[("a", 1), ("b", 2)], [("a", 3)]]
    more = [*rows, [("a", 5)]]

    def program(batches: list[Any], of: Any, **how: Any) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string, n long", batches)).groupBy("word")
        given = () if isinstance(of, dict) else ("n",)
        stream.persistentAggregate(factory, of, *given, name="counts", **how)
        return topology

    save(program(rows, Count()), tmp_path)
    evolved = {"a": (3, 2005), "b": (1, 1000)}
    for _ in range(2):
        found = contents(program(more, several, evolve=evolve), "first", tmp_path)
        assert {key: tuple(value) for key, value in found.items()} == evolved
        restoreTopology("first", "before", tmp_path)
        with pytest.raises(StateShapeError, match=r"state 'counts' has .* but the topology declares"):
            contents(program(more, several), "first", tmp_path)
    assert contents(program(more, Count()), "first", tmp_path) == {"a": 3, "b": 1}


def test_open_readers_of_a_state_end(tmp_path: Path) -> None:
    save(words(), tmp_path)
    contents(words(LATER), "first", tmp_path)
    with (
        openState("first", "counts", tmp_path) as held,
        openTopology(words(), name="first", checkpointLocation=tmp_path) as opened,
    ):
        assert dict(held.items()) == dict(opened.state("counts").items()) == WHOLE
        restoreTopology("first", "before", tmp_path)
        assert contents(words(OTHER), "first", tmp_path) == {**SAVED, "owl": 2}
        with pytest.raises(StateEndedError, match=r"recreated after txid 4: open it again"):
            held.get("dog")
    with openState("first", "counts", tmp_path) as held:
        assert dict(held.items()) == {**SAVED, "owl": 2}


@pytest.mark.parametrize("kind", ["memory", "redis", "sqlite", "delta"])
def test_reads_as_of_earlier_batches_and_times_are_refused(
    kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The restored state was created empty, one txid earlier: it would seem to have been empty then."""
    state = functools.partial(STATES[kind], shared_redis.url, tmp_path)
    save(words(state=state()), tmp_path)
    contents(words(LATER, state()), "first", tmp_path)
    then = datetime.now(UTC)
    restoreTopology("first", "before", tmp_path)
    with start_local(words(state=state()), name="first", checkpointLocation=tmp_path, active=False) as running:
        for asOf in (3, 2, "previous", then):
            with pytest.raises(TxidNotKeptError):
                running.state("counts", asOf=asOf).get("dog")
        assert running.state("counts", asOf=4).get("dog") == 2
    with start_local(words(OTHER[:3], state()), name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == {**SAVED, "owl": 1}
        assert dict(running.state("counts", asOf="previous").items()) == SAVED


@pytest.mark.parametrize("kind", ["redis", "sqlite", "delta"])
def test_readers_that_know_the_log_wait_for_the_restored_values(
    kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """Before the next start the store has the former values, and within that start it is empty for a moment."""
    state = functools.partial(STATES[kind], shared_redis.url, tmp_path)
    where: dict[str, Any] = {"url": shared_redis.url} if kind == "redis" else {"factory": state()}

    def refused() -> None:
        with (
            pytest.raises(StateRecoveringError, match=r"was restored, .* as of txid 4, but its store is at txid 3"),
            openState("first", "counts", tmp_path, **where) as held,
        ):
            dict(held.items())
        with (
            pytest.raises(StateRecoveringError, match=r"was restored, .* as of txid 4"),
            openTopology(words(state=state()), name="first", checkpointLocation=tmp_path) as opened,
        ):
            dict(opened.state("counts").items())

    save(words(state=state()), tmp_path)
    contents(words(LATER, state()), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    refused()
    killed("start.done", lambda: contents(words(OTHER, state()), "first", tmp_path))
    refused()
    assert contents(words(OTHER, state()), "first", tmp_path) == {**SAVED, "owl": 2}
    with openState("first", "counts", tmp_path, **where) as held:
        assert dict(held.items()) == {**SAVED, "owl": 2}


@pytest.mark.parametrize("kind", ["redis", "sqlite", "delta"])
def test_readers_that_are_open_at_a_restore_notice_it(
    kind: str, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident.access.opened_state._LOOK_SECS", 0.0)
    state = functools.partial(STATES[kind], shared_redis.url, tmp_path)
    where: dict[str, Any] = {"url": shared_redis.url} if kind == "redis" else {"factory": state()}
    save(words(state=state()), tmp_path)
    contents(words(LATER, state()), "first", tmp_path)
    with (
        openState("first", "counts", tmp_path, **where) as held,
        openState("first", "counts", tmp_path, **where, isolation="latest") as latest,
        openTopology(words(state=state()), name="first", checkpointLocation=tmp_path) as opened,
    ):
        views: list[Any] = [held, latest, opened.state("counts")]
        former = [(dict(view.items()), view["dog"]) for view in views]
        assert former[0] == former[1] == former[2] and former[0][0] != SAVED
        restoreTopology("first", "before", tmp_path)
        reads: list[Callable[[Any], object]] = [lambda view: dict(view.items()), lambda view: view["dog"], len]
        for view, read_once in itertools.product(views, reads):
            with pytest.raises(
                StateRecoveringError, match=r"was restored, .* as of txid 4, but its store is at txid 3"
            ):
                read_once(view)


def test_an_output_of_changes_has_to_be_filled_again(tmp_path: Path) -> None:
    def program(batches: list[Any]) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("rows", FixedBatchSpout("id int, n int", batches))
        table = stream.toTable("id", MemoryMapState.opaque(), valueFields="n", name="table")
        table.changes().writeDelta(str(tmp_path / "out"), key="id", name="out")
        stream.writeDelta(str(tmp_path / "rows"), key="id", name="plain")
        return topology

    save(program([[(1, 10)]]), tmp_path)
    with pytest.warns(RuntimeWarning) as warned:
        restoreTopology("first", "before", tmp_path)
    (text,) = [str(each.message) for each in warned]
    assert "output 'out' of topology 'first' has rows of 'table' from before the restore" in text


def test_a_backfill_that_a_start_left_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has read up to the positions from before the restore."""
    files = tmp_path / "in"
    files.mkdir()

    def write(name: str, *words: str) -> None:
        (files / name).write_text("".join(f"{word}\n" for word in words))

    def program(*names: str) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("words", FileSpout(files / "*")).groupBy("line")
        for name in names:
            stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name, backfill=name == "again")
        return topology

    write("a", "dog", "cat", "dog")
    save(program("counts"), tmp_path)
    write("b", "cow", "cow")
    contents(program("counts"), "first", tmp_path)
    killed("start.backfilled", lambda: contents(program("counts", "again"), "first", tmp_path))
    assert (tmp_path / "first" / "backfill").exists()
    restoreTopology("first", "before", tmp_path, force=True)
    (files / "b").unlink()
    write("c", "owl", "owl")
    with start_local(program("counts", "again"), name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == read(running, "again") == {**SAVED, "owl": 2}

    dropState("first", "again", tmp_path)
    write("d", "emu")
    contents(program("counts"), "first", tmp_path)
    catch_up = backfill.Backfill.catch_up

    def restored_after(self: backfill.Backfill, log: TransactionLog) -> bool:
        if caught_up := catch_up(self, log):  # not the start of the run itself
            restoreTopology("first", "before", tmp_path, force=True)
            (files / "d").unlink()
        return caught_up

    monkeypatch.setattr(backfill.Backfill, "catch_up", restored_after)
    assert contents(program("counts", "again"), "first", tmp_path, "again") == {**SAVED, "owl": 2}
    assert (
        "'first' was restored, or states came or went, during the backfill of again, which begins again" in caplog.text
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_topology_that_a_driver_holds_is_refused(tmp_path: Path) -> None:
    save(words(), tmp_path)
    with (
        start_local(words(), name="first", checkpointLocation=tmp_path),
        pytest.raises(TopologyActiveError, match="'first' is active in this process"),
    ):
        restoreTopology("first", "before", tmp_path, force=True)
    log = SqliteLog(tmp_path / "first" / "log.sqlite", "first")
    log.take()  # as by a driver that was killed
    log.close()
    with pytest.raises(SavepointError, match=r"a driver holds topology 'first' \(epoch \d+\): .* use force"):
        restoreTopology("first", "before", tmp_path)
    restoreTopology("first", "before", tmp_path, force=True)
    assert contents(words(LATER), "first", tmp_path) == WHOLE


def test_a_waiting_batch_is_committed_first(tmp_path: Path) -> None:
    save(words(), tmp_path)
    killed("freeze.after", lambda: contents(words(LATER), "first", tmp_path))
    for force in (False, True):
        with pytest.raises(
            SavepointError, match=r"batch 3 of group 'words' is frozen but not committed|a driver holds"
        ):
            restoreTopology("first", "before", tmp_path, force=force)
    with start_local(words(LATER), name="first", checkpointLocation=tmp_path, active=False) as running:
        wait_until(lambda: running.asOfTxid == {"words": 3})
    restoreTopology("first", "before", tmp_path)
    assert contents(words(OTHER), "first", tmp_path) == {**SAVED, "owl": 2}


def test_names_and_places_that_are_refused(tmp_path: Path) -> None:
    save(words(), tmp_path)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    contents(words(LATER), "first", tmp_path)
    refused = functools.partial(pytest.raises, SavepointError)
    with refused(match=r"no savepoint 'befor' at .*; did you mean 'before'\?"):
        restoreTopology("first", "befor", tmp_path)
    with pytest.raises(TopologyError, match="give the location of the savepoints"):
        restoreTopology("first", "before")
    with pytest.raises(TopologyError, match=r"anew='word': the topology has no stream .*; did you mean 'words'\?"):
        restoreTopology("first", "before", tmp_path, anew=["word"])
    with pytest.raises(TopologyError, match=r"keepPositions='x': the topology has no stream"):
        restoreTopology("first", "before", tmp_path, keepPositions=["x"])
    with pytest.raises(TopologyError, match="anew and keepPositions both name stream 'words'"):
        restoreTopology("first", "before", tmp_path, anew=["words"], keepPositions=["words"])
    assert contents(words(LATER), "first", tmp_path) == WHOLE, "nothing was changed"
    with start_local(words(LATER), name="first", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        running.savepoint("later")
    savepoints = tmp_path / "first" / "savepoints"
    (tmp_path / "copy").rename(tmp_path / "older")
    shutil.rmtree(tmp_path / "older" / "savepoints")
    shutil.copytree(savepoints, tmp_path / "older" / "savepoints")
    shutil.rmtree(tmp_path / "first")
    (tmp_path / "older").rename(tmp_path / "first")
    with refused(match=r"'later' is as of batch 3 of group 'words', which the log .* does not have: .* an older copy"):
        restoreTopology("first", "later", tmp_path)
    shutil.copytree(savepoints, tmp_path / "saved")
    words().reset("first", checkpointLocation=tmp_path)
    contents(words(), "first", tmp_path)
    shutil.copytree(tmp_path / "saved", savepoints)
    with refused(match=r"'before' was taken from another log \(uuid .* with forkTopology"):
        restoreTopology("first", "before", tmp_path)
    (tmp_path / "first" / "log.sqlite").unlink()
    with pytest.raises(LogError, match="first"):
        restoreTopology("first", "before", tmp_path)


def test_a_damaged_savepoint_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    save(words(), tmp_path)
    contents(words(LATER), "first", tmp_path)
    (file,) = (tmp_path / "first" / "savepoints").rglob("*.arrow")
    file.unlink()
    with pytest.raises(SavepointError, match=r"is damaged: .*is missing"):
        restoreTopology("first", "before", tmp_path)
    assert contents(words(LATER), "first", tmp_path) == WHOLE


# --- interruptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["restore.taken", "restore.files", "restore.done"])
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_an_interrupted_restore_has_changed_nothing_or_everything(
    point: str, kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False) if kind == "redis" else None
    given: dict[str, Any] = {"log": log} if log else {}
    save(words(), tmp_path, **given)
    contents(words(LATER), "first", tmp_path, **given)
    killed(point, lambda: restoreTopology("first", "before", tmp_path, log=log))
    done = point == "restore.done"
    assert contents(words(OTHER), "first", tmp_path, **given) == {**(SAVED if done else WHOLE), "owl": 2 if done else 1}
    restoreTopology("first", "before", tmp_path, log=log)
    assert contents(words(OTHER), "first", tmp_path, **given) == {**SAVED, "owl": 2}


@pytest.mark.parametrize("kind", ["memory", "redis", "map"])
@pytest.mark.parametrize(
    "point", ["start.log.taken", "start.state.created", "start.done", "heal.applied", "freeze.after"]
)
def test_the_first_start_after_a_restore_may_be_killed(
    point: str, kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state = functools.partial(STATES[kind], shared_redis.url, tmp_path)
    save(words(state=state()), tmp_path)
    contents(words(LATER, state()), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    killed(point, lambda: contents(words(OTHER, state()), "first", tmp_path))
    for _ in range(2):
        assert contents(words(OTHER, state()), "first", tmp_path) == {**SAVED, "owl": 2}


def test_values_are_typed_as_before(tmp_path: Path) -> None:
    """An empty state, and one without key fields."""

    def program(batches: list[Any]) -> TridentTopology:
        topology = words(batches)
        stream = topology.newStream("all", FixedBatchSpout("word string", batches))
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="total")
        rare = stream.filter("word", lambda word: word == "owl").groupBy("word")
        rare.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="rare")
        return topology

    save(program(BATCHES), tmp_path)
    contents(program(OTHER), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    with start_local(program(BATCHES), name="first", checkpointLocation=tmp_path, active=False) as running:
        assert running.state("total").get(()) == 3 and dict(running.state("rare").items()) == {}
        assert running.state("counts").toArrow().schema.field("word").type == pa.string()
    with start_local(program(OTHER), name="first", checkpointLocation=tmp_path) as running:
        assert read(running, "rare") == {"owl": 2} and running.state("total").get(()) == 5
