"""The cutting of a topology: batch groups, stages, outputs and their names, the shapes of states."""

from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.functions import Longest, Mean, split
from tests.compiler.stage_runner import STATE, stream
from trident import Count, Debug, MapGet, Max, Min, Sum, TridentTopology, expr
from trident.base.errors import UserFunctionError
from trident.compiler.stages import cut


def test_word_count_is_one_group_of_one_stage() -> None:
    topology = TridentTopology()
    words = stream(topology, "line string", ["a"], name="lines").each("line", split, "word string")
    words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    program = cut(topology)
    (group,) = program.groups
    (stage,) = group.stages
    (output,) = stage.outputs
    assert (group.name, stage.number, output.name, output.carried) == ("lines", 1, "counts", False)
    assert output.schema == pa.schema([("word", pa.string()), ("count", pa.int64())])
    assert stage.inputs == group.spouts
    assert [state.state.name for state in group.states] == ["counts"]


def test_unconnected_spouts_are_groups_of_their_own() -> None:
    topology = TridentTopology()
    for name in ("b", "a"):
        stream(topology, "x long", [1], name=name).persistentAggregate(STATE, Count(), "n", name=f"n-{name}")
    assert [(g.name, [o.name for o in g.stages[0].outputs]) for g in cut(topology).groups] == [
        ("a", ["n-a"]),
        ("b", ["n-b"]),
    ]


@pytest.mark.parametrize("how", ["merge", "join", "common state"])
def test_what_connects_spouts(how: str) -> None:
    topology = TridentTopology()
    a, b = stream(topology, "x long", [1], name="a"), stream(topology, "x long", [1], name="b")
    if how == "common state":
        state = a.groupBy("x").persistentAggregate(STATE, Count(), "n", name="n")
        b.stateQuery(state, "x", MapGet(), "n").persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    else:
        both = topology.merge(a, b) if how == "merge" else topology.join([a, b], ["x", "x"])
        both.persistentAggregate(STATE, Count(), "n", name="n")
    (group,) = cut(topology).groups
    assert group.name == "a" and [spout.stream for spout in group.spouts] == ["a", "b"]


def test_stages_stand_between_state_steps() -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["a"])
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    asked = words.stateQuery(counts, "word", MapGet(), "old")
    asked.groupBy("old").persistentAggregate(STATE, Count(), "n", name="histogram")
    asked.stateQuery(counts, "word", MapGet(), "again").persistentAggregate(STATE, "again", Sum(), "s", name="s")
    stages = cut(topology).groups[0].stages
    assert [sorted(o.name for o in stage.outputs) for stage in stages] == [
        ["counts", "counts?1"],
        ["counts?2", "histogram"],
        ["s"],
    ]
    query = next(o for o in stages[0].outputs if o.name == "counts?1")
    assert stages[1].inputs == (query.step,)
    assert query.schema == pa.schema([("word", pa.string())])


def test_tuples_that_a_later_stage_reads_are_carried() -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["a"])
    loud = words.each("word", str.upper, "loud string")
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    both = topology.join([loud, counts.newValuesStream()], ["word", "word"], "word, loud, count")
    both.persistentAggregate(STATE, "count", Max(), "max", name="max")
    first, second = cut(topology).groups[0].stages
    (carried,) = [output for output in first.outputs if output.carried]
    assert carried.schema == pa.schema([("word", pa.string()), ("loud", pa.string())])
    assert carried.name == f"{carried.step.step}|"
    assert set(second.inputs) == {output.step for output in first.outputs}


def test_leaves_without_a_state_are_effects_and_debugs() -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["a"])
    words.peek(print)
    words.each(Debug("words"))
    (stage,) = cut(topology).groups[0].stages
    assert (len(stage.outputs), [d.label for d in stage.debugs]) == (0, ["words"])
    assert [effect.step for effect in stage.effects] == ["s/1:peek(print)"]


def test_requests_are_plans_of_their_own() -> None:
    topology = TridentTopology()
    counts = stream(topology, "word string", ["a"]).groupBy("word").persistentAggregate(STATE, Count(), "c", name="cs")
    asked = topology.newDRPCStream("words").each("args", split, "word string").stateQuery(counts, "word", MapGet(), "c")
    asked.aggregate("c", Sum(), "sum")
    topology.newDRPCStream("loud").each("args", expr("upper(args)"), "loud string")
    program = cut(topology)
    words, loud = program.requests
    assert (words.function, words.python, [q.updated.state.name for q in words.queries]) == ("words", True, ["cs"])
    assert (loud.function, loud.python, loud.queries) == ("loud", False, ())
    assert [group.name for group in program.groups] == ["s"]


