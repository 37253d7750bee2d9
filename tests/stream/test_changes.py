"""What a stream of changes takes, and what it refuses when it is built."""

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from trident import (
    ChangeStream,
    Count,
    DeadLetter,
    Evolution,
    First,
    GroupedChanges,
    Last,
    MapGet,
    Max,
    Stream,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
    col,
    expr,
)
from trident import functions as F
from trident.errors import ArgumentsError, FieldNotFoundError, TopologyError
from trident.plan.change_order import consolidated
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

FIELDS = "id long, g string, v long, op string"
KINDS = {"c": "insert", "d": "delete"}
M = MemoryMapState.opaque


def changes(**more: Any) -> ChangeStream:
    return TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]])).asChanges("op", KINDS, **more)


def test_verbs_that_work_row_by_row_keep_the_kind_as_the_last_field() -> None:
    stream = changes()
    steps = [
        stream.each("v", lambda v: v + 1, "w long"),
        stream.each("v", lambda v: v > 1),
        stream.filter("v", lambda v: v > 1),
        stream.map("v", lambda v: v + 1, "w long"),
        stream.map(lambda t: (t.g, t.v), outputFields="v string, g long"),
        stream.flatMap("g", lambda g: [g, g], "x string"),
        stream.project("v", "g"),
        stream.drop("id"),
        stream.rename("v", "w"),
        stream.peek(print),
        stream.partitionBy("g"),
        stream.merge(stream),
        stream.groupBy("g").toStream(),
    ]
    for step in steps:
        assert isinstance(step, ChangeStream), step
        assert step.fields[-1] == "_change_type", step
        assert step.fields.count("_change_type") == 1
    assert steps[0].fields == ("id", "g", "v", "w", "_change_type")
    assert isinstance(stream.groupBy("g"), GroupedChanges)
    assert type(stream.toStream()) is Stream


def test_a_table_takes_changes_whose_keys_stay_in_one_partition() -> None:
    table = changes().partitionBy("id").toTable(["id", "g"], name="table")
    table.changes().shuffle().toTable("g", name="of_changes")
    changes().global_().toTable("id")


def test_functions_do_not_see_the_kind() -> None:
    rows = [[(1, "a", 2, "c")]]
    stream = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, rows)).asChanges("op", KINDS)
    assert stream.map(lambda t: ",".join(t._trident_fields), outputFields="names string").take(1)[0].names == "id,g,v"
    plain = stream.toStream().each("_change_type", lambda kind: kind.upper(), "k string")
    assert plain.take(1)[0].k == "INSERT"
    assert stream.peek("_change_type", print).fields == stream.fields


OTHER = Callable[[Any], Any]


@pytest.mark.parametrize(
    "moved",
    [
        lambda s: s.parallelismHint(2).asChanges("op", KINDS),
        lambda s: s.asChanges("op", KINDS).parallelismHint(2),
        lambda s: s.asChanges("op", KINDS).each("v", lambda v: v, "w long").parallelismHint(1),
        lambda s: s.parallelismHint(2).partitionBy("id").asChanges("op", KINDS),
        lambda s: s.shuffle().dropDuplicates("v").asChanges("op", KINDS),
        lambda s: s.shuffle().statefulEach(print, keyFields="g", valueType="long", name="x").asChanges("op", KINDS),
        lambda s: (
            s.shuffle().joinTable(s.toTable("id", valueFields="g"), "id", outputFields="x").asChanges("op", KINDS)
        ),
        lambda s: s.join(s.project("id").rename("id", "k"), "id", otherKeys="k").asChanges("op", KINDS),
        lambda s: s.partitionBy("id").map({"id": col("v"), "op": col("op")}).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").each({"id": col("v")}, replace=True).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").rename({"id": "x", "v": "id"}).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").asChanges("op", KINDS).rename({"id": "x", "v": "id"}),
        lambda s: (
            s.partition("id", lambda key, count: key % count).rename({"id": "x", "v": "id"}).asChanges("op", KINDS)
        ),
        lambda s: (
            s.partitionBy("id")
            .flatMap(lambda t: [(t.v, t.op)], outputFields="id long, op string")
            .asChanges("op", KINDS)
        ),
        lambda s: (
            s.toTable("id", name="t").changes().merge(s.each({"op2": col("op")}).shuffle().asChanges("op", KINDS))
        ),
        lambda s: (
            s.toTable("id", name="t").changes().shuffle().merge(s.each({"op2": col("op")}).asChanges("op", KINDS))
        ),
        lambda s: (
            s.toTable("id", name="t")
            .changes()
            .merge(s.each({"op2": col("op")}).parallelismHint(2).asChanges("op", KINDS))
        ),
        lambda s: s.groupBy("v").aggregate({"id": Last("id"), "op": Last("op")}).asChanges("op", KINDS),
        lambda s: s.shuffle().groupBy("id").aggregate({"op": Last("op")}).asChanges("op", KINDS),
        lambda s: s.partitionAggregate({"id": Last("id"), "op": Last("op")}).asChanges("op", KINDS),
        lambda s: (
            s.groupBy("v")
            .persistentAggregate(M(), {"id": Last("id"), "op": Last("op")}, name="n")
            .newValuesStream()
            .asChanges("op", KINDS)
        ),
        lambda s: s.transform(lambda frame: frame).asChanges("op", KINDS),
        lambda s: s.maxBy("v").asChanges("op", KINDS),
    ],
)
def test_a_table_of_changes_refuses_what_changes_their_order(moved: OTHER) -> None:
    source = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]]))
    with pytest.raises(TopologyError, match="the last change of a key decides"):
        moved(source).toTable("id", name="kept")


