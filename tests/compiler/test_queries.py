"""Query functions over a state: what they see, and the errors that they cannot hide."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.stage_runner import STATE, rows, stream
from tests.compiler.stage_runner import table as tuples
from tests.support.topologies import node
from trident import Count, SnapshotGet, TridentTopology, TupleCollectionGet
from trident.base.errors import StateKeyError, StateUnavailableError, UserFunctionError
from trident.compiler.states.queries import Reads, compile_query
from trident.plan.nodes import StateQuery


def asking(function: Any, outputs: str, keys: str = "word") -> StateQuery:
    topology = TridentTopology()
    source = stream(topology, "word string, n long", [])
    grouped = source.groupBy(keys) if keys else source
    counts = grouped.persistentAggregate(STATE, Count(), "count", name="counts")
    found = node(source.stateQuery(counts, function, outputs))
    assert isinstance(found, StateQuery)
    return found


def away(*_: Any) -> Any:
    raise StateUnavailableError("the server is away")


class Careless:
    outputType = "long"

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        try:
            return state.multiGet([(arg.word,) for arg in args])
        except Exception:
            return [0 for _ in args]

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        collector.emit([result])


def test_a_query_function_cannot_swallow_that_the_state_did_not_answer() -> None:
    query = compile_query(asking(Careless(), "count"))
    with pytest.raises(StateUnavailableError, match="the server is away"):
        query(tuples("word string, n long", ("a", 1)), away)


def test_what_a_query_function_returns_is_not_lost_without_a_word() -> None:
    class Returns(Careless):
        def execute(self, tuple: Any, result: Any, collector: Any) -> Any:
            return [5]

    query = compile_query(asking(Returns(), "count"))
    with pytest.raises(
        UserFunctionError, match=r"execute returned \[5\]; it must emit its tuples: write collector\.emit"
    ):
        query(tuples("word string, n long", ("a", 1)), lambda *_: pa.array([1]))


def test_a_store_that_does_not_answer_is_not_taken_for_a_fault_of_the_function() -> None:
    """The error of a read passes, so that a late read is repeated and a waiting one is reported."""

    class Plain(Careless):
        def batchRetrieve(self, state: Any, args: Any) -> Any:
            return state.multiGet([arg.word for arg in args])

    with pytest.raises(StateUnavailableError, match="the server is away"):
        compile_query(asking(Plain(), "count"))(tuples("word string, n long", ("a", 1)), away)


def test_a_key_of_another_type_says_what_the_keys_are() -> None:
    class Wrong(Careless):
        def batchRetrieve(self, state: Any, args: Any) -> Any:
            return state.multiGet([arg.n for arg in args])

    expected = (
        r"s/2:stateQuery\(Wrong\): Wrong \(test_queries.py:\d+\): state 'counts': invalid key 1 \(int\): expected word"
    )
    with pytest.raises(StateKeyError, match=expected):
        compile_query(asking(Wrong(), "count"))(tuples("word string, n long", ("a", 1)), away)


def test_every_tuple_meets_every_entry() -> None:
    query = compile_query(asking(TupleCollectionGet(), "word2, count"))

    def scan(state: Any) -> Iterator[pa.Table]:
        yield tuples("word string, value long", ("a", 1), ("b", 2))
        yield tuples("word string, value long", ("c", 3))

    found = query(tuples("word string, n long", ("x", 1), ("y", 2)), Reads(away, scan))
    entries = [("a", 1), ("b", 2), ("c", 3)]
    assert rows(found) == [(word, n, *entry) for word, n in (("x", 1), ("y", 2)) for entry in entries]


def test_the_one_value_of_a_state_stands_beside_every_tuple() -> None:
    query = compile_query(asking(SnapshotGet(), "count", keys=""))
    found = query(tuples("word string, n long", ("x", 1), ("y", 2)), lambda node, keys: pa.array([7]))
    assert rows(found) == [("x", 1, 7), ("y", 2, 7)]
