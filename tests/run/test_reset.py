"""A reset drops a topology's states and log together, and nothing where it may be a slip."""

import contextlib
import warnings
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.state.backing.maps import LeastMap
from tests.support.server import RedisServer
from trident import Count, TridentTopology, listStates
from trident.base.errors import FencedError, LogError, LogMismatchError, StateLostError, StateOwnedError
from trident.log import RedisLog
from trident.log.log_server import LogServer
from trident.spouts import FixedBatchSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")
WORDS = FixedBatchSpout("word string", [["a", "b"], ["a"]])


def counting(**states: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", WORDS).groupBy("word")
    for name, state in states.items():
        words.persistentAggregate(state, Count(), "count", name=name)
    return topology


def run(topology: TridentTopology, name: str, checkpoint: Path | None, **options: Any) -> dict[Any, Any]:
    with start_local(topology, name=name, checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=20)
        return dict(running.state("counts").items())


def test_where_no_log_is_a_state_that_stands_is_not_dropped(tmp_path: Path, shared_redis: RedisServer) -> None:
    topology = counting(counts=RedisMapState.opaque(shared_redis.url, prefix=tmp_path.name))
    counts = run(topology, "wc", tmp_path / "ckpt")
    before = shared_redis.held(tmp_path.name)
    with pytest.raises(LogError, match=r"no log of topology 'wc' in .*ckptt.wc, but its states .*: counts\. .*Nothing"):
        topology.reset("wc", tmp_path / "ckptt")
    assert shared_redis.held(tmp_path.name) == before
    assert run(topology, "wc", tmp_path / "ckpt") == counts == {"a": 2, "b": 1}
    topology.reset("wc", tmp_path / "ckptt", force=True)
    assert not shared_redis.held(tmp_path.name)


def test_so_it_is_with_a_log_in_redis(tmp_path: Path, redis_server: RedisServer) -> None:
    topology = counting(counts=RedisMapState.opaque(redis_server.url))
    log = RedisLog(redis_server.url)
    counts = run(topology, "wc", None, log=log)
    with pytest.raises(LogError, match=r"no log of topology 'wc' at RedisLog\(.*prefix='other'"):
        topology.reset("wc", log=RedisLog(redis_server.url, prefix="other"))
    assert run(topology, "wc", None, log=log) == counts
    topology.reset("wc", log=log)
    assert not listStates(url=redis_server.url) and not redis_server.held("")


def test_it_warns_of_states_on_a_server_that_it_does_not_declare(tmp_path: Path, shared_redis: RedisServer) -> None:
    state = RedisMapState.opaque(shared_redis.url, prefix=tmp_path.name)
    run(counting(counts=state, other=state, small=MemoryMapState.opaque()), "wc", tmp_path)
    with pytest.warns(RuntimeWarning) as told:
        counting(counts=state).reset("wc", tmp_path)
    assert [str(each.message).partition(", which")[0] for each in told] == ["reset: the log had a state 'other'"]
    assert told[0].filename == __file__
    left = shared_redis.held(tmp_path.name)
    assert left and all(b"wc/other" in key for key in left)
    trident.dropState("wc", "other", url=shared_redis.url, prefix=tmp_path.name, force=True)  # as the warning says
    assert not shared_redis.held(tmp_path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(counting(counts=state), "wc", tmp_path) == {"a": 2, "b": 1}


def test_where_one_place_is_another_topologys_nothing_is_dropped(tmp_path: Path) -> None:
    entries: dict[bytes, bytes] = {}
    place = BackingMapState.opaque(lambda identity: LeastMap(entries))  # the same for every state
    with start_local(counting(counts=place), name="theirs", checkpointLocation=tmp_path / "theirs") as running:
        running.processAllAvailable(timeout=20)
    ours = counting(counts=MemoryMapState.opaque())
    run(ours, "ours", tmp_path / "ours")
    with pytest.raises(StateOwnedError, match="has the state 'counts' of topology 'theirs'; nothing was changed"):
        counting(counts=MemoryMapState.opaque(), more=place).reset("ours", tmp_path / "ours")
    assert (tmp_path / "ours" / "ours" / "log.sqlite").exists()


def test_a_reset_at_another_logs_place_leaves_the_state_to_its_driver(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """A refused start founds a log there, which is not the states'."""
    topology = counting(counts=RedisMapState.opaque(shared_redis.url, prefix=tmp_path.name))
    counts = run(topology, "wc", tmp_path / "right")
    with pytest.raises(LogMismatchError):
        run(topology, "wc", tmp_path / "wrong")
    before = shared_redis.held(tmp_path.name)
    with pytest.raises(
        LogMismatchError, match=r"'counts' belongs to another log \(uuid \w+\), not to the one in .*wrong"
    ):
        topology.reset("wc", tmp_path / "wrong")
    assert shared_redis.held(tmp_path.name) == before
    assert run(topology, "wc", tmp_path / "right") == counts
    topology.reset("wc", tmp_path / "wrong", force=True)
    assert not shared_redis.held(tmp_path.name) and not (tmp_path / "wrong" / "wc").exists()


@pytest.mark.parametrize("log", ["file", "Redis"])
def test_a_reset_that_sleeps_through_another_one_drops_nothing_of_the_next_log(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    from trident_state.redis import RedisStore

    topology, drop = counting(counts=RedisMapState.opaque(redis_server.url)), RedisStore.drop
    where: dict[str, Any] = {"log": RedisLog(redis_server.url)} if log == "Redis" else {"checkpointLocation": tmp_path}

    def start() -> dict[Any, Any]:
        return run(topology, "wc", where.get("checkpointLocation"), log=where.get("log"))

    def sleeps(store: RedisStore, lease: Any = None) -> None:
        monkeypatch.setattr(RedisStore, "drop", drop)
        topology.reset("wc", **where)
        start()
        drop(store, lease)

    start()
    monkeypatch.setattr(RedisStore, "drop", sleeps)
    with pytest.raises((LogError, FencedError)):
        topology.reset("wc", **where)
    assert start() == {"a": 2, "b": 1}, "the next log and its state are whole"


def test_a_reset_of_a_log_in_redis_that_dies_anywhere_is_done_by_the_next_one(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, ask = RedisLog(redis_server.url), LogServer.ask
    first = counting(counts=RedisMapState.opaque(redis_server.url))
    left, at = 0, 0

    def dies(server: LogServer, *commands: bytes, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return ask(server, *commands, **named)

    while left <= 0:
        run(first, "wc", None, log=log)
        left = at = at + 1
        with monkeypatch.context() as patching, contextlib.suppress(KeyboardInterrupt):
            patching.setattr(LogServer, "ask", dies)
            first.reset("wc", log=log)
        try:
            assert run(first, "wc", None, log=log) == {"a": 2, "b": 1}
        except StateLostError as error:
            assert "topology.reset" in str(error)
        first.reset("wc", log=log)
        assert not redis_server.held("")
    assert at > 3, "it asked more than once"
