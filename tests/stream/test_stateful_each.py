"""statefulEach: its node, and wrong calls."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, node, stream
from trident import Function, StatefulOperation, TransactionOperation, TridentTopology
from trident.base.errors import (
    DuplicateFieldError,
    DuplicateNameError,
    FieldNotFoundError,
    TopologyError,
    TypeDeclarationError,
)
from trident.base.spark_types import ddl
from trident.plan import nodes

STATE = DeclaredState()
KEYED: dict[str, Any] = {"keyFields": "word", "valueType": "long", "stateFactory": STATE, "name": "held"}


def count(tuple: Any, state: Any) -> int:
    return 1


def several(tuple: Any, state: Any) -> Iterator[tuple[str, int]]:
    yield "a", 1


class Longest(StatefulOperation):
    outputType = "string, long"
    keyFields = "word"
    valueType = "long"

    def initState(self, state: Any) -> None: ...

    def execute(self, tuple: Any, collector: Any) -> None: ...


class Total(TransactionOperation):
    def initState(self, checkpoint: Any) -> None: ...

    def rollback(self, checkpoint: Any) -> None: ...

    def execute(self, tuple: Any, collector: Any) -> None: ...

    def finishBatch(self, txid: int) -> Any: ...


def test_the_fields_of_state_and_stream() -> None:
    words = stream("word string, n int")
    counted = words.statefulEach("word", count, "count", **KEYED)
    assert ddl(counted.schema) == "word string, n int, count bigint"
    assert str(counted.state()) == "TridentState('held': word string, value bigint; opaque)"
    assert isinstance(node(counted.state()), nodes.PartitionPersist)
    assert ddl(words.statefulEach(several, "a, b", **KEYED | {"name": "2"}).schema).endswith(
        "n int, a string, b bigint"
    )
    grouped = words.groupBy("n, word").statefulEach(count, "count", valueType="date", stateFactory=STATE, name="3")
    assert str(grouped.state()) == "TridentState('3': n int, word string, value date; opaque)"
    own = words.statefulEach(Longest(), "longest, at", stateFactory=STATE, name="4")
    assert ddl(own.schema) == "word string, n int, longest string, at bigint"
    assert str(
        words.statefulEach(count, "c long", **KEYED | {"keyFields": "day date", "name": "5"}).state()
    ).startswith("TridentState('5': day date")
    checkpoints = words.statefulEach("n", Total(), "total long", name="6")
    assert str(checkpoints.state()) == "TridentState('6': checkpoint string; opaque)"
    assert words.statefulEach(Total(), name="7").fields == ("word", "n")


class Unready(StatefulOperation):
    prepare = execute = initState = lambda *args: None  # type: ignore[assignment]


class WithCommit(Longest):
    def commit(self, txid: int, checkpoint: Any) -> Any: ...


class WithHook(Total):
    def preCommit(self, txid: int) -> None: ...


class Narrow(Longest):
    def prePrepare(self) -> None: ...  # type: ignore[override]


class Plain(Function):
    def execute(self, tuple: Any, collector: Any) -> None: ...


@pytest.mark.parametrize(
    ("args", "changes", "error", "message"),
    [
        (("word",), {}, TopologyError, "the operation is missing; write statefulEach"),
        ((Longest,), {}, TopologyError, r"Longest is a class; give an instance of it, Longest\(\)"),
        ((Plain(),), {}, TopologyError, "is not a stateful operation; give a function of a tuple and the state"),
        ((lambda tuple: 1, "n2 long"), {}, TopologyError, "it is called with one TridentTuple and the KeyValueState"),
        ((several,), {}, TopologyError, "several yields values that are never read:"),
        ((Unready(),), {}, TopologyError, "prepare would never be called by statefulEach: initState begins a run"),
        ((WithCommit(), "a, b"), {}, TopologyError, "its method commit would never be called.*extend Transaction"),
        ((WithHook(),), {}, TopologyError, "its method preCommit would never be called.*its calls are"),
        (
            (Narrow(), "a, b"),
            {},
            TopologyError,
            r"prePrepare.*takes the wrong arguments: prePrepare is called with 1 argument",
        ),
        ((count, "c"), {"keyFields": None}, TopologyError, "the state needs a key: pass keyFields='word', or group"),
        ((count, "c"), {"valueType": None}, TypeDeclarationError, "the type of the state's values is not declared"),
        ((count, "c"), {"keyFields": "wrod"}, FieldNotFoundError, "key field 'wrod' has no type.*did you mean 'word'"),
        ((count, "word"), {}, DuplicateFieldError, "word"),
        (("wrod", count, "c"), {}, FieldNotFoundError, "no field 'wrod'"),
        ((count, "c"), {"name": None}, TopologyError, "the state needs a name"),
        ((count, "c"), {"stateFactory": "memory"}, TopologyError, "'memory' is not a state factory"),
        ((lambda tuple, state: 1, "c"), {}, TypeDeclarationError, "the type of output field 'c' is not declared"),
        (
            (Total(),),
            {"valueType": None},
            TopologyError,
            "keyFields 'word' applies to an operation over a KeyValueState",
        ),
    ],
)
def test_wrong_calls(args: Any, changes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"(?s)statefulEach.*{message}|{message}"):
        stream("word string, n int").statefulEach(*args, **KEYED | changes)


def test_groups_are_the_key_and_names_are_unique() -> None:
    words = stream("word string, n int")
    with pytest.raises(TopologyError, match=r"keyFields 'n' .* group fields \(word\): remove"):
        words.groupBy("word").statefulEach(count, "c", keyFields="n", valueType="long", name="held")
    with pytest.raises(TopologyError, match=r"groupBy \('word',\) applies to an operation over a KeyValueState"):
        words.groupBy("word").statefulEach(Total(), name="held")
    words.statefulEach(count, "c", **KEYED)
    with pytest.raises(DuplicateNameError, match="held"):
        words.statefulEach(count, "c", **KEYED)


def test_requests_and_branches_that_may_lose_tuples_feed_no_operation() -> None:
    topology = TridentTopology()
    with pytest.raises(TopologyError, match="DRPC requests cannot update a state"):
        topology.newDRPCStream("ask", "word string").statefulEach(count, "c", **KEYED)
    with pytest.raises(TopologyError, match="may lose batches"):
        stream("word string").bestEffort("branch").statefulEach(count, "c", **KEYED)
