"""A state is founded in steps: the log notes its birth, its store is made, and the log notes that it was."""

import copy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import fixed
from tests.support.kills import Killed, killed
from tests.support.server import RedisServer
from trident import Count, Sum, TridentTopology, openState
from trident.base import crash_points
from trident.base.attempt import Lease
from trident.base.errors import LogMismatchError, StateLostError, StateOwnedError
from trident.batches import log_retention
from trident.log.sqlite_log import SqliteLog
from trident.run.start import LOG_FILE
from trident.state import DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing import DriverCrashedError, crash_at
from trident.testing.local import start_local
from trident_state.backing.store import BackingStore
from trident_state.delta.store import DeltaStore
from trident_state.redis.store import RedisStore


def counting(batches: list[list[str]], factory: Any = None) -> TridentTopology:
    """Words to an output, and counted where a factory is given."""
    topology = TridentTopology()
    stream = topology.newStream("words", fixed(*batches))
    stream.foreachArrow(lambda table, txid, attempt: None, name="out")
    if factory is not None:
        stream.groupBy("word").persistentAggregate(factory, Count(), "count", name="counts")
    return topology


def run(topology: TridentTopology, where: Path) -> None:
    with start_local(topology, name="wc", checkpointLocation=where) as running:
        running.processAllAvailable(timeout=20)


def kill_at(point: str, topology: TridentTopology, where: Path) -> None:
    killed(point, lambda: start_local(topology, name="wc", checkpointLocation=where))


@pytest.mark.filterwarnings("ignore:state .counts. is new", "ignore:state .counts.. appendonly is off")
@pytest.mark.parametrize("point", ["start.state.born", "start.state.created", "start.state.acquired"])
@pytest.mark.parametrize("place", ["memory", "redis"])
def test_a_state_whose_founding_was_interrupted_begins_anew_after_batches_without_it(
    tmp_path: Path, shared_redis: RedisServer, place: str, point: str
) -> None:
    factory = MemoryMapState.opaque() if place == "memory" else RedisMapState.opaque(shared_redis.url)
    kill_at(point, counting([["a"]], factory), tmp_path)
    run(counting([["a"]]), tmp_path)
    run(counting([["a"], ["a", "b"]], factory), tmp_path)
    place_of: dict[str, Any] = {"checkpointLocation": tmp_path} if place == "memory" else {"url": shared_redis.url}
    with openState("wc", "counts", **place_of) as counts:
        assert dict(counts.items()) == {"a": 1, "b": 1} and counts.asOfTxid == 2


@pytest.mark.parametrize("point", ["commit.before", "commit.state.after"])
def test_a_store_that_falls_back_to_an_interrupted_founding_is_made_again_while_no_batch_is_committed(
    tmp_path: Path, point: str
) -> None:
    """It lacks only the batch that waits. Nobody has dropped the state, so nobody can be asked to drop it again."""
    place, copied = tmp_path / "state.sqlite", tmp_path / "copied.sqlite"
    topology = counting([["a", "b"], ["a"]], SqliteMapState.opaque(place))
    kill_at("start.state.created", topology, tmp_path)
    shutil.copy(place, copied)
    with pytest.raises(DriverCrashedError), crash_at(point):
        run(topology, tmp_path)
    shutil.copy(copied, place)
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_that_falls_back_to_an_interrupted_founding_gets_all_batches_again_if_the_log_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    place, copied = tmp_path / "state.sqlite", tmp_path / "copied.sqlite"
    topology = counting([["a", "b"], ["a"], ["c"]], SqliteMapState.opaque(place))
    kill_at("start.state.created", topology, tmp_path)
    shutil.copy(place, copied)
    if not kept:
        trim = SqliteLog.trim
        monkeypatch.setattr(log_retention, "TRIM_EVERY", 1)
        monkeypatch.setattr(SqliteLog, "trim", lambda self, *where: trim(self, *where[:3], 0, 0))
    run(topology, tmp_path)
    shutil.copy(copied, place)
    if kept:
        with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
            assert dict(running.state("counts").items()) == {"a": 2, "b": 1, "c": 1}
        return
    for _ in range(2):
        with pytest.raises(StateLostError, match="or its first creation was interrupted.* only the batches after 3"):
            run(topology, tmp_path)


def summing(factory: Any) -> TridentTopology:
    topology = TridentTopology()
    counted = topology.newStream("words", fixed(["a"])).each("word", lambda word: 2, "n long")
    counted.groupBy("word").persistentAggregate(factory, Sum("n"), "count", name="counts")
    return topology


