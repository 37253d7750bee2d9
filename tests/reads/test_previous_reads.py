"""asOf="previous": a state as the batch before the last committed one left it, whatever happened since."""

import functools
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, counting, fixed
from tests.access.test_opening import kill_a_driver
from tests.reads.reading_kit import States, state_node
from tests.state.backing.maps import SqliteMap
from tests.support.wall import Wall
from trident import Count, TridentTopology, openState
from trident.errors import SnapshotMovedError, StateError, TridentError
from trident.reads import previous_reads
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.state import BackingMapState, MemoryMapState, RedisMapState
from trident.testing import CRASH, TestSource, crash_at, run_through
from trident.testing.local import start_local
from trident_state.state_shape import StateKind

KINDS = ["opaque", "transactional"]
PLACES = ["memory", "redis", "redis json", "own"]


def previous(states: States, name: str = "counts") -> StateView:
    return StateView(states, StateDescription.of(states.nodes[name], states.shapes[name]), asOf="previous")


def factory(place: str, kind: str, folder: Path, request: pytest.FixtureRequest) -> Any:
    if place == "memory":
        return getattr(MemoryMapState, kind)()
    if place == "own":
        return getattr(BackingMapState, kind)(functools.partial(SqliteMap, str(folder / "own.db")))
    options = {"values": "json", "groups": 4} if place == "redis json" else {}
    url = request.getfixturevalue("shared_redis").url
    return getattr(RedisMapState, kind)(url, prefix=folder.name, buckets=64, **options)


