"""Tuples on which a function fails, on either engine: they leave the stream, and everything else stays as it was."""

import json
from typing import Any

import pytest

from tests.compiler.functions import half, split
from tests.compiler.stage_runner import STATE, OnArrow, Slots, rows, run, stream
from trident import Count, DeadLetter, Function, Sum, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.compiler.stages import cut
from trident.errors import FailedException, UserFunctionError
from trident.frozen.results import StageResult

NOW = DeadLetter(attempts=0)


def number(line: str) -> int:
    if line == "give up":
        raise FailedException("asked for")
    return int(line)


def small(n: int) -> bool:
    if n == 13:
        raise ValueError("unlucky")
    return n < 100


class Twice(Function):
    """Emits twice and fails between the two."""

    outputType = "long"

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([tuple.n])
        if tuple.n == 7:
            raise KeyError("seven")
        collector.emit([-tuple.n])


def letters(result: StageResult) -> list[tuple[str, str, str, Any]]:
    """Return step, error, message and tuple of each dead letter."""
    found = [row for name, table in result.results.items() if name.endswith("~") for row in table.to_pylist()]
    read = [(r["step"].partition(":")[0], r["error"], r["message"], json.loads(r["tuple"])) for r in found]
    return sorted(read, key=repr)


@pytest.mark.connect
def test_dead_letters_hold_the_whole_tuple_and_the_batch_goes_on(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string, extra double", [("1", 0.5), ("x", float("nan")), ("3", None), (None, 1.0)])
    numbers = lines.each("line", number, "n long", onError=NOW)
    numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["sum"]) == [(4,)]
    says = "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"
    assert letters(result) == [
        ("s/1", "TypeError", says, {"line": None, "extra": 1.0}),
        ("s/1", "ValueError", "invalid literal for int() with base 10: 'x'", {"line": "x", "extra": "NaN"}),
    ]
    (table,) = [table for name, table in result.results.items() if name.endswith("~")]
    first = table.to_pylist()[0]
    assert first["stream"] == "s" and first["txid"] == 1 and first["attempt"] == 0
    assert first["function"].startswith("number (test_failed_tuples.py:")
    assert first["id"].startswith("000000000001.1.00000.")


