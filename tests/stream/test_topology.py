"""newStream, merge and join of a topology, and the plan that is run."""

import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import Row

from tests.support.topologies import DeclaredSpout, DeclaredState, node, stream
from trident import Count, Debug, MapGet, TridentTopology
from trident.base.spark_types import ddl
from trident.errors import (
    DuplicateFieldError,
    DuplicateNameError,
    FieldNotFoundError,
    TopologyError,
    TypeDeclarationError,
)
from trident.plan import nodes
from trident.spouts import FixedBatchSpout
from trident_spouts.executor import SpoutKind

STATE = DeclaredState()


@pytest.fixture
def topology() -> TridentTopology:
    return TridentTopology()


def fails(call: Any) -> tuple[type, str]:
    with pytest.raises(TopologyError) as raised:
        call()
    return type(raised.value), str(raised.value)


# --- beginnings --------------------------------------------------------------------------------------------------


def test_a_stream_has_its_spout_s_fields(topology: TridentTopology) -> None:
    spout = DeclaredSpout(SpoutKind.OPAQUE, "a long, b string")
    begun = topology.newStream("numbers", spout)
    assert isinstance(node(begun), nodes.SpoutSource)
    assert (node(begun).spout, node(begun).stream, begun.fields) == (spout, "numbers", ("a", "b"))
    assert repr(topology) == "TridentTopology(streams: numbers)"


def test_names_are_unique_where_they_are_identities(topology: TridentTopology) -> None:
    stream("a long", "s", topology)
    topology.newDRPCStream("s")
    kind, message = fails(lambda: stream("a long", "s", topology))
    assert kind is DuplicateNameError
    assert "s/0:newStream: a stream of this name already begins at topologies.py:" in message
    kind, message = fails(lambda: topology.newDRPCStream("s"))
    assert kind is DuplicateNameError
    assert "s()/0:newDRPCStream: a DRPC function of this name already begins at test_topology.py:" in message


@pytest.mark.parametrize("name", ["", "_a", "$a", "a/b", "a b", ".", "..", "größe", 5, None])
def test_a_name_that_cannot_be_one_is_refused(topology: TridentTopology, name: Any) -> None:
    kind, message = fails(lambda: stream("a long", name, topology))
    assert f"a stream cannot be named {name!r}: a name has letters a to z, digits, '-', '_' and '.'" in message


@pytest.mark.parametrize("name", ["a", "9", "a_b", "a-b.c", "..a"])
def test_other_names_are_fine(topology: TridentTopology, name: str) -> None:
    assert stream("a long", name, topology).fields == ("a",)


def test_a_spout_and_its_class_are_told_apart(topology: TridentTopology) -> None:
    assert (
        "s/0:newStream: 5 is not a spout; give one such as FileSpout(path)"
        in fails(
            lambda: topology.newStream("s", 5)  # type: ignore[arg-type]
        )[1]
    )
    swapped = fails(lambda: topology.newStream(DeclaredSpout(SpoutKind.OPAQUE), "s"))[1]  # type: ignore[arg-type]
    assert (
        "newStream: expected the name before 's'; write newStream(name, spout) [called at test_topology.py:" in swapped
    )
    assert "is not a spout" in fails(lambda: topology.newStream("s", DeclaredSpout))[1]  # type: ignore[arg-type]


def test_a_request_has_its_declared_arguments(topology: TridentTopology) -> None:
    assert ddl(topology.newDRPCStream("echo").schema) == "args string"
    assert ddl(topology.newDRPCStream("lookup", "user long, day date").schema) == "user bigint, day date"
    assert (
        "the arguments 'a' need types, such as 'user long, day date'"
        in fails(lambda: topology.newDRPCStream("bare", "a"))[1]
    )


# --- merge -------------------------------------------------------------------------------------------------------


def test_a_merge_goes_by_position_under_the_first_names(topology: TridentTopology) -> None:
    a, b = stream("a long, x string", "a", topology), stream("b long, y string", "b", topology)
    merged = topology.merge(a, b)
    assert isinstance(node(merged), nodes.Merge)
    assert node(merged).sources == (node(a), node(b))
    assert repr(merged) == "Stream(a-b/0:merge: a bigint, x string)"
    assert topology.merge([a, b], outputFields="k, v").fields == ("k", "v")  # type: ignore[arg-type]
    assert a.merge(b, outputFields="k long, v").fields == ("k", "v")
    assert repr(a.merge(a)) == "Stream(a/1:merge: a bigint, x string)"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            "person string, city string",
            r"'person' would become 'city'.* with project\('city, person'\);.*outputFields='city",
        ),
        ("person string, town string", r"'person' would become 'city'.* with project; to merge by position"),
    ],
)
def test_a_merge_that_would_swap_fields_is_refused(topology: TridentTopology, fields: str, says: str) -> None:
    first = topology.newStream("first", FixedBatchSpout("city string, person string", [[("Ulm", "Ann")]]))
    other = topology.newStream("other", FixedBatchSpout(fields, [[("Bob", "Rome")]]))
    with pytest.raises(TopologyError, match=says):
        topology.merge(first, other)
    by_position = topology.merge(first, other, outputFields="city, person")
    assert by_position.take(9) == [Row(city="Ulm", person="Ann"), Row(city="Bob", person="Rome")]


