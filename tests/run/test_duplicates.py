"""dropDuplicates and tables end to end, in memory and in Redis: once each, over restarts, crashes and replays."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.window_runner import at, secs
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout, Varied
from tests.support.wall import Wall
from trident import Count, MapGet, SnapshotGet, TridentTopology
from trident.errors import StateShapeError, StateUnavailableError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local
from trident_state.memory.store import MemoryStore
from trident_state.redis.store import RedisStore

MakeState = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def once(topology: TridentTopology, spout: Any, state: Any, **arguments: Any) -> Any:
    """Count by key what dropDuplicates lets through."""
    distinct = topology.newStream("s", spout).dropDuplicates("k", state, name="seen", **arguments)
    distinct.groupBy("k").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="passed")
    return distinct


WORDS = [[("a", 1), ("b", 2), ("a", 3)], [("c", 4), ("a", 5)], [("b", 6), ("d", 7)], [("d", 8), ("e", 9), ("c", 10)]]
ONCE = dict.fromkeys("abcde", 1)


def test_each_key_goes_on_once_and_the_others_are_counted(make_state: MakeState, tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("k string, n long")
    distinct = once(topology, feeder, make_state())
    topology.newDRPCStream("seen", "k string").stateQuery(distinct.state(), "k", MapGet(), "txid").project("txid")
    dropped = []
    for batch in WORDS:  # a restart before each batch
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            feeder.feed(batch, wait=True, timeout=20)
            dropped.append(running.recentProgress[-1]["states"]["seen"]["dropped"])
            passed, held = dict(running.state("passed").items()), dict(running.state("seen").items())
            answer = running.drpc.execute("seen", k="d")
    assert passed == ONCE
    assert held == {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4}
    assert [row.txid for row in answer] == [3]
    assert dropped == [1, 1, 1, 2]


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith(("freeze", "commit"))])
def test_a_driver_that_dies_anywhere_lets_nothing_through_twice(
    point: str, make_state: MakeState, tmp_path: Path
) -> None:
    topology = TridentTopology()
    script = [WORDS[0], FAIL, WORDS[1], CRASH.at(point), WORDS[2], CRASH, WORDS[3]]
    once(topology, TestSource("k string, n long", script), make_state())
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert dict(running.state("passed").items()) == ONCE


@pytest.mark.parametrize("seed", some_of(range(6), range(2)))
def test_replays_that_differ_lose_nothing_and_repeat_nothing(seed: int, make_state: MakeState, tmp_path: Path) -> None:
    """An opaque spout gives other tuples at each attempt; some attempts fail, and the driver starts anew meanwhile."""
    chance = random.Random(seed)
    rows = {name: [(chance.choice("abcdefgh"), n) for n in range(20)] for name in ("p", "q")}
    failing = {(txid, 0) for txid in range(1, 40) if chance.random() < 0.4}
    seen: list[Any] = []

    def check(t: Any, attempts: Any = {}) -> bool:  # noqa: B006
        seen.append(t)
        if chance.random() < 0.05 and len(attempts) < len(failing):
            attempts[len(attempts)] = t
            raise RuntimeError("this attempt fails")
        return True

    def topology() -> TridentTopology:
        made = TridentTopology()
        spout = ReplayingSpout("k string, n long", rows, Varied(seed, ("p", "q")))
        distinct = made.newStream("s", spout).filter(check).dropDuplicates("k", make_state(), name="seen")
        distinct.groupBy("k").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="passed")
        return made

    for timeout in (0.05, 0.1, 30):
        with start_local(topology(), name=f"r{seed}", checkpointLocation=tmp_path) as running:
            try:
                running.processAllAvailable(timeout=timeout)
            except TimeoutError:
                continue
            passed = dict(running.state("passed").items())
    assert passed == dict.fromkeys({k for part in rows.values() for k, _ in part}, 1)
    assert len(seen) >= 40


def test_what_goes_on_is_frozen_before_the_state_is_written(
    make_state: MakeState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state takes nothing of batch 2, and the run ends; the next run lets through what that batch did."""
    topology = TridentTopology()
    once(topology, FixedBatchSpout("k string, n long", WORDS), make_state())
    with monkeypatch.context() as patch:
        for store in (MemoryStore, RedisStore):

            def refused(self: Any, lease: Any, update: Any, values: bool = False, apply: Any = store.apply) -> Any:
                if update.txid >= 2 and "seen" in str(vars(self)):
                    raise StateUnavailableError("away")
                return apply(self, lease, update, values)

            patch.setattr(store, "apply", refused)
        with (
            pytest.raises(StateUnavailableError),
            start_local(topology, name="t", checkpointLocation=tmp_path, commitRetrySecs=0) as running,
        ):
            running.processAllAvailable(timeout=30)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("passed").items()) == ONCE
        assert [event["states"]["seen"]["dropped"] for event in running.recentProgress] == [1, 1, 2], "2, 3, 4"