@pytest.mark.connect
def test_skipped_tuples_are_counted_by_step(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", ["1", "x", "13", "200", "y", "7"])
    numbers = lines.each("line", number, "n long", onError="skip").filter("n", small, onError="skip")
    numbers.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    result = run(engine, topology)
    assert rows(result.results["counts"]) == [(1, 1), (7, 1)]
    assert result.skipped == {"s/1:each(number)": 2, "s/2:filter(small)": 1}


def test_a_tuple_of_many_emissions_leaves_as_a_whole_in_rows_of_operations_of_every_verb(engine: Slots) -> None:
    seen = {"6", "2"}

    def look(line: str) -> None:
        assert line in seen, "not expected"

    topology = TridentTopology()
    lines = stream(topology, "line string", ["7", "6", "2", "z", "8"])
    (
        lines.peek("line", look, onError="skip")
        .map("line", number, "n long", onError=NOW)
        .each(Twice(), "m", onError=NOW)
        .flatMap("m", lambda m: iter([m] * (12 // m if m else 0)) if m != -2 else 1 / 0, "k long", onError=NOW)
        .groupBy("k")
        .persistentAggregate(STATE, Count(), "count", name="counts")
    )
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["counts"]) == [(2, 6), (6, 2)]
    assert letters(result) == [("s/4", "ZeroDivisionError", "division by zero", {"m": -2, "n": 2})]
    assert result.skipped == {"s/1:peek(look)": 3}


def test_several_readers_see_the_same_tuples(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", ["1", "x", "13", "5"])
    numbers = lines.each("line", number, "n long", onError=NOW)
    numbers.persistentAggregate(STATE, Count(), "count", name="all")
    numbers.filter("n", small, onError=NOW).persistentAggregate(STATE, "n", Sum(), "sum", name="small")
    numbers.each("n", half, "h double").groupBy("h").persistentAggregate(STATE, Count(), "c", name="halves")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["all"]) == [(3,)] and rows(result.results["small"]) == [(6,)]
    assert rows(result.results["halves"]) == [(0.5, 1), (2.5, 1), (6.5, 1)]
    assert [letter[0] for letter in letters(result)] == ["s/1", "s/3"]
    assert letters(result)[1][3] == {"line": "13", "n": 13}


def test_a_batch_of_nothing_but_poison_is_an_empty_one(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", ["x", "y"])
    numbers = lines.each("line", number, "n long", onError=NOW)
    numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    numbers.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["sum"]) == [(0,)] and rows(result.results["counts"]) == []
    assert len(letters(result)) == 2


def test_attempts_fail_before_a_tuple_dies_and_skip_waits_for_none(engine: Slots) -> None:
    def failing(attempts: int) -> TridentTopology:
        topology = TridentTopology()
        lines = stream(topology, "line string", ["1", "x"])
        numbers = lines.each("line", number, "n long", onError=DeadLetter(attempts=attempts))
        numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
        topology.deadLetterState(STATE)
        return topology

    for attempt in (0, 1):
        with pytest.raises(UserFunctionError, match="s/1:each.*raised ValueError.*the tuple was"):
            run(engine, failing(2), attempt=attempt)
    assert rows(run(engine, failing(2), attempt=2).results["sum"]) == [(1,)]
    with pytest.raises(UserFunctionError):
        run(engine, failing(1))


@pytest.mark.connect
def test_what_is_no_tuples_fault_fails_the_batch(engine: Slots) -> None:
    def build(*given: str, **policy: Any) -> TridentTopology:
        topology = TridentTopology()
        lines = stream(topology, "line string", list(given))
        numbers = lines.each("line", number, "n long", onError=DeadLetter(attempts=0, **policy))
        numbers.each("n", lambda n: 1 / (n - 5), "x double").persistentAggregate(STATE, Count(), "c", name="c")
        topology.deadLetterState(STATE)
        return topology

    with pytest.raises(FailedException, match="asked for"):
        run(engine, build("1", "give up"))
    with pytest.raises(UserFunctionError, match="s/2:each.*division by zero"):
        run(engine, build("5", "x"))
    with pytest.raises(UserFunctionError) as raised:
        run(engine, build("x", "y", "1", most=1))
    assert "s/1:each(number): number (test_failed_tuples.py:" in str(raised.value)
    assert "failed on 2 tuples of one batch, more than DeadLetter(most=1) allows: first with ValueError" in str(
        raised.value
    )


def test_large_batches_are_searched_in_parts(engine: Slots) -> None:
    topology = TridentTopology()
    given = [str(n) if n % 997 else f"bad {n}" for n in range(1, 3000)]
    numbers = stream(topology, "line string", given).each("line", number, "n long", onError=NOW)
    numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    assert rows(result.results["sum"]) == [(sum(n for n in range(1, 3000) if n % 997),)]
    assert [letter[3]["line"] for letter in letters(result)] == ["bad 1994", "bad 2991", "bad 997"]


def test_a_later_stage_catches_at_once(engine: Slots, tmp_path: Any) -> None:
    from tests.compiler.stage_runner import table

    topology = TridentTopology()
    words = stream(topology, "line string", ["a b", "a"]).each("line", split, "word string")
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    tens = counts.newValuesStream(everyChange=True).each(
        "count", lambda n: 10 // (n - 1), "tens long", onError="deadLetter"
    )
    tens.groupBy("word").persistentAggregate(STATE, "tens", Sum(), "sum", name="tens")
    topology.deadLetterState(STATE)
    (group,) = cut(topology).groups
    second = group.stages[1]
    (start,) = second.inputs
    given = {start: table("word string, count long", ("a", 2), ("b", 1))}
    result = engine.slot(group).run(second, given, TransactionAttempt(1, 0), tmp_path / "s")
    assert rows(result.results["tens"]) == [("a", 10)]
    (letter,) = letters(result)
    assert letter[1] == "ZeroDivisionError" and letter[3] == {"word": "b", "count": 1}


class Silent(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("cause", "message"),
    [(Silent(), "its text cannot be shown"), (FileNotFoundError("a\udcff.txt"), "a\\udcff.txt")],
)
def test_an_exception_without_a_text_that_can_be_stored_is_a_dead_letter_too(cause: Exception, message: str) -> None:
    def fails(line: str) -> int:
        raise cause

    topology = TridentTopology()
    numbers = stream(topology, "line string", ["a"]).each("line", fails, "n long", onError=NOW)
    numbers.persistentAggregate(STATE, Count(), "count", name="counts")
    topology.deadLetterState(STATE)
    result = run(OnArrow(), topology)
    assert [letter[1:3] for letter in letters(result)] == [(type(cause).__name__, message)]


def test_a_function_is_called_once_for_a_tuple_that_fails() -> None:
    """On the driver-side engine, whose slot tells how often the function was called."""
    from tests.compiler.stage_runner import OnArrow

    called: list[str] = []

    def noted(line: str) -> int:
        called.append(line)
        return int(line)

    topology = TridentTopology()
    lines = stream(topology, "line string", ["x"], ["1", "2"])
    lines.each("line", noted, "n long", onError=NOW).persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    topology.deadLetterState(STATE)
    (group,) = cut(topology).groups
    slot = OnArrow().slot(group)
    (spout,) = group.spouts
    for batch, expected in ((0, ["x"]), (0, ["x"]), (1, ["1", "2"])):
        called.clear()
        given: Any = {spout: spout.spout.open().emit(TransactionAttempt(batch + 1, 0), batch)}
        slot.run(group.stages[0], given, TransactionAttempt(batch + 1, 0), None)  # type: ignore[arg-type]
        assert called == expected
