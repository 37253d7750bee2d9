"""States and steps that are new, or begin anew, while batches wait to be committed: a state that was born after a batch
gets nothing of it, and gives nothing on. What was there before counts as if they were not."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, MapGet, TridentTopology, dropState
from trident.base.errors import StateUnavailableError
from trident.runtime.committer import Committer
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

BATCHES = [["a", "b"], ["a"], ["c", "a"]]
COUNTS = {"a": 3, "b": 1, "c": 1}
pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* is new:RuntimeWarning"),
]


@pytest.fixture(params=["memory", "redis"])
def state(request: pytest.FixtureRequest, shared_redis: RedisServer, tmp_path: Path) -> Any:
    if request.param == "memory":
        return MemoryMapState.opaque()
    return RedisMapState.opaque(shared_redis.url, prefix=tmp_path.name)


class Out:
    """What left, by txid."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}

    def __call__(self, table: Any, txid: int, attempt: int) -> None:
        self.rows[txid] = table.to_pylist()


def counting(state: Any, batches: list[list[str]]) -> tuple[TridentTopology, Any, Any]:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", batches))
    return topology, words, words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")


def leave_waiting(topology: TridentTopology, folder: Path, patch: pytest.MonkeyPatch, waiting: int) -> None:
    """A run that ends with so many frozen batches, none of them committed."""

    def away(committer: Committer, txid: int, first: Any = None) -> None:
        until = time.monotonic() + 20
        while committer.log.history(committer.group.name).last_frozen < waiting and time.monotonic() < until:
            time.sleep(0.005)
        raise StateUnavailableError("away")

    with patch.context() as patched:
        patched.setattr(Committer, "commit", away)
        options: dict[str, Any] = {"maxSpoutPending": 4, "commitRetrySecs": 0}
        running = start_local(topology, name="t", checkpointLocation=folder, **options)
        with pytest.raises(StateUnavailableError):
            running.processAllAvailable(timeout=20)
        running.stop()


def run(topology: TridentTopology, folder: Path, *states: str) -> list[dict[Any, Any]]:
    with start_local(topology, name="t", checkpointLocation=folder, commitRetrySecs=0) as running:
        running.processAllAvailable(timeout=20)
        return [dict(running.state(name).items()) for name in states]


def test_a_state_that_was_founded_by_a_start_that_committed_nothing_is_not_ahead(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands at its birth, past batches whose second stage is not there yet."""
    out = Out()

    def declared(new: bool) -> TridentTopology:
        topology, words, counts = counting(state, BATCHES)
        if new:
            counts.newValuesStream().foreachArrow(out, name="out")
            words.groupBy("word").persistentAggregate(state, Count(), "n", name="other")
        return topology

    leave_waiting(declared(new=False), tmp_path, monkeypatch, 3)
    leave_waiting(declared(new=True), tmp_path, monkeypatch, 3)
    assert run(declared(new=True), tmp_path, "counts", "other") == [COUNTS, {}]
    assert {txid: len(rows) for txid, rows in out.rows.items()} == {1: 2, 2: 1, 3: 2}


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_new_state_between_old_ones_gives_nothing_on_of_the_batches_before_it(
    waiting: int, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Out()

    def declared(new: bool, batches: list[list[str]]) -> TridentTopology:
        topology, _, counts = counting(state, batches)
        values = counts.newValuesStream()
        told = values.project("count")
        if new:
            seen = values.groupBy("count").persistentAggregate(state, Count(), "n", name="seen").newValuesStream()
            seen.foreachArrow(out, name="out")
            told = topology.merge(told, seen.project("count"))
        told.persistentAggregate(state, Count(), "z", name="told")
        return topology

    batches = BATCHES[:waiting]
    leave_waiting(declared(False, batches), tmp_path, monkeypatch, waiting)
    values = sum(len(batch) for batch in batches)
    assert run(declared(True, batches), tmp_path, "seen", "told") == [{}, {(): values}]
    assert out.rows == {txid + 1: [] for txid in range(waiting)}
    assert run(declared(True, [*batches, ["z"]]), tmp_path, "seen", "told") == [{1: 1}, {(): values + 2}]


def test_a_new_state_knows_nothing_when_it_is_asked_for_a_batch_before_it(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Out()

    def declared(new: bool) -> TridentTopology:
        topology, _, counts = counting(state, BATCHES)
        if new:
            values = counts.newValuesStream()
            seen = values.groupBy("count").persistentAggregate(state, Count(), "n", name="seen")
            values.stateQuery(seen, "count", MapGet(), "n").project("word", "n").foreachArrow(out, name="asked")
        return topology

    leave_waiting(declared(new=False), tmp_path, monkeypatch, 3)
    assert run(declared(new=True), tmp_path, "counts", "seen") == [COUNTS, {}]
    asked = [
        (row["word"], row["n"]) for txid in (1, 2, 3) for row in sorted(out.rows[txid], key=lambda row: row["word"])
    ]
    assert asked == [("a", None), ("b", None), ("a", None), ("a", None), ("c", None)]


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_dropped_state_begins_anew_after_the_batches_that_wait_though_they_hold_what_it_was_to_get(
    waiting: int, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Out()

    def declared(batches: list[list[str]]) -> TridentTopology:
        topology, _, counts = counting(state, batches)
        values = counts.newValuesStream()
        values.groupBy("count").persistentAggregate(state, Count(), "n", name="seen")
        values.foreachArrow(out, name="out")
        return topology

    batches = BATCHES[:waiting]
    leave_waiting(declared(batches), tmp_path, monkeypatch, waiting)
    elsewhere = None if isinstance(state, MemoryMapState) else state
    dropState("t", "counts", tmp_path, factory=elsewhere, force=True)
    assert run(declared(batches), tmp_path, "counts", "seen") == [{}, {}]
    assert out.rows == {txid + 1: [] for txid in range(waiting)}
    assert run(declared([*batches, ["a", "z"]]), tmp_path, "counts", "seen") == [{"a": 1, "z": 1}, {1: 2}]
