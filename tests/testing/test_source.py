"""TestSource: what each mark does, for each kind of source, and in whole runs."""

from collections import Counter
from pathlib import Path

import pytest

from trident import Count, TridentTopology
from trident.errors import BatchFailedError, SpoutContractError, TridentError
from trident.run.running import RunningTopology
from trident.state import MemoryMapState
from trident.testing import (
    CRASH,
    CRASH_POINTS,
    END,
    FAIL,
    PAUSE,
    DriverCrashedError,
    Mark,
    TestOutput,
    TestSource,
    run_through,
    start_local,
)

WORDS = [["a", "b"], ["a", "c", "d", "a"], ["b"]]
COUNTS = {"a": 3, "b": 2, "c": 1, "d": 1}
KINDS = ["transactional", "opaque", "nonTransactional"]
ELSEWHERE = ("start", "commit.stage", "snapshot", "trim", "output.staged", "output.published")
"""Points that a few batches of this topology do not come to."""
REACHED = [point for point in CRASH_POINTS if not point.startswith(ELSEWHERE)]


def counting(source: TestSource, output: TestOutput | None = None) -> TridentTopology:
    """Words counted in a state, and handed to an output."""
    topology = TridentTopology()
    words = topology.newStream("words", source)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    if output is not None:
        words.foreachArrow(output)
    return topology


def counts(running: RunningTopology) -> dict[str, int]:
    return dict(running.state("counts").items())


def script(mark: Mark) -> list[object]:
    """The words, with a mark before the second batch."""
    return [WORDS[0], mark, *WORDS[1:]]


