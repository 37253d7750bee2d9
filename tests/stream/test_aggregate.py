"""The nodes of aggregate, persistentAggregate and stateQuery."""

from decimal import Decimal
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, node, stream
from trident import CombinerAggregator, Count, GroupedStream, MapGet, Max, Min, Sum, TridentTopology
from trident.base.spark_types import ddl
from trident.plan import nodes

STATE = DeclaredState()


class Average:
    """The sum and the count of a field; queries see their quotient."""

    outputType = "struct<sum:double,count:bigint>"

    def init(self, tuple: Any) -> Any:
        return (tuple[0], 1)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])

    def zero(self) -> Any:
        return (0.0, 0)

    def present(self, acc: Any) -> float:
        return float(acc[0] / acc[1])


class Product(CombinerAggregator):
    def init(self, tuple: Any) -> Any:
        return tuple[0]

    def combine(self, a: Any, b: Any) -> Any:
        return a * b

    def zero(self) -> Decimal:
        return Decimal(1)


def test_an_aggregate_over_the_batch_replaces_all_fields() -> None:
    total = stream("word string, n int").aggregate("n", Sum(), "n")
    assert isinstance(node(total), nodes.Aggregate)
    (member,) = node(total).members
    assert (node(total).group, node(total).scope, member.inputs, member.how.native) == ((), "batch", ("n",), "sum")
    assert ddl(total.schema) == "n bigint"


def test_an_aggregate_by_groups_keeps_the_group_fields_in_their_order() -> None:
    found = stream("a string, b string, n decimal(10,2)").groupBy("b", "a").aggregate("n", Sum(), "total")
    assert node(found).group == ("b", "a")
    assert ddl(found.schema) == "b string, a string, total decimal(20,2)"


def test_count_needs_no_fields_and_the_others_take_the_only_one() -> None:
    assert node(stream("a string, b string").aggregate(Count(), "n")).members[0].inputs == ()
    assert node(stream("a string, b string").aggregate("b", Count(), "n")).members[0].inputs == ()
    assert node(stream("a long").aggregate(Max(), "most")).members[0].inputs == ("a",)
    assert ddl(stream("a date").aggregate(Min(), "least").schema) == "least date"


def test_the_type_of_a_user_s_aggregator_is_found_where_it_stands() -> None:
    numbers = stream("n long")
    assert ddl(numbers.aggregate("n", Product(), "product").schema) == "product decimal(38,18)"
    assert ddl(numbers.aggregate("n", Product(), "product double").schema) == "product double"
    assert node(numbers.aggregate("n", Product(), "product")).members[0].how.native is None
    assert node(stream("a long, b long").aggregate(Product(), "product")).members[0].inputs == ("a", "b")


def test_a_state_is_named_by_its_stream_and_field_or_as_one_says() -> None:
    words = stream("word string", "words")
    state = words.groupBy("word").persistentAggregate(STATE, Count(), "count")
    assert state.name == "words.count"
    assert repr(state) == "TridentState('words.count': word string, count bigint; opaque)"
    other = words.persistentAggregate(STATE, Count(), "count", name="all-words")
    assert (other.name, ddl(other.schema)) == ("all-words", "count bigint")
    found = node(state)
    assert isinstance(found, nodes.PersistentAggregate)
    assert (found.group, found.inputs, found.state.factory) == (("word",), (), STATE)


def test_new_values_are_a_stream_that_goes_on() -> None:
    state = stream("word string").groupBy("word").persistentAggregate(STATE, Count(), "count")
    most = state.newValuesStream().persistentAggregate(STATE, "count", Max(), "most")
    assert node(most).source is node(state)
    assert ddl(state.newValuesStream().schema) == "word string, count bigint"


def test_map_get_gives_what_the_state_holds_or_presents() -> None:
    topology = TridentTopology()
    words = stream("word string, n double", "words", topology)
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count")
    means = words.groupBy("word").persistentAggregate(STATE, "n", Average(), "mean")
    total = words.persistentAggregate(STATE, "n", Sum(), "total")
    asked = topology.newDRPCStream("ask", "word string")
    assert ddl(asked.stateQuery(counts, "word", MapGet(), "n").schema) == "word string, n bigint"
    assert ddl(asked.stateQuery(counts, MapGet(), "n bigint").schema) == "word string, n bigint"
    assert ddl(asked.stateQuery(means, "word", MapGet(), "mean").schema) == "word string, mean double"
    found = node(asked.stateQuery(total, MapGet(), "total"))
    assert (found.inputs, found.query.get, found.updated) == ((), True, node(total))
    assert ddl(found.schema) == "word string, total double"


def test_a_query_function_of_one_s_own_declares_its_outputs() -> None:
    class Near:
        def batchRetrieve(self, state: Any, args: Any) -> Any: ...

        def execute(self, tuple: Any, result: Any, collector: Any) -> None: ...

    class Typed(Near):
        outputType = "string, long"

    topology = TridentTopology()
    counts = stream("word string", "words", topology).groupBy("word").persistentAggregate(STATE, Count(), "count")
    asked = topology.newDRPCStream("ask", "word string")
    found = asked.stateQuery(counts, "word", Near(), "near string, n long")
    assert not node(found).query.get
    assert ddl(found.schema) == "word string, near string, n bigint"
    assert ddl(asked.stateQuery(counts, "word", Typed(), "near, n int").schema) == "word string, near string, n int"


def test_a_grouped_stream_keeps_its_groups_through_each_filter_peek_and_project() -> None:
    grouped = stream("line string, k long").groupBy("k").each("line", len, "size long").filter(lambda t: t.size > 1)
    grouped = grouped.peek(print).project("size", "k")
    assert isinstance(grouped, GroupedStream)
    assert repr(grouped) == "GroupedStream(lines/4:project: size bigint, k bigint; by k)"
    assert grouped.groupFields == ("k",)
    assert ddl(grouped.aggregate("size", Sum(), "total").schema) == "k bigint, total bigint"
    assert grouped.toStream().fields == grouped.fields == ("size", "k")


def test_a_grouped_query_gives_a_stream_without_groups_as_in_trident() -> None:
    topology = TridentTopology()
    counts = stream("word string", "words", topology).groupBy("word").persistentAggregate(STATE, Count(), "count")
    asked = topology.newDRPCStream("ask", "word string").groupBy("word").stateQuery(counts, "word", MapGet(), "n")
    assert ddl(asked.aggregate("n", Sum(), "sum").schema) == "sum bigint"


def test_everything_may_come_by_keyword() -> None:
    words = stream("word string, n long")
    assert node(words.aggregate(inputFields="n", aggregator=Sum(), outputFields="t")).members[0].inputs == ("n",)
    state = words.groupBy("word").persistentAggregate(
        stateFactory=STATE, inputFields="n", aggregator=Sum(), outputFields="t", name="s"
    )
    asked = words.stateQuery(state=state, inputFields="word", function=MapGet(), outputFields="t")
    assert asked.fields == ("word", "n", "t")


@pytest.mark.parametrize("fields", [("a", "b"), ("a, b",), (["a", "b"],)])
def test_fields_alone_may_be_several_arguments(fields: tuple[Any, ...]) -> None:
    numbers = stream("a long, b long, c long")
    assert numbers.groupBy(*fields).groupFields == ("a", "b")
    assert node(numbers.partitionBy(*fields)).names == ("a", "b")
    assert numbers.project(*fields).fields == ("a", "b")
