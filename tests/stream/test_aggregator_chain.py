"""chainedAgg, partitionAggregate, min, max and others, FirstN: their nodes, and wrong calls."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.topologies import node, stream
from trident import Average, Count, FirstN, Stream, Sum, TopK, TridentTopology
from trident.base.spark_types import ddl
from trident.errors import DuplicateFieldError, FieldNotFoundError, TopologyError, TypeDeclarationError


class Reducer:
    outputType = "long"

    def init(self): ...  # type: ignore[no-untyped-def]

    def reduce(self, curr, tuple):
        return curr  # type: ignore[no-untyped-def]


class Emitter:
    outputType = "string, long"

    def init(self, batchId, collector): ...  # type: ignore[no-untyped-def]

    def aggregate(self, state, tuple, collector): ...  # type: ignore[no-untyped-def]

    def complete(self, state, collector): ...  # type: ignore[no-untyped-def]


class Narrow(Emitter):
    def aggregate(self, state, tuple): ...  # type: ignore[no-untyped-def,override]


class Half:
    def init(self): ...  # type: ignore[no-untyped-def]

    def complete(self): ...  # type: ignore[no-untyped-def]


class Shows:
    outputType = "struct<a:long>"

    def init(self, tuple):
        return tuple  # type: ignore[no-untyped-def]

    def combine(self, a, b):
        return a  # type: ignore[no-untyped-def]

    def zero(self): ...  # type: ignore[no-untyped-def]

    def present(self, acc) -> float: ...  # type: ignore[no-untyped-def,empty-body]


class Unannotated(Shows):
    def present(self, acc): ...  # type: ignore[no-untyped-def]


def by(a, b): ...  # type: ignore[no-untyped-def]


Make = Callable[[Stream], object]

CALLS: list[tuple[Make, type[TopologyError], str]] = [
    # chains
    (
        lambda s: s.chainedAgg().aggregate(Count(), "c").aggregate("n", Sum(), "c"),
        DuplicateFieldError,
        "lines/1:aggregate(Sum): output field 'c' is already an output field of Count in this chain; give it another",
    ),
    (
        lambda s: s.groupBy("line").chainedAgg().aggregate(Count(), "LINE"),
        DuplicateFieldError,
        "output field 'LINE' is already a group field in this chain",
    ),
    (
        lambda s: s.chainedAgg().chainEnd(),
        TopologyError,
        "lines/1:chainedAgg: the chain has no member; write chainedAgg().aggregate(...).aggregate(...).chainEnd()",
    ),
    (
        lambda s: s.chainedAgg().aggregate(Count(), "a").partitionAggregate(Count(), "b"),
        TopologyError,
        "lines/1:partitionAggregate(Count): the chain's other members use aggregate: use either aggregate or",
    ),
    (lambda s: s.chainedAgg().aggregate("x", Sum(), "a"), FieldNotFoundError, "lines/1:aggregate(Sum): no field 'x'"),
    (
        lambda s: s.chainedAgg().aggregate(Count()),
        TopologyError,
        "name the output field; write aggregate([inputFields,] aggregator, outputFields)",
    ),
    # kinds
    (
        lambda s: s.aggregate(Emitter(), "a"),
        TypeDeclarationError,
        "its outputType 'string, long' has 2 types for 1 output fields",
    ),
    (
        lambda s: s.aggregate(Narrow(), "a, b"),
        TopologyError,
        "aggregate(state, tuple) takes the wrong arguments: aggregate is called with the state, one TridentTuple "
        "and a collector",
    ),
    (lambda s: s.aggregate(Emitter, "a, b"), TopologyError, "Emitter is a class; give an instance of it, Emitter()"),
    (
        lambda s: s.partitionAggregate(Half(), "a"),
        TopologyError,
        "lines/1:partitionAggregate(Half): an object of class 'Half' has init, complete but is not an aggregator; "
        "give a",
    ),
    (lambda s: s.each("n", Emitter(), "w"), TopologyError, "is an Aggregator: use it in aggregate"),
    (lambda s: s.aggregate("n", Reducer(), "a, b"), TopologyError, "an aggregator returns one field, not 2 (a, b)"),
    (
        lambda s: s.groupBy("line").aggregate("n", Emitter(), "line, n"),
        DuplicateFieldError,
        "output field 'line' is already a field of the group",
    ),
    # what is presented
    (
        lambda s: s.aggregate("n", Shows(), "a long"),
        TypeDeclarationError,
        "present(acc) is annotated to return double, not bigint; remove the type",
    ),
    (
        lambda s: s.aggregate("n", Unannotated(), "a"),
        TypeDeclarationError,
        "the type of output field 'a' is not declared: annotate the return type of present(acc)",
    ),
    (
        lambda s: s.aggregate("n", Average(), "a long"),
        TypeDeclarationError,
        "Average over bigint returns double, not bigint; write 'a' without a type, and cast the result with expr",
    ),
    (lambda s: s.aggregate("line", Average(), "a"), TypeDeclarationError, "Average adds numbers of one field, but 'l"),
    # extremes
    (lambda s: s.maxBy("x"), FieldNotFoundError, "lines/1:maxBy: no field 'x'; the fields are (line string, n bigint)"),
    (lambda s: s.minBy("line, n"), TopologyError, "minBy takes one field, not 2; write minBy('n')"),
    (
        lambda s: s.max("n"),
        TopologyError,
        "lines/1:max: 'n' is not a comparator; give a callable of two TridentTuples that returns a number below 0, "
        "0 or "
        "above 0; to compare a field, write maxBy('n')",
    ),
    (lambda s: s.minBy("n", 5), TopologyError, "5 is not a comparator; give a callable of two values of 'n'"),
    (lambda s: s.min(len), TopologyError, "takes the wrong arguments: it is called with two TridentTuples"),
    (lambda s: s.max(by, scope="all"), TopologyError, "scope is 'partition' or 'batch', not 'all'"),
    (
        lambda s: s.each("n", lambda n: {n: n}, "m map<long,long>").maxBy("m"),
        TypeDeclarationError,
        "field 'm' is map<bigint,bigint>, which cannot be ordered; give a comparator, maxBy('m', comparator)",
    ),
    # assemblies
    (lambda s: s.applyAssembly(FirstN(1, "x")), FieldNotFoundError, "lines/1:FirstN: no field 'x'"),
    (lambda s: s.applyAssembly(FirstN(0)), TopologyError, "FirstN: n=0: expected a whole number of at least 1"),
    (lambda s: s.applyAssembly(FirstN(1, reverse=True)), TopologyError, "reverse=True needs a sortField"),
    (lambda s: s.applyAssembly(FirstN), TopologyError, "FirstN is a class; give an instance of it, FirstN()"),
    (
        lambda s: s.applyAssembly(5),
        TopologyError,
        "5 is not an assembly; give an object with apply(stream), or a callable",
    ),
    (
        lambda s: s.applyAssembly(lambda s: None),
        TopologyError,
        "it returned None, expected a stream; return the stream",
    ),
    (lambda s: s.applyAssembly(by), TopologyError, "by(a, b) takes the wrong arguments: it is called with one stream"),
    (lambda s: s.applyAssembly(lambda s: stream("a long")), TopologyError, "a stream of another topology"),
]


@pytest.mark.parametrize(("call", "error", "says"), CALLS)
def test_a_wrong_call(call: Make, error: type[TopologyError], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(stream("line string, n long"))
    assert type(raised.value) is error
    assert says in str(raised.value)
    assert "test_aggregator_chain.py" in str(raised.value) or str(raised.value).startswith("FirstN")


def test_a_state_takes_no_aggregator_that_emits() -> None:
    from tests.support.topologies import DeclaredState

    with pytest.raises(
        TopologyError, match="is an Aggregator, which emits tuples and has no value to store in a state"
    ):
        stream("n long").persistentAggregate(DeclaredState(), Emitter(), "x")


def test_a_chain_is_told_apart_from_its_stream() -> None:
    chain = stream("n long").chainedAgg().aggregate(Count(), "c")
    assert repr(chain) == "lines/0:newStream(FixedBatchSpout).chainedAgg().aggregate(Count), without its chainEnd()"
    with pytest.raises(AttributeError, match="'ChainedAggregate' has no verb 'groupBy';.* chainEnd\\(\\).groupBy"):
        chain.groupBy("c")
    with pytest.raises(AttributeError, match="'ChainedAggregate' has no verb 'chain_end'; did you mean 'chainEnd'"):
        _ = chain.chain_end


def test_a_chain_may_be_gone_on_with_twice() -> None:
    chain = stream("n long").chainedAgg().aggregate(Count(), "c")
    assert chain.aggregate("n", Sum(), "s").chainEnd().fields == ("c", "s")
    assert chain.aggregate("n", TopK(2), "t").chainEnd().fields == ("c", "t")
    assert chain.chainEnd().fields == ("c",)


def test_what_a_plan_says_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    s = stream("k string, n long", "s", topology)
    s.groupBy("k").chainedAgg().aggregate(Count(), "c").aggregate("n", Average(), "m double").chainEnd().peek(print)
    s.partitionAggregate(Emitter(), "a, b").peek(print)
    s.maxBy("n").peek(print)
    s.min(by, scope="batch").peek(print)
    s.applyAssembly(FirstN(3, "n")).peek(print)
    topology.explain()
    said = capsys.readouterr().out
    for line in (
        "s/1:chainedAgg(Count, Average)",
        "k string, c bigint, m double",
        "in each partition",
        "s/5:maxBy(n)",
        "by n, in each partition",
        "s/7:min(by)",
        "of the batch",
        "s/9:FirstN",
        "by n, of the batch",
    ):
        assert line in said, said


def test_an_input_fields_name_may_be_an_output_again() -> None:
    made: Any = stream("k string, n long").groupBy("k").aggregate("n", Sum(), "n")
    assert ddl(made.schema) == "k string, n bigint"
    assert node(made).members[0].inputs == ("n",)
