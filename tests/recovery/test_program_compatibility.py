"""A changed program over batches that wait to be committed: it goes on exactly, or is refused with a way out."""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, MapGet, Sum, TridentTopology, dropState
from trident.base.errors import (
    CodeChangedError,
    StateShapeError,
    StateUnavailableError,
    TopologyError,
    UserFunctionError,
)
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
        CodeChangedError, match=r"batch 1 .*(also has|is different in this program).* Start the previous program once"
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
        with pytest.raises(CodeChangedError, match=r"batch 1 .*it froze .* the previous program once"):
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
    with pytest.raises(CodeChangedError, match=r"batch 1 .*it froze output out .* the previous program once"):
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


def branches(
    words: list[str], rows: list[tuple[str, str]], name: Callable[[str], str | None], outs: Sequence[str] = ()
) -> TridentTopology:
    """A query for each of the words, all into one output, alike but for what their functions hold, and their names.

    `outs`: the words whose queries have an output of their own, too.
    """
    topology, stream, counts = counting(MemoryMapState.opaque(), [["a", "b"], ["a"]])

    def branch(word: str) -> Any:
        begun = stream if (named := name(word)) is None else stream.name(named)
        mine = begun.filter("word", lambda each: each == word)
        answered = mine.stateQuery(counts, "word", MapGet(), "n").each("word", lambda each: word.upper(), "mark string")
        if word in outs:
            answered.foreachArrow(Out(), name=f"out-{word}")
        return answered

    both = topology.merge(*map(branch, words))
    both.foreachArrow(lambda t, txid, attempt: rows.extend((r["word"], r["mark"]) for r in t.to_pylist()), name="both")
    return topology


@pytest.mark.parametrize("name", [str, lambda word: None if word == "a" else word], ids=["all", "all but one"])
def test_branches_of_equal_form_get_their_own_tuples_by_their_names_in_any_order(
    name: Callable[[str], str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = []
    leave_waiting(branches(["a", "b"], rows, name), tmp_path, monkeypatch, 2)
    run(branches(["b", "a"], rows, name), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


@pytest.mark.parametrize("names", [{}, {"a": "one", "b": "one"}], ids=["unnamed", "one name"])
def test_branches_of_equal_form_without_names_are_refused_with_both_lines(names: dict[str, str]) -> None:
    with pytest.raises(
        TopologyError,
        match=r"two branches have equal steps: one from words/\d+:filter\(<lambda>\) at .*:\d+ to "
        r"words/\d+:stateQuery\(MapGet\) at test_program_compatibility.py:\d+, .* they lead to output both\. .* "
        r"`\.name\(f'branch-\{n\}'\)\.filter\(<lambda>\)`"
        if not names
        else r"one from one/0:filter",
    ):
        start_local(branches(["a", "b"], [], names.get), name="t")


def test_branches_that_lead_to_different_outputs_need_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the outputs are removed over a waiting batch, only names tell the branches apart."""
    rows: list[tuple[str, str]] = []

    def program(name: Callable[[str], str | None], outs: Sequence[str] = "ab", order: str = "ab") -> TridentTopology:
        return branches(list(order), rows, name, outs)

    leave_waiting(program(lambda _: None), tmp_path / "unnamed", monkeypatch, 2)
    with pytest.raises(
        CodeChangedError, match=r"in the branch words, but .* with these steps are a/words and b/words: give"
    ):
        run(program(str, outs=""), tmp_path / "unnamed")
    run(program(lambda _: None, order="ba"), tmp_path / "unnamed")
    leave_waiting(program(str), tmp_path / "named", monkeypatch, 2)
    run(program(str, outs="", order="ba"), tmp_path / "named")
    assert sorted(rows) == sorted(2 * [("a", "A"), ("a", "A"), ("b", "B")])


def test_another_name_of_a_branch_over_waiting_batches_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = []
    leave_waiting(branches(["a", "b"], rows, str), tmp_path, monkeypatch, 2)
    with pytest.raises(
        CodeChangedError,
        match=r"in the branch [ab]/words, but in this program .* with these steps are A/words and B/words: give the",
    ):
        run(branches(["a", "b"], rows, str.upper), tmp_path)
    run(branches(["b", "a"], rows, str), tmp_path)
    assert sorted(rows) == [("a", "A"), ("a", "A"), ("b", "B")]


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
    told = re.search(
        r"drop the states that this program lacks, then start this program: (dropState\(.*?\))\.", str(refused.value)
    )
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
    assert re.search(r"first drop the state on which it fails \(dropState\('t', 'counts', check", str(refused.value))
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
        CodeChangedError,
        match=r"before it, `newStream \(stream words\)` became `newStream \(stream others\)`\. "
        r"Nothing",
    ):
        run(renamed, tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "told"), [(False, True, "now include"), (True, False, "no longer include")]
)
def test_a_step_that_came_or_went_over_waiting_batches_is_told(
    before: bool, after: bool, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declared(filtered: bool) -> TridentTopology:
        topology = TridentTopology()
        words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
        words = words.filter("word", bool) if filtered else words
        words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        return topology

    leave_waiting(declared(before), tmp_path, monkeypatch, 1)
    with pytest.raises(CodeChangedError, match=rf"the steps before it {told} `filter \(inputs word\)`\. Nothing"):
        run(declared(after), tmp_path)


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_dropped_state_begins_anew_after_the_batches_that_wait_though_they_hold_what_it_was_to_get(
    waiting: int, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked = Out(), Out()

    def declared(batches: list[list[str]]) -> TridentTopology:
        topology, words, counts = counting(state, batches)
        words.stateQuery(counts, "word", MapGet(), "n").foreachArrow(asked, name="asked")
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
    assert asked.rows == {txid: [{"word": word, "n": None} for word in words] for txid, words in enumerate(batches, 1)}
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
        r"by Sum \(another aggregator\)\. Batch 1 of group 'words' is frozen but not committed: .* Start the "
        r"previous program once, which commits the batch. Then choose one of these ways\. Give the new state "
        r"another name="
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
    told = re.search(r"drop it with (dropState\(.*?force=True\))", str(refused.value))
    assert told is not None
    exec(told[1], {"dropState": dropState})
    assert run(adding_up(), tmp_path, "counts") == [{}]
