"""Poison tuples end to end: what is kept of them, how exactly, what is told, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.topologies import stream
from trident import Count, DeadLetter, FilterNull, Sum, TridentTopology, expr, openState
from trident.errors import BatchFailedError, StateUnavailableError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_state.memory.store import MemoryStore

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def lines(topology: TridentTopology, *batches: list[str], name: str = "lines") -> Any:
    return topology.newStream(name, FixedBatchSpout("line string", [list(batch) for batch in batches]))


def start(topology: TridentTopology, checkpoint: Path, **options: Any) -> Any:
    running = start_local(topology, name="t", checkpointLocation=checkpoint, **options)
    running.processAllAvailable(timeout=20)
    return running


def summed(*batches: list[str], most: int = 10_000, **policy: Any) -> TridentTopology:
    topology = TridentTopology()
    numbers = lines(topology, *batches).each("line", int, "n long", onError=DeadLetter(**policy))
    numbers.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    topology.deadLetterState(MemoryMapState.opaque(), most=most)
    return topology


def test_dead_letters_are_a_state_that_is_asked_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    running = start(summed(["1", "x"], ["2"], ["y", "3", "z"]), tmp_path)
    assert running.state("sum").value == 6
    letters = running.state("deadLetters")
    frame = letters.toPandas()
    assert [json.loads(text)["line"] for text in frame["tuple"]] == ["x", "y", "z"]
    assert [*zip(frame["txid"], frame["attempt"], strict=True)] == [(1, 1), (3, 1), (3, 1)]
    events = [event for event in running.recentProgress if event["event"] == "committed"]
    assert [event.get("deadLetters") for event in events] == [{"lines/1:each(int)": 1}, None, {"lines/1:each(int)": 2}]
    assert "skipped" not in events[0]
    running.stop()
    with openState("t", "deadLetters", tmp_path) as stopped:
        ((first, value), *others) = sorted(stopped.items())
        assert first.startswith("000000000001.1.00000.") and value["error"] == "ValueError" and len(others) == 2


def test_the_oldest_letters_go_where_there_are_too_many(tmp_path: Path) -> None:
    running = start(summed(["a", "b"], ["c", "1"], ["d"], most=2, attempts=0), tmp_path)
    found = sorted(json.loads(value["tuple"])["line"] for _, value in running.state("deadLetters").items())
    assert found == ["c", "d"]


def test_letters_that_a_full_state_removes_are_counted_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = start(summed(["a"], ["b", "c", "d"], ["e", "1"], ["f"], ["g"], ["2"], most=2, attempts=0), tmp_path)
    events = [event for event in running.recentProgress if event["event"] == "committed"]
    assert [event["states"]["deadLetters"].get("evicted") for event in events] == [None, 2, 1, 1, 1, None]
    labels = {"topology": "t", "group": "lines", "state": "deadLetters"}
    assert running.metrics.value("trident_dead_letters_evicted_total", **labels) == 5
    warnings = [record.getMessage() for record in caplog.records if "dead letters since the start" in record.message]
    assert [int(text.split(" dead letters")[0].split()[-1]) for text in warnings] == [2, 4]
    assert "state 'deadLetters' has removed its oldest 2 dead letters" in warnings[0]


def test_letters_that_were_removed_are_counted_by_the_driver_that_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: MemoryStore, lease: Any, update: Any, *more: Any) -> Any:
        raise StateUnavailableError("away for long")

    batches = (["a", "b", "c"],)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "apply", refused)
        with pytest.raises(StateUnavailableError):
            start(summed(*batches, most=1, attempts=0), tmp_path, commitRetrySecs=0)
    running = start(summed(*batches, most=1, attempts=0), tmp_path)
    assert running.lastProgress["states"]["deadLetters"]["evicted"] == 2


def test_letters_pass_away_by_their_age_where_the_state_says_so(tmp_path: Path) -> None:
    topology = TridentTopology()
    lines(topology, ["x"]).each("line", int, "n long", onError=DeadLetter(attempts=0)).peek(print)
    topology.deadLetterState(MemoryMapState.opaque(ttlSecs=3600))
    running = start(topology, tmp_path)
    assert len(list(running.state("deadLetters").items())) == 1


def test_the_stream_of_dead_letters_is_one_like_any_other(tmp_path: Path) -> None:
    topology, taken = TridentTopology(), []
    numbers = lines(topology, ["1", "x", "-2"], ["y"]).each("line", int, "n long", onError=DeadLetter(attempts=0))
    roots = numbers.each("n", lambda n: n**0.5 if n > 0 else 1 // 0, "root double", onError=DeadLetter(attempts=0))
    roots.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    dead = roots.deadLetters()
    dead.groupBy("error").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="byError")
    dead.project("id", "step").foreachArrow(lambda table, txid, attempt: taken.extend(table.to_pylist()))
    running = start(topology, tmp_path)
    assert running.state("n").value == 1
    assert dict(running.state("byError").items()) == {"ValueError": 2, "ZeroDivisionError": 1}
    assert sorted((row["id"][:20], row["step"]) for row in taken) == [
        ("000000000001.1.00000", "lines/1:each(int)"),
        ("000000000001.1.00001", "lines/2:each(<lambda>)"),
        ("000000000002.1.00000", "lines/1:each(int)"),
    ]


def test_an_attempt_that_failed_by_itself_kills_no_tuple(tmp_path: Path) -> None:
    """What passes: the function fails once, for whatever reason, and then it does not."""
    failed: list[str] = []

    def once(line: str) -> int:
        if line == "2" and not failed:
            failed.append(line)
            raise ConnectionError("away for a moment")
        return int(line)

    topology = TridentTopology()
    numbers = lines(topology, ["1", "2"]).each("line", once, "n long", onError="deadLetter")
    numbers.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    topology.deadLetterState(MemoryMapState.opaque())
    running = start(topology, tmp_path)
    assert running.state("sum").value == 3 and list(running.state("deadLetters").items()) == []
    assert failed == ["2"]


def test_skipped_tuples_are_told_by_the_progress_event(tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = lines(topology, ["1", "x"], ["2"]).each("line", int, "n long", onError="skip")
    counts = numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    late = counts.newValuesStream(everyChange=True).each("n", lambda n: 1 // (n - 2), "m long", onError="skip")
    late.persistentAggregate(MemoryMapState.opaque(), Count(), "late", name="late")
    running = start(topology, tmp_path)
    events = [event for event in running.recentProgress if event["event"] == "committed"]
    assert [event.get("skipped") for event in events] == [{"lines/1:each(int)": 1}, {"lines/4:each(<lambda>)": 1}]
    assert running.state("late").value == 1 and "deadLetters" not in events[0]


def skipping(*batches: list[str]) -> TridentTopology:
    topology = TridentTopology()
    numbers = lines(topology, *batches).each("line", int, "n long", onError="skip")
    counts = numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    late = counts.newValuesStream(everyChange=True).each("n", lambda n: 1 // (n - 2), "m long", onError="skip")
    late.persistentAggregate(MemoryMapState.opaque(), Count(), "late", name="late")
    return topology


def told(running: Any) -> list[Any]:
    return [event.get("skipped") for event in running.recentProgress if event["event"] == "committed"]


SKIPPED = [{"lines/1:each(int)": 1}, {"lines/4:each(<lambda>)": 1}]


@pytest.mark.parametrize("state", ["counts", "late"])
def test_what_was_skipped_is_told_also_by_a_commit_that_is_repeated(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store is away once while each batch is applied: what its stages left out is not found out a second time."""
    away, apply = set[int](), MemoryStore.apply

    def sometimes(self: MemoryStore, lease: Any, update: Any, *more: Any) -> Any:
        if state in str(self._identity) and update.txid not in away:
            away.add(update.txid)
            raise StateUnavailableError("away for a moment")
        return apply(self, lease, update, *more)

    monkeypatch.setattr(MemoryStore, "apply", sometimes)
    running = start(skipping(["1", "x"], ["2"]), tmp_path)
    assert away == {1, 2} and told(running) == SKIPPED