def places(factory: Any, folder: Path, place: str, url: str | None) -> dict[str, Any]:
    if place == "memory":
        return {"checkpointLocation": folder}
    return {"factory": factory} if place == "own" else {"url": url, "prefix": folder.name}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_what_was_committed_one_batch_ago_in_a_run_after_a_restart_and_from_outside(
    place: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(11)
    batches = [[f"w{chance.randrange(12)}" for _ in range(chance.randrange(9))] for _ in range(12)]
    state = factory(place, kind, tmp_path, request)
    url = None if place in ("memory", "own") else request.getfixturevalue("shared_redis").url
    oracle: list[dict[str, int]] = [{}]
    for run in (batches[:5], batches[5:]):
        fed = Fed(state, checkpointLocation=tmp_path)
        with fed.running:
            view = fed.running.state("counts", asOf="previous")
            assert dict(view) == oracle[max(0, len(oracle) - 2)], "after a restart, before its first batch"
            for batch in run:
                fed.feed(*batch)
                oracle.append({w: oracle[-1].get(w, 0) + batch.count(w) for w in {*oracle[-1], *batch}})
                assert (dict(view), view.asOfTxid) == (oracle[-2], len(oracle) - 2)
                assert view.multiGet([f"w{n}" for n in range(12)]) == [oracle[-2].get(f"w{n}") for n in range(12)]
                assert len(view) == len(oracle[-2]) and view.toPandas().attrs == {"asOfTxid": len(oracle) - 2}
                assert dict(fed.running.state("counts")) == oracle[-1]
        with openState("wc", "counts", **places(state, tmp_path, place, url), asOf="previous") as opened:
            assert (dict(opened), opened.asOfTxid) == (oracle[-2], len(oracle) - 2)
            assert len(opened) == len(oracle[-2]) and [opened.get(key) for key in oracle[-1]] == [
                oracle[-2].get(key) for key in oracle[-1]
            ]


def test_a_copy_follows_its_driver_one_batch_behind(tmp_path: Path) -> None:
    fed = Fed(checkpointLocation=tmp_path)
    with fed.running, openState("wc", "counts", tmp_path, asOf="previous") as counts:
        assert dict(counts) == {} and counts.asOfTxid == 0
        for txid in range(1, 6):
            fed.feed("dog", f"w{txid}")
            assert (counts.get("dog", 0), f"w{txid}" in counts, counts.asOfTxid) == (txid - 1, False, txid - 1)


@pytest.mark.parametrize("place", ["memory", "redis"])
def test_a_crash_anywhere_and_the_replay_leave_the_batch_before_as_it_was(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for at, point in enumerate(
        ("freeze.before", "freeze.after", "commit.state.before", "commit.state.after", "commit.states.after")
    ):
        folder = tmp_path / str(at)
        folder.mkdir()
        source = TestSource("word string", [["a", "b"], ["a"], ["a", "c"]])
        topology = counting(source, factory(place, "opaque", folder, request))
        with crash_at(point, 3), run_through(topology, checkpointLocation=folder, maxSpoutPending=1) as running:
            assert dict(running.state("counts")) == {"a": 3, "b": 1, "c": 1}
            assert dict(running.state("counts", asOf="previous")) == {"a": 2, "b": 1}, point


def test_a_killed_driver_leaves_it_in_its_log(tmp_path: Path) -> None:
    kill_a_driver(tmp_path)  # a, bb, ccc, bb
    with openState("wc", "counts", tmp_path, asOf="previous") as counts:
        assert dict(counts) == {"a": 1, "bb": 1, "ccc": 1} and counts.asOfTxid == 3


@pytest.mark.parametrize("place", ["memory", "redis"])
def test_what_expired_with_the_last_batch_is_there_in_the_batch_before(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wall = Wall()
    options = {} if place == "memory" else {"prefix": tmp_path.name}
    state = (
        MemoryMapState.opaque(ttlSecs=60)
        if place == "memory"
        else RedisMapState.opaque(request.getfixturevalue("shared_redis").url, ttlSecs=60, **options)
    )
    fed = Fed(state, clock=wall, checkpointLocation=tmp_path)
    with fed.running:
        view, last = fed.running.state("counts", asOf="previous"), fed.running.state("counts")
        fed.feed("old", "again")
        wall.advance(61)
        fed.feed("new")
        fed.feed("again")
        expected = dict(last)
        wall.advance(61)
        fed.feed("again")
        assert dict(last).keys() <= {"again", "new"} and dict(view) == expected


# --- beside a writer ----------------------------------------------------------------------------------------------


def test_beside_batches_all_keys_are_as_of_one_txid_and_never_go_back() -> None:
    states = States({"g": [state_node("counts")]})
    words = [f"w{n}" for n in range(300)]
    for _ in range(2):
        states.commit("g", {"counts": dict.fromkeys(words, 1)})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            states.commit("g", {"counts": dict.fromkeys(words, 1)})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last, view = 0, previous(states)
        for _ in range(60):
            before = states.committed("g")
            found = dict(view)
            after = states.committed("g")
            assert len(set(found.values())) == 1, "torn"
            [txid] = set(found.values())
            assert max(last, before - 1) <= txid <= after - 1
            last = txid
            assert set(view.multiGet(words)) <= {txid, *range(txid, states.committed("g"))}
    finally:
        stop.set()
        writer.join()
    assert states.holds >= 60


def test_a_batch_that_is_being_written_is_waited_for_and_the_next_one_held_back() -> None:
    """Batch 3 is half written, so batch 1 cannot be read any more: the read is as of batch 2 once 3 is committed."""
    states = States({"g": [state_node("counts")]})
    for _ in range(2):
        states.commit("g", {"counts": {"dog": 1}})
    states.apply("counts", 3, {"dog": 1})
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.append(previous(states)["dog"]))
    reader.start()
    time.sleep(0.1)
    assert not seen and not states.gates["g"].wait(4, timeout=0), "the batch after the one under way is not held back"
    states.txids["g"] = 3
    reader.join(5)
    assert seen == [2] and states.gates["g"].wait(4, timeout=0)


def test_another_writer_ends_it_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previous_reads, "_OTHER_WRITER_SECONDS", 0.05)
    states = States({"g": [state_node("counts")]})
    states.commit("g", {"counts": {"dog": 1}})

    class Overtaken:
        def read(self, keys: Any, asOf: int) -> Any:
            states.txids["g"] += 1
            raise SnapshotMovedError("it stands elsewhere")

    states.stores["counts"] = Overtaken()  # type: ignore[assignment]
    with pytest.raises(
        SnapshotMovedError, match=r"no read as of txid \d+ of g succeeded within 0.05 s: .*another program writes"
    ):
        previous(states)["dog"]
    assert states.gates["g"].wait(10**6, timeout=0), "a read that failed holds commits back"


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_keeps_no_previous_values_says_so(tmp_path: Path) -> None:
    message = r"state 'counts' is nonTransactional and keeps no previous values: asOf='previous' needs an opaque or a"
    topology = counting(fixed(["dog"]), MemoryMapState.nonTransactional())
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        with pytest.raises(StateError, match=message):
            running.state("counts", asOf="previous")
    with pytest.raises(StateError, match=message):
        openState("wc", "counts", tmp_path, asOf="previous")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asOf": "yesterday"}, "asOf='yesterday': expected 'previous', the batch before the last committed one; or"),
        ({"asOf": -7}, "asOf=-7: expected 'previous'.* a txid that is kept, a whole number"),
        ({"asOf": "previous", "isolation": "latest"}, "asOf='previous' and isolation='latest' contradict each other"),
    ],
)
def test_other_times_are_refused(options: dict[str, Any], message: str) -> None:
    node = state_node("counts", kind=StateKind.OPAQUE)
    states = States({"g": [node]})
    with pytest.raises(ValueError, match=message):
        StateView(states, StateDescription.of(node, states.shapes["counts"]), **options)


def test_a_crash_in_the_source_is_no_batch(tmp_path: Path) -> None:
    topology = TridentTopology()
    source = TestSource("word string", [["a"], CRASH, ["a"]])
    from trident import Count

    topology.newStream("words", source).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="counts"
    )
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert dict(running.state("counts", asOf="previous")) == {"a": 1}


@pytest.mark.parametrize("place", ["output", "updater", "later stage"])
def test_code_that_a_commit_waits_for_does_not_wait_for_that_commit(place: str) -> None:
    topology, running = TridentTopology(), list[Any]()
    words = topology.newStream("words", TestSource("word string", [["dog"], ["dog"]]))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    started = threading.Event()

    def ask(*_: Any) -> None:
        started.wait(20)
        with pytest.raises(TridentError, match="asOf='previous' waits for the batch that is being committed"):
            running[0].state("counts", asOf="previous").get("dog")
        assert running[0].state("counts").get("dog", 0) == running[0].asOfTxid["words"]

    if place == "output":
        words.foreachArrow(ask)
    elif place == "updater":
        words.statefulEach(ask, keyFields="word", valueType="long", name="asking")
    else:
        counts.newValuesStream().peek(ask).foreachArrow(lambda table, txid, attempt: None)
    with start_local(topology) as run:
        running.append(run)
        started.set()
        run.processAllAvailable(20)
        assert run.state("counts", asOf="previous")["dog"] == 1