@pytest.mark.parametrize("first", ["the hint", "the table"])
def test_a_hint_on_another_branch_spreads_the_same_changes(first: str) -> None:
    source = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]]))
    steps = [lambda: source.parallelismHint(2).peek(print), lambda: source.asChanges("op", KINDS).toTable("id")]
    one, other = steps if first == "the hint" else reversed(steps)
    one()
    with pytest.raises(TopologyError, match=r"s/\d:parallelismHint\(2\) .* may spread changes of a key over several"):
        other()


def test_a_hint_after_a_repartitioning_by_the_key_keeps_their_order() -> None:
    source = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]]))
    changes = source.asChanges("op", KINDS).partitionBy("id").parallelismHint(2)
    table = changes.toTable("id", name="kept")
    table.changes().parallelismHint(3).toTable("g", name="of_changes")


@pytest.mark.parametrize(
    "kept",
    [
        lambda s: s.partitionBy("v").parallelismHint(2).rename({"id": "x", "v": "id"}).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").parallelismHint(2).project("id", "v", "op").asChanges("op", KINDS),
        lambda s: s.map({"id": col("v"), "v": col("id"), "op": col("op")}).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").parallelismHint(2).merge(s.partitionBy("id")).asChanges("op", KINDS),
        lambda s: s.groupBy("id").aggregate({"op": Last("op"), "v": Last("v")}).asChanges("op", KINDS),
        lambda s: s.partitionBy("id").dropDuplicates("v").asChanges("op", KINDS),
        lambda s: s.toTable("id", name="t").changes().merge(s.each({"op2": col("op")}).asChanges("op", KINDS)),
        lambda s: s.each("v", str, "w string").flatMap(lambda t: [t], outputFields=FIELDS).asChanges("op"),
    ],
)
def test_a_table_of_changes_takes_what_keeps_their_order(kept: OTHER) -> None:
    kept(TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]]))).toTable("id", name="kept")


def test_a_function_of_pandas_does_not_make_any_number_of_changes() -> None:
    def twice(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame, frame])

    with pytest.raises(
        TopologyError, match=r"flatMap\(twice\): .* the rows cannot be matched to their changes: use map with a funct"
    ):
        changes().flatMap("v", twice, "w long")
    assert changes().map("v", lambda frame: frame, "w long").fields == ("w", "_change_type")


def test_a_merge_of_changes_leaves_their_kind_where_it_is() -> None:
    topology = TridentTopology()
    one, other = (topology.newStream(n, FixedBatchSpout(FIELDS, [[]])).asChanges("op", KINDS) for n in "ab")
    assert topology.merge(one, other, outputFields="a, b, c, _change_type").fields == ("a", "b", "c", "_change_type")
    for names in ("id, g, _change_type, v", "id, g, v, kind"):
        with pytest.raises(TopologyError, match="'_change_type' holds the kind of each change and must be the last"):
            topology.merge(one, other, outputFields=names)
    with pytest.raises(TopologyError, match="sourceField='src' would become the last field of a stream of changes"):
        topology.merge(one, other, sourceField="src")


