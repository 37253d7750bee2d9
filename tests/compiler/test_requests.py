"""DRPC functions: many requests in one pass, each answered as if it were alone."""

from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.functions import Longest, Mean, half, split
from tests.compiler.stage_runner import STATE, OnSpark, answered, rows, stream, table
from trident import Count, FilterNull, MapGet, Sum, TridentTopology, expr
from trident.base.errors import MissingSessionError, UserFunctionError
from trident.base.spark_types import ddl
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.stages import cut
from trident.compiler.states.queries import Read, compile_query
from trident.plan.nodes import StateQuery


class Stored:
    """States in dicts; counts how often they are read."""

    def __init__(self, **states: dict[Any, Any]) -> None:
        self.states = states
        self.reads: list[tuple[str, list[Any]]] = []

    def __call__(self, node: Any, keys: pa.Table) -> pa.Array:
        asked = list(zip(*[column.to_pylist() for column in keys.columns], strict=True)) or [()]
        self.reads.append((node.state.name, asked))
        state = self.states[node.state.name]
        from trident.compiler.states.shapes import shape_of

        return pa.array([state.get(key) for key in asked], shape_of(node).value)


def counting() -> tuple[TridentTopology, Any]:
    topology = TridentTopology()
    words = stream(topology, "word string, n long", [])
    return topology, words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")


def answer(topology: TridentTopology, read: Read, *requests: tuple[Any, ...], fields: str = "args string") -> Any:
    (plan,) = cut(topology).requests
    return rows(answered(compile_request(plan), table(f"request long, {fields}", *requests), read))


def test_the_readmes_query() -> None:
    topology, counts = counting()
    asked = topology.newDRPCStream("words").each("args", split, "word string").groupBy("word")
    asked.stateQuery(counts, "word", MapGet(), "count").each("count", FilterNull()).aggregate("count", Sum(), "sum")
    stored = Stored(counts={("cat",): 5, ("dog",): 4, ("the",): 9})
    requests = [(11, "cat dog the man"), (12, ""), (13, "dog dog"), (14, "man")]
    assert answer(topology, stored, *requests) == [(11, 18), (12, 0), (13, 8), (14, 0)]
    (read,) = stored.reads
    assert read == ("counts", [("cat",), ("dog",), ("the",), ("man",)]), "one read, each key once"


def test_aggregates_are_of_their_request() -> None:
    topology = TridentTopology()
    words = topology.newDRPCStream("longest").each("args", split, "word string")
    words.each("word", len, "n int").groupBy("n").aggregate("word", Longest(), "w")
    assert answer(topology, Stored(), (1, "a bb c dd"), (2, "a zz"), (3, "")) == [
        (1, 1, "c"),
        (1, 2, "dd"),
        (2, 1, "a"),
        (2, 2, "zz"),
    ]


def test_merge_join_and_map_stay_within_a_request() -> None:
    topology = TridentTopology()
    words = topology.newDRPCStream("pairs").each("args", split, "word string").project("word")
    loud = words.map(lambda t: (t.word, t.word.upper()), "w string, loud string")
    both = topology.merge(topology.join([words, loud], ["word", "w"], "word, loud"), loud)
    both.filter("loud", lambda w: w != "C")
    found = answer(topology, Stored(), (1, "a b"), (2, "b c"), (3, ""))
    assert found == sorted([(1, "a", "A"), (1, "b", "B"), (2, "b", "B")] * 2)


def test_a_global_value_and_what_queries_see_of_it() -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n double", [])
    mean = numbers.persistentAggregate(STATE, "n", Mean(), "mean", name="mean")
    topology.newDRPCStream("mean", "who string").stateQuery(mean, MapGet(), "mean double")
    stored = Stored(mean={(): {"total": 9.0, "count": 2}})
    assert answer(topology, stored, (1, "me"), (2, "you"), fields="who string") == [(1, "me", 4.5), (2, "you", 4.5)]
    assert answer(topology, Stored(mean={}), (1, "me"), fields="who string") == [(1, "me", None)]


def test_no_request_reads_nothing() -> None:
    topology, counts = counting()
    topology.newDRPCStream("get").stateQuery(counts, "args", MapGet(), "count").aggregate("count", Sum(), "sum")
    stored = Stored(counts={})
    assert answer(topology, stored) == [] and stored.reads == []


class Neighbours:
    """Asks for a word and the one before it in a list; emits both counts, drops the tuple where neither is stored."""

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return [state.multiGet([word, [f"{word}s"]]) for (word,) in args]

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        if result != [None, None]:
            collector.emit(result)
            collector.emit([0, tuple.args and len(tuple.args)])


class Short(Neighbours):
    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return [None]


class Raising(Neighbours):
    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        raise KeyError(tuple.args)


def test_a_query_function_of_ones_own() -> None:
    topology, counts = counting()
    topology.newDRPCStream("get").stateQuery(counts, "args", Neighbours(), "one long, many long")
    stored = Stored(counts={("cat",): 5, ("dogs",): 4})
    assert answer(topology, stored, (1, "cat"), (2, "dog"), (3, "cow")) == [
        (1, "cat", 0, 3),
        (1, "cat", 5, None),
        (2, "dog", 0, 3),
        (2, "dog", None, 4),
    ]


