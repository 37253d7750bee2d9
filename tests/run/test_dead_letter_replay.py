"""Dead letters that come back: once, with all their fields, and out of their state in the same batch."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trident
from trident import DeadLetter, Sum, TridentTopology
from trident.errors import TopologyError, UserFunctionError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.spouts.dead_letters import ReplaySpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    BROKEN.clear()
    BROKEN.update({"x", "y"})
    yield
    for running in trident.active():
        running.stop()


def number(line: str) -> int:
    if line in BROKEN:
        raise ValueError(f"no {line}")
    return {"x": 10, "y": 100}.get(line) or int(line)


def topology(spout: Any, kept: Any = None) -> TridentTopology:
    made = TridentTopology()
    lines = made.newStream("lines", spout).replayable()
    numbers = lines.each("line", number, "n long", onError=DeadLetter(attempts=0))
    numbers.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    made.deadLetterState(kept or MemoryMapState.opaque())
    return made


def letters(running: Any) -> list[str]:
    return sorted(value["tuple"] for _, value in running.state("deadLetters").items())


def test_letters_come_back_once_and_leave_their_state(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string, extra double")
    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([("1", 0.5), ("x", float("nan")), ("y", None)])
        running.processAllAvailable(timeout=20)
        assert letters(running) == ['{"line":"x","extra":"NaN"}', '{"line":"y","extra":null}']
        BROKEN.clear()
        assert running.replayDeadLetters("lines", lambda letter: "no x" in letter.message) == 1
        running.processAllAvailable(timeout=20)
        assert letters(running) == ['{"line":"y","extra":null}'] and running.state("sum").value == 11
        assert running.replayDeadLetters("lines") == 1
        assert running.replayDeadLetters("lines") == 0, "the first call has asked, or the letter is back"
        feeder.feed([("1000", 0.0)])
        running.processAllAvailable(timeout=20)
        running.processAllAvailable(timeout=20)
        assert letters(running) == [] and running.state("sum").value == 1111
        assert running.replayDeadLetters("lines") == 0


def test_of_callers_at_the_same_time_one_counts_each_letter_and_it_comes_back_once(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed(["x", "y"])
        running.processAllAvailable(timeout=20)
        BROKEN.clear()
        running.deactivate()  # no batch takes the letters between the calls
        begin = threading.Barrier(4)

        def replay(_: int) -> int:
            begin.wait()
            return running.replayDeadLetters("lines", lambda letter: time.sleep(0.01) is None)

        with ThreadPoolExecutor(4) as callers:
            assert sorted(callers.map(replay, range(4))) == [0, 0, 0, 2]
        assert running.replayDeadLetters("lines") == 0
        running.activate()
        running.processAllAvailable(timeout=20)
        assert letters(running) == [] and running.state("sum").value == 110


def test_a_letter_enters_before_one_step_whatever_two_callers_name(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed(["x"])
        running.processAllAvailable(timeout=20)
    BROKEN.clear()
    made = TridentTopology()
    lines = made.newStream("lines", feeder).replayable()
    for n in range(2):  # two branches in place of the step that failed
        ones = lines.each("line", lambda line: number(line), "n long", onError=DeadLetter(attempts=0))
        ones.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name=f"sum{n}")
    made.deadLetterState(MemoryMapState.opaque())
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.deactivate()
        steps = sorted(s.step for s in spouts_of(running))
        assert len(steps) == 2
        assert [running.replayDeadLetters("lines", into=step) for step in steps] == [1, 0]
        running.activate()
        running.processAllAvailable(timeout=20)
        assert [running.state(f"sum{n}").value for n in range(2)].count(10) == 1 and letters(running) == []


def spouts_of(running: Any) -> list[ReplaySpout]:
    nodes = [node for run in running._runs.values() for node in run.group.spouts]
    return [node.spout for node in nodes if isinstance(node.spout, ReplaySpout)]


@pytest.mark.parametrize("kind", ["opaque", "transactional", "nonTransactional"])
def test_letters_come_back_again_and_again_from_a_state_of_any_kind(kind: str, tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    made = topology(feeder, getattr(MemoryMapState, kind)())
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        for line in ("x", "y"):
            BROKEN.add(line)
            feeder.feed([line])
            running.processAllAvailable(timeout=20)
            BROKEN.clear()
            assert running.replayDeadLetters("lines") == 1
            running.processAllAvailable(timeout=20)
            assert letters(running) == []
        assert running.state("sum").value == 110


def test_a_tuple_that_dies_again_is_a_new_letter(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed(["x", "y"])
        running.processAllAvailable(timeout=20)
        before = dict(running.state("deadLetters").items())
        BROKEN.remove("x")
        assert running.replayDeadLetters("lines") == 2
        running.processAllAvailable(timeout=20)
        ((id, letter),) = running.state("deadLetters").items()
        assert id not in before and letter["tuple"] == '{"line":"y"}' and letter["txid"] == 2
        assert running.state("sum").value == 10


def test_which_letters_come_back_is_chosen_by_the_call_and_never_fails_a_batch(tmp_path: Path) -> None:
    feeder, asked = FeederBatchSpout("line string"), list[str]()

    def once(letter: Any) -> bool:
        asked.append(letter["tuple"])
        return len(asked) < 3 or 1 / 0 > 0

    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed(["x", "y"])
        running.processAllAvailable(timeout=20)
        BROKEN.clear()
        assert running.replayDeadLetters("lines", once) == 2
        running.processAllAvailable(timeout=20)
        assert letters(running) == [] and running.state("sum").value == 110
        assert asked == ['{"line":"x"}', '{"line":"y"}']


def test_letters_of_an_earlier_run_come_back_after_the_code_was_changed(tmp_path: Path) -> None:
    spout = FixedBatchSpout("line string", [["1", "x"], ["y"]])
    with start_local(topology(spout), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    BROKEN.clear()
    with start_local(topology(spout), name="t", checkpointLocation=tmp_path) as running:
        assert running.replayDeadLetters("lines") == 2
        running.processAllAvailable(timeout=20)
        assert running.state("sum").value == 111 and letters(running) == []


def test_what_cannot_come_back_is_told(tmp_path: Path) -> None:
    spout = FixedBatchSpout("line string", [["x"]])
    with start_local(topology(spout), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        with pytest.raises(TopologyError, match="no dead letters are replayed into 'line'; did you mean 'lines'"):
            running.replayDeadLetters("line")
        with pytest.raises(trident.errors.StateError, match="no state 'letters'"):
            running.replayDeadLetters("lines", state="letters")
    wider = FixedBatchSpout("line string, more int", [])
    with (
        start_local(topology(wider), name="t", checkpointLocation=tmp_path) as running,
        pytest.raises(
            TopologyError,
            match=r"000000000001.1.00000\.\S+ cannot be replayed into lines.*: its tuple has no field 'mo",
        ),
    ):
        running.replayDeadLetters("lines")


def test_a_place_without_letters_and_a_second_one_are_refused(tmp_path: Path) -> None:
    made = TridentTopology()
    lines = made.newStream("lines", FixedBatchSpout("line string", [["1"]])).replayable()
    with pytest.raises(
        TopologyError,
        match="lines/2:replayable: dead letters are already replayed into 'lines' at test_dead_letter_replay",
    ):
        lines.replayable()
    lines.each("line", int, "n long").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sum")
    with pytest.raises(TopologyError, match=r"dead letters are replayed at .* \(replayable\), but none are stored:"):
        start_local(made, name="t", checkpointLocation=tmp_path)
    with pytest.raises(
        TopologyError, match="a failed DRPC request returns its error to the caller, so there is nothing to replay"
    ):
        TridentTopology().newDRPCStream("ask").replayable()


def test_a_choice_of_letters_that_fails_is_told_with_its_line_and_puts_none_back(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string, extra double")
    with start_local(topology(feeder), name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([("x", 0.5)], wait=True, timeout=20)
        with pytest.raises(
            UserFunctionError, match=r"where raised PySparkAttributeError: .*; the letter .*replay\.py:\d+"
        ):
            running.replayDeadLetters("lines", where=lambda letter: letter.wrong == 1)
        fields = r"PySparkValueError: .*; a letter has the fields id, stream, .*error, .*; the letter was Row"
        with pytest.raises(UserFunctionError, match=fields):
            running.replayDeadLetters("lines", where=lambda letter: letter["err"] == 1)
        with pytest.raises(TopologyError, match=r"where=\"error == 'ValueError'\": expected a function of a letter"):
            running.replayDeadLetters("lines", where="error == 'ValueError'")  # type: ignore[arg-type]
        running.processAllAvailable(timeout=20)
        assert letters(running) == ['{"line":"x","extra":0.5}']