def test_a_stream_of_changes_is_no_other_side_of_a_verb() -> None:
    """A row that is taken away would count as one that is added."""
    topology = TridentTopology()
    plain = topology.newStream("p", FixedBatchSpout("id long, at timestamp", [[]]))
    changed = topology.newStream("s", FixedBatchSpout(f"{FIELDS}, ct timestamp", [[]])).asChanges("op", KINDS)
    window = TumblingEventTimeWindow("1 hour", "at")
    times: dict[str, Any] = {"timestampField": "at", "otherTimestampField": "ct"}
    for verb in (
        lambda: plain.join(changed, "id"),
        lambda: topology.join([changed, plain], "id"),
        lambda: plain.intervalJoin(changed, "id", ("0 seconds", "1 hour"), **times),
        lambda: plain.windowJoin(changed, "id", window, otherTimestampField="ct"),
        lambda: topology.multiReduce([changed, plain], None, object(), "z long"),
        lambda: topology.multiReduce([plain, changed], None, object(), "z long"),
    ):
        with pytest.raises(TopologyError, match="is a stream of changes, and .* would treat a removed row"):
            verb()


@pytest.mark.parametrize("letters", ["of the changes", "before them", "of the kind"])
def test_replayed_letters_come_too_late_for_the_rows_of_a_table(letters: str) -> None:
    policy = DeadLetter(attempts=0)
    stream = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [[]])).replayable()
    if letters == "before them":
        stream = stream.each("v", lambda v: v + 1, "w long", onError=policy)
    changed = stream.asChanges("op", KINDS, onError="deadLetter" if letters == "of the kind" else "fail")
    if letters == "of the changes":
        changed = changed.each("v", lambda v: v + 1, "w long", onError=policy)
    for write in (
        lambda: changed.filter("v", lambda v: v > 1).toTable("id"),
        lambda: changed.writeChanges("localhost:1", "t", "id"),
        lambda: changed.writeJdbc("postgresql://localhost:1/t", "t", key="id"),
        lambda: changed.toStream().dropDuplicates("v").asChanges("_change_type").toTable("id"),
    ):
        with pytest.raises(TopologyError, match=r"replayable\(\) \(test_changes.py:\d+\) replays dead letters of"):
            write()
    grouped = changed.toStream().groupBy("v").aggregate({"id": Last("id"), "op": Last("_change_type")})
    with pytest.raises(TopologyError, match=r"replayable\(\) \(test_changes.py:\d+\) replays dead letters of"):
        grouped.asChanges("op").toTable("id")
    table = changed.groupBy("g").persistentAggregate(M(), Count(), "n", name="n")  # has no order
    with pytest.raises(TopologyError, match=r"replayable\(\) \(test_changes.py:\d+\) replays dead letters of"):
        table.changes().merge(changed.map({"g": col("g"), "n": col("v")})).toTable("g", name="of both")
    assert table.changes().toTable("g", name="counts").name == "counts"


class Longest:
    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple[0])

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=len)

    def zero(self) -> str:
        return ""


