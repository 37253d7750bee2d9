"""A dead letter comes back directly before the step on which its tuple died: no branch counts a tuple twice."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from trident import Count, DeadLetter, TridentTopology
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BROKEN: set[str] = set()
DEAD = DeadLetter(attempts=0)


@pytest.fixture(autouse=True)
def nothing_broken() -> None:
    BROKEN.clear()


def check(step: str) -> Any:
    """A function that fails on the words that are broken at this step, as `step:word`."""

    def checked(word: str) -> str:
        if f"{step}:{word}" in BROKEN:
            raise ValueError(word)
        return step

    return checked


def counted(stream: Any, name: str, *fields: str) -> None:
    stream.groupBy(*(fields or ("word",))).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name)


def counts(running: Any, *names: str) -> dict[str, dict[Any, int]]:
    return {name: dict(running.state(name).items()) for name in names}


def kept(running: Any) -> list[str]:
    return sorted(value["step"].split("(")[0] for _, value in running.state("deadLetters").items())


def through(topology: TridentTopology, *names: str, **options: Any) -> dict[str, dict[Any, int]]:
    """Run the topology, mend the functions, put all letters back, and return the counts of the states."""
    topology.deadLetterState(MemoryMapState.opaque())
    with start_local(topology, name="t", **options) as running:
        running.processAllAvailable(timeout=20)
        letters = len(kept(running))
        BROKEN.clear()
        assert running.replayDeadLetters("words") == letters > 0
        running.processAllAvailable(timeout=20)
        assert kept(running) == []
        return counts(running, *names)


def words(*batches: list[str]) -> Any:
    topology = TridentTopology()
    return topology, topology.newStream("words", FixedBatchSpout("word string", [*batches])).replayable()


def test_a_branch_that_has_counted_a_tuple_does_not_get_it_again() -> None:
    BROKEN.add("a:cow")
    topology, stream = words(["cow", "dog"])
    counted(stream, "seen")
    counted(stream.each("word", check("a"), "a string", onError=DEAD), "checked")
    assert through(topology, "seen", "checked") == {"seen": {"cow": 1, "dog": 1}, "checked": {"cow": 1, "dog": 1}}


def test_a_tuple_that_died_on_two_branches_comes_back_on_both() -> None:
    BROKEN.update({"a:cow", "b:cow", "b:dog"})
    topology, stream = words(["cow", "dog", "hen"])
    for name in "ab":
        counted(stream.each("word", check(name), f"{name} string", onError=DEAD), name)
    once = {"cow": 1, "dog": 1, "hen": 1}
    assert through(topology, "a", "b") == {"a": once, "b": once}


def test_of_two_steps_in_a_row_each_gets_its_own_letters() -> None:
    BROKEN.update({"a:cow", "b:dog"})
    topology, stream = words(["cow", "dog"])
    first = stream.each("word", check("a"), "a string", onError=DEAD)
    counted(first, "between")
    counted(first.each("word", check("b"), "b string", onError=DEAD), "last")
    once = {"cow": 1, "dog": 1}
    assert through(topology, "between", "last") == {"between": once, "last": once}


def test_one_of_many_tuples_that_a_step_emitted_comes_back_alone() -> None:
    """The stream no longer has the field of the line: the letter has the fields of the step on which it died."""
    BROKEN.add("a:cow")
    topology, stream = words(["cow dog", "dog hen"])
    single = stream.flatMap(lambda tuple: tuple.word.split(), "single string")
    counted(single, "split", "single")
    counted(single.each("single", check("a"), "a string", onError=DEAD), "checked", "single")
    once = {"cow": 1, "dog": 2, "hen": 1}
    assert through(topology, "split", "checked") == {"split": once, "checked": once}


def test_filter_map_and_peek_let_letters_enter_before_themselves() -> None:
    BROKEN.update({"filter:cow", "map:dog", "peek:hen"})
    topology, stream = words(["cow", "dog", "hen"])
    passed = stream.filter("word", lambda word: bool(check("filter")(word)), onError=DEAD)
    passed = passed.map(lambda word: check("map")(word) and word, "word string", onError=DEAD)
    counted(passed.peek("word", check("peek"), onError=DEAD), "all")
    assert through(topology, "all") == {"all": {"cow": 1, "dog": 1, "hen": 1}}


def test_a_letter_of_a_later_stage_comes_back_there() -> None:
    BROKEN.add("late:cow")
    topology, stream = words(["cow", "dog", "cow"])
    seen = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="seen")
    changes = seen.newValuesStream(everyChange=True)
    with pytest.raises(TopologyError, match=r"dead letters are already replayed into .*"):
        stream.replayable()
    late = changes.each("word", check("late"), "late string", onError=DEAD)
    counted(late, "late")
    assert through(topology, "seen", "late") == {"seen": {"cow": 2, "dog": 1}, "late": {"cow": 1, "dog": 1}}


def test_a_restart_puts_letters_back_on_their_branch(tmp_path: Path) -> None:
    BROKEN.add("b:cow")

    def program() -> TridentTopology:
        topology, stream = words(["cow", "dog"])
        for name in "ab":
            counted(stream.each("word", check(name), f"{name} string", onError=DEAD), name)
        topology.deadLetterState(MemoryMapState.opaque())
        return topology  # type: ignore[no-any-return]

    with start_local(program(), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    BROKEN.clear()
    with start_local(program(), name="t", checkpointLocation=tmp_path) as running:
        assert running.replayDeadLetters("words") == 1
        running.processAllAvailable(timeout=20)
        once = {"cow": 1, "dog": 1}
        assert counts(running, "a", "b") == {"a": once, "b": once}


def test_a_letter_whose_step_is_gone_needs_to_be_told_where_it_enters(tmp_path: Path) -> None:
    def program(function: Any) -> TridentTopology:
        topology, stream = words(["cow", "dog"])
        counted(stream, "seen")
        counted(stream.each("word", function, "at string", onError=DEAD), "checked")
        topology.deadLetterState(MemoryMapState.opaque())
        return topology  # type: ignore[no-any-return]

    def mended(word: str) -> str:
        return word

    BROKEN.add("a:cow")
    with start_local(program(check("a")), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    with start_local(program(mended), name="t", checkpointLocation=tmp_path) as running:
        with pytest.raises(TopologyError) as gone:
            running.replayDeadLetters("words")
        assert "comes from words/3:each(checked), but no step of the program has this label now" in str(gone.value)
        assert "are replayed into words/3:each(mended)" in str(gone.value)
        assert "replayDeadLetters('words', into='words/3:each(mended)')" in str(gone.value)
        with pytest.raises(TopologyError, match=r"into='words/3:each\(mend\)': .*; did you mean 'words/3:each\(mended"):
            running.replayDeadLetters("words", into="words/3:each(mend)")
        assert len(kept(running)) == 1, "none comes back"
        assert running.replayDeadLetters("words", into="words/3:each(mended)") == 1
        running.processAllAvailable(timeout=20)
        once = {"cow": 1, "dog": 1}
        assert counts(running, "seen", "checked") == {"seen": once, "checked": once} and kept(running) == []


def test_a_stream_without_dead_letters_cannot_be_replayable() -> None:
    topology, stream = words(["cow"])
    counted(stream, "seen")
    other = topology.newStream("other", FixedBatchSpout("word string", []))
    counted(other.each("word", check("a"), "a string", onError=DEAD), "checked")
    topology.deadLetterState(MemoryMapState.opaque())
    with pytest.raises(
        TopologyError, match=r"test_dead_letter_branches.py:\d+ \(replayable\), but none are stored: give a"
    ):
        start_local(topology)


def random_plan(chance: random.Random, numbers: Iterator[int]) -> tuple[TridentTopology, dict[str, list[str]]]:
    """A tree of steps that may fail, with a state at each, and for each state the steps that lead to it."""
    every = [f"w{n}" for n in range(6)]
    topology, stream = words(*(chance.choices(every, k=4) for _ in range(2)))
    states: dict[str, list[str]] = {}

    def grow(stream: Any, path: list[str], depth: int) -> None:
        name = f"s{next(numbers)}"
        counted(stream, name)
        states[name] = path
        for _ in range(chance.choice([0, 1, 2]) if depth else chance.choice([1, 2])):
            if depth < 3:
                step = f"f{next(numbers)}"
                BROKEN.update(f"{step}:{word}" for word in every if chance.random() < 0.3)
                grow(stream.each("word", check(step), f"{step} string", onError=DEAD), [*path, step], depth + 1)

    grow(stream, [], 0)
    return topology, states


@pytest.mark.parametrize("seed", range(8))
def test_random_trees_of_failing_steps_count_each_tuple_once_in_each_state(seed: int) -> None:
    """Some letters die again on a later step, and come back once more, until none is left."""
    chance = random.Random(seed)
    topology, states = random_plan(chance, count())
    topology.deadLetterState(MemoryMapState.opaque())
    with start_local(topology, name="t", maxSpoutPending=chance.choice([1, 3])) as running:
        running.processAllAvailable(timeout=30)
        for _ in range(20):
            BROKEN.difference_update(chance.sample(sorted(BROKEN), k=(len(BROKEN) + 1) // 2))
            running.replayDeadLetters("words")
            running.processAllAvailable(timeout=30)
            if not kept(running):
                break
        assert kept(running) == []
        every = counts(running, *states)
    expected = every["s0"]
    assert sum(expected.values()) == 8
    assert all(Counter(state) == Counter(expected) for state in every.values()), (seed, every)


@pytest.mark.spark
def test_spark_lets_letters_enter_where_they_died(spark: SparkSession, tmp_path: Path) -> None:
    """A file says whether the functions fail, since Spark's workers know nothing of this process."""
    flag = tmp_path / "mended"

    def fails(word: str, on: str) -> str:
        if word == on and not flag.exists():
            raise ValueError(word)
        return word

    topology, stream = words(["cow", "dog"])
    counted(stream, "seen")
    first = stream.each("word", lambda word: fails(word, "cow"), "at string", onError=DEAD)
    counted(first.each("word", lambda word: fails(word, "dog"), "again string", onError=DEAD), "last")
    topology.deadLetterState(MemoryMapState.opaque())
    with topology.start(spark, name="t") as running:
        running.processAllAvailable(timeout=60)
        assert counts(running, "seen", "last") == {"seen": {"cow": 1, "dog": 1}, "last": {}}
        assert kept(running) == ["words/3:each", "words/4:each"]
        flag.touch()
        assert running.replayDeadLetters("words") == 2
        running.processAllAvailable(timeout=60)
        once = {"cow": 1, "dog": 1}
        assert counts(running, "seen", "last") == {"seen": once, "last": once} and kept(running) == []