def test_what_was_skipped_is_told_by_the_next_driver_where_the_first_froze_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: MemoryStore, lease: Any, update: Any, *more: Any) -> Any:
        raise StateUnavailableError("away for long")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "apply", refused)
        with pytest.raises(StateUnavailableError):
            start(skipping(["1", "x"], ["2"]), tmp_path, commitRetrySecs=0)
    assert told(start(skipping(["1", "x"], ["2"]), tmp_path)) == SKIPPED


def test_groups_stay_apart_where_each_keeps_its_own(tmp_path: Path) -> None:
    topology = TridentTopology()
    for name in ("a", "b"):
        numbers = lines(topology, ["1", name], name=name).each("line", int, "n long", onError=DeadLetter(attempts=0))
        numbers.deadLetters().persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=f"dead.{name}")
    running = start(topology, tmp_path)
    assert sorted(running._runs) == ["a", "b"]
    assert [running.state(f"dead.{name}").value for name in ("a", "b")] == [1, 1]


def test_dead_letters_of_all_streams_meet_in_one_batch_group(tmp_path: Path) -> None:
    topology = TridentTopology()
    for name in ("a", "b"):
        lines(topology, ["1", name], name=name).each("line", int, "n long", onError=DeadLetter(attempts=0))
    topology.deadLetterState(MemoryMapState.opaque())
    running = start(topology, tmp_path)
    assert sorted(running._runs) == ["a"]
    found = [(value["stream"], json.loads(value["tuple"])) for _, value in running.state("deadLetters").items()]
    assert sorted(found) == [("a", {"line": "a"}), ("b", {"line": "b"})]