class Path:
    outputType = "string"

    def init(self) -> str:
        return ""

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr + tuple[0]


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (
            lambda s: s.persistentAggregate(M(), "g", Longest(), "x"),
            "cannot remove tuples: add a method retract",
        ),
        (lambda s: s.persistentAggregate(M(), "g", Path(), "x"), "a ReducerAggregator, which folds tuples"),
        (lambda s: s.shuffle().toTable("id"), "which have no order among them: call that verb after this one, or"),
        (lambda s: s.shuffle().split("id", print, streams={"a": "id long, v long"}).a.toTable("id"), "have no order"),
        (
            lambda s: s.partitionBy("g").peek(print).toTable("id"),
            "partition by fields of the key first, partitionBy('id')",
        ),
        (lambda s: s.toStream().localOrShuffle().asChanges().toTable("id"), "the last change of a key decides"),
        (
            lambda s: s.groupBy("_change_type").persistentAggregate(M(), Count(), "n"),
            "an aggregate over changes has only the rows",
        ),
        (
            lambda s: s.persistentAggregate(M(), "_change_type", Max(), "n"),
            "an aggregate over changes has only the rows",
        ),
        (
            lambda s: s.persistentAggregate(M(), {"n": Max("_change_type")}, name="n"),
            "an aggregate over changes has only the rows",
        ),
        (lambda s: s.persistentAggregate(M(), "g", First(), "x"), "First depends on the order of tuples"),
        (lambda s: s.persistentAggregate(M(), {"n": Count(), "x": First("g")}, name="x"), "First depends on the order"),
        (lambda s: s.transform(lambda frame: frame), "use each, map, flatMap or filter"),
        (lambda s: s.drop("_change_type"), "holds the kind of each change; toStream()"),
        (lambda s: s.rename("_change_type", "x"), "holds the kind of each change; toStream()"),
        (lambda s: s.each("v", str, "_change_type string", replace=True), "holds the kind of each change, and cannot"),
        (lambda s: s.map("v", str, "_change_type string"), "give the output field another name"),
        (lambda s: s.each("_change_type", str, "k string"), "which a step must not read: a row could then be removed"),
        (lambda s: s.each({"k": col("_change_type")}), "which a step must not read"),
        (lambda s: s.each({"k": F.upper("_change_type")}), "which a step must not read"),
        (lambda s: s.map({"k": col("_change_type")}), "which a step must not read"),
        (lambda s: s.flatMap("_change_type", lambda k: [k], "k string"), "which a step must not read"),
        (lambda s: s.filter(col("_change_type") == "insert"), "which a step must not read"),
        (lambda s: s.filter("_change_type", lambda k: k == "insert"), "which a step must not read"),
        (lambda s: s.filter(expr("_CHANGE_type = 'insert'")), "which a step must not read"),
        (lambda s: s.each(expr("upper(_change_type)"), "k string"), "which a step must not read"),
        (lambda s: s.map(expr("struct(upper(_change_type))"), "k string"), "which a step must not read"),
        (lambda s: s.split("_change_type", print, streams={"a": "id long"}), "which a step must not read"),
        (
            lambda s: s.persistentAggregate(M(), {"n": Count(where=col("_change_type") == "insert")}, name="n"),
            "'n'.where: '_change_type' holds the kind of each change, which a step must not read",
        ),
        (
            lambda s: s.groupBy("g").persistentAggregate(M(), "v", Max(where=expr("_change_type = 'insert'")), "n"),
            "which a step must not read",
        ),
        (lambda s: s.toTable("_change_type"), "holds the kind of each change and cannot be part of the key"),
        (lambda s: s.merge(s.toStream()), "some streams are streams of changes and others are not"),
        (lambda s: s.toStream().asChanges("v"), "already has a field '_change_type'"),
        (lambda s: s.toStream().asChanges("v", {}), "expected a mapping such as"),
        (lambda s: s.toStream().asChanges("v", {1: "inserted"}), "expected one of insert, update_preimage"),
    ],
)
def test_what_has_no_meaning_for_changes_is_refused(write: Callable[[ChangeStream], Any], problem: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(problem)) as refused:
        write(changes())
    assert "test_changes.py" in str(refused.value)


@pytest.mark.parametrize("verb", ["aggregate", "partitionAggregate", "stateQuery", "window", "dropDuplicates", "join"])
def test_other_verbs_are_of_the_ordinary_stream(verb: str) -> None:
    with pytest.raises(AttributeError, match=rf"a stream of changes has no verb '{verb}'.*toStream\(\)\.{verb}"):
        getattr(changes(), verb)
    assert hasattr(changes().toStream(), verb)


def test_a_misspelt_verb_or_field_is_named() -> None:
    with pytest.raises(AttributeError, match="did you mean 'filter'"):
        _ = changes().fliter  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="grouped changes have no verb 'filter'"):
        _ = changes().groupBy("g").filter  # type: ignore[attr-defined]
    with pytest.raises(FieldNotFoundError, match="no field 'x'"):
        changes().toStream().asChanges("x")
    with pytest.raises(ArgumentsError, match="there is no argument 'kind'"):
        changes().toStream().asChanges(kind="op")  # type: ignore[call-arg]


