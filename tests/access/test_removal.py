"""A state is dropped, and begins anew; not under the hands of a driver."""

import functools
import shutil
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, counted, counting, fixed
from tests.state.backing.maps import Meddled, PlainMap, SqliteMap
from tests.support.server import RedisServer
from trident import Count, Sum, TridentTopology, dropState, listStates, openState
from trident.access import removal
from trident.access.locations import read_location
from trident.base import crash_points
from trident.errors import FencedError, StateError, StateLostError, StateValueError, TopologyActiveError
from trident.log import RedisLog
from trident.log.sqlite_log import SqliteLog
from trident.run import registry
from trident.state import BackingMapState, DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState, StateIdentity
from trident.testing.local import start_local


@pytest.mark.parametrize("log", ["sqlite", "redis"])
@pytest.mark.parametrize("place", ["memory", "redis", "own", "delta", "sqlite"])
def test_a_dropped_state_begins_anew_with_the_next_batch_and_others_stay(
    tmp_path: Path, shared_redis: RedisServer, place: str, log: str
) -> None:
    own = BackingMapState.opaque(functools.partial(SqliteMap, str(tmp_path / "own.db")))
    state: Any = {
        "memory": MemoryMapState.opaque(),
        "redis": RedisMapState.opaque(shared_redis.url),
        "own": own,
        "delta": DeltaMapState.opaque(tmp_path / "tables"),
        "sqlite": SqliteMapState.opaque(tmp_path / "states.db"),
    }[place]
    its: dict[str, Any] = {"redis": {"url": shared_redis.url}, "own": {"factory": own}}.get(place, {})
    where: dict[str, Any] = {"checkpointLocation": tmp_path / "c"}
    if log == "redis":
        where["log"] = RedisLog(shared_redis.url, requireDurable=False)
    counted(counting(fixed(["a"], ["a"]), state, other=MemoryMapState.opaque()), **where)
    dropState("wc", "counts", **where, **its)
    assert [each.name for each in listStates(**where, topology="wc")] == ["other"]
    with pytest.raises(StateError, match="no state 'counts'"):
        openState("wc", "counts", **(its or where))
    with pytest.raises(StateError, match=r"has no state 'counts' \(it has other\); nothing was changed"):
        dropState("wc", "counts", **where, **its)
    counted(counting(fixed(["a"], ["a"], ["a", "b"]), state, other=MemoryMapState.opaque()), **where)
    with openState("wc", "counts", **(its or where)) as counts, openState("wc", "other", **where) as other:
        assert dict(counts.items()) == {"a": 1, "b": 1} and counts.asOfTxid == 3
        assert dict(other.items()) == {"a": 3, "b": 1}


@pytest.mark.filterwarnings("ignore:state .sums. is new")
@pytest.mark.parametrize("place", ["memory", "redis"])
def test_a_batch_that_one_state_can_never_hold_leaves_the_others_theirs(
    tmp_path: Path, shared_redis: RedisServer, place: str
) -> None:
    """The error names the way on that costs one state, and that way leads on."""

    def topology(*batches: Any) -> TridentTopology:
        made = TridentTopology()
        words = made.newStream("words", fixed(*batches, fields="word string, n long")).groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        state = MemoryMapState.opaque() if place == "memory" else RedisMapState.opaque(shared_redis.url)
        words.persistentAggregate(state, "n", Sum(), "sum", name="sums")
        return made

    batches = ([("a", 2**63 - 1)], [("a", 1), ("b", 1)], [("a", 5)])
    with pytest.raises(StateValueError, match=r"drop this state \(with dropState, it starts empty after the batch\),"):
        counted(topology(*batches), checkpointLocation=tmp_path)
    dropState("wc", "sums", tmp_path, force=True, **({} if place == "memory" else {"url": shared_redis.url}))
    with start_local(topology(*batches, [("c", 2)]), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 3, "b": 1, "c": 1}
        assert dict(running.state("sums").items())["c"] == 2, "batches that were frozen by then are not in it"


