"""A changed program over batches that wait to be committed: it goes on exactly, or is refused with a way out."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, MapGet, TridentTopology, dropState
from trident.base.errors import CodeChangedError, StateUnavailableError
from trident.runtime import registry
from trident.runtime.committer import Committer
from trident.spouts import FixedBatchSpout, PollingSpout
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


def with_new_state(topology: TridentTopology, words: Any, counts: Any, state: Any) -> None:
    words.groupBy("word").persistentAggregate(state, Count(), "n", name="other")


def with_new_stage(topology: TridentTopology, words: Any, counts: Any, state: Any) -> None:
    counts.newValuesStream().groupBy("count").persistentAggregate(state, Count(), "n", name="seen")


def with_new_output(topology: TridentTopology, words: Any, counts: Any, state: Any) -> None:
    words.foreachArrow(Out(), name="out")


def with_new_query(topology: TridentTopology, words: Any, counts: Any, state: Any) -> None:
    words.stateQuery(counts, "word", MapGet(), "n").foreachArrow(Out(), name="asked")


NEW = [with_new_state, with_new_stage, with_new_output, with_new_query]


@pytest.mark.parametrize("new", NEW)
def test_what_is_new_over_waiting_batches_is_refused_until_the_former_program_has_committed_them(
    new: Any, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_waiting(counting(state, BATCHES)[0], tmp_path, monkeypatch, 3)
    topology, words, counts = counting(state, BATCHES)
    new(topology, words, counts, state)
    with pytest.raises(CodeChangedError, match=r"batch 1 .*this program has .* Start the former program once"):
        run(topology, tmp_path)
    assert run(counting(state, BATCHES)[0], tmp_path, "counts") == [COUNTS]
    assert run(topology, tmp_path, "counts") == [COUNTS]


def test_a_start_that_is_refused_leaves_the_driver_alone_that_has_what_waits(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That driver can commit it, and nobody else."""
    topology, words, _ = counting(state, BATCHES)
    held, frozen = threading.Event(), threading.Event()

    def hold(table: Any, txid: int, attempt: int) -> None:
        frozen.set()
        assert held.wait(20)

    words.foreachArrow(hold, name="out")
    with start_local(topology, name="t", checkpointLocation=tmp_path, messageTimeoutSecs=30, maxSpoutPending=1) as run:
        assert frozen.wait(20)
        registry.release("t", run)  # the next one starts as if in another process
        other, words, _ = counting(state, BATCHES)
        words.foreachArrow(hold, name="out")
        words.groupBy("word").persistentAggregate(state, Count(), "n", name="other")
        with pytest.raises(CodeChangedError, match="this program has 'other'"):
            start_local(other, name="t", checkpointLocation=tmp_path)
        held.set()
        run.processAllAvailable(timeout=20)
        assert dict(run.state("counts").items()) == COUNTS


