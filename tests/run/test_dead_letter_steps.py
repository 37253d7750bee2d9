"""Letters of a former program find the step from which they come, also if another step has its label now."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import Count, DeadLetter, TridentTopology
from trident.compiler import failed_tuples
from trident.errors import TopologyError
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BROKEN: set[str] = set()
DEAD = DeadLetter(attempts=0)
FIRST, SECOND = "lines/2:each(number)", "lines/4:each(number)"


@pytest.fixture(autouse=True)
def all_broken() -> None:
    BROKEN.clear()
    BROKEN.update({"x", "y"})


def number(line: str) -> int:
    if line in BROKEN:
        raise ValueError(line)
    return len(line)


def counted(stream: Any, name: str) -> None:
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name)


def failing(stream: Any) -> Any:
    return stream.each("line", number, "n long", onError=DEAD)


def branches(names: str) -> Callable[[Any], None]:
    """The parts of a program: a branch with the same function for each of these states."""

    def write(lines: Any) -> None:
        again = lines.replayable()
        for name in names:
            counted(failing(again), name)

    return write


def started(write: Callable[[Any], None], checkpoint: Path, *more: list[str]) -> RunningTopology:
    topology = TridentTopology()
    write(topology.newStream("lines", FixedBatchSpout("line string", [["1", "x"], ["2", "y"], *more])))
    topology.deadLetterState(MemoryMapState.opaque())
    running = start_local(topology, name="t", checkpointLocation=checkpoint)
    running.processAllAvailable(timeout=20)
    return running


def failed(write: Callable[[Any], None], checkpoint: Path) -> None:
    """Run a program in which the function fails, and mend the function."""
    started(write, checkpoint).stop()
    BROKEN.clear()


def counts(running: RunningTopology, names: str) -> dict[str, int]:
    running.processAllAvailable(timeout=20)
    return {name: running.state(name).value or 0 for name in names}


def kept(running: RunningTopology) -> list[str]:
    return sorted(value["step"] for _, value in running.state("deadLetters").items())


pytestmark = pytest.mark.filterwarnings("ignore:state .* is new, but its stream is at:RuntimeWarning")


def test_letters_enter_their_branch_if_another_one_has_its_label(tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)
    with started(branches("ba"), tmp_path) as running:
        assert running.replayDeadLetters("lines") == 2
        assert counts(running, "ab") == {"a": 4, "b": 0} and kept(running) == []


def test_letters_of_branches_that_changed_places_enter_each_its_own(tmp_path: Path) -> None:
    failed(branches("abc"), tmp_path)
    with started(branches("cab"), tmp_path) as running:
        assert running.replayDeadLetters("lines", lambda letter: letter.step == FIRST) == 2
        assert counts(running, "abc") == {"a": 4, "b": 2, "c": 2}
        assert running.replayDeadLetters("lines") == 4
        assert counts(running, "abc") == {"a": 4, "b": 4, "c": 4} and kept(running) == []


def test_letters_enter_their_step_under_a_new_number(tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)

    def after_another(lines: Any) -> None:
        again = lines.replayable()
        counted(again, "seen")
        counted(failing(again), "a")

    with started(after_another, tmp_path) as running:
        assert running.replayDeadLetters("lines") == 2
        assert counts(running, "a") == {"a": 4}


def test_into_says_where_letters_enter_whose_label_another_step_has(tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)
    with started(branches("ba"), tmp_path) as running:
        assert running.replayDeadLetters("lines", into=SECOND) == 2
        assert counts(running, "ab") == {"a": 4, "b": 0} and kept(running) == []


def test_into_says_where_letters_enter_whose_own_step_the_program_has(tmp_path: Path) -> None:
    failed(branches("ab"), tmp_path)
    with started(branches("ab"), tmp_path) as running:
        assert running.replayDeadLetters("lines", lambda letter: letter.step == FIRST, into=SECOND) == 2
        assert counts(running, "ab") == {"a": 2, "b": 4} and kept(running) == [SECOND, SECOND]


def test_into_is_refused_for_letters_of_several_steps_of_which_one_is_there(tmp_path: Path) -> None:
    failed(branches("ab"), tmp_path)

    def other(line: str) -> int:
        return len(line)

    def renamed(lines: Any) -> None:
        again = lines.replayable()
        counted(failing(again), "a")
        counted(again.each("line", other, "n long", onError=DEAD), "b")

    with started(renamed, tmp_path) as running:
        new = "lines/4:each(other)"
        with pytest.raises(TopologyError) as told:
            running.replayDeadLetters("lines", into=new)
        assert f"into={new!r}: the chosen letters come from several steps: 000000000001.1.0000" in str(told.value)
        assert f"from {FIRST}, which the program still has, and 000000000001.1.0000" in str(told.value)
        assert (
            f"from {SECOND} of an earlier program. Choose with where=, by their step or txid, the letters that"
            in str(told.value)
        )
        assert len(kept(running)) == 4, "none comes back"
        assert running.replayDeadLetters("lines", lambda letter: letter.step == SECOND, into=new) == 2
        assert running.replayDeadLetters("lines") == 2
        assert counts(running, "ab") == {"a": 4, "b": 4} and kept(running) == []


def test_into_is_refused_for_letters_of_two_steps_that_had_the_same_label(tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)
    BROKEN.add("z")
    with started(branches("ba"), tmp_path, ["z"]) as running:
        assert kept(running) == [FIRST, FIRST, FIRST, SECOND]
        BROKEN.clear()
        with pytest.raises(TopologyError, match=rf"and 0\S+ from {re.escape(FIRST)} of an earlier program\. Choose"):
            running.replayDeadLetters("lines", lambda letter: letter.step == FIRST, into=SECOND)
        assert running.replayDeadLetters("lines") == 4
        assert counts(running, "ab") == {"a": 5, "b": 1} and kept(running) == []


@pytest.mark.parametrize("gone", [False, True], ids=["another step has the label", "no step has the label"])
def test_letters_are_refused_if_several_steps_may_be_theirs(gone: bool, tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)

    def twins(lines: Any) -> None:
        again = lines.replayable()
        counted(again if gone else failing(again), "b")
        counted(failing(again).merge(failing(again)), "a")

    with started(twins, tmp_path) as running:
        steps = [step for step in (f"lines/{n}:each(number)" for n in range(3, 6)) if step in labels(running)]
        with pytest.raises(TopologyError) as told:
            running.replayDeadLetters("lines")
        text = str(told.value)
        problem = "no step of the program has this label now" if gone else "the step that has this label now does not"
        assert len(steps) == 2 and "dead letter 000000000001.1.00000." in text and f"comes from {FIRST}, but" in text
        assert problem in text and f"{' and '.join(steps)} may lead to these" in text
        assert f"replayDeadLetters('lines', into={steps[0]!r})" in text
        assert kept(running) == [FIRST, FIRST], "none comes back"
        assert running.replayDeadLetters("lines", into=steps[1]) == 2
        assert counts(running, "ab")["a"] == 4


def labels(running: RunningTopology) -> list[str]:
    return [node.step for run in running._runs.values() for stage in run.group.stages for node in stage.nodes]


def test_letters_are_refused_if_their_branch_is_gone_and_another_has_its_label(tmp_path: Path) -> None:
    failed(branches("a"), tmp_path)
    with started(branches("b"), tmp_path) as running:
        with pytest.raises(TopologyError, match="the step that has this label now does not lead to the same states"):
            running.replayDeadLetters("lines")
        assert counts(running, "b") == {"b": 0} and kept(running) == [FIRST, FIRST]
        assert running.replayDeadLetters("lines", into=FIRST) == 2
        assert counts(running, "b") == {"b": 2}


def test_letters_are_refused_if_the_step_with_their_label_leads_to_more_and_another_does_not(tmp_path: Path) -> None:
    def merged(names: str) -> Callable[[Any], None]:
        def write(lines: Any) -> None:
            again = lines.replayable()
            steps = [failing(again) for _ in names]
            for name, step in zip(names, steps, strict=True):
                counted(step, name) if name != "-" else None
            counted(steps[0].merge(steps[1]), "both")

        return write

    failed(merged("-b"), tmp_path)
    with started(merged("b-"), tmp_path) as running:
        first, second = sorted({step for step in labels(running) if "each" in step})
        with pytest.raises(TopologyError, match=re.escape(f"{first} and {second} may lead to these")):
            running.replayDeadLetters("lines", lambda letter: letter.step == first)
        assert running.replayDeadLetters("lines", lambda letter: letter.step == first, into=second) == 2
        running.processAllAvailable(timeout=20)
        assert running.state("b").value == 2 and running.state("both").value == 6


def test_a_step_that_replaces_two_gets_no_tuple_twice_by_itself(tmp_path: Path) -> None:
    failed(branches("ab"), tmp_path)

    def joined(lines: Any) -> None:
        one = failing(lines.replayable())
        for name in "ab":
            counted(one, name)

    with started(joined, tmp_path) as running:
        with pytest.raises(TopologyError, match=f"comes from {SECOND.split('(')[0]}.*, but no step of the program has"):
            running.replayDeadLetters("lines")
        assert counts(running, "ab") == {"a": 2, "b": 2}


def test_other_code_steps_above_and_branches_below_leave_a_step_the_same(tmp_path: Path) -> None:
    def former(lines: Any) -> None:
        counted(failing(lines.name("named").replayable()), "a")

    def later(lines: Any) -> None:
        step = failing(lines.filter("line", lambda line: line != "3").name("named").replayable())
        counted(step, "a")
        counted(step.filter("n", lambda n: n > 0), "new")

    failed(former, tmp_path)
    with started(later, tmp_path) as running:
        assert running.replayDeadLetters("named") == 2
        assert counts(running, "a") == {"a": 4} and kept(running) == []


def test_letters_without_a_mark_are_believed_by_their_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of earlier versions. `into` is honoured for them, too."""
    with monkeypatch.context() as patch:
        patch.setattr(failed_tuples, "marked_id", lambda id, mark: id)
        failed(branches("a"), tmp_path)
    with started(branches("ba"), tmp_path) as running:
        assert {id for id, _ in running.state("deadLetters").items()} == {
            "000000000001.1.00000",
            "000000000002.1.00000",
        }
        assert running.replayDeadLetters("lines", lambda letter: letter.txid == 1) == 1
        assert counts(running, "ab") == {"a": 2, "b": 1}
        assert running.replayDeadLetters("lines", into=SECOND) == 1
        assert counts(running, "ab") == {"a": 3, "b": 1} and kept(running) == []