def test_a_batch_that_fails_for_other_reasons_fails_as_ever(tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = lines(topology, ["1", "x"]).each("line", int, "n long", onError="skip")
    numbers.each("n", lambda n: n // 0, "m long").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with pytest.raises(BatchFailedError, match="batch 1 failed 2 times, .*lines/2:each.*integer division"):
        start(topology, tmp_path, maxAttempts=2)


# --- refused --------------------------------------------------------------------------------------------------------


def test_dead_letters_that_nobody_reads_are_refused_at_the_start(tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = lines(topology, ["1"]).each("line", int, "n long", onError="deadLetter")
    topology.deadLetterState(MemoryMapState.opaque())
    later = numbers.filter("n", lambda n: n > 1, onError="deadLetter")
    later.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with pytest.raises(TopologyError) as raised:
        start(topology, tmp_path)
    assert "lines/4:filter(<lambda>) (test_dead_letters.py:" in str(raised.value)
    assert (
        "makes dead letters, and no stream reads them: store them with topology.deadLetterState(stateFactory)"
        in str(raised.value)
    )


def test_attempts_that_never_come_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="makes dead letters after 3 attempts, but maxAttempts=3 ends the batch"):
        start(summed(["1"], attempts=3), tmp_path, maxAttempts=3)


WRONG: list[tuple[Any, str]] = [
    (
        lambda s: s.each("line", len, "m long", onError="deadletter"),
        "lines/1:each(len): onError='deadletter'; did you mean 'deadLetter'?: expected 'fail', 'skip', 'deadLetter' "
        "or DeadLetter(...)",
    ),
    (
        lambda s: s.filter("n", bool, onError=None),
        "onError=None: expected 'fail', 'skip', 'deadLetter' or DeadLetter(...)",
    ),
    (
        lambda s: s.each(expr("n / 0"), "x double", onError="skip"),
        "onError needs a function that is called with one tuple at a time; a Spark operation fails",
    ),
    (lambda s: s.map(lambda t: t.n, "x long").deadLetters(), "lines/2:deadLetters: no step before this one keeps dead"),
    (lambda s: DeadLetter(attempts=-1), "DeadLetter: attempts=-1: expected a whole number of at least 0"),
    (lambda s: DeadLetter(most=0), "DeadLetter: most=0: expected a whole number of at least 1"),
    (lambda s: TridentTopology().deadLetters(), "no step before it keeps dead letters; set onError='deadLetter'"),
    (
        lambda s: TridentTopology().newDRPCStream("ask").each("args", len, "n long", onError="skip"),
        "ask()/1:each(len): onError applies to batches only; a failed DRPC request returns its error to the caller",
    ),
    (lambda s: s.peek(trident.Debug(), onError="skip"), "Debug cannot fail, so it takes no onError"),
]


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_policy_is_refused_where_it_stands(call: Any, says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(stream("line string, n long"))
    assert says in str(raised.value)


def test_policies_are_explained_and_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    numbers = lines(topology, ["1"]).each("line", int, "n long", onError="deadLetter").filter("n", FilterNull())
    numbers.map(lambda t: t.n, "m long", onError="skip").peek(print)
    topology.deadLetterState(MemoryMapState.opaque())
    topology.explain()
    said = capsys.readouterr().out
    assert "dead letters after 1 attempt" in said and "skips what fails" in said and "dead letters of lines/1" in said
    assert "stage 1: lines/0 -> dead letters of lines/1" in said and "deadLetters" in said
    assert "dead letters after 1 attempt" in topology.draw("mermaid")