def test_a_state_that_a_driver_holds_is_not_touched(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(RedisMapState.opaque(shared_redis.url), checkpointLocation=tmp_path)
    fed.feed("a")
    with fed.running:
        with pytest.raises(TopologyActiveError, match="stop it before you drop a state"):
            dropState("wc", "counts", tmp_path, url=shared_redis.url)
        monkeypatch.setattr(registry, "running_here", list)  # as another process sees it
        keys = shared_redis.client.dbsize()
        with pytest.raises(StateError, match=r"a driver holds topology 'wc' \(epoch 1\): it is running, or was killed"):
            dropState("wc", "counts", tmp_path, url=shared_redis.url)
        with pytest.raises(StateError, match="only the log of topology 'wc' says whether a driver writes"):
            dropState("wc", "counts", url=shared_redis.url)
        with pytest.raises(StateError, match="state 'counts' is not in memory .*: give"):
            dropState("wc", "counts", tmp_path, force=True)
        assert shared_redis.client.dbsize() == keys and [each.name for each in listStates(tmp_path)] == ["counts"]
        fed.feed("a")
        assert fed.running.state("counts")["a"] == 2


@pytest.mark.parametrize("store", [DeltaMapState, SqliteMapState])
def test_a_state_in_a_table_is_dropped_with_its_watermark_by_the_place_that_the_log_has(
    tmp_path: Path, store: Any
) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", fixed([("a", datetime(2026, 1, 1))], fields="word string, at timestamp_ntz"))
    kept = words.dropDuplicates("word", store.opaque(tmp_path / "tables"), timestampField="at", within=60, name="seen")
    kept.peek(print)
    counted(topology, checkpointLocation=tmp_path / "c")
    assert {each.name for each in listStates(tmp_path / "c")} == {"seen", "seen.watermark"}
    with pytest.raises(StateError, match="is the watermark of state 'seen' and cannot be dropped separately"):
        dropState("wc", "seen.watermark", tmp_path / "c")
    dropState("wc", "seen", tmp_path / "c")
    assert listStates(tmp_path / "c") == []
    for name in ("seen", "seen.watermark"):
        with pytest.raises(StateError, match=f"no state {name!r}"):
            openState("wc", name, factory=store.opaque(tmp_path / "tables"))


@pytest.mark.parametrize("store", [DeltaMapState, SqliteMapState])
def test_a_table_that_is_gone_is_forgotten_by_force_alone(tmp_path: Path, store: Any) -> None:
    counted(counting(fixed(["a"]), store.opaque(tmp_path / "tables")), checkpointLocation=tmp_path / "c")
    (tmp_path / "tables").rename(tmp_path / "moved")
    with pytest.raises(StateError, match="has state 'counts' of topology 'wc', but it is not at .*MapState"):
        dropState("wc", "counts", tmp_path / "c")
    assert [each.name for each in listStates(tmp_path / "c")] == ["counts"]
    dropState("wc", "counts", tmp_path / "c", force=True)
    assert listStates(tmp_path / "c") == []


@pytest.mark.parametrize("place", ["redis", "own"])
def test_a_state_that_is_looked_for_in_the_wrong_place_is_not_forgotten(
    tmp_path: Path, shared_redis: RedisServer, place: str
) -> None:
    own = [BackingMapState.opaque(functools.partial(SqliteMap, str(tmp_path / name))) for name in ("right", "wrong")]
    state: Any = RedisMapState.opaque(shared_redis.url) if place == "redis" else own[0]
    wrong: dict[str, Any] = {"url": shared_redis.url, "prefix": "other"} if place == "redis" else {"factory": own[1]}
    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path / "c")
    with pytest.raises(
        StateError, match="the log has state 'counts' of topology 'wc', but it is not at .*: give its location"
    ):
        dropState("wc", "counts", tmp_path / "c", **wrong)
    assert [each.name for each in listStates(tmp_path / "c")] == ["counts"]
    counted(counting(fixed(["a"], ["a"]), state), checkpointLocation=tmp_path / "c")
    with openState("wc", "counts", **({"url": shared_redis.url} if place == "redis" else {"factory": own[0]})) as view:
        assert view["a"] == 2