# --- FAIL -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_that_fails_is_made_again(kind: str) -> None:
    source, output = TestSource("word string", script(FAIL), kind), TestOutput()
    with start_local(counting(source, output), maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS
    assert [str(attempt) for attempt in source.failed] == ["2:0"]
    assert sorted(output.rows) == sorted(source.rows)


@pytest.mark.parametrize(("kind", "rows"), [("transactional", 4), ("nonTransactional", 4), ("opaque", 2)])
def test_a_replay_of_an_opaque_source_has_half_of_the_rows_and_others_have_all(kind: str, rows: int) -> None:
    source, output = TestSource("word string", script(FAIL), kind), TestOutput()
    with start_local(counting(source, output), maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
    assert len(output.batches[1].rows) == rows


def test_marks_add_up_and_too_many_of_them_stop_the_run() -> None:
    source = TestSource("word string", [FAIL, FAIL, ["a"], *[FAIL] * 3, ["b"]])
    with (
        pytest.raises(BatchFailedError, match="batch 2 failed 3 times, the last time with: FAIL before batch 1 of "),
        start_local(counting(source), maxAttempts=3, maxSpoutPending=1) as running,
    ):
        running.processAllAvailable(timeout=30)
    assert [str(attempt) for attempt in source.attempts] == ["1:0", "1:1", "1:2", "2:0", "2:1", "2:2"]


# --- CRASH ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_ends_the_run_and_the_next_start_goes_on(kind: str, tmp_path: Path) -> None:
    source = TestSource("word string", script(CRASH), kind)
    topology = counting(source)
    with (
        pytest.raises(DriverCrashedError, match="the driver died: CRASH before batch 1 of TestSource"),
        start_local(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running,
    ):
        running.processAllAvailable(timeout=30)
    with start_local(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
        lost = Counter(WORDS[1]) if kind == "nonTransactional" else Counter[str]()
        assert counts(running) == Counter(COUNTS) - lost


def test_a_driver_that_crashed_has_not_given_its_log_back(tmp_path: Path) -> None:
    """The death counts: after as many as maxAttempts the batch stops its group."""
    topology = counting(TestSource("word string", [CRASH, CRASH, ["a"]]))
    for _ in range(2):
        with pytest.raises(DriverCrashedError):
            start_local(topology, checkpointLocation=tmp_path, maxAttempts=2).processAllAvailable(timeout=30)
    with pytest.raises(BatchFailedError, match="the driver died 2 times in a row during batch 1"):
        start_local(topology, checkpointLocation=tmp_path, maxAttempts=2).processAllAvailable(timeout=30)


@pytest.mark.parametrize(("kind", "pending"), [("transactional", 3), ("opaque", 1)])
@pytest.mark.parametrize("point", REACHED)
def test_a_crash_at_any_point_loses_and_doubles_nothing(point: str, pending: int, kind: str, tmp_path: Path) -> None:
    source, output = TestSource("word string", script(CRASH.at(point)), kind), TestOutput()
    topology, options = counting(source, output), {"checkpointLocation": tmp_path, "maxSpoutPending": pending}
    with pytest.raises(DriverCrashedError, match=f"the driver died: crash point {point}"):
        start_local(topology, **options).processAllAvailable(timeout=30)
    with start_local(topology, **options) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS
    assert sorted(output.rows) == sorted(source.rows)


def test_a_batch_that_was_handed_over_before_the_crash_comes_again(tmp_path: Path) -> None:
    output = TestOutput()
    topology = counting(TestSource("word string", script(CRASH.at("output.after"))), output)
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1):
        pass
    assert output.repeated == [2]
    assert [(batch.txid, batch.attempt > 0) for batch in output.batches] == [
        (1, False),
        (2, False),
        (2, True),
        (3, False),
    ]


def test_a_crash_may_stand_at_the_end(tmp_path: Path) -> None:
    topology = counting(TestSource("word string", [*WORDS, CRASH]))
    with pytest.raises(DriverCrashedError):
        start_local(topology, checkpointLocation=tmp_path).processAllAvailable(timeout=30)
    with start_local(topology, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


def test_a_crash_without_a_checkpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="pass checkpointLocation= .or log=. to a start"):
        start_local(counting(TestSource("word string", [CRASH, ["a"]])))


# --- PAUSE and END ----------------------------------------------------------------------------------------------------


def test_a_pause_waits_for_the_test() -> None:
    source = TestSource("word string", [WORDS[0], PAUSE, WORDS[1], PAUSE, WORDS[2]])
    with start_local(counting(source)) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == {"a": 1, "b": 1}
        source.resume()
        running.processAllAvailable(timeout=30)
        assert counts(running) == {"a": 3, "b": 1, "c": 1, "d": 1}
        source.resume()
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


def test_a_resume_that_comes_before_the_pause_counts() -> None:
    source = TestSource("word string", [WORDS[0], PAUSE, *WORDS[1:]])
    source.resume()
    with start_local(counting(source)) as running:
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


def test_an_end_ends_a_run_that_takes_what_is_available_now(tmp_path: Path) -> None:
    topology = counting(TestSource("word string", [WORDS[0], END, WORDS[1], END, WORDS[2]]))
    seen = []
    for _ in range(3):
        running = start_local(topology, checkpointLocation=tmp_path, availableNow=True)
        assert running.awaitTermination(timeout=30)
        seen.append(counts(running))
    assert seen == [{"a": 1, "b": 1}, {"a": 3, "b": 1, "c": 1, "d": 1}, COUNTS]


def test_marks_that_meet_happen_in_their_order(tmp_path: Path) -> None:
    source = TestSource("word string", [WORDS[0], FAIL, CRASH, PAUSE, *WORDS[1:]])
    topology = counting(source)
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert counts(running) == {"a": 1, "b": 1}
        source.resume()
        running.processAllAvailable(timeout=30)
        assert counts(running) == COUNTS


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_a_script_is_refused() -> None:
    with pytest.raises(SpoutContractError, match=r"TestSource takes a list of batches and marks, not one str"):
        TestSource("word string", "cow")
    with pytest.raises(
        SpoutContractError, match=r"TestSource, batch 1, row 0, field 'word': expected string, got 5 \(int\)"
    ):
        TestSource("word string", [["a"], FAIL, [5]])
    with pytest.raises(
        SpoutContractError,
        match=r"a FAIL at the end has no effect: it makes an attempt at the next "
        r"batch fail",
    ):
        TestSource("word string", [["a"], FAIL])
    with pytest.raises(ValueError, match=r"unknown kind 'exact'; expected one of 'transactional'"):
        TestSource("word string", [], kind="exact")
    with pytest.raises(ValueError, match=r"unknown crash point 'later'; expected one of start.log.taken, "):
        CRASH.at("later")
    with pytest.raises(TypeError, match="PAUSE has no point"):
        PAUSE.at("freeze.after")


def test_the_log_of_another_spout_is_refused(tmp_path: Path) -> None:
    source = TestSource("word string", [["a"]])
    with pytest.raises(
        SpoutContractError, match="this spout cannot replay the batch 7 of the log: another spout wrote it"
    ):
        source.open().emit(None, 7)  # type: ignore[arg-type]


def test_it_shows_what_it_has() -> None:
    source = TestSource("word string", script(CRASH.at("freeze.after")), "opaque")
    assert repr(source) == "TestSource('word string', 3 batches, 1 marks, kind='opaque')"
    assert repr(CRASH.at("freeze.after")) == "CRASH.at('freeze.after')"
    assert issubclass(DriverCrashedError, TridentError)