def test_a_server_that_lost_everything_remembers_again(shared_redis: RedisServer, tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("k string, n long, at timestamp")
    state = RedisMapState.opaque(shared_redis.url, buckets=16)
    once(topology, feeder, state, timestampField="at", within="1 hour")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        for number, batch in enumerate(WORDS):
            feeder.feed([(k, n, at(number)) for k, n in batch], wait=True, timeout=20)
            shared_redis.client.flushall()
        feeder.feed([("a", 0, at(9))], wait=True, timeout=20)
        assert dict(running.state("passed").items()) == ONCE


def test_with_ttl_a_key_goes_on_again_when_its_time_is_over(make_state: MakeState, tmp_path: Path) -> None:
    wall, topology, feeder = Wall(), TridentTopology(), FeederBatchSpout("k string, n long")
    once(topology, feeder, make_state(ttlSecs=60))
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=wall) as running:
        for after, expected in ((0, 1), (50, 1), (11, 2), (59, 2), (3, 3)):
            wall.advance(after)
            feeder.feed([("a", 0)], wait=True, timeout=20)
            assert running.state("passed")["a"] == expected, "a duplicate does not keep its key alive"


def test_by_event_time_keys_are_forgotten_and_what_is_late_leaves_apart(make_state: MakeState, tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("k string, at timestamp")
    distinct = once(topology, feeder, make_state(), timestampField="at", within=10, lateness=5)
    late: list[Any] = []
    distinct.late().peek(lambda t: late.append((t.k, None if t.at is None else secs(t.at))))
    asked = topology.newDRPCStream("mark").stateQuery(distinct.watermark(), SnapshotGet(), "mark").project("mark")
    assert asked.fields == ("mark",)
    batches = [
        [("a", 0), ("b", 3), ("a", 8)],
        [("a", 10), ("a", 11), ("c", 20)],
        [("b", 14), ("d", 16), ("d", None)],
        [("e", 60), ("c", 40)],
        [("c", 56)],
    ]
    held = []
    for batch in batches:
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            feeder.feed([(k, at(time)) for k, time in batch], wait=True, timeout=20)
            held.append(sorted(k for k, _ in running.state("seen").items()))
            passed = dict(running.state("passed").items())
            ((mark,),) = running.drpc.execute("mark", "now")
    assert passed == {"a": 2, "b": 1, "c": 3, "d": 1, "e": 1}
    assert late == [("b", 14.0), ("d", None)]
    assert held == [["a", "b"], ["a", "c"], ["a", "c", "d"], ["c", "e"], ["c", "e"]]
    assert secs(mark) == 55.0


def test_another_field_of_time_is_refused_and_another_span_is_not(tmp_path: Path) -> None:
    def start(**arguments: Any) -> None:
        topology = TridentTopology()
        spout = FixedBatchSpout("k string, at timestamp, other timestamp", [[("a", at(0), at(0))]])
        once(topology, spout, MemoryMapState.opaque(), **arguments)
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)

    start(timestampField="at", within=10)
    start(timestampField="at", within=20, lateness=3)
    with pytest.raises(StateShapeError, match="FirstOfKey by at"):
        start(timestampField="other", within=10)