def test_force_fences_a_driver_out_that_then_writes_nothing_any_more(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(RedisMapState.opaque(shared_redis.url), checkpointLocation=tmp_path)
    fed.feed("a")
    monkeypatch.setattr(registry, "running_here", list)
    over = threading.Event()

    def feed() -> None:
        while not over.is_set():
            fed.feeder.feed(["a"], timeout=0)
            over.wait(0.02)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
    finally:
        over.set()
        feeding.join()
    with pytest.raises(FencedError):
        fed.running.awaitTermination(20)
    assert shared_redis.client.dbsize() == 0, "nothing was written anew"
    monkeypatch.undo()
    again = counting(fed.feeder, RedisMapState.opaque(shared_redis.url))
    with start_local(again, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        fed.feeder.feed(["b"], wait=True, timeout=20)
        assert running.state("counts")["b"] == 1


def test_a_commit_that_hung_while_its_state_was_dropped_does_not_make_it_anew(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)
    fed = Fed(RedisMapState.opaque(shared_redis.url), checkpointLocation=tmp_path)
    fed.feed("a")
    hangs, goes_on = threading.Event(), threading.Event()

    def heard(point: str) -> None:
        if point == "commit.state.before":
            hangs.set()
            goes_on.wait(20)

    crash_points.listen(heard)
    try:
        fed.feeder.feed(["a"], timeout=0)
        assert hangs.wait(20)
        monkeypatch.setattr(registry, "running_here", list)
        dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
        goes_on.set()
        with pytest.raises(FencedError):
            fed.running.awaitTermination(20)
    finally:
        crash_points.listen(None)
        goes_on.set()
    assert shared_redis.client.dbsize() == 0


def test_the_last_write_to_a_plain_map_is_over_before_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a map refuses nothing, so that the driver must have noticed."""
    hangs, armed = threading.Event(), threading.Event()

    def before(write: int) -> None:
        if armed.is_set():
            armed.clear()
            hangs.set()
            time.sleep(0.5)

    def made(identity: StateIdentity) -> Any:
        return Meddled(PlainMap(str(tmp_path / "db"), identity), before)

    state = BackingMapState.opaque(made)
    fed = Fed(state, checkpointLocation=tmp_path / "c")
    fed.feed("a")
    armed.set()
    fed.feeder.feed(["a"], timeout=0)
    assert hangs.wait(20)
    monkeypatch.setattr(registry, "running_here", list)
    dropState("wc", "counts", tmp_path / "c", factory=state, force=True)
    with pytest.raises(FencedError):
        fed.running.awaitTermination(20)
    assert SqliteMap(str(tmp_path / "db"), StateIdentity("wc", "counts", "")).keys() == []


def test_without_a_log_force_fences_a_driver_out_too(tmp_path: Path, shared_redis: RedisServer) -> None:
    fed = Fed(RedisMapState.opaque(shared_redis.url), checkpointLocation=tmp_path)
    fed.feed("a")
    place = read_location(None, None, shared_redis.url, "trident")
    removal._drop_without_log(place, "wc", "counts", force=True)
    with pytest.raises(FencedError):
        fed.running.awaitTermination(20)
    assert shared_redis.client.dbsize() == 0


def test_without_a_log_force_drops_and_a_log_that_knows_better_refuses_the_next_start(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)
    state = RedisMapState.opaque(shared_redis.url)
    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path)
    dropState("wc", "counts", url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0
    with pytest.raises(StateError, match="no state 'counts' of topology 'wc' at the given location"):
        dropState("wc", "counts", url=shared_redis.url, force=True)
    with pytest.raises(StateLostError):
        counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)
    with pytest.raises(StateError, match=r"but it is not at redis://.*If it is already gone, .*use force"):
        dropState("wc", "counts", tmp_path, url=shared_redis.url)  # a refused start gives the log back
    dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
    counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("gone", [0, 1])
def test_what_is_left_of_a_state_is_dropped_with_its_url_alone(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, gone: int, log: bool
) -> None:
    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)
    state = RedisMapState.opaque(shared_redis.url, groups=2)
    counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)
    shared_redis.client.delete(*shared_redis.client.keys(f"*/{gone}}}:*"))
    with pytest.raises(
        StateLostError,
        match=r"is missing in .*, completely or in part.* dropState\(.* url= "
        r".*force=True",
    ):
        counted(counting(fixed(["a"], ["b"], ["c"]), state), checkpointLocation=tmp_path)
    dropState("wc", "counts", tmp_path if log else None, url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0
    if log:
        counted(counting(fixed(["a"], ["b"], ["c"]), state), checkpointLocation=tmp_path)
        with openState("wc", "counts", url=shared_redis.url) as counts:
            assert dict(counts.items()) == {"c": 1}


def test_a_state_that_is_declared_elsewhere_is_dropped_as_the_refusal_says(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """It lies where it was, which is not where the topology looks for it now."""
    on_server, in_memory = RedisMapState.opaque(shared_redis.url), MemoryMapState.opaque()
    counted(counting(fixed(["a"], ["b"]), on_server), checkpointLocation=tmp_path)
    with pytest.raises(StateLostError, match=r"dropState\(.*, url= or factory= \(its location\)\) and force=True"):
        counted(counting(fixed(["a"], ["b"], ["c"]), in_memory), checkpointLocation=tmp_path)
    dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0
    counted(counting(fixed(["a"], ["b"], ["c"]), in_memory), checkpointLocation=tmp_path)
    with pytest.raises(StateLostError, match=r"dropState\('wc', 'counts', checkpointLocation='[^']*'\)"):
        counted(counting(fixed(["a"], ["b"], ["c"], ["d"]), on_server), checkpointLocation=tmp_path)
    dropState("wc", "counts", tmp_path)
    counted(counting(fixed(["a"], ["b"], ["c"], ["d"]), on_server), checkpointLocation=tmp_path)
    with openState("wc", "counts", url=shared_redis.url) as counts:
        assert dict(counts.items()) == {"d": 1}


@pytest.mark.parametrize("step", ["drop", "forget"])
def test_a_drop_that_was_interrupted_is_done_by_the_next_one(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from trident_state.redis import RedisStore

    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)
    state = RedisMapState.opaque(shared_redis.url)
    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path)

    def fails(*args: Any) -> None:
        raise ConnectionError("pulled")

    with monkeypatch.context() as patching:
        patching.setattr(*((RedisStore, "drop", fails) if step == "drop" else (SqliteLog, "forget", fails)))
        with pytest.raises(ConnectionError, match="pulled"):
            dropState("wc", "counts", tmp_path, url=shared_redis.url)
    dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0 and listStates(tmp_path) == []


def test_a_drop_that_sleeps_after_the_log_forgot_leaves_the_next_life_its_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [[f"w{n}", "all"] for n in range(60)]
    forget = SqliteLog.forget

    def sleeps(log: SqliteLog, lease: Any, state: str) -> None:
        forget(log, lease, state)
        counted(counting(fixed(*batches), MemoryMapState.opaque()), checkpointLocation=tmp_path, rewindBytes=1)

    counted(counting(fixed(*batches[:2]), MemoryMapState.opaque()), checkpointLocation=tmp_path)
    monkeypatch.setattr(SqliteLog, "forget", sleeps)
    dropState("wc", "counts", tmp_path)
    counted(counting(fixed(*batches), MemoryMapState.opaque()), checkpointLocation=tmp_path)
    with openState("wc", "counts", tmp_path) as counts:
        assert counts["all"] == 58 and len(dict(counts.items())) == 59


def test_a_drop_that_sleeps_before_the_store_does_not_drop_the_next_life(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trident_state.redis import RedisStore

    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)
    state, drop = RedisMapState.opaque(shared_redis.url), RedisStore.drop

    def sleeps(store: RedisStore, lease: Any = None) -> None:
        monkeypatch.setattr(RedisStore, "drop", drop)
        dropState("wc", "counts", tmp_path, url=shared_redis.url, force=True)
        counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)
        drop(store, lease)

    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path)
    monkeypatch.setattr(RedisStore, "drop", sleeps)
    with pytest.raises(FencedError):
        dropState("wc", "counts", tmp_path, url=shared_redis.url)
    counted(counting(fixed(["a"], ["b"], ["b"]), state), checkpointLocation=tmp_path)
    with openState("wc", "counts", url=shared_redis.url) as counts:
        assert dict(counts.items()) == {"b": 2}


def test_a_state_of_this_log_that_the_log_does_not_know_is_dropped(tmp_path: Path, shared_redis: RedisServer) -> None:
    """A driver that slept through a drop, between its look at the log and its write to the store, founds it again."""
    state = RedisMapState.opaque(shared_redis.url)
    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path)
    held = {key: shared_redis.client.dump(key) for key in shared_redis.client.keys("*")}
    dropState("wc", "counts", tmp_path, url=shared_redis.url)
    for key, value in held.items():
        shared_redis.client.restore(key, 0, value)  # type: ignore[no-untyped-call]
    with pytest.raises(StateError, match="the log .* has no record of it"):
        counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)
    dropState("wc", "counts", tmp_path, url=shared_redis.url)
    assert shared_redis.client.dbsize() == 0
    counted(counting(fixed(["a"], ["b"]), state), checkpointLocation=tmp_path)


def test_a_state_of_another_log_is_dropped_by_force_alone(tmp_path: Path, shared_redis: RedisServer) -> None:
    state = RedisMapState.opaque(shared_redis.url)
    counted(counting(fixed(["a"]), MemoryMapState.opaque()), checkpointLocation=tmp_path / "one")
    counted(counting(fixed(["a"]), state), checkpointLocation=tmp_path / "two")
    keys = shared_redis.client.dbsize()
    with pytest.raises(
        StateError, match=r"at the given location belongs to another log \(uuid .* use force if that log is gone"
    ):
        dropState("wc", "counts", tmp_path / "one", url=shared_redis.url)
    assert shared_redis.client.dbsize() == keys
    dropState("wc", "counts", tmp_path / "one", url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0


@pytest.mark.parametrize("by", ["drop", "reset"])
@pytest.mark.parametrize("later", ["went on", "started again"])
@pytest.mark.parametrize("place", ["redis", "delta", "sqlite"])
def test_an_older_copy_of_the_log_drops_nothing_of_the_original(
    tmp_path: Path, shared_redis: RedisServer, place: str, later: str, by: str
) -> None:
    state: Any = {
        "redis": RedisMapState.opaque(shared_redis.url),
        "delta": DeltaMapState.opaque(tmp_path / "tables"),
        "sqlite": SqliteMapState.opaque(tmp_path / "states.db"),
    }[place]
    its: dict[str, Any] = {"url": shared_redis.url} if place == "redis" else {}
    first, copy = tmp_path / "first", tmp_path / "copy"

    def topology() -> TridentTopology:
        return counting(fixed(["a"], ["a"], ["b"]), state)

    with start_local(topology(), name="wc", checkpointLocation=first, active=False) as running:
        if later == "went on":
            subprocess.run(["cp", "-r", first, copy], check=True)
        running.activate()
        running.processAllAvailable(timeout=20)
    if later == "started again":
        shutil.copytree(first, copy)
        counted(topology(), checkpointLocation=first)

    def drop(force: bool) -> None:
        if by == "drop":
            dropState("wc", "counts", copy, force=force, **its)
        else:
            topology().reset("wc", copy, force=force)

    held = by == "drop" and later == "went on"  # the copy has the lease of the original's driver
    with pytest.raises(StateError, match="a driver holds topology" if held else "is an old copy, or a copy of it was"):
        drop(force=False)
    counted(topology(), checkpointLocation=first)
    with openState("wc", "counts", first, **its) as counts:
        assert dict(counts.items()) == {"a": 2, "b": 1}
    drop(force=True)
    with pytest.raises(StateLostError):
        counted(topology(), checkpointLocation=first)
