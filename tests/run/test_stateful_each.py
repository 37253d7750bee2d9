"""Stateful operations, end to end: their state, the order of their calls, and one change a batch whatever fails."""

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.contents import contents
from tests.support.noted_calls import NotedCalls
from tests.support.server import RedisServer
from trident import MapGet, StatefulOperation, TridentTopology
from trident.base.errors import (
    StateClosedError,
    StateKeyError,
    StateUnavailableError,
    StateValueError,
    UserFunctionError,
)
from trident.spouts import FixedBatchSpout
from trident.state import KeyValueState, MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.memory.store import MemoryStore

MakeState = Callable[[], Any]

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def words(topology: TridentTopology, *batches: list[Any], fields: str = "word string") -> Any:
    return topology.newStream("words", FixedBatchSpout(fields, list(batches)))


def counted(tuple: Any, state: KeyValueState) -> int:
    n = int(state.get(tuple.word, 0)) + 1
    state.put(tuple.word, n)
    return n


def counting(state: Any, *batches: list[Any]) -> tuple[TridentTopology, list[Any]]:
    topology, seen = TridentTopology(), list[Any]()
    counts = words(topology, *batches).statefulEach(
        counted, "n long", keyFields="word", valueType="long", stateFactory=state, name="counts"
    )
    counts.peek(lambda t: seen.append((t.word, t.n)))
    return topology, seen


def test_running_counts_are_emitted_tuple_by_tuple_and_go_on_after_a_restart(
    make_state: MakeState, tmp_path: Path
) -> None:
    first, seen = counting(make_state(), ["dog", "cat", "dog"], ["dog"])
    assert contents(first, tmp_path, "counts") == [{"dog": 3, "cat": 1}]
    assert seen == [("dog", 1), ("cat", 1), ("dog", 2), ("dog", 3)]
    again, seen = counting(make_state(), ["dog", "cat", "dog"], ["dog"], [], ["cat", "dog"])
    assert contents(again, tmp_path, "counts") == [{"dog": 4, "cat": 2}]
    assert seen == [("cat", 2), ("dog", 4)]


def test_a_state_is_keyed_so_that_other_partitions_after_a_restart_find_it(
    make_state: MakeState, tmp_path: Path
) -> None:
    """2 -> 5 -> 3 partitions before the operation, and groups by another verb: the same keys, the same values."""
    batches: list[list[str]] = []
    for partitions in (2, 5, 3):
        batches += [["dog", "cat", "cow"] * 3]
        topology = TridentTopology()
        spread = words(topology, *batches).partitionBy("word").parallelismHint(partitions)
        spread.groupBy("word").statefulEach(
            counted, "n long", valueType="long", stateFactory=make_state(), name="counts"
        )
        found = contents(topology, tmp_path, "counts")
    assert found == [{"dog": 9, "cat": 9, "cow": 9}]


# --- the contract of a KeyValueState ----------------------------------------------------------------------------------