@pytest.mark.parametrize("new", NEW)
def test_what_is_gone_over_waiting_batches_is_refused_but_an_output(
    new: Any, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology, words, counts = counting(state, BATCHES)
    new(topology, words, counts, state)
    leave_waiting(topology, tmp_path, monkeypatch, 3)
    if new in (with_new_state, with_new_stage):
        with pytest.raises(CodeChangedError, match=r"batch 1 .*it froze .* Start the former program once"):
            run(counting(state, BATCHES)[0], tmp_path)
        run(topology, tmp_path)
    assert run(counting(state, BATCHES)[0], tmp_path, "counts") == [COUNTS]


def test_an_output_that_moved_to_another_group_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows of the waiting batch are not dropped: only the former program can hand them over."""
    out = Out()

    def declared(merged: bool) -> TridentTopology:
        topology = TridentTopology()
        first = topology.newStream("a", FixedBatchSpout("word string", [["a1"]]))
        second = topology.newStream("b", FixedBatchSpout("word string", [["b1"]]))
        first.foreachArrow(Out(), name="kept")
        (topology.merge(first, second) if merged else second).foreachArrow(out, name="out")
        return topology

    leave_waiting(declared(True), tmp_path, monkeypatch, 1)
    with pytest.raises(CodeChangedError, match=r"batch 1 .*it froze 'out!' .* Start the former program once"):
        run(declared(False), tmp_path)
    run(declared(True), tmp_path)
    run(declared(False), tmp_path)
    assert sorted(row["word"] for rows in out.rows.values() for row in rows) == ["a1", "b1"]


def test_a_mended_function_goes_on_with_what_waits(state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def declared(split: Any) -> TridentTopology:
        topology = TridentTopology()
        lines = topology.newStream("words", FixedBatchSpout("line string", [["a b"], ["a"], ["c a"]]))
        words = lines.each("line", split, "word string").groupBy("word")
        words.persistentAggregate(state, Count(), "count", name="counts")
        return topology

    def split(line: str) -> Iterator[str]:
        yield from line.split()

    leave_waiting(declared(split), tmp_path, monkeypatch, 3)
    assert run(declared(lambda line: (yield from line.split(" "))), tmp_path, "counts") == [COUNTS]


def sides(state: Any, sides: list[str], out: dict[str, list[Any]]) -> TridentTopology:
    """Two queries over one state, each of the words on one side, declared in this order."""
    topology, words, counts = counting(state, BATCHES)

    def side(name: str) -> None:
        mine = words.filter("word", (lambda word: word == "a") if name == "left" else (lambda word: word != "a"))
        answered = mine.stateQuery(counts, "word", MapGet(), "n")
        answered.foreachArrow(lambda table, txid, attempt: out[name].extend(table["word"].to_pylist()), name=name)

    for name in sides:
        side(name)
    return topology


def test_frozen_tuples_that_wait_for_a_query_go_to_that_query_in_whatever_order_lines_stand(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out: dict[str, list[Any]] = {"left": [], "right": []}
    leave_waiting(sides(state, ["left", "right"], out), tmp_path, monkeypatch, 3)
    assert run(sides(state, ["right", "left"], out), tmp_path, "counts") == [COUNTS]
    assert {name: sorted(words) for name, words in out.items()} == {"left": ["a", "a", "a"], "right": ["b", "c"]}


def test_a_later_stage_of_a_waiting_batch_that_is_frozen_and_read_again_goes_to_its_own_queries(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queries stand in the second stage. A function of the third one fails once, and the commit begins again."""
    out: dict[str, list[Any]] = {"left": [], "right": []}
    fails = [1]

    def declared(order: list[str]) -> TridentTopology:
        topology, _, counts = counting(state, BATCHES)
        values = counts.newValuesStream()

        def seen(n: int | None) -> int | None:
            if fails:
                fails.pop()
                raise ValueError("once")
            return n

        def side(name: str) -> None:
            mine = values.filter("word", (lambda word: word == "a") if name == "left" else (lambda word: word != "a"))
            answered = mine.stateQuery(counts, "word", MapGet(), "n").each("n", seen, "seen long")
            answered.foreachArrow(lambda table, txid, attempt: out[name].extend(table["word"].to_pylist()), name=name)

        for name in order:
            side(name)
        return topology

    leave_waiting(declared(["left", "right"]), tmp_path, monkeypatch, 3)
    with start_local(declared(["right", "left"]), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert not fails
    assert {name: sorted(words) for name, words in out.items()} == {"left": ["a", "a", "a"], "right": ["b", "c"]}


def test_queries_that_nothing_but_their_code_tells_apart_are_matched_by_it_or_refused(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lead to one output, so neither names nor the graph tell which frozen tuples are whose."""
    rows: list[tuple[str, str]] = []

    def declared(order: list[int], mended: str = "") -> TridentTopology:
        topology, words, counts = counting(state, BATCHES)
        keeps = [lambda word: word == "a", lambda word: word != "a"]
        marks = [lambda n: f"first{mended}", lambda n: f"second{mended}"]
        answered = [
            words.filter("word", keeps[at])
            .stateQuery(counts, "word", MapGet(), "n")
            .each("n", marks[at], "mark string")
            for at in order
        ]
        both = topology.merge(*answered)
        both.foreachArrow(lambda t, txid, attempt: rows.extend((r["word"], r["mark"]) for r in t.to_pylist()))
        return topology

    leave_waiting(declared([0, 1]), tmp_path, monkeypatch, 3)
    run(declared([1, 0]), tmp_path)
    assert sorted(set(rows)) == [("a", "first"), ("b", "second"), ("c", "second")]


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


def test_a_start_that_is_refused_for_what_a_state_missed_has_written_nothing(tmp_path: Path) -> None:
    """The rename that it brings is not noted: the former program goes on as it is."""
    rows = list[str]()

    def program(*states: str, renamed: bool = False) -> TridentTopology:
        topology = TridentTopology()
        spout = PollingSpout("word string", {"p": rows})
        stream = topology.newStream("b", spout, formerly="a") if renamed else topology.newStream("a", spout)
        for name in states:
            stream.groupBy("word").persistentAggregate(MemoryMapState.transactional(), Count(), "n", name=name)
        return topology

    rows.append("x")
    run(program("kept", "missing"), tmp_path)
    rows.append("y")
    run(program("kept"), tmp_path)
    with pytest.raises(CodeChangedError, match="'missing' stands before batch 2"):
        run(program("kept", "missing", renamed=True), tmp_path)
    rows.append("z")
    assert run(program("kept"), tmp_path, "kept") == [{"x": 1, "y": 1, "z": 1}]
