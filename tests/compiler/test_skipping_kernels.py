"""Tuples that fail among many: each is tried once, the others go on, and one run of the batch is enough."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.functions import Longest
from tests.compiler.stage_runner import STATE, OnSpark, Slots, rows, run, run_group, stream
from tests.compiler.test_failed_tuples import letters
from trident import Count, DeadLetter, Function, Sum, TridentTopology
from trident.compiler.failed_tuples import catching_nodes, policy_of
from trident.compiler.stage_layout import layout, stage_ends
from trident.compiler.stages import cut
from trident.frozen.results import StageResult

NOW = DeadLetter(attempts=0)

LINES = [str(n) if n % 5 else f"bad {n}" for n in range(1, 61)]
GOOD = [int(line) for line in LINES if "bad" not in line]


class Marked:
    """Parse a number, and mark each call in a file of a folder, whatever process calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, line: str) -> int:
        with open(f"{self.folder}/calls-{os.getpid()}", "a") as marks:
            marks.write(f"{line}\n")
        return int(line)

    def calls(self) -> list[str]:
        return sorted(line for file in Path(self.folder).glob("calls-*") for line in file.read_text().splitlines())


def folded(numbers: Any) -> None:
    numbers.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")


def folded_by_python(numbers: Any) -> None:
    numbers.groupBy("n").persistentAggregate(STATE, "n", Longest(), "longest", name="counts")


def read_twice(numbers: Any) -> None:
    folded(numbers)
    numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")


def handed_over(numbers: Any) -> None:
    numbers.foreachArrow(print, name="out")


def without_a_reader(numbers: Any) -> None:
    numbers.peek("n", abs)


def aggregated_by_partition(numbers: Any) -> None:
    numbers.partitionAggregate("n", Sum(), "sum").foreachArrow(print, name="out")


SHAPES: dict[str, Callable[[Any], None]] = {
    "folded": folded,
    "folded by Python": folded_by_python,
    "read twice": read_twice,
    "handed over": handed_over,
    "without a reader": without_a_reader,
    "aggregated by partition": aggregated_by_partition,
}


def topology_of(shape: Callable[[Any], None], function: Callable[[str], int], onError: Any) -> TridentTopology:
    topology = TridentTopology()
    shape(stream(topology, "line string", LINES).each("line", function, "n long", onError=onError))
    if onError != "skip":
        topology.deadLetterState(STATE)
    return topology


