"""Names of PySpark or Storm, and missing arguments, raise errors that name the right verb or argument."""

import re
from typing import Any

import pytest

import trident
import trident.spouts
import trident.state
import trident.testing
from tests.support.topologies import DeclaredState, split, stream
from trident import (
    Count,
    DeadLetter,
    GroupedStream,
    JoinType,
    MapGet,
    Stream,
    TridentState,
    TridentTopology,
    WindowedStream,
    verb,
)
from trident.errors import ArgumentsError, TopologyError
from trident.state import MemoryMapState, RedisMapState
from trident.stream import names_elsewhere
from trident.stream.checked_calls import checked

STATE = DeclaredState()


@pytest.fixture
def s() -> Stream:
    return stream("line string, n long")


# --- other names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unionAll", "'Stream' has no verb 'unionAll'; use merge(...)"),
        ("union_all", "use merge(...)"),
        ("with_column", "use each({'new': col('n') * 2}, replace=True), or each('n', function, 'new type')"),
        ("withColumnRenamed", "use rename('old', 'new'), or rename({'old': 'new', ...}) for several"),
        ("orderBy", "use applyAssembly(FirstN(n, 'field'))"),
        ("withWatermark", "use window(TumblingEventTimeWindow('1 hour', 'at', lateness='5 minutes'), ...)"),
        ("start", "'Stream' has no verb 'start'; use topology.start(name=..., checkpointLocation=...)"),
        ("awaitTermination", "use topology.start(name=..., checkpointLocation=...)"),
        ("writeStream", "use writeParquet(path) or foreachBatch(function), and topology.start(...)"),
        ("multiReduce", "use topology.multiReduce([s, t], ...)"),
        ("getOutputFields", "use fields"),
        ("late", "use late() of the stream that window(...) returns"),
        ("count", "use persistentAggregate(...) over all batches, or aggregate(Count(), 'count') over each batch"),
        ("explode", "use each('field', generator, 'item string'), which keeps the other fields; flatMap(...) keeps"),
        ("where", "use filter(col('n') > 3), or filter('n', function)"),
        ("select", "'Stream' has no verb 'select'; use project('field'), or map({'new': col('n') * 2}) for computed"),
        ("withColumns", "use each({'new': col('n') * 2, 'more': col('n') + 1}, replace=True)"),
        ("expr", "use each({'new': col('n') * 2}), or SQL that only Spark runs: each(expr(...), 'new type')"),
        ("selectExpr", "use map({'new': col('n') * 2}), or SQL that only Spark runs: map(expr(...), 'new type')"),
    ],
)
def test_a_stream_knows_what_others_call_its_verbs(s: Stream, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(s, name)
    assert says in str(raised.value)


def test_so_do_groups_states_and_topologies(s: Stream) -> None:
    grouped = s.groupBy("line")
    with pytest.raises(
        AttributeError,
        match=r"no verb 'min'; use persistentAggregate\(\.\.\.\) over all batches, aggregate\('field', Min",
    ):
        _ = grouped.min
    with pytest.raises(
        AttributeError, match=r"no verb 'mapGroupsWithState'; use groupBy\('key'\)\.persistentAggregate"
    ):
        _ = grouped.mapGroupsWithState
    counts = grouped.persistentAggregate(STATE, Count(), "c")
    with pytest.raises(AttributeError, match=r"'TridentState' has no verb 'get'; use running\.state\('name'\)"):
        _ = counts.get
    with pytest.raises(AttributeError, match=r"use it on the stream before: a state accepts a batch from any number"):
        _ = counts.parallelismHint
    with pytest.raises(AttributeError, match=r"'TridentTopology' has no verb 'submit'; use start\(name="):
        _ = TridentTopology().submit
    with pytest.raises(
        AttributeError, match=r"no verb 'groupBy'; a stream has it: newStream\('name', spout\)\.groupBy"
    ):
        _ = TridentTopology().groupBy


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (names_elsewhere.STREAM, Stream),
        (names_elsewhere.GROUPED, GroupedStream),
        (names_elsewhere.STATE, TridentState),
        (names_elsewhere.TOPOLOGY, TridentTopology),
    ],
)
def test_hints_are_for_what_is_not_there_and_lead_to_what_is(names: dict[str, str], kind: type) -> None:
    assert not [name for name in names if name in dir(kind)]
    there = {name for each in (WindowedStream, GroupedStream, TridentTopology) for name in dir(each)}
    there |= {*dir(trident), "newValuesStream", "running", "prepare", "cleanup", "lambda"}
    called = {word for hint in names.values() for word in re.findall(r"(\w+)\(", hint)}
    assert called - there - {"state"} == set()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("from trident import MemoryMapState", "; write: from trident.state import MemoryMapState"),
        ("from trident import Count, FileSpout", "; write: from trident.spouts import FileSpout"),
        ("from trident import Fields", "cannot import name 'Fields' from 'trident'; use text such as 'word, count'"),
        ("from trident import Cuont", "; did you mean 'Count'?"),
        (
            "from trident.state import LRUMemoryMapState",
            "; use MemoryMapState.opaque(ttlSecs=...), whose values expire",
        ),
        ("from trident import TridentUtils", "; use nothing: fields are text such as 'word, count'"),
        ("from trident.state import RedisState", "; use RedisMapState.opaque(url)"),
        ("from trident.state import MemoryMapstate", "; did you mean 'MemoryMapState'?"),
        ("from trident.spouts import OpaqueTridentKafkaSpout", "; use KafkaSpout(servers, topics, kind='opaque')"),
        ("from trident.spouts import FileSpot", "; did you mean 'FileSpout'?"),
        ("from trident.testing import startLocal", "; did you mean 'start_local'?"),
    ],
)
def test_an_import_of_what_lies_elsewhere(line: str, says: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(line)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (
            MemoryMapState,
            "Factory",
            "'MemoryMapState' has no 'Factory'; use MemoryMapState.opaque(), which is Tride",
        ),
        (RedisMapState, "Factory", "'RedisMapState' has no 'Factory'; use RedisMapState.opaque(url), which is Storm's"),
        (JoinType, "mixed", "'JoinType' has no 'mixed'; pass a list with one for each stream, such as [JoinType.INNER"),
        (JoinType, "LEFT", "'JoinType' has no 'LEFT'; its members are INNER and OUTER"),
    ],
)
def test_a_class_knows_what_storm_calls_its_parts(kind: Any, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(kind, name)
    assert says in str(raised.value) and not hasattr(kind, name)


def test_the_package_is_asked_as_any_other() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'FileSpout'; write: from trident\.spouts import FileSpout"):
        _ = trident.FileSpout
    assert not hasattr(trident, "nothing") and not hasattr(trident, "__wrapped__")
    exec("from trident import demo, plan, testing, Count")
    exec("from trident.spouts import branch_source, FileSpout")
    exec("from trident.testing import contracts, start_local")
    for module in (trident.spouts, trident.state, trident.testing):
        assert not hasattr(module, "nothing") and not hasattr(module, "__wrapped__")
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
            _ = module.nothing


# --- arguments that a verb does not take -----------------------------------------------------------------------------


def test_a_keyword_that_is_not_there(s: Stream) -> None:
    with pytest.raises(ArgumentsError) as raised:
        s.each("line", split, output_fields="word string")  # type: ignore[call-arg]
    said = str(raised.value)
    assert said.startswith(
        "lines/1:each: there is no argument 'output_fields'; each takes inputFields, function, filter, "
    )
    assert "; did you mean 'outputFields'? [called at test_names_elsewhere.py:" in said
    assert isinstance(raised.value, TypeError) and isinstance(raised.value, TopologyError)


def test_too_few_and_too_many_arguments_show_how_a_verb_is_written(s: Stream) -> None:
    with pytest.raises(
        ArgumentsError, match=r"lines/1:parallelismHint: missing a required argument: 'count'; write paral"
    ):
        s.parallelismHint()  # type: ignore[call-arg]
    with pytest.raises(
        ArgumentsError, match=r"too many positional arguments; write bestEffort\(name=None\) \[called at"
    ):
        s.bestEffort("a", "b")  # type: ignore[call-arg]
    with pytest.raises(ArgumentsError, match="newStream: missing a required argument: 'spout'; write newStream"):
        TridentTopology().newStream("lines")  # type: ignore[call-arg]


def test_on_error_says_which_verbs_take_it(s: Stream) -> None:
    other = stream("line string, n long", "other")
    calls: list[Any] = [
        lambda: s.split("line", split, streams={"a": "w string"}, onError="skip"),  # type: ignore[call-arg]
        lambda: s.groupBy("line").aggregate(Count(), "c", onError="skip"),  # type: ignore[call-arg]
        lambda: TridentTopology().multiReduce([s, other], None, split, "a", onError="skip"),  # type: ignore[call-arg,arg-type]
        lambda: s.stateQuery(s, "line", MapGet(), "c", onError="skip"),  # type: ignore[call-arg,arg-type]
    ]
    for call in calls:
        with pytest.raises(
            ArgumentsError, match="there is no argument 'onError'; .*each, filter, map, flatMap and peek"
        ):
            call()


def test_a_type_error_of_the_inside_stays_what_it_is() -> None:
    class Subject:
        @checked
        def verb(self, n: object) -> object:
            return len(n)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        Subject().verb(5)


def test_a_verb_of_ones_own_tells_of_its_arguments_too(s: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    @verb
    def longest(stream: Stream, field: str, least: int = 1) -> Stream:
        return stream.filter(field, lambda text: len(text) >= least)

    try:
        assert s.longest("line", least=2).fields == ("line", "n")  # type: ignore[attr-defined]
        with pytest.raises(
            ArgumentsError, match=r"lines/2:longest: there is no argument 'lest'; .*did you mean 'least'"
        ):
            s.longest("line", lest=2)  # type: ignore[attr-defined]
        with pytest.raises(
            ArgumentsError, match=r"missing a required argument: 'field'; write longest\(field, least=1\)"
        ):
            s.longest()  # type: ignore[attr-defined]
    finally:
        del Stream.longest  # type: ignore[attr-defined]


def test_groups_let_tuples_go_as_streams_do() -> None:
    lines = stream("line string")
    grouped = lines.groupBy("line").each("line", int, "n long", onError=DeadLetter(attempts=0))
    kept = grouped.filter("n", lambda n: n > 0, onError="skip").peek("n", print, onError="skip")
    assert kept.fields == ("line", "n")
    letters = kept.toStream().deadLetters()
    assert "tuple" in letters.fields
