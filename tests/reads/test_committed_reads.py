"""Reads of several states show one txid, whatever is committed meanwhile."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from tests.reads.reading_kit import States, key_table, state_node
from trident.base.attempt import Lease
from trident.base.errors import FencedError, SnapshotMovedError, StateRecoveringError
from trident.reads import committed_reads
from trident.reads.commit_gate import CommitGate
from trident.reads.committed_reads import Snapshot, read_committed, read_consistently
from trident.state import RedisMapState
from trident_state.state_shape import StateKind
from trident_state.store_messages import Found, Update

KEYS = ["cat", "dog"]


@pytest.fixture
def states() -> States:
    """Two states of one group, and one of another."""
    return States({"g": [state_node("ins"), state_node("outs")], "h": [state_node("other")]})


def values(states: States, *names: str, keys: list[Any] = KEYS, isolation: Any = "committed") -> dict[str, list[Any]]:
    found = read_committed(states, {name: key_table(states.shapes[name], keys) for name in names}, isolation)
    return {name: each.values.to_pylist() for name, each in found.items()}


def test_a_batch_shows_only_when_every_state_has_it(states: States) -> None:
    states.commit("g", {"ins": {"cat": 1}, "outs": {"cat": -1}})
    states.apply("ins", 2, {"cat": 10, "dog": 5})  # half of batch 2
    assert values(states, "ins", "outs") == {"ins": [1, None], "outs": [-1, None]}
    assert values(states, "ins", "outs", isolation="latest") == {"ins": [11, 5], "outs": [-1, None]}
    states.apply("outs", 2, {"cat": -10, "dog": -5})
    states.txids["g"] = 2
    assert values(states, "ins", "outs") == {"ins": [11, 5], "outs": [-11, -5]}


def test_each_group_has_its_own_txid(states: States) -> None:
    for _ in range(3):
        states.commit("g", {"ins": {"cat": 1}})
    states.commit("h", {"other": {"cat": 7}})
    found = read_committed(states, {n: key_table(states.shapes[n], ["cat"]) for n in ("ins", "other")})
    assert {name: (each.asOf, each.values.to_pylist()) for name, each in found.items()} == {
        "ins": (3, [3]),
        "other": (1, [7]),
    }


def test_a_store_that_has_gone_on_is_read_again_as_of_a_newer_txid(states: States) -> None:
    states.commit("g", {"ins": {"cat": 1}, "outs": {"cat": -1}})
    seen = []

    def body(snapshot: Snapshot) -> int:
        ins = snapshot.read("ins", key_table(states.shapes["ins"], ["cat"])).values[0].as_py()
        if not seen:
            for _ in range(2):
                states.commit("g", {"ins": {"cat": 1}, "outs": {"cat": -1}})
        seen.append(snapshot.asOf["g"])
        outs = snapshot.read("outs", key_table(states.shapes["outs"], ["cat"])).values[0].as_py()
        return int(ins + outs)

    assert read_consistently(states, ["ins", "outs"], body) == 0
    assert seen == [1, 3]


def test_one_batch_that_is_committed_meanwhile_disturbs_nobody(states: States) -> None:
    states.commit("g", {"ins": {"cat": 1}, "outs": {"cat": -1}})

    def body(snapshot: Snapshot) -> list[Any]:
        states.commit("g", {"ins": {"cat": 1}, "outs": {"cat": -1}})
        return [
            snapshot.read(name, key_table(states.shapes[name], ["cat"])).values[0].as_py() for name in ("ins", "outs")
        ]

    assert read_consistently(states, ["ins", "outs"], body) == [1, -1]
    assert states.txids["g"] == 2


def test_where_commits_are_too_fast_they_are_held_back(states: States) -> None:
    """The commit of the next batch goes through, the one after it waits until the read is done."""
    states.commit("g", {"ins": {"cat": 1}})
    tries: list[int] = []
    committing: list[threading.Thread] = []
    held: list[bool] = []

    def two_more() -> None:
        for _ in range(2):
            states.commit("g", {"ins": {"cat": 1}})

    def body(snapshot: Snapshot) -> Any:
        tries.append(snapshot.asOf["g"])
        before = states.txids["g"]
        committing.append(threading.Thread(target=two_more))
        committing[-1].start()
        committing[-1].join(0.1)
        held.append(committing[-1].is_alive())
        if held[-1]:
            assert states.txids["g"] == before + 1
        return snapshot.read("ins", key_table(states.shapes["ins"], ["cat"])).values[0].as_py()

    assert read_consistently(states, ["ins"], body) == tries[-1] == 9
    assert held == [False, False, False, False, True]
    committing[-1].join(5)
    assert states.txids["g"] == 11


def test_a_large_read_is_one_snapshot_too(states: States) -> None:
    many = [f"w{n}" for n in range(25_000)]
    states.commit("g", {"ins": dict.fromkeys(many, 1)})
    with writing(lambda: states.commit("g", {"ins": dict.fromkeys(many, 1)})):
        for _ in range(5):
            found = read_committed(states, {"ins": key_table(states.shapes["ins"], many)})["ins"]
            assert set(found.values.to_pylist()) == {found.asOf}
            assert len(found.values) == len(many)
    assert states.holds == 5, "a large read is made while commits go on"
    values(states, "ins", keys=many[:100])
    assert states.holds == 5, "a small read holds commits back"


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_sums_never_tear_under_a_writer(store: str, request: pytest.FixtureRequest) -> None:
    """What goes into one state leaves the other: over both, and over all keys, the sum is nought at every txid."""
    factory = RedisMapState.opaque(request.getfixturevalue("shared_redis").url) if store == "redis" else None
    states = States({"g": [state_node("ins"), state_node("outs")]}, factory)
    words = [f"w{n}" for n in range(50)]
    step = iter(range(10**9))

    def batch() -> None:
        amount = next(step)
        states.commit("g", {"ins": dict.fromkeys(words, amount), "outs": dict.fromkeys(words, -amount)})

    reads = {name: key_table(states.shapes[name], words) for name in ("ins", "outs")}
    torn: list[Any] = []
    naively_torn: list[Any] = []
    last = [0, 0, 0]

    def reader(me: int) -> None:
        began = time.monotonic()
        # A busy machine takes longer until commits and reads meet; that says nothing about tears.
        while time.monotonic() < began + (1.5 if last[me] > 20 and naively_torn else 60):
            found = read_committed(states, reads)
            if is_torn(found):
                torn.append(found)
            if not found["ins"].asOf == found["outs"].asOf >= last[me]:
                torn.append((last[me], found))
            last[me] = found["ins"].asOf
            naive = read_committed(states, reads, "latest")
            if is_torn(naive):
                naively_torn.append(naive)

    batch()
    with writing(batch), ThreadPoolExecutor(3) as pool:
        list(pool.map(reader, range(3)))
    assert torn == []
    assert min(last) > 20
    assert naively_torn, "the writer was too slow to tear anything: this test shows nothing"
    for each in states.stores.values():
        each.close()


def is_torn(found: dict[str, Found]) -> bool:
    ins, outs = (found[name].values.to_pylist() for name in ("ins", "outs"))
    return len(set(ins)) != 1 or any(a + b for a, b in zip(ins, outs, strict=True))


def test_a_non_transactional_state_is_read_as_it_is() -> None:
    states = States({"g": [state_node("plain", kind=StateKind.NON_TRANSACTIONAL)]})
    states.commit("g", {"plain": {"cat": 1}})
    states.apply("plain", 2, {"cat": 1})
    states.apply("plain", 3, {"cat": 1})
    assert values(states, "plain") == {"plain": [3, None]}


def test_a_state_that_is_behind_the_log_says_so(states: States) -> None:
    states.commit("g", {"ins": {"cat": 1}})
    states.stores["ins"] = states.made("ins")  # a store that has lost everything
    with pytest.raises(StateRecoveringError, match="is at txid 0, so a read as of 1 has to wait"):
        values(states, "ins")


def test_a_run_that_may_not_answer_gives_its_reason(states: States) -> None:
    states.stopped = FencedError("taken over")
    with pytest.raises(FencedError, match="taken over"):
        values(states, "ins")


def overtaken(states: States) -> None:
    """Another driver has the states and is far ahead."""
    states.commit("g", {"ins": {"cat": 1}, "outs": {}})
    store = states.stores["ins"]
    store.acquire(Lease(2, "other"))
    shape = states.shapes["ins"]
    for txid in range(2, 6):
        store.apply(Lease(2, "other"), Update(txid, key_table(shape, ["cat"]), pa.array([1])))


def test_a_state_that_somebody_else_writes_ends_in_one_error(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_reads, "_HELD_SECONDS", 0.05)
    overtaken(states)
    with pytest.raises(
        SnapshotMovedError,
        match=r"no read as of txid 1 of g succeeded within 0.05 s, .*another program writes to the state",
    ):
        values(states, "ins")
    assert states.gates["g"].wait(3, timeout=0), "the failed read still holds commits back"


def test_the_reason_is_given_as_soon_as_the_run_knows_it(states: States) -> None:
    overtaken(states)
    timer = threading.Timer(0.1, lambda: setattr(states, "stopped", FencedError("taken over")))
    timer.start()
    began = time.monotonic()
    with pytest.raises(FencedError, match="taken over"):
        values(states, "ins")
    assert time.monotonic() - began < 2


def test_the_gate_lets_the_next_batch_pass_and_holds_the_one_after_it() -> None:
    committed = [4]
    gate = CommitGate(lambda: committed[0])
    assert gate.wait(7, timeout=0)
    with gate.between() as outer:
        committed[0] = 5
        with gate.between() as inner:
            assert (outer, inner) == (4, 5)
            assert gate.wait(5, timeout=0)
            assert not gate.wait(6, timeout=0.01)
        assert not gate.wait(6, timeout=0)
    assert gate.wait(6, timeout=0)


def test_the_gate_wakes_the_committer() -> None:
    gate = CommitGate(lambda: 0)
    passed = threading.Event()
    with gate.between():
        committer = threading.Thread(target=lambda: gate.wait(2) and passed.set())
        committer.start()
        assert not passed.wait(0.05)
    assert passed.wait(5)
    committer.join(5)


@contextmanager
def writing(batch: Callable[[], Any]) -> Iterator[None]:
    """Commit batch after batch in a thread for as long as the block runs."""
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not over.is_set():
                batch()
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    assert not failed
