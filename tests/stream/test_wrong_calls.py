"""A wrong call raises at once. The message says what came, what is accepted and what was probably meant."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

from tests.support.topologies import DeclaredState, split, stream
from trident import Count, Debug, FilterNull, Function, MapGet, Stream, Sum, TridentState, TridentTopology, expr
from trident.errors import (
    DuplicateFieldError,
    DuplicateNameError,
    FieldNotFoundError,
    TopologyError,
    TypeDeclarationError,
)
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

STATE = DeclaredState()
FILE = "test_wrong_calls.py"


RESERVED: dict[str, Callable[[Stream], object]] = {
    "newStream": lambda s: stream("k string, __trident_pane long"),
    "newDRPCStream": lambda s: TridentTopology().newDRPCStream("f", "__trident_key_0 string"),
    "newStaticState": lambda s: TridentTopology().newStaticState(
        {"a": 1}, keyFields="__trident_k string", valueType="long", name="x"
    ),
    "each": lambda s: s.each("n", float, "__trident_partition double"),
    "each, typed by itself": lambda s: s.each("k", text_of, "__TRIDENT_partition"),
    "map": lambda s: s.map("n", float, "__trident_x double"),
    "flatMap": lambda s: s.flatMap("k", str.split, "__trident_x string"),
    "transform": lambda s: s.transform(lambda df: df, "__trident_x string"),
    "aggregate": lambda s: s.groupBy("k").aggregate("n", Sum(), "__trident_x"),
    "chainedAgg": lambda s: s.chainedAgg().aggregate("n", Sum(), "__trident_x").chainEnd(),
    "persistentAggregate": lambda s: s.groupBy("k").persistentAggregate(STATE, Count(), "__trident_x", name="x"),
    "partitionPersist": lambda s: s.partitionPersist(
        STATE, lambda state, tuples, collector: None, keyFields="__trident_k string", valueType="long", name="x"
    ),
    "window": lambda s: s.tumblingWindow(3, "n", Sum(), "__trident_x"),
    "split": lambda s: s.split("k", lambda k: None, {"a": "x long", "b": "__trident_x long"}),
    "merge": lambda s: s.merge(s, sourceField="__trident_stream"),
}


def text_of(line: str) -> str:
    return line


@pytest.mark.parametrize("verb", RESERVED)
def test_the_engines_own_names_are_no_field_s(verb: str) -> None:
    with pytest.raises(TopologyError) as raised:
        RESERVED[verb](stream("k string, n long"))
    message = str(raised.value)
    assert f"{verb.partition(',')[0]}" in message.replace("tumblingWindow", "window")
    assert "names that begin with '__trident_' are reserved; choose another name [called at " in message


def test_the_names_of_a_join_are_looked_at_and_others_with_underscores_are_nobody_s() -> None:
    topology = TridentTopology()
    one, two = stream("k string, n long", topology=topology), stream("k string, m long", name="o", topology=topology)
    with pytest.raises(TopologyError, match="o/0:join|join"):
        topology.join([one, two], "k", "k, __trident_k, m")
    assert topology.join([one, two], "k", "k, __trident, _trident_x").fields == ("k", "__trident", "_trident_x")


def two(a, b): ...  # type: ignore[no-untyped-def]


def two_of(n): ...  # type: ignore[no-untyped-def]


def untyped(line): ...  # type: ignore[no-untyped-def]


def text(line: str) -> str: ...  # type: ignore[empty-body]


def pair(line: str) -> tuple[str, int]: ...  # type: ignore[empty-body]


def words(line: str) -> list[str]: ...  # type: ignore[empty-body]


def nothing(line: str) -> None: ...


def unreadable(line: str) -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821


async def later(line: str) -> str: ...  # type: ignore[empty-body]


def fields_of(line: str) -> Iterator[complex]: ...  # type: ignore[empty-body]


class Emits(Function):
    def execute(self, tuple: Any, collector: Any) -> None: ...


class Miscast(Function):
    def execute(self, tuple): ...  # type: ignore[no-untyped-def,override]


class Yields(Function):
    def execute(self, tuple, collector):  # type: ignore[no-untyped-def]
        yield tuple.line


class YieldingReducer:
    outputType = "long"

    def init(self): ...  # type: ignore[no-untyped-def]

    def reduce(self, a, tuple):  # type: ignore[no-untyped-def]
        yield a


class Untyped:
    def init(self, tuple):
        return tuple  # type: ignore[no-untyped-def]

    def combine(self, a, b):
        return a  # type: ignore[no-untyped-def]

    def zero(self): ...  # type: ignore[no-untyped-def]


class Reducer:
    def init(self): ...  # type: ignore[no-untyped-def]

    def reduce(self, a, tuple):
        return a  # type: ignore[no-untyped-def]


@pytest.fixture
def s() -> Stream:
    return stream("line string, n long")


Make = Callable[[Stream], object]

CALLS: list[tuple[Make, type[TopologyError], str]] = [
    # fields
    (
        lambda s: s.each("lin", split, "w string"),
        FieldNotFoundError,
        "lines/1:each(split): no field 'lin'; the fields are (line string, n bigint); did you mean 'line'?",
    ),
    (
        lambda s: s.project("x"),
        FieldNotFoundError,
        "lines/1:project: no field 'x'; the fields are (line string, n bigint)",
    ),
    (lambda s: s.groupBy("Line"), FieldNotFoundError, "did you mean 'line'?"),
    (lambda s: s.project("line", "line"), DuplicateFieldError, "lines/1:project: field 'line' is named twice"),
    (lambda s: s.project(), TopologyError, "name at least one field; the fields are (line string, n bigint)"),
    (lambda s: s.groupBy(), TopologyError, "lines/1:groupBy: name at least one field"),
    (
        lambda s: s.drop("lien"),
        FieldNotFoundError,
        "lines/1:drop: no field 'lien'; the fields are (line string, n bigint); did you mean 'line'?",
    ),
    (lambda s: s.drop("n, line"), TopologyError, "lines/1:drop: no field is left; the fields are (line string, n big"),
    (
        lambda s: s.rename("lien", "text"),
        FieldNotFoundError,
        "lines/1:rename: no field 'lien'; the fields are (line string, n bigint); did you mean 'line'?",
    ),
    (
        lambda s: s.rename("line", "N"),
        DuplicateFieldError,
        "lines/1:rename: two fields would be called 'n' (Spark ignores case): (N, n) in place of (line str",
    ),
    (lambda s: s.rename({"line": "x", "n": "x"}), DuplicateFieldError, "two fields would be called 'x'"),
    (
        lambda s: s.rename("line"),
        TopologyError,
        "None is not the name of a field; write rename('old', 'new') or rename({'",
    ),
    (lambda s: s.rename({"line": 1}), TopologyError, "1 is not the name of a field; write rename('old', 'new') or"),
    (
        lambda s: s.rename("line", "__trident_x"),
        TopologyError,
        "names that begin with '__trident_' are reserved; choose another",
    ),
    (lambda s: s.drop(), TopologyError, "name at least one field; the fields are (line string, n bigint)"),
    (lambda s: s.project("line,"), TopologyError, "'line,' does not name fields: write 'a', 'a, b' or ['a', 'b']"),
    (lambda s: s.each("line, line", two, "w string"), DuplicateFieldError, "field 'line' is named twice"),
    # outputs
    (
        lambda s: s.each("line", split, "line string"),
        DuplicateFieldError,
        "output field 'line' is already a field of the stream: (line string, n bigint); give it another name, or "
        "replace the field: give replace=True",
    ),
    (
        lambda s: s.each("line", split, "Line string"),
        DuplicateFieldError,
        "output field 'Line' is already a field of the stream (as 'line', which Spark considers the same name)",
    ),
    (
        lambda s: s.each("line", split, "Line string", replace=True),
        DuplicateFieldError,
        "(as 'line', which Spark considers the same name): (line string, n bigint); give it another name, or "
        "replace the field: give "
        "replace=True and the name 'line'",
    ),
    (
        lambda s: s.each("line", split, "line string", replace="line"),  # type: ignore[arg-type]
        TopologyError,
        "lines/1:each(split): replace='line': expected True or False; write each([inputFields,]",
    ),
    (
        lambda s: s.each("line", text, replace=True),
        TopologyError,
        "lines/1:each(text): replace=True needs outputFields, the fields to replace; write each([inputFields,] funct",
    ),
    (lambda s: s.each(Debug(), replace=True), TopologyError, "replace=True needs outputFields"),
    (
        lambda s: s.each("line", split, "a long, a long"),
        DuplicateFieldError,
        "output field 'a' is given twice in (a, a)",
    ),
    (lambda s: s.each("line", split, []), TopologyError, "outputFields is empty: name at least one field"),
    (
        lambda s: s.each("line", split, outputFields=5),
        TopologyError,
        "expected outputFields as a string such as 'word string', a list of names or a StructType, not 5",
    ),
    (
        lambda s: s.each("line", split, "w strin"),
        TypeDeclarationError,
        "unknown type 'strin'; did you mean 'string'?",
    ),
    # types that nobody tells
    (
        lambda s: s.each("line", untyped, "w"),
        TypeDeclarationError,
        "lines/1:each(untyped): the type of output field 'w' is not declared: write it with the field, such as 'w "
        "string', or annotate its return type, such as -> str",
    ),
    (lambda s: s.each("line", split, "w, n2 long"), TypeDeclarationError, "annotated to return 1 value (str) for 2"),
    (lambda s: s.each("line", untyped, "a, b long"), TypeDeclarationError, "such as 'a string, b bigint', or annotate"),
    (
        lambda s: s.each("line", unreadable, "w"),
        TypeDeclarationError,
        "is not declared (its annotation cannot be used: 'Nowhere': name 'Nowhere' is not defined)",
    ),
    (
        lambda s: s.each("line", fields_of, "w"),
        TypeDeclarationError,
        "(its annotation complex is not a type): write it with the field, such as 'w string', or annotate its "
        "return type, such as -> Iterator[str]",
    ),
    (
        lambda s: s.each(expr("upper(line)"), "w"),
        TypeDeclarationError,
        "lines/1:each(expr): the type of output field 'w' is known only to Spark, which is not used while a "
        "topology is built: write it with the field, such as 'w string'",
    ),
    (lambda s: s.each("line", Emits(), "w"), TypeDeclarationError, "or give the Function an attribute outputType"),
    (
        lambda s: s.transform(lambda df: df, "w"),
        TypeDeclarationError,
        "is known only to Spark, which is not used while",
    ),
    (lambda s: s.map(expr("1")), TypeDeclarationError, "declare its result with a type"),
    # annotations that contradict
    (
        lambda s: s.each("line", pair, "w"),
        TypeDeclarationError,
        "annotated to return 2 values (tuple[str, int]) for 1 output field (w)",
    ),
    (
        lambda s: s.each("line", text, "a, b"),
        TypeDeclarationError,
        "annotated to return 1 value (str) for 2 output fields (a, b)",
    ),
    (
        lambda s: s.each("line", words, "w string"),
        TypeDeclarationError,
        "it is annotated to return a whole list[str], but the output is string; to emit many tuples yield them or "
        "use flatMap, to return one list declare an array type",
    ),
    (lambda s: s.each("line", nothing, "w string"), TypeDeclarationError, "annotated to return None, not (w)"),
    (lambda s: s.map("line", pair), TypeDeclarationError, "annotated to return 2 values"),
    (
        lambda s: s.flatMap("line", text, "w"),
        TypeDeclarationError,
        "annotated to return str, but flatMap needs many tuples; yield them",
    ),
    (
        lambda s: s.map("line", split, "w"),
        TypeDeclarationError,
        "it returns many tuples for one tuple, but map expects one; use flatMap",
    ),
    # the number of arguments
    (
        lambda s: s.each("line", two, "w string"),
        TopologyError,
        "two(a, b) takes the wrong arguments: it is called with one argument for each field (line)",
    ),
    (
        lambda s: s.each(two, "w string"),
        TopologyError,
        "two(a, b) takes the wrong arguments: it is called with one TridentTuple of all fields; "
        "to pass one argument for each field, name the fields: 'line, n'",
    ),
    (
        lambda s: s.each("line", Miscast(), "w string"),
        TopologyError,
        "execute(tuple) takes the wrong arguments: execute is called with a TridentTuple and a collector",
    ),
    (
        lambda s: s.each("line", Yields(), "w string"),
        TopologyError,
        "lines/1:each(Yields): execute yields values that are never read: write collector.emit([...]); "
        "execute is called with a TridentTuple and a collector",
    ),
    (
        lambda s: s.aggregate("n", YieldingReducer(), "s"),
        TopologyError,
        "reduce yields values that are never read: write return; reduce is called with the value so far",
    ),
    (
        lambda s: s.transform(lambda df: df, users=1),
        TopologyError,
        "the batch's DataFrame, and with the static DataFrames as keyword",
    ),
    # what is no operation here
    (
        lambda s: s.each("line", "w string"),
        TopologyError,
        "lines/1:each: the operation is missing; write each([inputFields,]",
    ),
    (
        lambda s: s.each("line", "split", "word string"),
        TopologyError,
        "lines/1:each: 'split' is a string, but the operation must be a function or object: write it without quotes",
    ),
    (
        lambda s: s.each("line", "upper(line)", "word string"),
        TopologyError,
        "lines/1:each: 'upper(line)' is a string, but the operation must be a function or object: write "
        "F.upper('line'); expr('upper(line)') runs on Spark only; write each(",
    ),
    (
        lambda s: s.filter("n > 3"),
        TopologyError,
        "lines/1:filter: 'n > 3' is a string, but the operation must be a function or object: write "
        "col('n') > 3; expr('n > 3') runs on Spark only; write filter(",
    ),
    (
        lambda s: s.filter("line is null"),
        TopologyError,
        "write col('line').isNull(); expr('line is null') runs on Spark only",
    ),
    (lambda s: s.filter("line is not null"), TopologyError, "write col('line').isNotNull(); expr("),
    (lambda s: s.filter("line <> 'a'"), TopologyError, "write col('line') != 'a'; expr("),
    (
        lambda s: s.filter("n > 3 or soundex(line) = 'a'"),
        TopologyError,
        "an expression with col(...), such as col('n') > 0; expr(\"n > 3 or soundex(line) = 'a'\") runs on Spark",
    ),
    (lambda s: s.each("line", "soundex(line)", "w string"), TopologyError, "an expression with col(...), such"),
    (
        lambda s: s.project("n as m"),
        FieldNotFoundError,
        "no field 'n as m'; the fields are (line string, n bigint); a field gets another name before, by "
        "rename('n', 'm')",
    ),
    (
        lambda s: s.filter("line"),
        TopologyError,
        "lines/1:filter: the operation is missing; write filter([inputFields,]",
    ),
    (lambda s: s.each("line", expr, "w string"), TopologyError, "write a SQL expression as expr('upper("),
    (
        lambda s: s.each("line", split, text, "w"),
        TopologyError,
        "one operation, not function 'split' and function 'text'",
    ),
    (
        lambda s: s.each("line", split, function=text),
        TopologyError,
        "one operation, not function 'text' and function 'split'",
    ),
    (
        lambda s: s.each("line", "n", two, "w long"),
        TopologyError,
        "inputFields: given 2 times, 'line' and 'n'; give the fields in one",
    ),
    (
        lambda s: s.each("line", split, inputFields="n"),
        TopologyError,
        "inputFields: given 2 times, 'line' and 'n'; write",
    ),
    (
        lambda s: s.each("line", 5, "w string"),
        TopologyError,
        "5 is not an operation; give a callable, a Function, a Filter or expr",
    ),
    (lambda s: s.each("line", Emits, "w string"), TopologyError, "Emits is a class; give an instance of it, Emits()"),
    (lambda s: s.each("line", Count(), "w"), TopologyError, "Count() is an aggregator: use it in aggregate or"),
    (lambda s: s.each("line", MapGet(), "w"), TopologyError, "MapGet() is a query function: use it in stateQuery"),
    (lambda s: s.each("line", later, "w"), TopologyError, "it is an async function, which is never awaited here"),
    (lambda s: s.transform(5), TopologyError, "5 is not a callable that takes and returns a DataFrame"),
    (lambda s: s.map("line", Emits(), "w string"), TopologyError, "it is a Function, which emits any number of tuples"),
    (lambda s: s.map("line", FilterNull(), "w string"), TopologyError, "it is a Filter; use filter"),
    (lambda s: s.peek("line", split), TopologyError, "peek takes a plain callable and ignores its result"),
    (lambda s: s.peek(expr("1")), TopologyError, "lines/1:peek(expr): peek takes a plain callable"),
    (lambda s: s.peek(print, "w"), TopologyError, "peek has no outputFields"),
    (lambda s: s.each("line", Debug(), "w"), TopologyError, "Debug has no outputFields"),
    # filters
    (
        lambda s: s.each("line", text),
        TypeDeclarationError,
        "annotated to return str; a filter returns a bool. To append fields, name",
    ),
    (lambda s: s.each("line", nothing), TypeDeclarationError, "annotated to return None; a filter returns a bool"),
    (lambda s: s.filter("line", split), TypeDeclarationError, "it returns many results; a filter returns a bool"),
    (
        lambda s: s.filter("line", pair),
        TypeDeclarationError,
        "annotated to return tuple[str, int]; a filter returns a bool",
    ),
    (
        lambda s: s.filter("line", str.isalpha, "w"),
        TopologyError,
        "a filter takes no outputFields, 'w'; to append fields use each",
    ),
    (
        lambda s: s.each("line", Emits()),
        TopologyError,
        "Emits is a Function, which appends fields; a filter returns a bool",
    ),
    (
        lambda s: s.each("line", FilterNull(), "w"),
        TopologyError,
        "a Filter has no output fields; remove",
    ),
    (
        lambda s: s.each("line", filter=text, outputFields="w"),
        TopologyError,
        "a filter takes no outputFields; write each(",
    ),
    (
        lambda s: s.each("n", two_of, ["m long", "k"]),
        TypeDeclarationError,
        "not declared: a list contains only names, such as 'm long'; write fields with types as one text, 'm long, k'",
    ),
    (
        lambda s: s.each("n", Emits(), ["m long"]),
        TypeDeclarationError,
        "a list contains only names, such as 'm long'; write fields with types as one text, 'm long'",
    ),
    # groups and aggregators
    (
        lambda s: stream("m map<string,int>").groupBy("m"),
        TypeDeclarationError,
        "'m' is map<string,int>: maps cannot be compared",
    ),
    (
        lambda s: s.aggregate("line", Sum(), "s"),
        TypeDeclarationError,
        "lines/1:aggregate(Sum): Sum adds numbers of one field, but 'line' is string; it takes byte, short, integer, "
        "long, float, double, decimal",
    ),
    (
        lambda s: s.aggregate(Sum(), "s"),
        TopologyError,
        "Sum adds numbers of one input field, not of 2 (line string, n bigint)",
    ),
    (lambda s: s.aggregate("m", Count(), "c"), FieldNotFoundError, "no field 'm'"),
    (
        lambda s: s.aggregate("n", Sum(), "s int"),
        TypeDeclarationError,
        "Sum over bigint returns bigint, not int; write 's' without a type, and cast",
    ),
    (lambda s: s.aggregate("n", Sum(), "a, b"), TopologyError, "an aggregator returns one field, not 2 (a, b)"),
    (
        lambda s: s.aggregate("n", Sum()),
        TopologyError,
        "name the output field; write aggregate([inputFields,] aggregator, out",
    ),
    (lambda s: s.aggregate("n", Sum, "s"), TopologyError, "Sum is a class; give an instance of it, Sum()"),
    (
        lambda s: s.aggregate("n", Untyped(), "s"),
        TypeDeclarationError,
        "the type of output field 's' is not declared: write it with the field, such as 's long', give the aggregator "
        "an attribute outputType, or annotate the return type of zero()",
    ),
    (
        lambda s: s.aggregate("n", Reducer(), "s"),
        TypeDeclarationError,
        "the type of output field 's' is not declared: write it with the field, such as 's long', give the aggregator "
        "an attribute outputType, or annotate the return type of init()",
    ),
    (
        lambda s: s.aggregate("n", split, "s"),
        TopologyError,
        "lines/1:aggregate(split): function 'split' is not an aggregator; give a CombinerAggregator: an object with "
        "init(tuple), combine(a, b) and zero(), such as Count(); a ReducerAggregator: init() and reduce(curr, tuple); "
        "an Aggregator: init(batchId, collector), aggregate(state, tuple, collector) and complete(state, collector);",
    ),
    (
        lambda s: s.aggregate("n", "sum", "s"),
        TopologyError,
        "aggregate: 'sum' is a string, but the operation must be a ",
    ),
    (lambda s: s.aggregate("n", "avg", "s"), TopologyError, "a function or object: give Average(); write aggregate("),
    (
        lambda s: s.aggregate("n", sum, "s"),
        TopologyError,
        "aggregate(sum): function 'sum' is not an aggregator; give Sum(), or a CombinerAggregator: an object with "
        "init(",
    ),
    (
        lambda s: s.minBy("line", "n"),
        TopologyError,
        "'n' is not a comparator; give a callable of two values of 'line' that returns a number below 0, 0 or above "
        "0; to compare a field, write minBy('n')",
    ),
    (
        lambda s: s.groupBy("line").aggregate("n", Sum(), "line"),
        DuplicateFieldError,
        "output field 'line' is already a field of the group: (line string); give it another name",
    ),
    (
        lambda s: s.groupBy("line").drop("line"),
        TopologyError,
        "lines/1:drop: the group field 'line' must be kept; toStr",
    ),
    (
        lambda s: s.groupBy("line").project("n"),
        TopologyError,
        "the group field 'line' must be kept; toStream() returns",
    ),
    (
        lambda s: s.groupBy("line").each("n", lambda n: (n, n), "n long, line long", replace=True),
        TopologyError,
        "lines/1:each(<lambda>): the group field 'line' cannot be replaced; replace it before groupBy, or in the "
        "ungrouped stream toStream()",
    ),
    (
        lambda s: s.groupBy("line").each("n", str, "line string"),
        DuplicateFieldError,
        "output field 'line' is already a field of the stream: (line string, n bigint); give it another name",
    ),
    # states
    (
        lambda s: s.persistentAggregate(Count(), "c"),
        TopologyError,
        "lines/1:persistentAggregate: Count() is not a state factory: give MemoryMapState.opaque(), Redis",
    ),
    (
        lambda s: s.persistentAggregate(MemoryMapState.opaque, Count(), "c"),
        TopologyError,
        "function 'opaque' is not a state factory: call it, give",
    ),
    (lambda s: s.groupBy("line").persistentAggregate(STATE, Count(), "a, b"), TopologyError, "one field, not 2 (a, b)"),
    (
        lambda s: s.persistentAggregate(STATE, Count(), "c", name="_c"),
        TopologyError,
        "a state cannot be named '_c': a name has letters a to z, digits, '-', '_' and '.',",
    ),
    (
        lambda s: s.persistentAggregate(STATE, Count(), "`a b`"),
        TopologyError,
        "cannot be named 'lines.a b': a name has letters",
    ),
    (
        lambda s: s.stateQuery(s, "line", MapGet(), "c"),
        TopologyError,
        "is not a state of this topology; write stateQuery(state,",
    ),
]


@pytest.mark.parametrize(("call", "error", "says"), CALLS)
def test_a_wrong_call_of_a_verb(s: Stream, call: Make, error: type[TopologyError], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert type(raised.value) is error
    assert says in str(raised.value)
    assert f"called at {FILE}:" in str(raised.value)


def test_a_wrong_call_leaves_no_step_behind(s: Stream) -> None:
    with pytest.raises(TopologyError):
        s.each("line", two, "w string")
    with pytest.raises(TopologyError):
        s.groupBy("n").each("line", text, "n", replace=True)
    assert repr(s.project("n")) == "Stream(lines/1:project: n bigint)"


def test_the_message_ends_with_the_function_s_line_and_the_call_s(s: Stream) -> None:
    function, call = two.__code__.co_firstlineno, test_the_message_ends_with_the_function_s_line_and_the_call_s
    with pytest.raises(TopologyError) as raised:
        s.each("line", two, "w string")
    assert str(raised.value).endswith(f"[two ({FILE}:{function}), called at {FILE}:{call.__code__.co_firstlineno + 3}]")


# --- states and requests -----------------------------------------------------------------------------------------


@pytest.fixture
def topology() -> TridentTopology:
    return TridentTopology()


@pytest.fixture
def counts(topology: TridentTopology) -> TridentState:
    grouped = stream("word string", "words", topology).groupBy("word")
    return grouped.persistentAggregate(STATE, Count(), "count", name="counts")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda q, c: q.stateQuery(c, MapGet(), "c"),
            TopologyError,
            "ask()/1:stateQuery(MapGet): state 'counts' cannot be queried by (word string, k bigint): its "
            "key is (word string)",
        ),
        (
            lambda q, c: q.stateQuery(c, "k", MapGet(), "c"),
            TypeDeclarationError,
            "cannot be queried by (k bigint): its key is",
        ),
        (lambda q, c: q.stateQuery(c, "word", MapGet(), "c string"), TypeDeclarationError, "holds bigint, not string"),
        (
            lambda q, c: q.stateQuery(c, "word", MapGet(), "word"),
            DuplicateFieldError,
            "'word' is already a field of the stream: (word string, k bigint); give it another name, or replace the "
            "field: give replace=True",
        ),
        (
            lambda q, c: q.stateQuery(c, "word", MapGet(), "word", replace="word"),
            TopologyError,
            "ask()/1:stateQuery(MapGet): replace='word': expected True or False; write stateQuery(state, ",
        ),
        (
            lambda q, c: q.stateQuery(c, "word", MapGet(), "a, b"),
            TopologyError,
            "MapGet returns one field, not 2 (a, b)",
        ),
        (lambda q, c: q.stateQuery(c, "word", MapGet()), TopologyError, "name the output field; write stateQuery("),
        (lambda q, c: q.stateQuery(c, "word", MapGet, "c"), TopologyError, "MapGet is a class; give an instance of it"),
        (
            lambda q, c: q.stateQuery(c, "word", Sum(), "c"),
            TopologyError,
            "Sum() is not a query function; give MapGet() or an",
        ),
        (
            lambda q, c: q.persistentAggregate(STATE, Count(), "c"),
            TopologyError,
            "ask()/1:persistentAggregate(Count): DRPC requests cannot update a state; they read states with stateQuery",
        ),
    ],
)
def test_a_wrong_query(topology: TridentTopology, counts: TridentState, call: Any, error: type, says: str) -> None:
    asked = topology.newDRPCStream("ask", "word string, k long")
    with pytest.raises(TopologyError) as raised:
        call(asked, counts)
    assert type(raised.value) is error
    assert says in str(raised.value)


def test_a_state_is_updated_by_one_step(topology: TridentTopology, counts: TridentState) -> None:
    other = stream("word string", "others", topology)
    with pytest.raises(DuplicateNameError) as raised:
        other.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    assert (
        "others/1:persistentAggregate(Count): state 'counts' is already updated by words/1:persistentAggregate(Count)"
        in str(raised.value)
    )
    assert "merge the streams first, or give this state another name=" in str(raised.value)


def test_a_state_of_another_topology_is_refused(counts: TridentState) -> None:
    with pytest.raises(TopologyError, match="state 'counts' belongs to another topology"):
        stream("word string").stateQuery(counts, MapGet(), "c")


def test_tuples_behind_a_state_or_of_a_request_cannot_be_shown(topology: TridentTopology, counts: TridentState) -> None:
    with pytest.raises(TopologyError, match=r"show cannot run words/1:persistentAggregate\(Count\)"):
        counts.newValuesStream().show()
    with pytest.raises(TopologyError, match=r"take reads a spout's first batch, but this stream has DRPC requests"):
        topology.newDRPCStream("ask").take(1)
    with pytest.raises(TopologyError, match=r"take\(n\) needs a number of tuples, not -1"):
        stream().take(-1)


# --- what a stream is not ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("group_by", "'Stream' has no verb 'group_by'; did you mean 'groupBy'?"),
        ("flatmap", "'Stream' has no verb 'flatmap'; did you mean 'flatMap'?"),
        ("persistent_aggregate", "did you mean 'persistentAggregate'?"),
        ("grupBy", "did you mean 'groupBy'?"),
        ("select", "'Stream' has no verb 'select'; use project('field')"),
        ("count", "use persistentAggregate(...) over all batches, or aggregate(Count(), 'count') over each batch"),
        ("line", "'line' is a field: name it in a verb, such as project('line')"),
        ("xyz", "'Stream' has no verb 'xyz'; it has aggregate, "),
    ],
)
def test_a_verb_that_is_not_there(s: Stream, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(s, name)
    assert says in str(raised.value)


def test_verbs_of_another_kind_of_stream_are_pointed_out(s: Stream, counts: TridentState) -> None:
    with pytest.raises(AttributeError, match=r"'GroupedStream' has no verb 'map'; .* toStream\(\)\.map"):
        _ = s.groupBy("n").map
    with pytest.raises(AttributeError, match=r"'TridentState' has no verb 'each'; .* newValuesStream\(\)\.each"):
        _ = counts.each
    with pytest.raises(AttributeError, match="'TridentTopology' has no verb 'new_stream'; did you mean 'newStream'"):
        _ = TridentTopology().new_stream


@pytest.mark.parametrize("read", [lambda counts: counts["a"], list, dict])
def test_a_state_that_is_read_in_the_program_names_the_view(s: Stream, read: Callable[[Any], object]) -> None:
    counts = s.groupBy("n").persistentAggregate(DeclaredState(), Count(), "c")
    with pytest.raises(TypeError, match=r"has no entries; use running\.state\('name'\) of a running topology"):
        read(counts)
    assert counts, "a state is not empty"


def test_a_stream_is_neither_a_truth_value_nor_a_sequence(s: Stream) -> None:
    for each in (s, s.groupBy("n")):
        with pytest.raises(TypeError, match="has no truth value"):
            bool(each)
        with pytest.raises(TypeError, match=r"a stream has no end and cannot be iterated; take\(n\) returns tuples"):
            list(each)
        with pytest.raises(TypeError, match=r"name the field in a verb, such as project\('line'\)"):
            each["line"]
    assert not hasattr(s, "_ipython_display_") and not hasattr(s, "__array__")


def test_nothing_wrong_is_said_of_a_fitting_spout() -> None:
    assert TridentTopology().newStream("ok", FixedBatchSpout("a long", [])).fields == ("a",)


# --- a life cycle that nothing would call ------------------------------------------------------------------------


class Prepared:
    outputType, keyFields, valueType = "long", "word string", "long"

    def prepare(self, context: Any) -> None: ...


class Cleaned:
    outputType, keyFields, valueType = "long", "word string", "long"

    def cleanup(self) -> None: ...


def made(name: str, *methods: str, base: type = Prepared) -> Any:
    """An object with `prepare` and these methods, each as "name(arguments)"."""
    namespace: dict[str, Any] = {}
    for method in methods:
        exec(f"def {method}: return 1", namespace)  # noqa: S102
    functions = {key: value for key, value in namespace.items() if not key.startswith("__")}
    return type(name, (base,), functions | {"__call__": namespace.get("call", lambda self: None)})()


EMITTER = ("init(self, b, c)", "aggregate(self, s, t, c)", "complete(self, s, c)")
COMBINER = ("init(self, t)", "combine(self, a, b)", "zero(self)")
REDUCER = ("init(self)", "reduce(self, a, t)")
QUERY = ("batchRetrieve(self, s, args)", "execute(self, t, r, c)")
UPDATER = ("updateState(self, s, t, c)",)


class OfSeries(Prepared):
    def __call__(self, n: pd.Series) -> float: ...  # type: ignore[type-arg,empty-body]


NEVER_PREPARED: dict[str, Make] = {
    "aggregate": lambda s: s.aggregate("n", made("Model", *EMITTER), "x"),
    "aggregate, cleanup": lambda s: s.aggregate("n", made("Model", *EMITTER, base=Cleaned), "x"),
    "partitionAggregate": lambda s: s.groupBy("line").partitionAggregate("n", made("Model", *EMITTER), "x"),
    "chainedAgg": lambda s: s.chainedAgg().aggregate("n", made("Model", *REDUCER), "x").chainEnd(),
    "aggregate, combiner": lambda s: s.aggregate("n", made("Model", *COMBINER), "x"),
    "aggregate, mapping": lambda s: s.aggregate({"x": ("n", made("Model", *COMBINER))}),
    "aggregate, pandas": lambda s: s.aggregate("n", OfSeries(), "x"),
    "persistentAggregate": lambda s: s.persistentAggregate(STATE, "n", made("Model", *COMBINER), "x"),
    "persistentAggregate, reducer": lambda s: s.persistentAggregate(STATE, "n", made("Model", *REDUCER), "x"),
    "tumblingWindow": lambda s: s.tumblingWindow(3, "n", made("Model", *EMITTER), "x"),
    "partitionPersist": lambda s: s.partitionPersist(STATE, made("Model", *UPDATER), name="x"),
    "partitionPersist, callable": lambda s: s.partitionPersist(STATE, made("Model", "call(self, s, t, c)"), name="x"),
    "statefulEach": lambda s: s.statefulEach(made("Model", "call(self, t, s)"), "m long", name="x"),
}


@pytest.mark.parametrize("call", NEVER_PREPARED)
def test_what_is_never_prepared_is_told_at_once(s: Stream, call: str) -> None:
    method = "cleanup" if "cleanup" in call else "prepare"
    with pytest.raises(TopologyError) as raised:
        NEVER_PREPARED[call](s)
    message = str(raised.value)
    assert (
        f"its method {method} would never be called: only a Function, a Filter and a MultiReducer have prepare"
        in message
    )
    assert "cleanup. Create its resources in __init__, or at the first use with functools.cached_property" in message
    assert FILE in message


def test_a_query_function_is_never_prepared(topology: TridentTopology, counts: TridentState) -> None:
    with pytest.raises(TopologyError, match="stateQuery.*its method prepare would never be called"):
        topology.newDRPCStream("ask", "word string").stateQuery(counts, "word", made("Model", *QUERY), "c")
