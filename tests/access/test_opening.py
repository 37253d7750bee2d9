"""A state is opened by its name, while its topology is stopped or runs elsewhere, and only read."""

import contextlib
import functools
import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, Longest, counted, counting, everything, fixed
from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer, free_port
from tests.support.wall import Wall
from trident import Count, Sum, TridentDataSource, TridentTopology, dropState, openState
from trident.access.opened_state import FollowedStore
from trident.errors import (
    LogError,
    StateClosedError,
    StateEndedError,
    StateError,
    StateKeyError,
    StateKeyNotFoundError,
    StateLostError,
    StateRecoveringError,
    StateShapeError,
    StateUnavailableError,
    TopologyError,
)
from trident.log import RedisLog
from trident.log.sqlite_log import SqliteLog
from trident.run.start import LOG_FILE
from trident.spouts import FeederBatchSpout
from trident.state import BackingMapState, DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local
from trident_state.store_messages import GroupStatus

BATCHES = (["dog", "cat"], ["dog"], ["dog", "emu", None])
COUNTS = {"dog": 3, "cat": 1, "emu": 1, None: 1}


def redis_log(server: RedisServer) -> RedisLog:
    return RedisLog(server.url, requireDurable=False)


@pytest.mark.parametrize("kind", ["opaque", "transactional", "nonTransactional"])
@pytest.mark.parametrize("place", ["memory", "memory, log in redis", "redis", "redis json", "own"])
def test_a_stopped_topologys_state_reads_as_a_running_ones(
    tmp_path: Path, shared_redis: RedisServer, place: str, kind: str
) -> None:
    own = getattr(BackingMapState, kind)(functools.partial(SqliteMap, str(tmp_path / "own.db")))
    started: dict[str, Any] = {"checkpointLocation": tmp_path}
    where: dict[str, Any] = {"checkpointLocation": tmp_path}
    state = getattr(MemoryMapState, kind)()
    if place == "memory, log in redis":
        started["log"] = where["log"] = redis_log(shared_redis)
    elif place.startswith("redis"):
        options = {"values": "json", "groups": 4} if place == "redis json" else {}
        state = getattr(RedisMapState, kind)(shared_redis.url, prefix="own", buckets=64, **options)
        where = {"url": shared_redis.url, "prefix": "own"}
    elif place == "own":
        state, where = own, {"factory": own}
    counted(counting(fixed(*BATCHES), state), **started)
    files, keys = everything(tmp_path), dumped(shared_redis)
    with openState("wc", "counts", **where) as counts:
        assert dict(counts.items()) == COUNTS and sorted(map(str, counts)) == sorted(map(str, COUNTS))
        assert counts["dog"] == 3 and counts.get("gnu") is None and "cat" in counts and counts[None] == 1
        assert counts.multiGet(["emu", "gnu"]) == [1, None]
        assert (counts.kind.value, counts.name, counts.topology) == (kind, "counts", "wc")
        with pytest.raises(StateKeyNotFoundError, match="state 'counts' has no value for the key 'gnu'"):
            counts["gnu"]
        with pytest.raises(StateKeyError, match=r"invalid key 1 \(int\): expected word string"):
            counts[1]
        frame = counts.toPandas()
        assert dict(zip(frame["word"], frame["value"], strict=True)) == COUNTS
        assert counts.toArrow(limit=2).num_rows == 2
        latest = kind == "nonTransactional"
        assert (counts.asOfTxid, frame.attrs) == ((None, {}) if latest else (3, {"asOfTxid": 3}))
        with openState("wc", "counts", **where, isolation="latest") as other:
            assert dict(other.items()) == COUNTS and other.asOfTxid is None
    assert everything(tmp_path) == files and dumped(shared_redis) == keys, "reading changed something"
    with pytest.raises(StateClosedError, match="state 'counts' was closed; open it again"):
        counts["dog"]
    counts.close()
    assert repr(counts) == "OpenedState('wc/counts', closed)"


def dumped(server: RedisServer) -> dict[bytes, Any]:
    return {name: server.client.dump(name) for name in server.client.keys("*")}


