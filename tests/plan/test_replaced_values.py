"""An aggregate over all batches that would count a key again at each change of its value is refused when built."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.compiler.functions import Tally
from tests.support.topologies import DeclaredState
from tests.support.topologies import stream as declared
from trident import (
    Average,
    Count,
    Last,
    Max,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
    expr,
)
from trident.base.errors import TopologyError
from trident.state import MemoryMapState
from trident.stream.stream import Stream

STATE = DeclaredState()


class Folded:
    outputType = "long"

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + 1


def words() -> Stream:
    return declared("word string, n long, at timestamp", "words")


def counts(source: Stream | None = None) -> Any:
    stream = words() if source is None else source
    return stream.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")


def table() -> Any:
    return words().toTable("word", name="counts", stateFactory=STATE)


def letters(**how: bool) -> Stream:
    return counts().newValuesStream(**how).each("word", lambda word: word[0], "letter string").filter(expr("count > 1"))


def per_batch(**how: bool) -> Stream:
    return counts().newValuesStream(**how).groupBy("count").aggregate("word", Last(), "word")


def reduced(**how: bool) -> Stream:
    state = words().groupBy("word").persistentAggregate(STATE, Folded(), "count", name="counts")
    return state.newValuesStream(**how)


@pytest.mark.parametrize("changes", [lambda **how: counts().newValuesStream(**how), letters, per_batch, reduced])
@pytest.mark.parametrize(
    "aggregator",
    [Count(), Sum("count"), Average("count"), Tally(), Folded(), {"most": Max("count"), "n": Count()}],
    ids=lambda each: type(each).__name__,
)
def test_what_counts_again_is_refused_with_the_ways_out(changes: Callable[..., Stream], aggregator: Any) -> None:
    args = (aggregator,) if isinstance(aggregator, dict) else (aggregator, "n")
    says = r"newValuesStream\(\) of state 'counts' \(test_replaced_values.py:\d+\).*newValuesStream\(everyChange=True\)"
    with pytest.raises(TopologyError, match=says):
        changes().persistentAggregate(STATE, *args, name="second")
    changes(everyChange=True).persistentAggregate(STATE, *args, name="second")


def test_windows_over_changes_are_refused_too() -> None:
    with pytest.raises(TopologyError, match="Count over all batches would count a key again at each change"):
        counts().newValuesStream().window(TumblingCountWindow(3), STATE, Count(), "n", name="second")
    counts().newValuesStream(everyChange=True).window(TumblingCountWindow(3), STATE, Count(), "n", name="second")


def test_the_rows_of_a_table_replace_each_other() -> None:
    with pytest.raises(TopologyError, match="newValuesStream"):
        table().newValuesStream().persistentAggregate(STATE, "n", Sum(), "total", name="second")


@pytest.mark.parametrize("aggregator", [Max("count"), Last("count")])
def test_what_a_repeated_value_does_not_change_is_taken(aggregator: Any) -> None:
    counts().newValuesStream().groupBy("word").persistentAggregate(STATE, aggregator, "n", name="second")


def test_final_values_are_counted() -> None:
    hour = TumblingEventTimeWindow("1 hour", "at")
    words().groupBy("word").window(hour, STATE, Count(), "count", name="hours").persistentAggregate(
        STATE, "count", Sum(), "n", name="all"
    )
    words().dropDuplicates("word", stateFactory=STATE, name="once").persistentAggregate(STATE, Count(), "n", name="n")


def test_a_join_within_the_batch_only_adds_to_tuples_that_come_once() -> None:
    source = words()
    joined = source.join(counts(source).newValuesStream(), "word")  # of the same batch
    joined.persistentAggregate(STATE, "n", Sum(), "total", name="second")


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(TopologyError, match="everyChange='yes': expected True or False"):
        counts().newValuesStream(everyChange="yes")


def test_the_option_is_of_one_stream_and_not_of_the_state() -> None:
    state = counts()
    state.newValuesStream(everyChange=True).persistentAggregate(STATE, Count(), "n", name="changes")
    with pytest.raises(TopologyError, match="would count a key again at each change"):
        state.newValuesStream().persistentAggregate(STATE, Sum("count"), "n", name="sums")


def test_a_users_aggregator_may_say_that_a_repeated_value_changes_nothing() -> None:
    class Greatest(Tally):
        idempotent = True

    counts().newValuesStream().persistentAggregate(STATE, Greatest(), "n", name="second")


Verb = Callable[[Stream, Stream], Stream]


def changing(verb: Verb, **how: bool) -> Stream:
    """Apply a verb to the new values of a table, and to a second stream of the topology."""
    topology = TridentTopology()
    rows = declared("word string, n long, at timestamp", "words", topology).toTable("word", STATE, name="counts")
    return verb(rows.newValuesStream(**how), declared("word string, seen timestamp", "others", topology))


def distinct(fields: Any, factory: Any = STATE, **how: Any) -> Verb:
    return lambda changes, other: changes.dropDuplicates(fields, factory, name="once", **how)


def noted(tuple: Any, state: Any) -> None:
    state.put(tuple.word, 1)


HOUR = TumblingEventTimeWindow("1 hour", "at")
SPAN = (0, "1 hour")
BY_TIME = {"timestampField": "at", "otherTimestampField": "seen"}
TURNED = {"timestampField": "seen", "otherTimestampField": "at"}

PASSING_ON: dict[str, Verb] = {
    "all fields": distinct(None),
    "a field of the value": distinct(["word", "at"]),
    "the kept value": distinct("n"),
    "a state that forgets": distinct("word", MemoryMapState.opaque(ttlSecs=60)),
    "a span of event time": distinct("word", timestampField="at", within="1 hour"),
    "computed from the value": lambda changes, _: distinct("day")(changes.each("at", str, "day string"), _),
    "aggregated in the batch": lambda changes, _: distinct("at")(
        changes.groupBy("word").aggregate("at", Max(), "at"), _
    ),
    "split by the value": lambda changes, _: distinct("word")(
        changes.split("n", lambda n: ("all", (str(n),)), {"all": "word string"}).all, _
    ),
    "mapped": lambda changes, _: distinct("word")(changes.map("at", str, "word string"), _),
    "twice": lambda changes, _: distinct("at")(changes.dropDuplicates("n", STATE, name="first"), _),
    "a stateful operation": lambda changes, _: changes.statefulEach(
        noted, keyFields="word", valueType="long", stateFactory=STATE, name="notes"
    ),
    "left of a join by time": lambda changes, other: changes.intervalJoin(other, "word", SPAN, **BY_TIME),
    "right of a join by time": lambda changes, other: other.intervalJoin(changes, "word", SPAN, **TURNED),
    "a join in windows": lambda changes, other: changes.windowJoin(other, "word", HOUR, otherTimestampField="seen"),
    "distinct pairs in time": lambda changes, other: distinct("word")(
        changes.intervalJoin(other, "word", SPAN, **BY_TIME), other
    ),
    "a right join": lambda changes, other: other.join(changes, "word", joinType="right"),
    "a full join": lambda changes, other: other.join(changes, "word", joinType="full"),
}


@pytest.mark.parametrize("verb", PASSING_ON.values(), ids=PASSING_ON)
def test_a_verb_that_passes_tuples_on_does_not_hide_that_they_replace_each_other(verb: Verb) -> None:
    says = r"newValuesStream\(\) of state 'counts' \(test_replaced_values.py:\d+\).*newValuesStream\(everyChange=True\)"
    with pytest.raises(TopologyError, match=says):
        changing(verb).groupBy("word").persistentAggregate(STATE, Count(), "n", name="second")
    changing(verb, everyChange=True).groupBy("word").persistentAggregate(STATE, Count(), "n", name="second")


ONCE: dict[str, Verb] = {
    "the key": distinct("word"),
    "the key behind a condition": lambda changes, _: distinct("word")(changes.filter(expr("at > '2024-01-01'")), _),
    "computed from the key": lambda changes, _: distinct("letter")(changes.each("word", str.upper, "letter string"), _),
    "renamed": lambda changes, _: distinct("name")(changes.rename({"word": "name"}), _).rename({"name": "word"}),
    "twice": lambda changes, _: distinct("word")(changes.dropDuplicates("n", STATE, name="first"), _),
    "first by the key": lambda changes, _: distinct("n")(changes.dropDuplicates("word", STATE, name="first"), _),
    "grouped in the batch": lambda changes, _: distinct("word")(
        changes.groupBy("word").aggregate("at", Max(), "at"), _
    ),
    "a left join": lambda changes, other: other.join(changes, "word", joinType="left"),
    "of a join": lambda changes, other: distinct("word")(other.join(changes, "word", joinType="right"), other),
    "merged": lambda changes, other: distinct("word")(changes.project("word").merge(other.project("word")), other),
    "split": lambda changes, _: distinct("word")(
        changes.split("word", lambda word: ("all", (word, 1)), {"all": "word string, n long"}).all, _
    ),
}


@pytest.mark.parametrize("verb", ONCE.values(), ids=ONCE)
def test_tuples_that_come_once_for_each_key_are_counted(verb: Verb) -> None:
    changing(verb).groupBy("word").persistentAggregate(STATE, Count(), "n", name="second")


class Together:
    def init(self, collector: Any) -> list[int]:
        return [0]

    def execute(self, state: list[int], streamIndex: int, tuple: Any, collector: Any) -> None:
        state[0] += 1

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit(state)


def test_a_reducer_of_several_streams_hides_it_only_if_one_has_tuples_that_come_once() -> None:
    topology = TridentTopology()
    words, others = (declared("word string", name, topology) for name in ("words", "others"))
    values = counts(words).newValuesStream()
    both = topology.multiReduce([values, values.filter(expr("count > 1"))], None, Together(), "n long")
    with pytest.raises(TopologyError, match="newValuesStream"):
        both.persistentAggregate(STATE, Count(), "batches", name="second")
    one = topology.multiReduce([values, others], None, Together(), "n long")
    one.persistentAggregate(STATE, Count(), "batches", name="second")