def test_a_merged_stream_goes_on_under_a_name_of_its_own(topology: TridentTopology) -> None:
    a, b = stream("word string", "a", topology), stream("word string", "b", topology)
    state = a.merge(b).groupBy("word").persistentAggregate(STATE, Count(), "count")
    assert (state.name, node(state).step) == ("a-b.count", "a-b/1:persistentAggregate(Count)")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("b long", "stream 2 has 1 field: (b bigint), but stream 1 has (a bigint, x string)"),
        (
            "x string, b long",
            "stream 2 has other types: (x string, b bigint), but stream 1 has (a bigint, x string); a ",
        ),
        ("b int, y string", "so make the types equal with project or col(...).cast(...)"),
    ],
)
def test_streams_of_other_types_do_not_merge(topology: TridentTopology, fields: str, says: str) -> None:
    a, b = stream("a long, x string", "a", topology), stream(fields, "b", topology)
    kind, message = fails(lambda: a.merge(b))
    assert kind is TypeDeclarationError
    assert says in message


def test_names_for_a_merge_must_fit(topology: TridentTopology) -> None:
    a, b = stream("a long, x string", "a", topology), stream("b long, y string", "b", topology)
    assert (
        "outputFields names 1 fields (k) for 2: (a bigint, x string)" in fails(lambda: a.merge(b, outputFields="k"))[1]
    )
    assert (
        "field 'v' is string, not bigint, and this verb does not convert types"
        in fails(lambda: a.merge(b, outputFields="k, v long"))[1]
    )


# --- join --------------------------------------------------------------------------------------------------------


def test_a_join_gives_the_keys_then_the_other_fields(topology: TridentTopology) -> None:
    a, b = stream("x string, id long, day date", "a", topology), stream("key long, on date, y string", "b", topology)
    joined = topology.join([a, b], ["id, day", ["key", "on"]])
    assert isinstance(node(joined), nodes.Join)
    assert node(joined).keys == (("id", "day"), ("key", "on"))
    assert ddl(joined.schema) == "id bigint, day date, x string, y string"
    assert joined.join(a, "id", "id, d1, x1, y, x2, d2").fields == ("id", "d1", "x1", "y", "x2", "d2")
    c = stream("id long, z string", "c", topology)
    assert topology.join([a, b, c], ["id", "key", "id"]).fields == ("id", "x", "day", "on", "y", "z")


def test_keys_that_do_not_pair_up_are_refused(topology: TridentTopology) -> None:
    a, b = stream("id long, x string", "a", topology), stream("id long, x string", "b", topology)
    join = topology.join
    assert (
        "a join of 2 streams needs the key fields of each, [keys1, keys2], not ['id']"
        in fails(lambda: join([a, b], ["id"]))[1]
    )
    assert "the streams have 1 and 2 keys, ('id',) and ('id', 'x')" in fails(lambda: join([a, b], ["id", "id, x"]))[1]
    kind, message = fails(lambda: join([a, b], ["id", "x"]))
    assert kind is TypeDeclarationError
    assert (
        "the keys have different types: (id bigint) and (x string); make the types equal with col(...).cast(" in message
    )
    kind, message = fails(lambda: join([a, b], ["id", "y"]))
    assert kind is FieldNotFoundError
    assert "a-b/0:join: no field 'y' in stream 2; the fields are (id bigint, x string)" in message


def test_a_join_with_names_that_meet_asks_for_others(topology: TridentTopology) -> None:
    a, b = stream("id long, x string", "a", topology), stream("id long, x string", "b", topology)
    kind, message = fails(lambda: a.join(b, "id"))
    assert kind is DuplicateFieldError
    assert "a-b/0:join(id): field 'x' is given twice in (id, x, x); name the fields with outputFields" in message
    assert (
        "outputFields names 2 fields (id, x) for 3: (id bigint, x string, x string)"
        in fails(lambda: a.join(b, "id", "id, x"))[1]
    )
    assert a.join(b, "id", "id, x, y").fields == ("id", "x", "y")


# --- who never meets ---------------------------------------------------------------------------------------------


def test_requests_do_not_meet_batches_or_other_requests(topology: TridentTopology) -> None:
    a, f, g = stream("args string", "a", topology), topology.newDRPCStream("f"), topology.newDRPCStream("g")
    for meet in (lambda: topology.merge(a, f), lambda: topology.join([f, a], "args")):
        assert (
            "cannot combine requests of DRPC function 'f' with batches of a: a request is in no batch. To read the"
            in fails(meet)[1]
        )
    assert (
        "cannot combine requests of two DRPC functions (f, g): they never share a batch" in fails(lambda: f.merge(g))[1]
    )
    assert f.merge(f).fields == ("args",)