def test_shapes_of_states() -> None:
    topology = TridentTopology()
    rows = stream(topology, "k string, day date, n int, p decimal(5,2), x double, w string", [])
    rows.groupBy("k, day").persistentAggregate(STATE, Count(), "c", name="count")
    rows.persistentAggregate(STATE, "n", Sum(), "s", name="sum")
    rows.persistentAggregate(STATE, "p", Sum(), "s", name="decimals")
    rows.persistentAggregate(STATE, "n", Min(), "m", name="min")
    rows.persistentAggregate(STATE, "x", Max(), "m", name="doubles")
    rows.persistentAggregate(STATE, "w", Longest(), "l", name="longest")
    shapes = cut(topology).shapes
    assert shapes["count"].fingerprint == "(k string, day date32[day]) -> int64 by Count"
    assert shapes["longest"].fingerprint == "() -> string by Longest"
    assert {name: shape.combine.native for name, shape in shapes.items()} == {
        "count": "sum",
        "sum": "sum",
        "decimals": "sum",
        "min": "min",
        "doubles": "max",
        "longest": None,
    }


def test_a_combiner_that_raises_says_whose_it_is() -> None:
    topology = TridentTopology()
    stream(topology, "n int", []).persistentAggregate(STATE, "n", Mean(), "mean", name="mean")
    combine = cut(topology).shapes["mean"].combine
    assert combine.function(None, (1.0, 1)) == (1.0, 1)
    assert combine.function((1.0, 1), (2.0, 1)) == (3.0, 2)
    expected = r"persistentAggregate\(.*Mean \(functions.py:\d+\) raised TypeError: .*; combining \(1.0, 1\) with 'x'"
    with pytest.raises(UserFunctionError, match=expected):
        combine.function((1.0, 1), "x")


class Joined:
    def init(self) -> str:
        return ""

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr + str(tuple)


def nothing(state: Any, tuples: Any, collector: Any) -> None: ...


def test_a_state_update_is_a_stage_of_its_own_after_the_one_that_froze_its_tuples() -> None:
    topology = TridentTopology()
    rows = stream(topology, "word string, n long, unread string", [])
    rows.groupBy("word").persistentAggregate(STATE, "n", Joined(), "joined", name="joined")
    first, second = cut(topology).groups[0].stages
    (entering,) = first.outputs
    assert (entering.name, entering.carried) == ("joined|", True)
    assert entering.schema == pa.schema([("word", pa.string()), ("n", pa.int64())]), "no field that nobody reads"
    (puts,) = second.updates
    assert (puts.name, second.runs, second.outputs, second.inputs) == ("joined", False, (), ())
    assert puts.schema == pa.schema([("word", pa.string()), ("joined", pa.string())])
    assert second.reads == (entering.step,)


def test_updates_follow_state_steps_and_are_followed_by_them() -> None:
    """An updater after an aggregate, a query after the updater, an aggregate after both."""
    topology = TridentTopology()
    words = stream(topology, "word string", ["a"])
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    held = counts.newValuesStream().partitionPersist(
        STATE, nothing, "word string, n long", keyFields="word", valueType="long", name="held"
    )
    asked = held.newValuesStream().stateQuery(held, "word", MapGet(), "now")
    asked.groupBy("now").persistentAggregate(STATE, Count(), "n", name="last")
    assert held.newValuesStream()._node is asked._node.source  # type: ignore[attr-defined]
    stages = cut(topology).groups[0].stages
    assert [[output.name for output in stage.frozen] for stage in stages] == [
        ["counts"],
        ["held", "held>"],
        ["held?1"],
        ["last"],
    ]
    assert [stage.runs for stage in stages] == [True, False, True, True]
    assert [node.state.name for node in cut(topology).groups[0].states] == ["counts", "held", "last"]


def test_tuples_that_enter_an_update_and_another_step_are_carried_whole() -> None:
    topology = TridentTopology()
    words = stream(topology, "word string, n long", [])
    held = words.partitionPersist(STATE, "n", nothing, "x string", valueType="long", name="held")
    topology.join([words, held.newValuesStream()], ["word", "x"]).persistentAggregate(STATE, Count(), "n", name="n")
    carried = cut(topology).groups[0].stages[0].outputs[0]
    assert (carried.name, carried.schema.names) == ("held|", ["word", "n"])


def test_a_static_state_connects_no_groups_and_is_in_none() -> None:
    topology = TridentTopology()
    known = topology.newStaticState({1: "one"}, keyFields="x long", valueType="string", name="known")
    for name in ("a", "b"):
        asked = stream(topology, "x long", [1], name=name).stateQuery(known, "x", MapGet(), "known")
        asked.persistentAggregate(STATE, Count(), "n", name=f"n-{name}")
    topology.newDRPCStream("ask", "x long").stateQuery(known, "x", MapGet(), "known")
    program = cut(topology)
    assert [group.name for group in program.groups] == ["a", "b"]
    assert [node.state.name for node in program.statics] == ["known"]
    assert sorted(program.shapes) == ["n-a", "n-b"]


def test_what_an_update_writes_replaces_what_is_stored() -> None:
    topology = TridentTopology()
    rows = stream(topology, "word string, n long", [])
    rows.groupBy("word").persistentAggregate(STATE, "n", Joined(), "joined", name="joined")
    rows.partitionPersist(STATE, nothing, keyFields="word, n", valueType="array<int>", name="held")
    shapes = cut(topology).shapes
    assert {name: shape.combine.native for name, shape in shapes.items()} == {"joined": "put", "held": "put"}
    assert shapes["joined"].fingerprint == "(word string) -> string by Joined"
    assert shapes["held"].fingerprint == "(word string, n int64) -> list<element: int32> by put"