# --- tables -----------------------------------------------------------------------------------------------------------


def joined(topology: TridentTopology, users: Any, clicks: Any, state: Any, joinType: str) -> list[Any]:
    table = topology.newStream("users", users).toTable("id", state, name="users")
    found: list[Any] = []
    clicked = topology.newStream("clicks", clicks)
    asking = clicked.stateQuery(table, "user", MapGet(), "city").groupBy("city")
    asking.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="asked")
    asks = topology.newDRPCStream("where", "id long").stateQuery(table, "id", MapGet(), "city, name")
    assert asks.fields == ("id", "city", "name")
    stream = clicked.joinTable(table, "user", joinType=joinType)
    stream.foreachArrow(lambda rows, txid, attempt: found.append([tuple(r.values()) for r in rows.to_pylist()]))
    asked = topology.newDRPCStream("who", "id long").joinTable(table, "id", joinType=joinType)
    assert asked.fields == ("id", "name", "city")
    return found


@pytest.mark.parametrize("joinType", ["inner", "left"])
def test_a_stream_meets_a_table_as_the_batch_before_left_it(
    joinType: str, make_state: MakeState, tmp_path: Path
) -> None:
    topology = TridentTopology()
    users, clicks = FeederBatchSpout("id long, name string, city string"), FeederBatchSpout("user long, url string")
    found = joined(topology, users, clicks, make_state(), joinType)
    feeds = [
        ([(1, "Ann", "Ulm"), (2, "Bob", None), (1, "Ann", "Bonn")], []),
        ([(2, None, None)], [(1, "/a"), (2, "/b"), (3, "/c"), (None, "/d")]),
        ([], [(2, "/e")]),
    ]
    for user_rows, click_rows in feeds:  # a restart before each batch
        users.feed(user_rows)
        clicks.feed(click_rows)  # before the start, so that one batch holds both
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
            held = {key: tuple(value) for key, value in running.state("users").items()}
            answers = [tuple(running.drpc.execute("who", id=id)) for id in (1, 9)]
            fields = [tuple(row) for id in (1, 9) for row in running.drpc.execute("where", id=id)]
            asked = dict(running.state("asked").items())
    pairs = [(1, "/a", "Ann", "Bonn"), (2, "/b", "Bob", None), (3, "/c", None, None), (None, "/d", None, None)]
    kept = pairs if joinType == "left" else pairs[:2]
    assert sorted((row for rows in found for row in rows), key=repr) == sorted([*kept, (2, "/e", None, None)], key=repr)
    assert held == {1: ("Ann", "Bonn"), 2: (None, None)}
    assert answers == [((1, "Ann", "Bonn"),), ((9, None, None),) if joinType == "left" else ()]
    assert fields == [(1, "Bonn", "Ann"), (9, None, None)]
    assert asked == {"Bonn": 1, None: 4}


@pytest.mark.parametrize("point", ["commit.stage.frozen", "commit.state.before", "commit.state.after"])
def test_a_table_is_written_once_through_a_death(point: str, make_state: MakeState, tmp_path: Path) -> None:
    topology = TridentTopology()
    rows = [[(1, "a")], CRASH.at(point), [(1, "b"), (2, "c")], [(1, "d")]]
    table = topology.newStream("s", TestSource("k long, v string", rows)).toTable("k", make_state(), name="table")
    changes: list[Any] = []
    table.newValuesStream().foreachArrow(lambda rows, txid, attempt: changes.append((txid, rows.to_pylist())))
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert {k: value["v"] for k, value in running.state("table").items()} == {1: "d", 2: "c"}
    assert dict(changes)[2] == [{"k": 1, "v": "b"}, {"k": 2, "v": "c"}]