@pytest.mark.parametrize(
    ("size", "policy"),
    [
        ("small", "skip"),
        ("large", "letters"),
        pytest.param("small", "letters", marks=pytest.mark.soak),
        pytest.param("large", "skip", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_tuple_is_tried_once_though_many_fail(
    engine: Slots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, size: str, policy: str
) -> None:
    monkeypatch.setattr("trident.compiler.spark.sessions.SMALL_ROWS", 1000 if size == "small" else -1)
    marked = Marked(tmp_path)
    result = run(engine, topology_of(SHAPES[shape], marked, "skip" if policy == "skip" else NOW))
    assert marked.calls() == sorted(LINES), "a second run, or a second call"
    if "counts" in result.results and shape != "folded by Python":
        assert rows(result.results["counts"]) == sorted(((n, 1) for n in GOOD), key=repr)
    if "sum" in result.results:
        assert rows(result.results["sum"]) == [(sum(GOOD),)]
    bad = sorted(line for line in LINES if "bad" in line)
    if policy == "skip":
        assert result.skipped == {"s/1:each(Marked)": len(bad)}
    else:
        assert sorted(letter[3]["line"] for letter in letters(result)) == bad


@pytest.mark.spark
def test_where_spark_goes_on_with_the_tuples_the_batch_runs_once_more(on_spark: OnSpark, tmp_path: Path) -> None:
    topology = TridentTopology()
    marked = Marked(tmp_path)
    lines = stream(topology, "line string", LINES, LINES)
    numbers = lines.each("line", marked, "n long", onError=NOW)
    kept = numbers.groupBy("n").aggregate("n", Gathered(), "m")
    kept.persistentAggregate(STATE, "m", Sum(), "sum", name="sum")
    topology.deadLetterState(STATE)
    (group,) = cut(topology).groups
    slots = OneSlot(on_spark.slot(group))
    for calls in ([2 * len(LINES)], [3 * len(LINES)]):
        result = run_group(slots, group, 0 if calls == [2 * len(LINES)] else 1)
        assert rows(result.results["sum"]) == [(sum(GOOD),)] and len(letters(result)) == 12
        assert len(marked.calls()) <= calls[0], "the next batches are thorough at once"


class OneSlot:
    """Slots of which there is one, so that a batch knows of the batch before."""

    name = "spark"

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def slot(self, group: Any) -> Any:
        return self._slot


class Gathered:
    """An aggregator that must see each tuple."""

    outputType = "long"

    def init(self, batchId: Any, collector: Any) -> list[int]:
        return []

    def aggregate(self, seen: list[int], tuple: Any, collector: Any) -> None:
        seen.append(tuple[0])

    def complete(self, seen: list[int], collector: Any) -> None:
        collector.emit([sum(seen)])


def test_only_what_costs_no_more_fields_catches_at_first() -> None:
    def carried(fields: str, policy: Any) -> list[str]:
        topology = TridentTopology()
        numbers = stream(topology, fields, []).each("line", int, "n long", onError=policy)
        numbers.persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
        if policy != "skip":
            topology.deadLetterState(STATE)
        stage = cut(topology).groups[0].stages[0]
        plain = layout(stage_ends(stage), stage.inputs, stage.debugs)
        policies = {node: policy_of(node, False) for node in plain.nodes}
        caught = catching_nodes({node: own for node, own in policies.items() if own is not None}, 1, 0)
        return [node.step for node in plain.nodes if id(node) in plain.carried(caught)]

    assert carried("line string", NOW) == carried("line string", "skip") == ["s/1:each(int)"]
    assert carried("line string, unread double", "skip") == ["s/1:each(int)"]
    assert carried("line string, unread double", NOW) == [], "a batch without a failure would read the field as well"


# --- what may fail about a tuple ----------------------------------------------------------------------------------


def a_word_for_sevens(n: int) -> Any:
    if n % 11 == 0:
        raise ValueError("eleven")
    return "seven" if n % 7 == 0 else n


def three_for_sevens(n: int) -> Any:
    return (n, n, n) if n % 7 == 0 else (n, -n)


def no_bool_for_sevens(n: int) -> Any:
    return n if n % 7 == 0 else True


def emitting_a_word_at_sevens(n: int) -> Iterator[Any]:
    yield n
    yield "seven" if n % 7 == 0 else -n


def raising_after_the_first_at_sevens(n: int) -> Iterator[int]:
    yield n
    if n % 7 == 0:
        raise KeyError("seven")
    yield -n


def stops_at_sevens(n: int) -> int:
    return n if n % 7 else next(iter(()))


class WideAtSevens(Function):
    outputType = "long"

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([tuple.n])
        collector.emit([tuple.n] * (2 if tuple.n % 7 == 0 else 1))


NUMBERS = range(1, 400)
SEVENS = {n for n in NUMBERS if n % 7 == 0}
ELEVENS = {n for n in NUMBERS if n % 11 == 0}

FAILING: dict[str, tuple[Callable[[Any], Any], set[int], str]] = {
    "another type": (
        lambda s: s.each("n", a_word_for_sevens, "m long", onError=NOW),
        SEVENS | ELEVENS,
        "s/1:each(a_word_for_sevens): a_word_for_sevens (test_skipping_kernels.py:",
    ),
    "another width": (
        lambda s: s.map("n", three_for_sevens, "m long, k long", onError=NOW),
        SEVENS,
        "returned 3 values",
    ),
    "no bool": (
        lambda s: s.filter("n", no_bool_for_sevens, onError=NOW),
        SEVENS,
        "returned 7; a filter must return True or False; the tuple was (n=7)",
    ),
    "one of many": (
        lambda s: s.flatMap("n", emitting_a_word_at_sevens, "m long", onError=NOW),
        SEVENS,
        "returned 'seven' (str) for field 'm', which is declared as bigint; the tuple was (n=7)",
    ),
    "a StopIteration": (lambda s: s.each("n", stops_at_sevens, "m long", onError=NOW), SEVENS, ""),
    "a failure between two emissions": (
        lambda s: s.flatMap("n", raising_after_the_first_at_sevens, "m long", onError=NOW),
        SEVENS,
        "seven",
    ),
    "a collector": (lambda s: s.each(WideAtSevens(), "m", onError=NOW), SEVENS, "emit got 2 value(s)"),
}


@pytest.mark.parametrize("what", FAILING)
def test_a_tuple_leaves_alone_whatever_is_wrong_with_it(engine: Slots, what: str) -> None:
    build, failing, message = FAILING[what]
    topology = TridentTopology()
    left = build(stream(topology, "n long", list(NUMBERS)))
    left.groupBy(left.fields[0]).persistentAggregate(STATE, Count(), "count", name="counts")
    topology.deadLetterState(STATE)
    result: StageResult = run(engine, topology)
    dead = letters(result)
    assert {letter[3]["n"] for letter in dead} == failing and len(dead) == len(failing)
    assert any(message in letter[2] for letter in dead)
    passed = {abs(row[0]) for row in rows(result.results["counts"])}
    assert passed == set(NUMBERS) - failing, "a tuple with several emissions leaves with all of them"