def test_a_global_state_and_one_of_several_key_fields(tmp_path: Path) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", fixed([("a", 1, 5.0), ("b", 1, 2.0)], fields="value string, n long, x double"))
    rows.groupBy("value, n").persistentAggregate(MemoryMapState.opaque(), "x", Sum(), "sum", name="by")
    rows.persistentAggregate(MemoryMapState.opaque(), "x", Sum(), "sum", name="all")
    counted(topology, checkpointLocation=tmp_path)
    with openState("wc", "by", tmp_path) as by, openState("wc", "all", tmp_path) as total:
        assert by["a", 1] == 5.0 and total.value == 7.0
        assert by.toArrow().column_names == ["value", "n", "_value"]
        assert repr(by) == "OpenedState('wc/by', opaque, value string, n bigint -> _value double, as of txid 1)"


@pytest.mark.parametrize("log_in_redis", [False, True], ids=["sqlite", "redis"])
def test_a_copy_in_memory_follows_its_driver_batch_by_batch(
    tmp_path: Path, shared_redis: RedisServer, log_in_redis: bool
) -> None:
    log = redis_log(shared_redis) if log_in_redis else None
    fed = Fed(checkpointLocation=tmp_path, log=log)
    with fed.running, openState("wc", "counts", tmp_path, log=log) as counts:
        assert dict(counts.items()) == {} and counts.asOfTxid == 0
        for txid in range(1, 6):
            fed.feed("dog", f"w{txid}")
            assert (counts["dog"], counts.asOfTxid) == (txid, txid)
        fed.running._context.begun.stores["counts"].snapshot()  # what the copy was made from is replaced
        fed.feed("dog")
        assert counts["dog"] == 6 and len(dict(counts.items())) == 6
        with openState("wc", "counts", tmp_path, log=log) as another:
            assert dict(another.items()) == dict(counts.items())


def test_a_copy_that_fell_behind_what_the_log_keeps_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(checkpointLocation=tmp_path)
    with fed.running, openState("wc", "counts", tmp_path) as counts:
        assert counts.asOfTxid == 0
        for _ in range(5):
            fed.feed("dog")
        fed.running._context.begun.stores["counts"].snapshot()
        run = fed.running._runs["words"]
        run._context.log.trim(run._context.lease, "words", 5, 0, 0)
        assert run._context.log.kept_since("words") == 5
        assert counts["dog"] == 5
        fed.feed("dog")
        assert counts["dog"] == 6


