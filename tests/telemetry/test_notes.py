"""Counters and warnings of user code: counted once for each committed batch, on both engines, bounded."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from trident import Count, DeadLetter, TridentTopology, addToCounter, warn
from trident.base.user_code_notes import MOST, OTHER, Notes
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

ROWS = [[1, 0, -2, -3], [5, -6]]


def odd(n: int) -> bool:
    """A predicate that counts and warns."""
    if n < 0:
        warn("below 0", n)
    elif n == 0:
        addToCounter("zero", by=3)
    return True


def started(topology: TridentTopology, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return a run that has ended, and the events of its committed batches."""
    with topology.start(name="notes", **options) as running:
        running.processAllAvailable()
        return running, [event for event in running.recentProgress if event["event"] == "committed"]


def step_of(event: dict[str, Any], verb: str) -> dict[str, Any]:
    (step,) = [each for each in event["steps"] if verb in each["name"]]
    return step


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_notes_of_a_step_come_with_its_committed_batch(engine: str, request: Any) -> None:
    options = {"spark": request.getfixturevalue("spark")} if engine == "spark" else {}
    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", ROWS)).shuffle().parallelismHint(2)
    numbers.filter("n", odd).groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    running, events = started(topology, engine=engine, **options)
    first, second = (step_of(event, "filter") for event in events)
    assert first["counts"] == {"zero": 3} and "counts" not in second
    assert first["warnings"]["below 0"]["number"] == 2 and first["warnings"]["below 0"]["example"] in ("-2", "-3")
    assert second["warnings"] == {"below 0": {"number": 1, "example": "-6"}}
    labels = {"topology": "notes", "group": "numbers", "step": first["name"]}
    assert running.metrics.value("trident_user_warnings_total", warning="below 0", **labels) == 3
    assert running.metrics.value("trident_user_counts_total", counter="zero", **labels) == 3


def test_an_attempt_that_failed_adds_nothing(tmp_path: Path) -> None:
    calls: list[int] = []

    def flaky(n: int) -> bool:
        addToCounter("calls")
        calls.append(n)
        if len(calls) == 3:
            raise OSError("flaky")
        return True

    topology = TridentTopology()
    topology.newStream("numbers", FixedBatchSpout("n long", ROWS[:1])).filter("n", flaky).peek(print)
    _, (event,) = started(topology, engine="embedded", checkpointLocation=tmp_path, maxAttempts=3)
    assert (event["attempt"], len(calls), step_of(event, "filter")["counts"]) == (1, 7, {"calls": 4})


def counted(n: "pd.Series[int]") -> "pd.Series[int]":
    addToCounter("calls", len(n))
    warn("a slice of them", list(n))
    if (n < 0).any():
        raise ValueError("below 0")
    return n


def kept(n: "pd.Series[int]") -> "pd.Series[bool]":
    return counted(n) > 0


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_slice_that_fails_counts_nothing_unless_it_is_a_tuple(engine: str, request: Any) -> None:
    options = {"spark": request.getfixturevalue("spark"), "driverRows": 0} if engine == "spark" else {}
    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[-1, 2, 3, 4, 5, 6, 7, -8]]))
    numbers.map("n", counted, "m long", onError="skip").peek(print)
    numbers.each("n", counted, "m long", onError=DeadLetter(attempts=0)).peek(print)
    numbers.flatMap("n", counted, "m long", onError="skip").peek(print)
    numbers.filter("n", kept, onError="skip").peek(print)
    topology.deadLetterState(MemoryMapState.opaque())
    _, (event,) = started(topology, engine=engine, **options)
    for verb in ("map", "each", "flatMap", "filter"):
        step = step_of(event, f":{verb}(")
        assert (step["in"], step["out"], step["counts"]) == (8, 6, {"calls": 8}), verb  # as functions of a tuple do
        if engine == "embedded":  # Spark has slices of its own
            assert step["warnings"]["a slice of them"] == {"number": 6, "example": "[-1]"}  # 2; 3, 4; 5, 6; 7; -8


def test_notes_are_bounded_and_keep_the_first_example() -> None:
    notes = Notes()
    for number in range(MOST + 5):
        notes.warn(f"text {number}", number)
        notes.count("x" * 10_000, 1)
    assert len(notes.warnings) == MOST + 1 and notes.warnings[OTHER] == (5, str(MOST))
    ((name, by),) = notes.counts.items()
    assert by == MOST + 5 and len(name) < 500
    assert (notes + notes).warnings["text 7"] == (2, "7")


def test_outside_of_a_step_a_line_in_the_log_takes_their_place(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn("odd", 5)
        addToCounter("lost")
    assert "odd; for example 5" in caplog.text and "'lost', 1) outside of a step: it is not counted" in caplog.text


def test_a_wrong_call_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a name and a whole number"):
        addToCounter("n", "many")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="of at least 0"):
        addToCounter("n", -1)
    with pytest.raises(TypeError, match="expected a text"):
        warn(5)  # type: ignore[arg-type]


def test_only_the_first_example_of_a_warning_is_made_a_text() -> None:
    shown = []

    class Example:
        def __repr__(self) -> str:
            shown.append(self)
            return "the first"

    notes = Notes()
    notes.warn("odd", None)
    for _ in range(3):
        notes.warn("odd", Example())
    assert notes.as_dict() == {"warnings": {"odd": {"number": 4, "example": "the first"}}} and len(shown) == 1