def test_streams_of_two_topologies_never_meet(topology: TridentTopology) -> None:
    a = stream("a long", "a", topology)
    assert (
        "merge: Stream(b/0:newStream(FixedBatchSpout): a bigint) belongs to another topology"
        in fails(lambda: a.merge(stream("a long", "b")))[1]
    )
    assert "is not a stream; use its toStream()" in fails(lambda: a.merge(a.groupBy("a")))[1]  # type: ignore[arg-type]
    assert "a merge needs at least two streams, not 1" in fails(lambda: topology.merge(a))[1]


# --- what there is to run ----------------------------------------------------------------------------------------


def test_states_and_lonely_effects_are_what_runs(topology: TridentTopology) -> None:
    lines = stream("word string", "words", topology)
    looked = lines.peek(print)
    counts = looked.groupBy("word").persistentAggregate(STATE, Count(), "count")
    lonely = looked.each(Debug("a")).each(Debug("b"))
    lonely.filter(lambda t: True)  # nothing comes of this
    counts.newValuesStream().project("count")  # nor of this
    assert topology.states == (node(counts),)
    assert topology.sinks == (node(counts), node(lonely))
    assert [each.step for each in topology.nodes] == [
        "words/0:newStream(FixedBatchSpout)",
        "words/1:peek(print)",
        "words/2:persistentAggregate(Count)",
        "words/3:each(Debug)",
        "words/4:each(Debug)",
    ]


def test_an_effect_behind_a_state_runs_too(topology: TridentTopology) -> None:
    counts = stream("word string", "words", topology).groupBy("word").persistentAggregate(STATE, Count(), "count")
    looked = counts.newValuesStream().peek(print)
    assert topology.sinks == (node(counts), node(looked))


def test_the_answer_of_a_function_is_the_step_that_no_other_reads(topology: TridentTopology) -> None:
    counts = stream("args string", "words", topology).groupBy("args").persistentAggregate(STATE, Count(), "count")
    echo = topology.newDRPCStream("echo")
    asked = topology.newDRPCStream("ask").peek(print).stateQuery(counts, "args", MapGet(), "count")
    assert list(topology.requests) == ["echo", "ask"]
    assert topology.requests["echo"] == (node(echo), node(echo))
    assert topology.requests["ask"][1] is node(asked)
    assert node(asked) in topology.nodes
    assert topology.sinks == (node(counts),)


def test_two_possible_answers_are_refused_with_both_named(topology: TridentTopology) -> None:
    echo = topology.newDRPCStream("echo")
    echo.each("args", len, "n long")
    echo.map("args", str.upper, "up string")
    _, message = fails(lambda: topology.requests)
    assert "DRPC function 'echo' has 2 answers, echo()/1:each(len) (test_topology.py:" in message
    assert " and echo()/2:map(str.upper) (test_topology.py:" in message
    assert "Merge or join them; if a cell ran twice, create a new TridentTopology" in message


def test_a_topology_without_effect_is_not_started(topology: TridentTopology) -> None:
    assert "the topology has no stream from a spout and no DRPC function;" in fails(topology.start)[1]
    stream("word string", "words", topology).project("word")
    assert (
        "no stream of the topology has an effect: end one with persistentAggregate, or print it"
        in fails(topology.start)[1]
    )


def test_building_drawing_and_explaining_start_no_jvm() -> None:
    program = """
import sys
from tests.support.topologies import DeclaredState, split, stream
from trident import Count, MapGet, Sum, TridentTopology, expr
topology = TridentTopology()
words = stream("line string", "lines", topology).each("line", split, "word string")
words = words.each(expr("upper(word)"), "up string")
counts = words.groupBy("word").persistentAggregate(DeclaredState(), Count(), "count")
topology.newDRPCStream("ask").stateQuery(counts, "args", MapGet(), "n").aggregate("n", Sum(), "sum")
topology.explain()
assert topology.draw().startswith("<svg")
from pyspark import SparkContext
assert SparkContext._gateway is None and SparkContext._active_spark_context is None
assert "pyspark.sql.connect.session" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lines/1:each(split)" in done.stdout


def test_importing_the_package_is_quick_and_opens_nothing() -> None:
    program = "import sys, trident; assert not {'pyspark', 'pyarrow', 'redis'} & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_spark_workers_import_no_pandas_unless_a_function_needs_it() -> None:
    program = "import sys, trident.compiler.spark.worker_functions; assert not {'pandas', 'redis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there() -> None:
    import trident

    for name in trident.__all__:
        assert getattr(trident, name) is not None
    assert set(trident.__all__) <= set(dir(trident))
    assert trident.__version__
    with pytest.raises(AttributeError, match="module 'trident' has no attribute 'count'; did you mean 'Count'"):
        _ = trident.count
