"""A changed program over batches that wait to be committed: it goes on exactly, or is refused with a way out."""

import contextlib
import functools
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, Filter, MapGet, Sum, TridentTopology, dropState
from trident.base.errors import CodeChangedError, StateShapeError, StateUnavailableError, UserFunctionError
from trident.commits.committer import Committer
from trident.log.sqlite_log import SqliteLog
from trident.run import registry
from trident.run.start import LOG_FILE
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
    counts.newValuesStream(everyChange=True).groupBy("count").persistentAggregate(state, Count(), "n", name="seen")


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
    with pytest.raises(
        CodeChangedError, match=r"batch 1 .*(also has|is different in this program).* Start the former program once"
    ):
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
        with pytest.raises(CodeChangedError, match="this program also has state 'other'"):
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
    with pytest.raises(CodeChangedError, match=r"batch 1 .*it froze output out .* Start the former program once"):
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
        values = counts.newValuesStream(everyChange=True)

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


class Is(Filter):
    def __init__(self, word: str) -> None:
        self.word = word

    def isKeep(self, tuple: Any) -> bool:
        return bool(tuple.word == self.word)


def closing(word: str) -> Any:
    return lambda each: each == word


def by_default(word: str) -> Any:
    return lambda each, word=word: each == word


def is_word(word: str, each: str) -> bool:
    return each == word


def a_called(each: str) -> bool:
    return each == "a"


def b_called(each: str) -> bool:
    return each == "b"


def by_name(word: str) -> Any:
    return {"a": lambda each: a_called(each), "b": lambda each: b_called(each)}[word]


WAYS = [closing, by_default, lambda word: functools.partial(is_word, word), Is, by_name]


def branches(way: Any, words: list[str], rows: list[tuple[str, str]], state: Any = None) -> TridentTopology:
    """A query for each of the words, all into one output, told apart by what a function holds alone."""
    topology, stream, counts = counting(state or MemoryMapState.opaque(), [["a", "b"], ["a"]])

    def mark(word: str) -> Any:
        return lambda each: word.upper()

    def branch(word: str) -> Any:
        keep = way(word)
        mine = stream.each("word", keep) if isinstance(keep, Filter) else stream.filter("word", keep)
        return mine.stateQuery(counts, "word", MapGet(), "n").each("word", mark(word), "mark string")

    both = topology.merge(*map(branch, words))
    both.foreachArrow(lambda t, txid, attempt: rows.extend((r["word"], r["mark"]) for r in t.to_pylist()))
    return topology