@pytest.mark.filterwarnings("ignore:state .counts. is new", "ignore:state .counts.. appendonly is off")
@pytest.mark.parametrize("former", ["a sum", "transactional"])
@pytest.mark.parametrize("point", ["start.state.born", "start.state.created", "start.state.acquired"])
@pytest.mark.parametrize("place", ["memory", "redis"])
def test_a_state_whose_founding_was_interrupted_begins_otherwise(
    tmp_path: Path, shared_redis: RedisServer, place: str, point: str, former: str
) -> None:
    """No batch was written to it, so a program with another aggregator or kind loses nothing of it."""

    def state(kind: str) -> Any:
        home = MemoryMapState if place == "memory" else RedisMapState
        return getattr(home, kind)(*() if place == "memory" else (shared_redis.url,))

    interrupted = summing(state("opaque")) if former == "a sum" else counting([["a"]], state("transactional"))
    kill_at(point, interrupted, tmp_path)
    for _ in range(2):
        run(counting([["a"], ["a", "b"]], state("opaque")), tmp_path)
    place_of: dict[str, Any] = {"checkpointLocation": tmp_path} if place == "memory" else {"url": shared_redis.url}
    with openState("wc", "counts", **place_of) as counts:
        assert dict(counts.items()) == {"a": 2, "b": 1} and counts.asOfTxid == 2


@pytest.mark.filterwarnings("ignore:state .counts. is new")
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, Killed])
def test_a_start_that_is_interrupted_gives_the_log_back(tmp_path: Path, interrupt: type[BaseException]) -> None:
    """Ctrl-C while a start waits for a store leaves a living process: a log that it kept would count as a death."""

    def listen(reached: str) -> None:
        if reached == "start.state.born":
            raise interrupt

    crash_points.listen(listen)
    try:
        with pytest.raises(interrupt):
            start_local(counting([["a"]], MemoryMapState.opaque()), name="wc", checkpointLocation=tmp_path)
    finally:
        crash_points.listen(None)
    log = SqliteLog(tmp_path / "wc" / LOG_FILE, "wc")
    try:
        lease = log.lease()
        assert lease is not None and bool(lease.token) == (interrupt is Killed)
    finally:
        log.close()


def stores_of(place: str, where: Path, redis: RedisServer) -> tuple[Any, type[Any]]:
    """Return a state in a store, and the class of its stores."""
    if place == "redis":
        return RedisMapState.opaque(redis.url), RedisStore
    if place == "sqlite":
        return SqliteMapState.opaque(where / "state.sqlite"), BackingStore
    return DeltaMapState.opaque(str(where / "delta")), DeltaStore


@pytest.mark.filterwarnings("ignore:state .counts. is new", "ignore:state .counts.. appendonly is off")
@pytest.mark.parametrize("before", [[], ["start.state.born"]])
@pytest.mark.parametrize("place", ["redis", "sqlite", "delta"])
def test_a_creation_that_ends_late_is_that_of_another_life(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, place: str, before: list[str]
) -> None:
    """A driver that has lost the log creates the state between the look of its successor and its creation."""
    factory, store = stores_of(place, tmp_path, shared_redis)
    for point in before:
        kill_at(point, counting([["a"]], factory), tmp_path)
    kill_at("start.log.taken", counting([["a"]], factory), tmp_path)
    create, late = store.create, []

    def created(self: Any, lease: Lease, birth: int) -> None:
        if not late:
            late.append(Lease(lease.epoch - 1, "of the earlier driver"))
            create(self, late[0], birth)
        create(self, lease, birth)

    monkeypatch.setattr(store, "create", created)
    topology = counting([["a"], ["a", "b"]], factory)
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert late and dict(running.state("counts").items()) == {"a": 2, "b": 1}


@pytest.mark.filterwarnings("ignore:state .counts. is new", "ignore:state .counts.. appendonly is off")
@pytest.mark.parametrize("place", ["redis", "sqlite", "delta"])
def test_a_state_of_another_topology_that_appears_meanwhile_is_left_alone(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    factory, store = stores_of(place, tmp_path, shared_redis)
    kill_at("start.log.taken", counting([["a"]], factory), tmp_path)  # then ours is the higher epoch
    create, appeared = store.create, []

    def created(self: Any, lease: Lease, birth: int) -> None:
        if not appeared:
            appeared.append(True)
            other = copy.copy(self)
            other._identity = replace(self._identity, log="another")
            create(other, Lease(1, "of another topology"), birth)
        create(self, lease, birth)

    monkeypatch.setattr(store, "create", created)
    with pytest.raises((StateOwnedError, LogMismatchError), match=r"log \(?(uuid )?another"):
        start_local(counting([["a"]], factory), name="wc", checkpointLocation=tmp_path)
    with pytest.raises(LogMismatchError, match="another"):
        start_local(counting([["a"]], factory), name="wc", checkpointLocation=tmp_path)