def test_a_state_reads_what_was_put_before_and_lists_stored_and_changed_entries(
    make_state: MakeState, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def step(tuple: Any, state: KeyValueState) -> None:
        key, value = tuple
        before = (state.get(key), state.get(key, "default"), key in state)
        if value is None:
            state.delete(key)
        else:
            state.put(key, value)
        seen.append((before, state.get(key), sorted(state.items()), sorted(state.keys()), sorted(state)))

    topology = TridentTopology()
    rows = words(
        topology,
        [("a", "1"), ("b", "2"), ("a", None)],
        [("c", "3"), ("b", None), ("b", "4"), ("z", None)],
        fields="k string, v string",
    )
    out = rows.statefulEach(step, keyFields="k", valueType="string", stateFactory=make_state(), name="held")
    passed: list[Any] = []
    out.peek(lambda t: passed.append(tuple(t)))
    assert contents(topology, tmp_path, "held") == [{"b": "4", "c": "3"}]
    nothing, one, two = (None, "default", False), ("1", "1", True), ("2", "2", True)
    assert seen == [
        (nothing, "1", [("a", "1")], ["a"], ["a"]),
        (nothing, "2", [("a", "1"), ("b", "2")], ["a", "b"], ["a", "b"]),
        (one, None, [("b", "2")], ["b"], ["b"]),
        (nothing, "3", [("b", "2"), ("c", "3")], ["b", "c"], ["b", "c"]),
        (two, None, [("c", "3")], ["c"], ["c"]),
        (nothing, "4", [("b", "4"), ("c", "3")], ["b", "c"], ["b", "c"]),
        (nothing, None, [("b", "4"), ("c", "3")], ["b", "c"], ["b", "c"]),
    ]
    assert passed[0] == ("a", "1") and len(passed) == 7, "without outputFields every tuple goes on as it is"


def test_keys_of_several_fields_and_nested_values_that_the_user_changes_afterwards(
    make_state: MakeState, tmp_path: Path
) -> None:
    def listed(tuple: Any, state: KeyValueState) -> int:
        names = state.get((tuple.user, tuple.day), [])
        names.append(tuple.name)
        state.put((tuple.user, tuple.day), names)
        names.append("not put")
        assert [key for key in state if key == (tuple.user, tuple.day)] == [(tuple.user, tuple.day)]
        return len(state.get([tuple.user, tuple.day]))

    topology = TridentTopology()
    rows = words(
        topology,
        [(1, "mo", "x"), (1, "mo", "y")],
        [(1, "tu", "z"), (1, "mo", "w")],
        fields="user int, day string, name string",
    )
    rows.statefulEach(
        listed, "n int", keyFields="user, day", valueType="array<string>", stateFactory=make_state(), name="names"
    )
    assert contents(topology, tmp_path, "names") == [{(1, "mo"): ["x", "y", "w"], (1, "tu"): ["z"]}]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda state: state.get(5), StateKeyError, r"get: invalid key 5 \(int\): expected word string"),
        (lambda state: state.put(True, 1), StateKeyError, r"put: invalid key True \(bool\): expected word string"),
        (lambda state: state.put("a", "1"), StateValueError, r"put takes values of type bigint, not '1' \(str\)"),
        (lambda state: state.put("a", 1 << 63), StateValueError, r"put takes values of type bigint, not 9223"),
        (lambda state: state.delete(("a", "b")), StateKeyError, r"delete: invalid key \('a', 'b'\)"),
        (lambda state: 1 // 0, UserFunctionError, r"raised ZeroDivisionError: .*; the tuple was \(word='dog'\)"),
    ],
)
def test_a_wrong_call_names_the_step_what_came_and_what_is_accepted(
    wrong: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    def step(tuple: Any, state: KeyValueState) -> int:
        wrong(state)
        return 1

    topology = TridentTopology()
    words(topology, ["dog"]).statefulEach(step, "n int", keyFields="word", valueType="long", name="held")
    with pytest.raises(error, match=rf"words/1:statefulEach\(step\): step \(.*test_stateful_each.py:\d+.*{message}"):
        contents(topology, tmp_path, maxAttempts=1)


def test_a_state_that_is_kept_and_asked_outside_of_a_batch_is_closed(tmp_path: Path) -> None:
    kept: list[KeyValueState] = []

    def step(tuple: Any, state: KeyValueState) -> None:
        kept.append(state)
        state.put(tuple.word, 1)

    topology = TridentTopology()
    words(topology, ["dog"]).statefulEach(step, keyFields="word", valueType="long", name="held")
    contents(topology, tmp_path)
    with pytest.raises(StateClosedError, match=r"state 'held': get was called outside a batch"):
        kept[0].get("dog")


def test_a_batch_reads_its_keys_from_the_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, asked = MemoryStore.read, list[int]()

    def counted_read(self: MemoryStore, keys: Any, asOf: Any) -> Any:
        asked.append(keys.num_rows)
        return read(self, keys, asOf)

    monkeypatch.setattr(MemoryStore, "read", counted_read)
    topology, _ = counting(MemoryMapState.opaque(), [f"w{n % 50}" for n in range(200)])
    assert len(contents(topology, tmp_path, "counts")[0]) == 50
    assert asked == [50]


def test_a_store_that_is_away_is_asked_again_even_if_the_operation_swallows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, refused = MemoryStore.read, list[int]()

    def away(self: MemoryStore, keys: Any, asOf: Any) -> Any:
        if asOf == 1 and not refused:
            refused.append(asOf)
            raise StateUnavailableError("away")
        return read(self, keys, asOf)

    def careless(tuple: Any, state: KeyValueState) -> None:
        with contextlib.suppress(Exception):
            state.put("all", state.get("all", 0) + 1)

    monkeypatch.setattr(MemoryStore, "read", away)
    topology = TridentTopology()
    rows = words(topology, ["dog", "cat"], ["dog"])
    rows.statefulEach(careless, keyFields="key string", valueType="long", name="held")
    assert contents(topology, tmp_path, "held") == [{"all": 3}]
    assert refused


# --- the order of calls -----------------------------------------------------------------------------------------------


class Recorder(NotedCalls, StatefulOperation):
    """Counts in memory, puts at the end of a batch, and notes every call."""

    def initState(self, state: KeyValueState) -> None:
        self.state, self.sums = state, dict(state.items())
        self.note(f"init {sorted(self.sums.items())}")

    def execute(self, tuple: Any, collector: Any) -> None:
        self.sums[tuple.word] = self.sums.get(tuple.word, 0) + 1
        self.note(tuple.word)
        collector.emit([self.sums[tuple.word]])

    def prePrepare(self, txid: int) -> None:
        for word, count in self.sums.items():
            self.state.put(word, count)
        self.note(f"prePrepare {txid}")

    def preCommit(self, txid: int) -> None:
        self.note(f"preCommit {txid}")

    def preRollback(self) -> None:
        self.sums = dict(self.state.items())
        self.note(f"preRollback {sorted(self.sums.items())}")


def recorded(recorder: Recorder, state: Any, *batches: list[Any]) -> tuple[TridentTopology, list[Any]]:
    topology, seen = TridentTopology(), list[Any]()
    counts = words(topology, *batches).statefulEach(
        recorder, "n long", keyFields="word", valueType="long", stateFactory=state, name="counts"
    )
    counts.peek(lambda t: seen.append((t.word, t.n)))
    return topology, seen


def test_the_calls_of_a_run_and_of_the_next_one_come_in_order(make_state: MakeState, tmp_path: Path) -> None:
    first = Recorder()
    batches: list[list[str]] = [["dog", "cat"], [], ["dog"]]
    contents(recorded(first, make_state(), *batches)[0], tmp_path)
    expected = ["init []", "dog", "cat", "prePrepare 1", "preCommit 1", "prePrepare 2", "preCommit 2"]
    assert first.calls == [*expected, "dog", "prePrepare 3", "preCommit 3"]
    second = Recorder()
    topology, seen = recorded(second, make_state(), *batches, ["dog"])
    assert contents(topology, tmp_path, "counts") == [{"dog": 3, "cat": 1}]
    assert second.calls == ["init [('cat', 1), ('dog', 2)]", "dog", "prePrepare 4", "preCommit 4"]
    assert seen == [("dog", 3)]


@pytest.mark.parametrize("fails", ["cat", "prePrepare 2"])
def test_a_batch_that_failed_before_it_was_frozen_begins_again_with_preRollback(
    fails: str, make_state: MakeState, tmp_path: Path
) -> None:
    recorder = Recorder(fails)
    topology, seen = recorded(recorder, make_state(), ["dog"], ["dog", "cat"])
    assert contents(topology, tmp_path, "counts") == [{"dog": 2, "cat": 1}]
    begun = ["init []", "dog", "prePrepare 1", "preCommit 1", "dog", "cat"]
    failed = begun if fails == "cat" else [*begun, "prePrepare 2"]
    assert recorder.calls == [*failed, "preRollback [('dog', 1)]", "dog", "cat", "prePrepare 2", "preCommit 2"]
    assert seen == [("dog", 1), ("dog", 2), ("cat", 1)]


def test_a_commit_that_failed_is_repeated_and_never_computed_again(make_state: MakeState, tmp_path: Path) -> None:
    recorder = Recorder("preCommit 1")
    topology, _ = recorded(recorder, make_state(), ["dog"])
    assert contents(topology, tmp_path, "counts") == [{"dog": 1}]
    assert recorder.calls == ["init []", "dog", "prePrepare 1", "preCommit 1", "preCommit 1"]


def test_an_initState_that_failed_is_called_again(tmp_path: Path) -> None:
    recorder = Recorder("init []")
    topology, _ = recorded(recorder, MemoryMapState.opaque(), ["dog"])
    assert contents(topology, tmp_path, "counts") == [{"dog": 1}]
    assert recorder.calls[:3] == ["init []", "init []", "dog"]


def test_what_was_frozen_when_the_driver_went_is_committed_first_and_then_the_next_one_begins(tmp_path: Path) -> None:
    """Prepared, not committed: the new object hears preCommit, then initState with that batch in the state."""
    batches = [["dog"], ["dog", "cat"], ["cat"]]
    lost = Recorder("preCommit 2")
    with pytest.raises(UserFunctionError, match=r"RuntimeError: preCommit 2 was to fail in preCommit\(2\)"):
        contents(recorded(lost, MemoryMapState.opaque(), *batches)[0], tmp_path, maxAttempts=1)
    after = Recorder()
    topology, seen = recorded(after, MemoryMapState.opaque(), *batches)
    assert contents(topology, tmp_path, "counts") == [{"dog": 2, "cat": 2}]
    assert after.calls == ["preCommit 2", "init [('cat', 1), ('dog', 2)]", "cat", "prePrepare 3", "preCommit 3"]
    assert seen == [("dog", 2), ("cat", 1), ("cat", 2)]


# --- several of them --------------------------------------------------------------------------------------------------


def test_two_operations_in_series_and_two_stores_hold_one_batch_or_the_other_together(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Whenever both are read, they are as of the same txid."""

    def summed(tuple: Any, state: KeyValueState) -> None:
        state.put("sum", state.get("sum", 0) + tuple.n)

    batches = [[f"w{n}" for n in range(5)] for _ in range(12)]
    topology = TridentTopology()
    first = words(topology, *batches).statefulEach(
        counted,
        "n long",
        keyFields="word",
        valueType="long",
        stateFactory=RedisMapState.opaque(shared_redis.url, buckets=16),
        name="counts",
    )
    second = first.statefulEach(summed, keyFields="key string", valueType="long", name="sums")
    asked = topology.newDRPCStream("ask", "word string, key string").stateQuery(first.state(), "word", MapGet(), "n")
    asked.stateQuery(second.state(), "key", MapGet(), "total").project("n", "total")
    with start_local(topology, name="t", checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        looks = [(0, 0)]
        while looks[-1][0] < 12:
            looks += [tuple(row) for row in running.drpc.execute("ask", "w0", "sum") if row[0] is not None]
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {f"w{n}": 12 for n in range(5)}
    assert all(total == 5 * n * (n + 1) // 2 for n, total in looks), looks


def test_states_of_one_name_in_two_topologies_stay_apart(shared_redis: RedisServer, tmp_path: Path) -> None:
    url = shared_redis.url
    found = []
    for name, batch in (("one", ["dog"]), ("two", ["dog", "dog"])):
        topology, _ = counting(RedisMapState.opaque(url, buckets=16), batch)
        with start_local(topology, name=name, checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            found.append(dict(running.state("counts").items()))
    assert found == [{"dog": 1}, {"dog": 2}]


def test_a_state_in_memory_without_a_checkpoint_warns_that_it_does_not_survive() -> None:
    topology, _ = counting(MemoryMapState.opaque(), ["dog"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with start_local(topology, name="t") as running:
            running.processAllAvailable(timeout=30)
    assert any("its states and its position end with this run" in str(warning.message) for warning in caught)


def test_an_operation_whose_body_nothing_runs_is_told(tmp_path: Path) -> None:
    def later(tuple: Any, state: KeyValueState) -> Any:
        state.put(tuple.word, 1)
        yield

    topology = TridentTopology()
    words(topology, ["dog"]).statefulEach(
        lambda tuple, state: later(tuple, state), keyFields="word", valueType="long", name="held"
    )
    with pytest.raises(UserFunctionError, match=r"returned <generator.*tuple was \(word='dog'\) \(its body never runs"):
        contents(topology, tmp_path, maxAttempts=1)
