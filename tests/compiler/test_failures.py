"""Errors of a user's function: one typed error, the same from both engines, with step, site and tuple."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.compiler.functions import Longest, boom_at_dog, fail_at_dog, half, split, stop_at_dog
from tests.compiler.stage_runner import STATE, Slots, results, stream
from trident import Count, FailedException, Function, TridentTopology
from trident.base.callsite import CallSite
from trident.base.errors import MalformedInputError, StateBehindError, TopologyError, TridentError, UserFunctionError
from trident.compiler.columns.function_errors import Where, decoded, encoded
from trident.spouts import FixedBatchSpout


def counted(change: Callable[[Any], Any], *tuples: Any, fields: str = "word string") -> TridentTopology:
    """Return a topology that counts the tuples that `change` makes of a stream, by their last field."""
    topology = TridentTopology()
    changed = change(stream(topology, fields, tuples or ["cow", "dog", "moon"]))
    changed.groupBy(changed.schema.names[-1]).persistentAggregate(STATE, Count(), "count", name="counts")
    return topology


class Shouts(Function):
    outputType = "string, int"

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([tuple.word.upper()])


class Returns(Function):
    def execute(self, tuple: Any, collector: Any) -> Any:
        return [tuple.word.upper()]


class EmitsTwoArguments(Function):
    def execute(self, tuple: Any, collector: Any) -> Any:
        collector.emit(tuple.word, 1)


class Odd(Longest):
    def combine(self, a: str, b: str) -> Any:
        return len(a) + len(b)


CASES: dict[str, tuple[TridentTopology, str]] = {
    "raises": (
        counted(lambda s: s.each("word", boom_at_dog, "w string")),
        r"s/1:each\(boom_at_dog\): boom_at_dog \(functions.py:\d+\) raised ValueError: no dogs here; "
        r"the tuple was \(word='dog'\)",
    ),
    "stops": (
        counted(lambda s: s.each("word", stop_at_dog, "w string")),
        r"stop_at_dog .* raised StopIteration; the tuple was \(word='dog'\)",
    ),
    "stops in a map": (
        counted(lambda s: s.flatMap(lambda t: map(stop_at_dog, ["cow", t.word, "pig"]), "w string")),
        r"<lambda> .* raised RuntimeError: stop_at_dog \(functions.py:\d+\) raised StopIteration, which ends a map "
        r"before its last row: .*; the tuple was \(word='dog'\)",
    ),
    "raises in a generator": (
        counted(lambda s: s.each("word", split, "part string"), "cow", None),
        r"split .* raised AttributeError: 'NoneType' object has no attribute 'split'; the tuple was \(word=None\)",
    ),
    "wrong type": (
        counted(lambda s: s.each("word", lambda word: len(word) if word == "dog" else "", "w string")),
        r"<lambda> \(test_failures.py:\d+\) returned 3 \(int\) for field 'w', which is declared as string; .* was "
        r"\(word='dog'\)",
    ),
    "too big": (
        counted(lambda s: s.each("word", lambda word: 300, "n tinyint")),
        r"returned 300 \(int\) for field 'n', which is declared as tinyint; .*too large",
    ),
    "not whole": (
        counted(lambda s: s.each("n", half, "h long"), (4,), (5,), fields="n long"),
        r"half .* returned 2.0 \(float\) for field 'h', which is declared as bigint; the tuple was \(n=4\)",
    ),
    "a list": (
        counted(lambda s: s.each("word", lambda word: [word], "w string")),
        r"returned a list, \['cow'\]; the tuple was \(word='cow'\) \(yield every tuple, or use flatMap\)",
    ),
    "too many values": (
        counted(lambda s: s.each("word", lambda word: (word, 1, 2), "w string, n int")),
        r"returned 3 values, \('cow', 1, 2\), but 2 are declared: \(w string, n int\)",
    ),
    "too few values": (
        counted(lambda s: s.each("word", lambda word: word, "w string, n int")),
        r"returned 'cow' where 2 values are declared: \(w string, n int\); the tuple was .* \(return a tuple\)",
    ),
    "emits too few": (
        counted(lambda s: s.each("word", Shouts(), "w, n")),
        r"Shouts \(test_failures.py:\d+\) raised ValueError: emit got 1 value\(s\), expected 2: \['COW'\]",
    ),
    "emits no list": (
        counted(lambda s: s.each("word", EmitsTwoArguments(), "w string, n int")),
        r"raised TypeError: emit takes one list with a value for each field: write emit\(\['cow', \.\.\.\]\); the "
        r"tuple was",
    ),
    "a Function that returns": (
        counted(lambda s: s.each("word", Returns(), "w string")),
        r"s/1:each\(Returns\): Returns \(test_failures.py:\d+\) raised TypeError: execute returned \['COW'\]; it must "
        r"emit its tuples: write collector\.emit\(\[\.\.\.\]\); the tuple was \(word='cow'\)",
    ),
    "a filter that is none": (
        counted(lambda s: s.filter("word", lambda word: word)),
        r"returned 'cow'; a filter must return True or False; .* \(a filter returns bool",
    ),
    "a flatMap of one": (
        counted(lambda s: s.flatMap(lambda t: t.word, "w string")),
        r"returned 'cow'; expected a list or a generator of tuples; .* \(yield every tuple, or return a list of them\)",
    ),
    "an unknown field": (
        counted(lambda s: s.filter(lambda t: t.wrod == "dog")),
        r"raised AttributeError: the tuple has no field 'wrod'; its fields are \(word\); did you mean 'word'\?",
    ),
    "an accumulator": (
        counted(lambda s: s.groupBy("word").aggregate("word", Odd(), "n string"), "dog", "dog"),
        r"Odd \(test_failures.py:\d+\) gave 6 \(int\) for field 'n', which is declared as string",
    ),
    "exits": (
        counted(lambda s: s.peek(lambda t: exit(3))),
        r"s/1:peek\(<lambda>\): <lambda> .* raised SystemExit: 3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_says_what_came_and_what_is_accepted(engine: Slots, case: str) -> None:
    topology, message = CASES[case]
    with pytest.raises(UserFunctionError) as caught:
        results(engine, topology)
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.connect
def test_the_workers_traceback_is_a_note(engine: Slots) -> None:
    topology, _ = CASES["raises"]
    with pytest.raises(UserFunctionError) as caught:
        results(engine, topology)
    if engine.name == "arrow":
        assert isinstance(caught.value.__cause__, ValueError)
    else:
        (note,) = caught.value.__notes__
        assert re.search(r"in the worker: .*functions.py:\d+ in boom_at_dog \| ValueError: no dogs here", note), note
        assert caught.value.__context__ is None  # nothing of Spark's is printed before it


@pytest.mark.connect
def test_a_failed_exception_stays_one(engine: Slots) -> None:
    topology = counted(lambda s: s.each("word", fail_at_dog, "w string"))
    with pytest.raises(FailedException, match="^try this batch again$"):
        results(engine, topology)


@pytest.mark.connect
def test_a_combiner_that_raises(engine: Slots) -> None:
    tuples = [(1, "a"), (1, "b")]
    topology = counted(lambda s: s.groupBy("k").aggregate("w", Bad(), "b"), *tuples, fields="k int, w string")
    with pytest.raises(UserFunctionError, match=r"Bad .* raised RuntimeError: cannot combine a and b"):
        results(engine, topology)


class Bad(Longest):
    def combine(self, a: str, b: str) -> str:
        raise RuntimeError(f"cannot combine {a} and {b}")


def test_errors_travel_as_text_and_come_back_typed() -> None:
    error = UserFunctionError('each(f): f (a.py:1) raised ValueError: "quotes" \n and ümlauts; ' + "x" * 2000)
    error.__cause__ = ValueError("boom")
    text = f"PythonException: Traceback...\nWorkerFailure: {encoded(error)}\n SQLSTATE: 38000\n\tat org.apache"
    back = decoded(text)
    assert isinstance(back, UserFunctionError)
    assert str(back).startswith('each(f): f (a.py:1) raised ValueError: "quotes" \n and ümlauts; xxx')
    assert len(str(back)) <= 600 and "ValueError: boom" in back.__notes__[0]


def test_errors_of_ours_are_known_without_a_mark() -> None:
    text = "Traceback\n  File x\ntrident_client.errors.MalformedInputError: a.txt, byte 17: no UTF-8\n SQLSTATE: 38000"
    back = decoded(text)
    assert isinstance(back, MalformedInputError) and str(back) == "a.txt, byte 17: no UTF-8"
    assert decoded("java.lang.OutOfMemoryError: heap") is None
    assert isinstance(decoded('TRIDENT-FAILURE {"type": "os", "message": "m"}'), TridentError)


def test_the_step_and_the_marker_of_an_error_cross_from_a_worker() -> None:
    failed = Where("words/1:each(f)", CallSite("f", "app.py", 3)).error("raised ValueError")
    behind = StateBehindError("state 'counts' fell back", 7)
    assert failed.step == "words/1:each(f)" and behind.step is None
    for error, attribute in ((failed, "step"), (behind, "step"), (behind, "marker")):
        back = decoded(str(encoded(error)))
        assert type(back) is type(error) and str(back) == str(error)
        assert getattr(back, attribute) == getattr(error, attribute)


def test_an_error_of_a_call_carries_its_step() -> None:
    with pytest.raises(TopologyError) as raised:
        TridentTopology().newStream("words", FixedBatchSpout("word string", [["a"]])).each("wrod", str, "text string")
    assert raised.value.step is not None and raised.value.step.startswith("words/1:each")
