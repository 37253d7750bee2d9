"""States in Redis."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import Case, conforms, ran
from tests.support.server import RedisServer
from trident import MapGet, Sum, TridentTopology
from trident.base.errors import StateOwnedError
from trident.spouts import FixedBatchSpout
from trident.state import MapState, RedisMapState
from trident.testing.local import start_local
from trident_state.state_shape import StateKind


def summing(fields: str, batches: list[Any], state: Any, keys: str = "k", name: str = "sums") -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout(fields, batches)).groupBy(keys)
    stream.persistentAggregate(state, "n", Sum(), "sum", name=name)
    return topology


def stored(server: RedisServer) -> dict[bytes, bytes]:
    """Every entry of every bucket."""
    client: Any = server.client
    found: dict[bytes, bytes] = {}
    for name in client.scan_iter("*:b:*"):
        found |= client.hgetall(name)
    return found


@conforms("redis-encoding", differs=True)
@pytest.mark.parametrize("kind", list(StateKind), ids=lambda kind: kind.value)
def test_what_stands_in_the_server(case: Case, kind: StateKind, shared_redis: RedisServer, tmp_path: Path) -> None:
    """Value 7 after 5: in hashes under the state's own prefix; as JSON the same three things as Trident's, named."""
    state = RedisMapState(kind, shared_redis.url, values="json", buckets=4)
    batches = [[("oak", 5)], [], [("oak", 2)]]
    with ran(summing("k string, n long", batches, state), tmp_path):
        pass
    ((key, value),) = stored(shared_redis).items()
    assert b"oak" in key
    txid, current, previous = json.loads(case.expected["opaque"].split("->")[1].split("(")[0])
    assert (txid, current, previous) == (9, 7, 5)
    whole = {"txid": 3, "value": current, "prev": previous}
    assert json.loads(value) == (current if kind is StateKind.NON_TRANSACTIONAL else whole)
    assert all(name.startswith(b"trident:{conformance/sums}:") for name in shared_redis.client.scan_iter("*"))


def test_two_states_with_equal_keys_stay_apart(shared_redis: RedisServer, tmp_path: Path) -> None:
    topology = TridentTopology()
    source = topology.newStream("s", FixedBatchSpout("k string, n long", [[("oak", 1)], [("oak", 1)]])).groupBy("k")
    for name, batch in (("one", "n"), ("two", "n")):
        source.persistentAggregate(RedisMapState.opaque(shared_redis.url), batch, Sum(), "sum", name=name)
    with ran(topology, tmp_path) as running:
        assert [dict(running.state(name).items()) for name in ("one", "two")] == [{"oak": 2}] * 2


@conforms("redis-key-factory", differs=True)
def test_keys_of_several_fields_and_of_every_type_are_told_apart(
    case: Case, shared_redis: RedisServer, tmp_path: Path
) -> None:
    assert "compound and non-string" in case.ideal["note"]
    compound = summing(
        "a long, b string, n long", [[(1, "1", 5), (1, None, 6), (11, "", 7)]], _redis(shared_redis), "a, b"
    )
    with ran(compound, tmp_path) as running:
        assert dict(running.state("sums").items()) == {(1, "1"): 5, (1, None): 6, (11, ""): 7}
    numbers = summing("k long, n long", [[(1, 5), (10, 6), (None, 7)]], _redis(shared_redis), name="numbers")
    with ran(numbers, tmp_path / "other") as running:
        assert dict(running.state("numbers").items()) == {1: 5, 10: 6, None: 7}


def _redis(server: RedisServer, **options: Any) -> RedisMapState:
    return RedisMapState.opaque(server.url, buckets=4, **options)


@conforms("redis-expire", differs=True)
def test_value_and_lifetime_are_written_in_one_step_and_each_key_lives_by_itself(
    case: Case, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """No server-side expiry of a key or of a hash: a value's age follows from the txid that stands beside it."""
    assert "one MULTI or script" in case.ideal["note"]
    state = _redis(shared_redis, ttlSecs=60, values="json")
    seen: list[str] = []
    client: Any = shared_redis.client
    with client.monitor() as monitor:
        with ran(summing("k string, n long", [[("a", 1), ("b", 2)]], state), tmp_path) as running:
            assert dict(running.state("sums").items()) == {"a": 1, "b": 2}
        shared_redis.client.ping()
        for told in monitor.listen():
            seen.append(told["command"].split()[0].upper())
            if told["command"] == "PING" and told["client_type"] != "lua":
                break
    assert "HSET" in seen and not [each for each in seen if "EXPIRE" in each or each.endswith("SETEX")]
    assert len(stored(shared_redis)) == 2
    assert [shared_redis.client.ttl(name) for name in shared_redis.client.scan_iter("*:b:*")] == [-1] * 2


@conforms("redis-local-cache", differs=True)
def test_a_read_finds_what_another_process_wrote(case: Case, shared_redis: RedisServer, tmp_path: Path) -> None:
    """No cache, of values or of misses: another topology's state is asked before and after that one's next batch."""
    assert case.expected["default"] == 1000, "entries that Trident keeps"
    state = _redis(shared_redis)
    asking = TridentTopology()
    asking.newStream("s", FixedBatchSpout("n long", [])).aggregate("n", Sum(), "n").peek(print)
    held = asking.newStaticState(state, keyFields="k string", valueType="long", name="sums", topology="conformance")
    asking.newDRPCStream("get").stateQuery(held, "args", MapGet(), "sum").project("sum")
    batches: list[Any] = [[("old", 1)]]
    with ran(summing("k string, n long", batches, state), tmp_path):
        pass
    with start_local(asking, name="asking") as running:

        def get(key: str) -> Any:
            return running.drpc.execute("get", key)[0].sum

        assert (get("old"), get("new")) == (1, None)
        batches.append([("old", 5), ("new", 7)])
        with ran(summing("k string, n long", batches, state), tmp_path):
            pass
        assert (get("old"), get("new")) == (6, 7)


@conforms("redis-state-updater-last-wins", differs=True)
def test_an_updater_that_puts_keeps_the_last_value(case: Case, shared_redis: RedisServer, tmp_path: Path) -> None:
    """As any state: by txid, and not a plain overwrite."""

    def store(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiPut([t.k for t in tuples], [t.v for t in tuples])

    topology = TridentTopology()
    rows = [tuple(op) for op in case.input["ops"]]
    source = topology.newStream("s", FixedBatchSpout("k string, v string", [rows]))
    source.partitionPersist(_redis(shared_redis, values="json"), store, keyFields="k", valueType="string", name="held")
    with ran(topology, tmp_path) as running:
        assert dict(running.state("held").items()) == {"k": "2"}
    ((_, value),) = stored(shared_redis).items()
    assert json.loads(value) == {"txid": 1, "value": "2", "prev": None}


def test_what_is_not_ours_is_not_overwritten(shared_redis: RedisServer, tmp_path: Path) -> None:
    """In Trident two topologies with equal keys write over each other."""
    shared_redis.client.set("trident:{conformance/sums}:m", "7")
    with pytest.raises(StateOwnedError), ran(summing("k string, n long", [[("a", 1)]], _redis(shared_redis)), tmp_path):
        pass
    assert shared_redis.client.get("trident:{conformance/sums}:m") == b"7"