def test_a_reader_beside_a_writer_never_sees_half_a_batch_nor_goes_back(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """Every batch adds 1 to each of 50 words; in Redis over four hash-tag groups."""
    pairs, over = [f"w{n}" for n in range(50)], threading.Event()
    feeder = FeederBatchSpout("word string")
    server = RedisMapState.opaque(shared_redis.url, buckets=64, groups=4)
    topology = counting(feeder, MemoryMapState.opaque(), far=server)
    failures: list[BaseException] = []

    def read(view: Any) -> None:
        last = 0
        try:
            while not over.is_set():
                found = set(view.multiGet(pairs))
                assert len(found) == 1 and last <= max(found), (found, last)
                last = max(found)
            assert last > 5
        except BaseException as error:
            failures.append(error)

    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(pairs, wait=True, timeout=20)
        near, far = openState("wc", "counts", tmp_path), openState("wc", "far", url=shared_redis.url)
        readers = [threading.Thread(target=read, args=(view,)) for view in (near, far)]
        for reader in readers:
            reader.start()
        for _ in range(30):
            feeder.feed(pairs, wait=True, timeout=20)
        over.set()
        for reader in readers:
            reader.join()
        assert not failures, failures
        running.processAllAvailable(timeout=20)
        assert set(near.multiGet(pairs)) == set(far.multiGet(pairs)) == {31}
        near.close()
        far.close()


@pytest.mark.filterwarnings("ignore:state .counts. is new")
@pytest.mark.parametrize("place", ["file", "redis"])
@pytest.mark.parametrize("how", ["dropped", "reset"])
def test_a_copy_takes_nothing_of_another_state_of_its_name(
    tmp_path: Path, shared_redis: RedisServer, how: str, place: str
) -> None:
    where: dict[str, Any] = {"checkpointLocation": tmp_path}
    if place == "redis":
        where["log"] = redis_log(shared_redis)
    counted(counting(fixed(["dog"], ["dog"])), **where)
    with openState("wc", "counts", **where) as counts:
        assert counts["dog"] == 2
        if how == "dropped":
            dropState("wc", "counts", **where)
        else:
            counting(fixed()).reset("wc", **where)
        with pytest.raises((StateError, LogError), match="dropped while it was open|there is no log|does not exist"):
            counts.get("dog")
        more = (["dog"], ["dog"], ["dog"], ["cat"], ["dog"])
        counted(counting(fixed(*more)), **where)
        with pytest.raises(StateError, match=r"'counts' was dropped while it was open, and .* open it again"):
            counts.get("dog")
    with openState("wc", "counts", **where) as counts:
        assert dict(counts.items()) == ({"dog": 2, "cat": 1} if how == "dropped" else {"dog": 4, "cat": 1})


@pytest.mark.filterwarnings("ignore:state .counts. is new")
def test_a_copy_that_was_not_asked_while_its_state_was_dropped_says_so(tmp_path: Path) -> None:
    counted(counting(fixed(["dog"], ["dog"])), checkpointLocation=tmp_path)
    with openState("wc", "counts", tmp_path) as counts:
        assert counts["dog"] == 2
        dropState("wc", "counts", tmp_path)
        counted(counting(fixed(["dog"], ["dog"], ["dog"])), checkpointLocation=tmp_path)
        with pytest.raises(StateError, match="recreated after txid 2"):
            dict(counts.items())


def test_a_scan_of_a_state_in_redis_tells_from_which_txid_to_which_it_is(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trident.reads import committed_reads

    fed = Fed(RedisMapState.opaque(shared_redis.url, buckets=64), checkpointLocation=tmp_path)
    with fed.running, openState("wc", "counts", url=shared_redis.url) as counts:
        fed.feed(*[f"w{n}" for n in range(400)])
        store = counts._followed.paged  # type: ignore[attr-defined]
        whole = store.scan_by_page(1, 10)
        pages = [next(whole)]
        for _ in range(4):  # more than a read as of one txid survives
            fed.feed("w1")
        pages += list(whole)
        assert {txid for txid, _ in pages} == {1, 5} and sum(page.num_rows for _, page in pages) == 400
        monkeypatch.setattr(
            store.__class__, "scan_by_page", lambda self, least, pageRows=committed_reads.FREE_ROWS: iter(pages)
        )
        assert counts.toPandas().attrs == {"asOfTxid": 1, "toTxid": 5}


def test_a_copy_forgets_as_its_driver_does_also_after_another_rule_was_set(tmp_path: Path) -> None:
    wall = Wall()
    for life, words in ((60, ["a"]), (10, ["b"])):
        fed = Fed(MemoryMapState.opaque(ttlSecs=life), checkpointLocation=tmp_path, clock=wall)
        with fed.running, openState("wc", "counts", tmp_path) as counts:
            fed.feed(*words)
            wall.advance(20)
            fed.feed("c")
            wall.advance(45)
            fed.feed("d")
            assert dict(counts.items()) == dict(fed.running.state("counts").items())
            assert ("c" in counts) == (life == 60)


# --- a driver that was killed ---------------------------------------------------------------------------------------


def _killed(folder: str, longest: bool) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", fixed(*([word] for word in ("a", "bb", "ccc", "bb"))))
    how, fields = (Longest(), "out string") if longest else (None, None)
    if how is not None:
        words.each("word", lambda word: "k", "key string").groupBy("key").persistentAggregate(
            MemoryMapState.opaque(), "word", how, fields, name="counts"
        )
    else:
        topology = counting(fixed(*([word] for word in ("a", "bb", "ccc", "bb"))))
    running = start_local(topology, name="wc", checkpointLocation=folder)
    running.processAllAvailable(timeout=20)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_a_driver(folder: Path, longest: bool = False) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(str(folder), longest))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_what_a_killed_driver_had_committed_is_read_from_its_frozen_batches(tmp_path: Path) -> None:
    kill_a_driver(tmp_path)
    files = everything(tmp_path)
    with openState("wc", "counts", tmp_path) as counts:
        assert dict(counts.items()) == {"a": 1, "bb": 2, "ccc": 1} and counts.asOfTxid == 4
    assert {name: content for name, content in everything(tmp_path).items() if not name.endswith("-shm")} == {
        name: content for name, content in files.items() if not name.endswith("-shm")
    }


def test_a_combiner_of_ones_own_must_be_given_where_batches_are_to_be_combined(tmp_path: Path) -> None:
    kill_a_driver(tmp_path, longest=True)
    message = r"'counts': its snapshot is at txid 0, the log is at 1.*only Longest can.*aggregator=Longest\(\)"
    with pytest.raises(StateShapeError, match=message):
        openState("wc", "counts", tmp_path)
    with pytest.raises(TopologyError, match=r"aggregator=Longest is a class; give an instance, Longest\(\)"):
        openState("wc", "counts", tmp_path, aggregator=Longest)
    with pytest.raises(StateShapeError, match="state 'counts' was written with the aggregator Longest, not with Sum"):
        openState("wc", "counts", tmp_path, aggregator=Sum())
    with openState("wc", "counts", tmp_path, aggregator=Longest()) as counts:
        assert counts["k"] == "CCC", "presented, too"
        assert dict(counts.items()) == {"k": "CCC"}


def test_a_state_whose_combiner_is_not_known_here_is_read_where_nothing_is_to_be_combined(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    for state, where in (
        (MemoryMapState.opaque(), {"checkpointLocation": tmp_path}),
        (RedisMapState.opaque(shared_redis.url), {"url": shared_redis.url}),
    ):
        topology = TridentTopology()
        words = topology.newStream("words", fixed(["a", "bbb"], ["cc"]))
        words.persistentAggregate(state, "word", Longest(), "out string", name="longest")
        with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
        with openState("wc", "longest", **where) as longest:  # type: ignore[arg-type]
            assert longest.value == "bbb"
        topology.reset("wc", tmp_path)


# --- states in tables, by the checkpoint alone ----------------------------------------------------------------------

SECRET = "a-secret-of-the-store"


@pytest.mark.parametrize(
    ("which", "inRedis"),
    [("delta opaque", False), ("delta transactional", True), ("sqlite opaque", True), ("sqlite transactional", False)],
)
def test_a_state_in_tables_is_found_by_its_log(
    which: str, inRedis: bool, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that the program names is relative to the folder in which it was started."""
    log = redis_log(shared_redis) if inRedis else None
    (tmp_path / "program").mkdir()
    monkeypatch.chdir(tmp_path / "program")
    place, kind = which.split()
    if place == "delta":
        state = getattr(DeltaMapState, kind)("states", storageOptions={"AWS_SECRET_ACCESS_KEY": SECRET})
    else:
        state = getattr(SqliteMapState, kind)("states.db")
    counted(counting(fixed(["a", "b"], ["a"]), state), checkpointLocation=tmp_path / "log", log=log)
    monkeypatch.chdir(tmp_path)
    where: Any = {"log": log} if inRedis else {"checkpointLocation": tmp_path / "log"}
    with openState("wc", "counts", **where) as counts:
        assert (dict(counts.items()), counts.kind.value, counts.asOfTxid) == ({"a": 2, "b": 1}, kind, 2)
        assert counts.asOf("previous")["a"] == 1
    with pytest.raises(StateError, match="no state 'count' in topology 'wc'; did you mean 'counts'"):
        openState("wc", "count", **where)
    kept = shared_redis.held("trident:{wc}") if inRedis else everything(tmp_path / "log")
    assert kept and SECRET not in repr(kept)


def test_a_state_that_moved_is_found_at_its_new_place(tmp_path: Path) -> None:
    where = {"checkpointLocation": tmp_path / "log"}
    for folder in ("one", "two"):
        counted(counting(fixed(["a"]), DeltaMapState.opaque(tmp_path / folder)), **where)
        with openState("wc", "counts", **where) as counts:  # type: ignore[arg-type]
            assert counts["a"] == 1
        if folder == "one":
            os.rename(tmp_path / "one", tmp_path / "two")
    dropState("wc", "counts", factory=DeltaMapState.opaque(tmp_path / "two"), **where)  # type: ignore[arg-type]
    counted(counting(fixed(["a"], ["b"]), MemoryMapState.opaque()), **where)
    with openState("wc", "counts", **where) as counts:  # type: ignore[arg-type]
        assert dict(counts.items()) == {"b": 1}
    with contextlib.closing(SqliteLog(tmp_path / "log" / "wc" / LOG_FILE, "wc", reading=True)) as log:
        assert not [name for name in log.readings() if name.startswith("place ")]


def test_a_state_of_another_log_is_refused(tmp_path: Path) -> None:
    """The checkpoint was copied, and the topology was reset and began again."""
    topology = counting(fixed(["a"]), DeltaMapState.opaque(tmp_path / "states"))
    counted(topology, checkpointLocation=tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    topology.reset("wc", tmp_path / "log")
    counted(topology, checkpointLocation=tmp_path / "log")
    with openState("wc", "counts", tmp_path / "log") as counts:
        assert counts["a"] == 1
    with pytest.raises(StateError, match="has the state of another log: the topology"):
        openState("wc", "counts", tmp_path / "copy")


def test_a_delta_state_with_an_index_is_read_by_spark_and_by_its_index(tmp_path: Path) -> None:
    topology, state = TridentTopology(), DeltaMapState.opaque(tmp_path / "states")
    rows = [(1, "Rome"), (2, "Oslo"), (3, "Rome")]
    topology.newStream("s", fixed(rows, fields="id long, city string")).toTable("id", state, name="users", index="city")
    with start_local(topology, name="wc", checkpointLocation=tmp_path / "log") as running:
        running.processAllAvailable(timeout=20)
    with openState("wc", "users", tmp_path / "log") as users:
        assert [key for key, _ in users.by("city", "Rome")] == [1, 3]
    read = TridentDataSource({"path": "users", "checkpoint": str(tmp_path / "log")})
    reader = read.reader(read.schema())
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]  # type: ignore[union-attr]
    assert sorted(row["id"] for row in found) == [1, 2, 3]


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_told_with_what_is(tmp_path: Path, shared_redis: RedisServer) -> None:
    with pytest.raises(LogError, match=r"no topology 'wc' under .* \(there is none\)"):
        openState("wc", "counts", tmp_path)
    counted(counting(fixed(["a"]), far=RedisMapState.opaque(shared_redis.url)), checkpointLocation=tmp_path)
    with pytest.raises(LogError, match=r"no topology 'cw' under .* \(there is 'wc'\)"):
        openState("cw", "counts", tmp_path)
    with pytest.raises(
        StateError, match=r"no state 'count' in topology 'wc'; did you mean 'counts'\? \(it has counts, far"
    ):
        openState("wc", "count", tmp_path)
    with pytest.raises(StateError, match="'far' of topology 'wc' is not in this checkpoint.*Give url="):
        openState("wc", "far", tmp_path)
    with pytest.raises(
        StateError, match=r"no state 'counts' of topology 'wc' at redis://127.*prefix 'trident'.*listStates"
    ):
        openState("wc", "counts", url=shared_redis.url)
    with pytest.raises(LogError, match="the log of topology 'wc' does not exist"):
        openState("wc", "counts", tmp_path, log=redis_log(shared_redis))
    with pytest.raises(StateUnavailableError, match="does not answer"):
        openState("wc", "counts", url=f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(StateError, match="no state 'other' of topology 'wc' in BackingMapState"):
        openState("wc", "other", factory=BackingMapState.opaque(functools.partial(SqliteMap, str(tmp_path / "own.db"))))
    assert not (tmp_path / "cw").exists() and not shared_redis.client.exists("trident:{wc}:log:m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give the location of the states: checkpointLocation="),
        ({"url": "redis://a", "factory": MemoryMapState.opaque()}, "both name a store"),
        ({"log": "redis://a"}, "log= takes a RedisLog"),
        ({"url": "redis://a", "prefix": "a b"}, "cannot name a state"),
    ],
)
def test_a_place_that_is_none_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        openState("wc", "counts", **options)


def test_a_state_in_memory_needs_the_location_of_its_files(tmp_path: Path, shared_redis: RedisServer) -> None:
    log = redis_log(shared_redis)
    counted(counting(fixed(["a"])), checkpointLocation=tmp_path, log=log)
    with pytest.raises(TopologyError, match="give that location too"):
        openState("wc", "counts", log=log)


def test_a_state_in_memory_is_found_where_a_server_is_named_too(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where both places stand in the environment. What is on the server is read there."""
    states = {"there": RedisMapState.opaque(shared_redis.url)}
    counted(counting(fixed(["a"], ["a"]), None, **states), checkpointLocation=tmp_path / "c")
    monkeypatch.setenv("HOME", str(tmp_path))
    for where in (tmp_path / "c", "~/c", f"file://{tmp_path}/c"):  # as start takes it
        for name in ("counts", "there"):
            with openState("wc", name, where, url=shared_redis.url) as view:
                assert view["a"] == 2
    with pytest.raises(StateError, match="no state 'three' of topology 'wc' at redis://"):
        openState("wc", "three", tmp_path / "c", url=shared_redis.url)


def test_a_folder_without_its_log_hints_at_a_log_in_redis(tmp_path: Path, shared_redis: RedisServer) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False)
    counted(counting(fixed(["a"])), checkpointLocation=tmp_path, log=log)
    with pytest.raises(LogError, match=r"no topology 'wc' under .*wc exists but has no log: .* give log= too"):
        openState("wc", "counts", tmp_path)
    with openState("wc", "counts", tmp_path, url=shared_redis.url, log=log) as view:
        assert view["a"] == 1


def test_a_lost_snapshot_file_is_named(tmp_path: Path) -> None:
    counted(counting(fixed(["a"])), checkpointLocation=tmp_path)
    for path in (tmp_path / "wc" / "states" / "counts").iterdir():
        path.unlink()
    with pytest.raises(StateLostError, match=r"file .*arrow of its snapshot at txid 1 is missing"):
        openState("wc", "counts", tmp_path)


def test_a_server_that_fell_back_is_waited_for_and_never_shown(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "none") as server:
        state = RedisMapState.opaque(server.url)
        with pytest.warns(RuntimeWarning):
            counted(counting(fixed(["a"], ["a"]), state), checkpointLocation=tmp_path / "c")
        with openState("wc", "counts", url=server.url) as counts:
            assert counts["a"] == 2
            server.client.hset("trident:{wc/counts}:m", "marker", 1)
            with pytest.raises(StateRecoveringError, match="is at txid 1, and an earlier read saw txid 2"):
                counts["a"]
            assert "is at txid 1" in repr(counts)
            server.client.flushall()
            with pytest.raises(StateRecoveringError, match="a part of it is missing"):
                counts["a"]


@pytest.mark.parametrize(("kind", "isolation"), [("nonTransactional", "committed"), ("opaque", "latest")])
def test_all_reads_of_latest_values_follow_the_driver(kind: str, isolation: Any, tmp_path: Path) -> None:
    topology, words = TridentTopology(), FeederBatchSpout("word string")
    counts = topology.newStream("words", words).groupBy("word")
    counts.persistentAggregate(getattr(MemoryMapState, kind)(), Count(), "count", name="counts")
    reads: list[Callable[[Any], object]] = [
        lambda state: sorted(state.items()),
        lambda state: state.toArrow().sort_by("word").to_pydict()["value"],
        lambda state: [value for _, value in state.range("a", "z")],
        lambda state: state.top(1),
        len,
        lambda state: state["a"],
    ]
    later = [[("a", 2), ("b", 1)], [2, 1], [2, 1], [("a", 2)], 2, 2]
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running, contextlib.ExitStack() as stack:
        words.feed(["a"], wait=True, timeout=60)
        opened = [stack.enter_context(openState("wc", "counts", tmp_path, isolation=isolation)) for _ in reads]
        for read, state in zip(reads, opened, strict=True):
            read(state)
        words.feed(["a", "b"], wait=True, timeout=60)
        running.processAllAvailable(timeout=60)
        assert [read(state) for read, state in zip(reads, opened, strict=True)] == later


def test_a_reader_of_a_topology_that_was_reset_ends(tmp_path: Path) -> None:
    counted(counting(fixed(["a"]), MemoryMapState.opaque()), checkpointLocation=tmp_path)
    with openState("wc", "counts", tmp_path) as state:
        assert state["a"] == 1
        counting(fixed(["a"]), MemoryMapState.opaque()).reset("wc", tmp_path)
        for _ in range(2):
            with pytest.raises(StateEndedError, match="the topology was reset while the state was open"):
                state["a"]


def test_a_slower_thread_takes_no_newer_batch_of_another_thread_for_one_that_was_lost() -> None:
    store: Any = MovingStore(1)
    followed = FollowedStore(store, "counts")
    assert followed.committed() == 1
    seen = list[int]()
    store.meanwhile = lambda: seen.append(followed.committed())
    assert followed.committed() == 2, "as of the newest batch that was seen"
    assert seen == [2]


class MovingStore:
    """A store whose marker moves after it was read, while the answer is on its way."""

    read = scan = close = None

    def __init__(self, marker: int) -> None:
        self.marker = marker
        self.meanwhile: Callable[[], object] | None = None

    def groups_of(self) -> tuple[GroupStatus, ...]:
        answer, meanwhile, self.meanwhile = (GroupStatus(None, self.marker, None),), self.meanwhile, None
        if meanwhile is not None:
            self.marker += 1
            meanwhile()
        return answer


def test_a_state_that_the_topology_gave_up_stands_where_it_was_last_written(tmp_path: Path) -> None:
    batches = [["a"], ["a"], ["a"]]
    counted(counting(fixed(*batches[:1]), other=MemoryMapState.opaque()), checkpointLocation=tmp_path)
    counted(counting(fixed(*batches)), checkpointLocation=tmp_path)
    with openState("wc", "other", tmp_path) as other, openState("wc", "counts", tmp_path) as counts:
        assert (other["a"], other.asOfTxid, counts["a"], counts.asOfTxid) == (1, 1, 3, 3)


def test_values_of_all_types_come_back_as_functions_see_them(tmp_path: Path, shared_redis: RedisServer) -> None:
    fields = "k struct<a: int, b: array<string>>, d decimal(10,2)"
    rows = [(((1, ["x"]), "1.25")), ((1, ["x"]), "2.50"), ((2, []), "1.00")]
    data = [({"a": key[0], "b": key[1]}, Decimal(text)) for key, text in rows]
    for state, where in (
        (MemoryMapState.opaque(), {"checkpointLocation": tmp_path}),
        (RedisMapState.opaque(shared_redis.url, values="json"), {"url": shared_redis.url}),
    ):
        topology = TridentTopology()
        stream = topology.newStream("rows", fixed(data, fields=fields))
        stream.groupBy("k").persistentAggregate(state, "d", Sum(), "sum", name="sums")
        with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
            expected = {json.dumps(key.asDict()): value for key, value in running.state("sums").items()}
        with openState("wc", "sums", **where) as sums:  # type: ignore[arg-type]
            assert {json.dumps(key.asDict()): value for key, value in sums.items()} == expected
            assert sums[{"a": 1, "b": ["x"]}] == Decimal("3.75")
        topology.reset("wc", tmp_path)