@pytest.mark.parametrize("way", WAYS)
def test_queries_that_only_a_value_of_their_functions_tells_apart_get_their_own_tuples_in_any_order(
    way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = []
    leave_waiting(branches(way, ["a", "b"], rows), tmp_path, monkeypatch, 2)
    run(branches(way, ["b", "a"], rows), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


@pytest.mark.parametrize("words", [["b", "c"], ["c", "b"], ["a", "c"], ["c", "a"]])
def test_a_query_whose_function_holds_another_value_does_not_get_the_tuples_of_one_like_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = []
    leave_waiting(branches(by_default, ["a", "b"], rows), tmp_path, monkeypatch, 2)
    with pytest.raises(CodeChangedError) as refused:
        run(branches(by_default, words, rows), tmp_path)
    assert re.search(
        r"it froze what asks counts \(word string; .*stateQuery\(MapGet\) at test_program_compatibility\.py:\d+; .*"
        r"the default of word in words/\d+:filter\(<lambda>\) at test_program_compatibility\.py:\d+",
        str(refused.value),
    )
    run(branches(by_default, ["b", "a"], rows), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


def test_a_value_that_all_branches_share_may_be_another_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's id, say. It tells no branch from another."""
    rows: list[tuple[str, str]] = []

    def sharing(run_id: int) -> Any:
        return lambda word: lambda each: each == word and bool(run_id)

    leave_waiting(branches(sharing(1), ["a", "b"], rows), tmp_path, monkeypatch, 2)
    run(branches(sharing(2), ["b", "a"], rows), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


def test_one_of_several_branches_may_be_mended_where_something_else_still_tells_it_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = []

    def mended(word: str) -> Any:
        limit = 1 if word == "a" else 2
        return lambda each: each == word and limit > 0

    def as_it_was(word: str) -> Any:
        limit = 1
        return lambda each: each == word and limit > 0

    leave_waiting(branches(as_it_was, ["a", "b"], rows), tmp_path, monkeypatch, 2)
    run(branches(mended, ["b", "a"], rows), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


def test_an_object_that_a_run_has_changed_is_known_by_what_it_was_at_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting:
        def __init__(self, word: str) -> None:
            self.word, self.seen = word, 0

        def __call__(self, each: str) -> bool:
            self.seen += len(self.word) if self.word == "a" else 2
            return each == self.word

    rows: list[tuple[str, str]] = []
    first = branches(Counting, ["a", "b"], rows)
    leave_waiting(first, tmp_path, monkeypatch, 2)
    run(first, tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]
    first = branches(Counting, ["a", "b"], rows)
    run(first, tmp_path / "before")
    leave_waiting(first, tmp_path / "changed", monkeypatch, 2)
    rows.clear()
    run(branches(Counting, ["b", "a"], rows), tmp_path / "changed")
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


UNKNOWN = """
class Known:
    def __init__(self, word):
        self.word = word

def keep(known):
    return lambda each: each == known.word

def topology(counting, state, query, out):
    topology, stream, counts = counting(state, [["a", "b"], ["a"]])
    both = [
        stream.filter("word", keep(known)).stateQuery(counts, "word", query, "n").filter("word", keep(known))
        for known in KNOWN
    ]
    topology.merge(*both).foreachArrow(out, name="out")
    return topology
"""


def test_queries_that_nothing_tells_apart_get_their_tuples_from_the_very_same_program_text_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their functions hold objects of a class of the user's, which count by their type."""
    rows: list[str] = []

    def out(table: Any, txid: int, attempt: int) -> None:
        rows.extend(table["word"].to_pylist())

    def declared(known: str) -> TridentTopology:
        file, names = tmp_path / "program.py", dict[str, Any]()
        file.write_text(f"{UNKNOWN}\nKNOWN = {known}\n")
        exec(compile(file.read_text(), str(file), "exec"), names)
        topology: TridentTopology = names["topology"](counting, MemoryMapState.opaque(), MapGet(), out)
        return topology

    leave_waiting(declared("[Known('a'), Known('b')]"), tmp_path / "c", monkeypatch, 2)
    with pytest.raises(
        CodeChangedError, match=r"known by their type alone tell it from another such part of its program"
    ):
        run(declared("[Known('b'), Known('a')]"), tmp_path / "c")
    run(declared("[Known('a'), Known('b')]"), tmp_path / "c")
    assert sorted(rows) == ["a", "a", "b"]


def test_queries_that_have_all_in_common_go_on_in_a_changed_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold the same tuples, so it does not matter which of them gets which."""
    rows: list[tuple[str, str]] = []
    leave_waiting(branches(closing, ["a", "a"], rows), tmp_path, monkeypatch, 2)
    topology = branches(closing, ["a", "a"], rows)
    topology.newDRPCStream("echo").each("args", len, "n long")
    run(topology, tmp_path)
    assert rows == [("a", "A")] * 4


@pytest.mark.parametrize("swapped", [False, True])
def test_later_steps_are_told_apart_by_the_states_that_the_steps_above_them_ask(
    swapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second stage is frozen, and a query in it stands behind two other ones, which ask different states."""
    rows: list[tuple[str, int]] = []
    fails = [1]

    def declared(order: list[str]) -> TridentTopology:
        topology, words, counts = counting(MemoryMapState.opaque(), [["a"], ["a"]])
        tens = words.each("word", lambda word: 10, "ten long").groupBy("word")
        states = {"counts": counts}
        states["tens"] = tens.persistentAggregate(MemoryMapState.opaque(), "ten", Sum(), "sum", name="tens")

        def mark(name: str) -> Any:
            def function(n: int | None) -> str:
                if fails and n is not None:
                    raise ValueError("not yet")
                return name

            return function

        def branch(name: str) -> Any:
            asked = words.stateQuery(states[name], "word", MapGet(), "n")
            return asked.stateQuery(counts, "word", MapGet(), "m").each("n", mark(name), "mark string")

        merged = topology.merge(*map(branch, order))
        merged.foreachArrow(lambda t, txid, attempt: rows.extend((r["mark"], r["n"]) for r in t.to_pylist()))
        return topology

    with (
        pytest.raises(UserFunctionError, match="not yet"),
        start_local(declared(["counts", "tens"]), name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=20)
    fails.clear()
    run(declared(["tens", "counts"] if swapped else ["counts", "tens"]), tmp_path)
    assert sorted(row for row in rows if row[1]) == [("counts", 1), ("tens", 10)]


def test_a_state_whose_updater_cannot_go_on_is_dropped_with_its_step_as_the_refusal_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tuples are those of the stream, which another state counts as well."""

    def declared(updating: bool, batches: list[list[str]]) -> TridentTopology:
        topology, words, _ = counting(MemoryMapState.opaque(), batches)

        def update(state: Any, tuples: Any, collector: Any) -> None:
            if len(tuples) == 1:
                raise ValueError("bad")
            state.multiPut([each.word for each in tuples], [1 for _ in tuples])

        if updating:
            words.partitionPersist(
                *(MemoryMapState.opaque(), "word", update, "word string"), keyFields="word", valueType="long", name="u"
            )
        return topology

    with (
        pytest.raises(UserFunctionError, match="bad"),
        start_local(declared(True, BATCHES), name="t", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)
    with pytest.raises(CodeChangedError) as refused:
        run(declared(False, BATCHES), tmp_path)
    told = re.search(r"drop what this program lacks, then start this one: (dropState\(.*?\))\.", str(refused.value))
    assert told is not None
    exec(told[1], {"dropState": dropState})
    assert run(declared(False, BATCHES), tmp_path, "counts") == [COUNTS]


def test_a_drop_is_not_offered_to_a_program_that_would_be_refused_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_waiting(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path, monkeypatch, 1)
    renamed = TridentTopology()
    words = renamed.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="others")
    with pytest.raises(CodeChangedError) as refused:
        run(renamed, tmp_path)
    assert "lacks" not in str(refused.value)
    assert re.search(r"first drop the state at which it fails \(dropState\('t', 'counts', check", str(refused.value))
    dropState("t", "counts", tmp_path)
    with pytest.raises(CodeChangedError, match=r"this program also has state 'others'"):
        run(renamed, tmp_path)
    run(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path)
    assert run(renamed, tmp_path, "others") == [{}]


def test_a_renamed_stream_over_waiting_batches_is_told_by_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_waiting(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path, monkeypatch, 1)
    renamed = TridentTopology()
    words = renamed.newStream("others", FixedBatchSpout("word string", BATCHES), formerly="words").groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with pytest.raises(
        CodeChangedError, match=r"above it, `newStream \(stream words\)` became `newStream \(stream others\)`\. Nothing"
    ):
        run(renamed, tmp_path)


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_dropped_state_begins_anew_after_the_batches_that_wait_though_they_hold_what_it_was_to_get(
    waiting: int, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Out()

    def declared(batches: list[list[str]]) -> TridentTopology:
        topology, _, counts = counting(state, batches)
        values = counts.newValuesStream(everyChange=True)
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
    with pytest.raises(CodeChangedError, match="stream 'b' fed 'missing' in an earlier program"):
        run(program("kept", "missing", renamed=True), tmp_path)
    rows.append("z")
    assert run(program("kept"), tmp_path, "kept") == [{"x": 1, "y": 1, "z": 1}]


def adding_up() -> TridentTopology:
    """As `counting`, by another aggregator."""
    topology = TridentTopology()
    ones = topology.newStream("words", FixedBatchSpout("word string", BATCHES)).each("word", lambda _: 1, "n long")
    ones.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "count", name="counts")
    return topology


def test_another_aggregator_over_a_waiting_batch_is_told_that_the_former_program_must_commit_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_waiting(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path, monkeypatch, 3)
    told = (
        r"by Sum \(another aggregator\)\. Batch 1 of group 'words' is frozen and not committed: .* Start the former "
        r"program once, so that it commits\. Then go on in one of these ways\. Give the new state another name="
    )
    with pytest.raises(StateShapeError, match=told):
        run(adding_up(), tmp_path)
    assert run(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path, "counts") == [COUNTS]
    with pytest.raises(StateShapeError) as refused:
        run(adding_up(), tmp_path)
    assert "frozen" not in str(refused.value)


def test_a_drop_that_a_killed_drivers_log_refuses_is_told_with_force(tmp_path: Path) -> None:
    run(counting(MemoryMapState.opaque(), BATCHES)[0], tmp_path)
    with contextlib.closing(SqliteLog(tmp_path / "t" / LOG_FILE, "t")) as log:
        log.take()  # and never gives it back
    with pytest.raises(StateShapeError) as refused:
        run(adding_up(), tmp_path)
    told = re.search(r"begin anew from the next batch with (dropState\(.*?force=True\))", str(refused.value))
    assert told is not None
    exec(told[1], {"dropState": dropState})
    assert run(adding_up(), tmp_path, "counts") == [{}]