def test_a_query_s_answer_replaces_a_field() -> None:
    topology, counts = counting()
    asked = topology.newDRPCStream("get", "n string, args string")
    asked = asked.stateQuery(counts, "args", MapGet(), "n", replace=True)
    asked = asked.groupBy("args").stateQuery(counts, "args", Neighbours(), "args long, many long", replace=True)
    assert ddl(asked.schema) == "n bigint, args bigint, many bigint"
    stored = Stored(counts={("cat",): 5, ("dogs",): 4})
    requests = [(1, "?", "cat"), (2, "?", "dog"), (3, "?", "cow")]
    assert answer(topology, stored, *requests, fields="n string, args string") == [
        (1, 5, 0, 3),
        (1, 5, 5, None),
        (2, None, 0, 3),
        (2, None, None, 4),
    ]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            Short(),
            r"Short \(test_requests.py:\d+\) returned 1 results for 2 tuples; batchRetrieve must return one for each",
        ),
        (Raising(), r"Raising .* raised KeyError: 'cat'; the tuple was \(args='cat'\)"),
    ],
    ids=["too few results", "raises"],
)
def test_what_a_query_function_may_do_wrong(function: Any, message: str) -> None:
    topology, counts = counting()
    topology.newDRPCStream("get").stateQuery(counts, "args", function, "one long, many long")
    with pytest.raises(UserFunctionError, match=message):
        answer(topology, Stored(counts={}), (1, "cat"), (2, "dog"))


def test_a_step_that_only_spark_can_run_needs_a_session() -> None:
    topology = TridentTopology()
    topology.newDRPCStream("loud").each("args", expr("upper(args)"), "loud string")
    with pytest.raises(MissingSessionError, match=r"only Spark can run this step"):
        answer(topology, Stored(), (1, "a"))


@pytest.mark.connect
@pytest.mark.spark
def test_steps_that_only_spark_can_run_are_jobs_of_their_own(on_spark: OnSpark) -> None:
    topology, counts = counting()
    (
        topology.newDRPCStream("loud", "args string, least int")
        .each("args", expr("explode(split(args, ' '))"), "word string")
        .filter("word, least", expr("length(word) >= least"))
        .stateQuery(counts, "word", MapGet(), "count")
        .map(expr("named_struct('w', upper(word), 'c', coalesce(count, 0))"), "args string, count long")
        .transform(lambda frame: frame.orderBy("count", ascending=False).limit(1), "args string, count long")
        .aggregate("count", Sum(), "sum")
    )
    (plan,) = cut(topology).requests
    answer = on_spark.engine.compile_request(plan)
    stored = Stored(counts={("cat",): 5, ("the",): 7, ("dog",): 2})
    requests = table("request long, args string, least int", (7, "cat the cow", 1), (8, "dog moon a", 2), (9, "x", 3))
    for _ in range(2):  # what was learned of the types the first time holds the second
        assert rows(answered(answer, requests, stored)) == [(7, 7), (8, 2), (9, 0)]


@pytest.mark.spark
def test_a_request_s_fields_are_replaced_by_either_engine(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    (
        topology.newDRPCStream("ask", "args string, n long")
        .each(expr("split(args, ' ')"), "args array<string>", replace=True)
        .each("args", len, "n long", replace=True)
        .each("args", lambda args: iter(args), "args string", replace=True)
        .each(expr("upper(args)"), "args string", replace=True)
    )
    (plan,) = cut(topology).requests
    answer = on_spark.engine.compile_request(plan)
    requests = table("request long, args string, n long", (7, "a dog", 0), (8, "x", 0))
    assert rows(answered(answer, requests, Stored())) == [(7, "A", 2), (7, "DOG", 2), (8, "X", 1)]


def test_a_query_in_a_stream_of_batches() -> None:
    topology, counts = counting()
    words = stream(topology, "word string", [], name="asking")
    asked = words.each("word", len, "n long").each("n", half, "h double").stateQuery(counts, "word", MapGet(), "count")
    asked.persistentAggregate(STATE, "count", Sum(), "sum", name="sum")
    (step,) = [o.step for g in cut(topology).groups for s in g.stages for o in s.outputs if o.name == "counts?1"]
    assert isinstance(step, StateQuery)
    entering = table("word string, n long, h double", ("cat", 3, 1.5), ("x", 1, 0.5))
    found = compile_query(step)(entering, Stored(counts={("cat",): 5}))
    assert found.schema.names == ["word", "n", "h", "count"]
    assert rows(found) == [("cat", 3, 1.5, 5), ("x", 1, 0.5, None)]


def test_a_query_in_a_stream_of_batches_replaces_a_field() -> None:
    topology, counts = counting()
    words = stream(topology, "n string, word string", [], name="asking")
    step = words.stateQuery(counts, "word", MapGet(), "n", replace=True)._node
    assert isinstance(step, StateQuery)
    found = compile_query(step)(table("n string, word string", ("a", "cat"), ("b", "x")), Stored(counts={("cat",): 5}))
    assert (found.schema.names, rows(found)) == (["n", "word"], [(5, "cat"), (None, "x")])
