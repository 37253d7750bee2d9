"""An aggregate over all batches that would count a key again at each change of its value is refused when built."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.compiler.functions import Tally
from tests.support.topologies import DeclaredState
from tests.support.topologies import stream as declared
from trident import Average, Count, Last, Max, Sum, TumblingCountWindow, TumblingEventTimeWindow, expr
from trident.base.errors import TopologyError
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