def test_states_without_changes_say_where_their_tuples_are() -> None:
    stream = TridentTopology().newStream("s", FixedBatchSpout("k string, v long", []))
    own = stream.partitionPersist(
        M(), lambda state, tuples, collector: None, keyFields="k", valueType="long", name="own"
    )
    with pytest.raises(TopologyError, match=r"state 'own' has no changes\(\)"):
        own.changes()
    counts = stream.groupBy("k").persistentAggregate(M(), Count(), "n", name="counts")
    assert counts.changes()._node is counts.changes()._node
    assert counts.changes().fields == ("k", "n", "_change_type")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (MemoryMapState.nonTransactional, "does not keep the value before a batch; make it opaque or transactional"),
        (lambda: M(ttlSecs=60), "has ttlSecs, and an expired key gives no deletion"),
    ],
)
def test_the_changes_of_a_state_need_the_value_before_and_every_deletion(make: Any, problem: str) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("k string, v long", []))
    table = stream.toTable("k", make(), name="table")
    other = stream.toTable("k", M(), name="other")
    for write in (
        table.changes,
        lambda: table.join(other, outputFields="w"),
        lambda: other.join(table, None, "left", "w"),
    ):
        with pytest.raises(TopologyError, match=problem):
            write()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"initialState": pa.table({"k": ["a"], "v": [1]})}, "has initialState, whose rows give no changes"),
        ({"evolve": Evolution(was="struct<v: int>", value=lambda row: row)}, "has an Evolution with value="),
    ],
)
def test_rows_that_came_by_no_change_are_not_taken_away_by_one(more: Any, problem: str) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("k string, v long", []))
    table, other = stream.toTable("k", name="table", **more), stream.toTable("k", name="other")
    for write in (table.changes, lambda: table.join(other), lambda: other.join(table, "k")):
        with pytest.raises(TopologyError, match=f"state 'table' {problem}"):
            write()


def test_a_split_of_the_changes_of_a_state_keeps_that_each_key_has_one() -> None:
    topology = TridentTopology()
    table = topology.newStream("s", FixedBatchSpout("k string, v long", [])).toTable("k", name="table")
    parts = table.changes().split("v", print, streams={"a": "n long, w long"})
    assert consolidated(parts.a._node)


def test_a_join_of_tables_needs_keys_of_the_same_types() -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("k string, v long", []))
    counts = stream.groupBy("k").persistentAggregate(M(), Count(), "n", name="counts")
    by_number = stream.toTable("v", name="numbers")
    total = stream.persistentAggregate(M(), "v", Sum(), "total", name="total")
    for write, problem in (
        (lambda: counts.join(by_number), "state 'numbers' cannot be queried by (k string): its key is (v bigint)"),
        (lambda: counts.join(stream), "is not a state of this topology; make one of a stream with toTable(keyFields)"),
        (lambda: counts.join(counts), "output field 'n' is already a field"),
        (lambda: counts.join(counts, joinType="full"), "joinType='full': expected 'inner' or 'left'"),
        (lambda: total.join(total), "has no key fields to join by"),
    ):
        with pytest.raises(TopologyError, match=re.escape(problem)):
            write()
    joined = counts.join(stream.toTable("k", name="rows"), joinType="left")
    assert joined.fields == ("k", "n", "v", "_change_type")


def test_an_aggregate_over_new_values_names_the_way_out() -> None:
    stream = TridentTopology().newStream("s", FixedBatchSpout("k string", []))
    counts = stream.groupBy("k").persistentAggregate(M(), Count(), "n", name="counts")
    with pytest.raises(TopologyError, match=r"changes\(\)"):
        counts.newValuesStream().groupBy("n").persistentAggregate(M(), Count(), "k", name="having")
    added = counts.newValuesStream().each("n", lambda n: "insert", "op string").asChanges("op")
    with pytest.raises(TopologyError, match=r"changes\(\)"):
        added.groupBy("n").persistentAggregate(M(), Count(), "k", name="having")


def test_a_query_may_ask_a_state_over_changes() -> None:
    topology = TridentTopology()
    sums = topology.newStream("s", FixedBatchSpout(FIELDS, [])).asChanges("op", KINDS).groupBy("g")
    state = sums.persistentAggregate(M(), "v", Sum(), "total", name="sums")
    answers = topology.newDRPCStream("sum", "g string").stateQuery(state, "g", MapGet(), "total")
    assert str(answers.schema["total"].dataType) == "LongType()"
