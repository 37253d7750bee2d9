"""One plan means the same on both engines."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from tests.compiler.functions import Long, Longest, Mean, Spell, Tally, even, half, lengths, split
from tests.compiler.stage_runner import STATE, Slots, results, rows, run, stream
from trident import Count, Debug, FilterNull, Max, Min, Sum, TridentTopology

WORDS = [("the",), ("cow",), ("the",), ("dog",), ("jumped",), ("the",)]


@pytest.mark.connect
def test_word_count_with_a_generator(engine: Slots) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", ["the cow jumped", "the moon", ""], [])
    lines.each("line", split, "word string").groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    expected = [("cow", 1), ("jumped", 1), ("moon", 1), ("the", 2)]
    assert results(engine, topology) == {"counts": expected}
    assert results(engine, topology, batch=1) == {"counts": []}


def test_python_operations_one_after_the_other(engine: Slots) -> None:
    topology = TridentTopology()
    (
        stream(topology, "word string, n int", [("dog", 1), ("horse", 2), ("cow", 4), (None, 6), ("", 8)])
        .each("word", FilterNull())
        .each("word", lengths, "length int, first string")
        .each("n", even)
        .project("length", "first", "n", "word")
        .each("n", half, "half double")
        .filter("half", lambda x: x < 4)
        .map(lambda t: (t.first, t.half + t.length), "first string, score double")
        .groupBy("first")
        .persistentAggregate(STATE, "score", Sum(), "total", name="scores")
    )
    assert results(engine, topology) == {"scores": [("c", 5.0), ("h", 6.0)]}


@pytest.mark.connect
def test_trident_style_objects(engine: Slots) -> None:
    topology = TridentTopology()
    (
        stream(topology, "word string", ["moon", "cow", "", "jump"])
        .each(Long())
        .each("word", Spell(), "letter, place")
        .filter("place", lambda place: place == 0)
        .groupBy("letter")
        .persistentAggregate(STATE, Count(), "count", name="letters")
    )
    assert results(engine, topology) == {"letters": [("j", 1), ("m", 1)]}


def test_flat_map_replaces_the_tuple(engine: Slots) -> None:
    topology = TridentTopology()
    (
        stream(topology, "line string, n long", [("a b", 1), ("", 2), ("b", 3)])
        .flatMap(lambda t: [(word, t.n) for word in t.line.split()], "word string, n long")
        .groupBy("word")
        .persistentAggregate(STATE, "n", Sum(), "total", name="totals")
    )
    assert results(engine, topology) == {"totals": [("a", 1), ("b", 4)]}


def test_a_none_is_a_null_and_a_tuple_several_values(engine: Slots) -> None:
    topology = TridentTopology()
    (
        stream(topology, "n long", [(1,), (2,), (None,)])
        .each("n", lambda n: None if n == 1 else n, "m long")
        .each("n", lambda n: (n, n is None), "k long, void boolean")
        .groupBy("m, k, void")
        .persistentAggregate(STATE, Count(), "count", name="counts")
    )
    assert results(engine, topology) == {
        "counts": sorted([(None, 1, False, 1), (2, 2, False, 1), (None, None, True, 1)], key=repr)
    }


@pytest.mark.parametrize(
    ("aggregator", "grouped", "of_all", "of_nothing"),
    [
        (Sum(), [("a", 4), ("b", 0), ("c", 7)], 11, 0),
        (Min(), [("a", 1), ("b", None), ("c", 7)], 1, None),
        (Max(), [("a", 3), ("b", None), ("c", 7)], 7, None),
    ],
    ids=["sum", "min", "max"],
)
def test_built_in_aggregators_skip_nulls(
    engine: Slots, aggregator: Any, grouped: Any, of_all: Any, of_nothing: Any
) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "key string, n int", [("a", 1), ("a", 3), ("b", None), ("c", 7), ("c", None)], [])
    numbers.groupBy("key").persistentAggregate(STATE, "n", aggregator, "value", name="grouped")
    numbers.persistentAggregate(STATE, "n", aggregator, "value", name="all")
    assert results(engine, topology) == {"grouped": grouped, "all": [(of_all,)]}
    assert results(engine, topology, batch=1) == {"grouped": [], "all": [(of_nothing,)]}


def test_a_combiner_of_ones_own(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", WORDS, []).each("word", lambda w: len(w), "n int")
    words.groupBy("n").persistentAggregate(STATE, "word", Longest(), "word1", name="byLength")
    words.persistentAggregate(STATE, "word", Longest(), "longest", name="longest")
    words.persistentAggregate(STATE, "n", Mean(), "mean", name="mean")
    assert results(engine, topology) == {
        "byLength": [(3, "the"), (6, "jumped")],
        "longest": [("jumped",)],
        "mean": [({"total": 21.0, "count": 6},)],
    }
    empty = {"byLength": [], "longest": [("",)], "mean": [({"total": 0.0, "count": 0},)]}
    assert results(engine, topology, batch=1) == empty


def test_an_aggregate_of_the_batch_goes_on_also_of_nothing(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", WORDS, [])
    words.aggregate("word", Longest(), "longest").groupBy("longest").persistentAggregate(
        STATE, Count(), "count", name="winners"
    )
    words.aggregate(Count(), "n").each("n", lambda n: n * 2, "m long").groupBy("m").persistentAggregate(
        STATE, Count(), "count", name="sizes"
    )
    assert results(engine, topology) == {"winners": [("jumped", 1)], "sizes": [(12, 1)]}
    assert results(engine, topology, batch=1) == {"winners": [("", 1)], "sizes": [(0, 1)]}


def test_grouped_aggregates_within_the_batch(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", WORDS)
    counts = words.groupBy("word").aggregate(Count(), "n")
    counts.groupBy("n").persistentAggregate(STATE, "word", Longest(), "longest", name="byCount")
    counts.partitionBy("n").each("n", half, "h double").groupBy("h").persistentAggregate(
        STATE, Count(), "words", name="halves"
    )
    words.groupBy("word").aggregate("word", Longest(), "w").persistentAggregate(STATE, Count(), "n", name="distinct")
    assert results(engine, topology) == {
        "byCount": [(1, "jumped"), (3, "the")],
        "halves": [(0.5, 3), (1.5, 1)],
        "distinct": [(4,)],
    }


@pytest.mark.connect
def test_equal_keys_are_sparks_equal_keys(engine: Slots) -> None:
    nan, other = float("nan"), math.inf - math.inf
    topology = TridentTopology()
    numbers = stream(topology, "x double", [(0.0,), (-0.0,), (nan,), (other,), (None,), (None,), (1.0,)])
    numbers.groupBy("x").persistentAggregate(STATE, Count(), "count", name="native")
    numbers.each("x", lambda x: "k", "k string").groupBy("x").persistentAggregate(STATE, Count(), "n", name="fused")
    numbers.groupBy("x").persistentAggregate(STATE, "x", Tally(), "t", name="python")
    expected = {"0.0": 2, "1.0": 1, "None": 2, "nan": 2}
    found = results(engine, topology)
    for name in ("native", "fused", "python"):
        assert {str(x): n for x, n in found[name]} == expected, name


def test_merge_by_position_and_a_stream_with_itself(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "word string, n long", [("x", 1), ("y", 2)], name="a")
    b = stream(topology, "text string, k long", [("x", 10)], name="b").each("k", half, "h double").project("text", "k")
    topology.merge(a, b, a).groupBy("word").persistentAggregate(STATE, "n", Sum(), "total", name="totals")
    assert results(engine, topology) == {"totals": [("x", 12), ("y", 4)]}


def test_join_within_the_batch_where_nulls_meet(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "id long, x string", [(1, "a"), (1, "b"), (None, "n"), (2, "z")], name="a")
    b = stream(topology, "key long, x string", [(1, "c"), (None, "m"), (3, "w")], name="b")
    c = stream(topology, "key long, y double", [(1, 0.5), (1, 1.5), (None, 2.5)], name="c")
    both = topology.join([a, b], ["id", "key"], "id, ax, bx")
    both.groupBy("id, ax, bx").persistentAggregate(STATE, Count(), "count", name="two")
    three = topology.join([a, b, c], ["id", "key", "key"], "id, ax, bx, y")
    three.groupBy("id").persistentAggregate(STATE, "y", Sum(), "sum", name="three")
    found = results(engine, topology)
    assert found["two"] == sorted([(1, "a", "c", 1), (1, "b", "c", 1), (None, "n", "m", 1)], key=repr)
    assert found["three"] == [(1, 4.0), (None, 2.5)]


def test_a_stream_joined_with_itself(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "id long, x string", [(1, "a"), (1, "b"), (2, "z")])
    topology.join([a, a], ["id", "id"], "id, left, right").groupBy("id").persistentAggregate(
        STATE, Count(), "pairs", name="pairs"
    )
    assert results(engine, topology) == {"pairs": [(1, 4), (2, 1)]}


@pytest.mark.connect
def test_every_type_passes_through_python_and_back(engine: Slots) -> None:
    when = datetime.datetime(2020, 5, 17, 12, 30, 0, 250_000, tzinfo=datetime.UTC)
    given = (
        True, 7, -3, 1.5, 2.5, "wörd", b"\x00\xff", Decimal("12.30"), datetime.date(1999, 12, 31), when,
        when.replace(tzinfo=None), [1, None], {"a": 1}, (5, "s"),
    )  # fmt: skip
    fields = (
        "b boolean, i int, t tinyint, f float, d double, s string, y binary, p decimal(10,2), day date, at timestamp, "
        "n timestamp_ntz, l array<int>, m map<string,int>, r struct<x:int,w:string>"
    )
    topology = TridentTopology()
    seen = stream(topology, fields, [given, (None,) * len(given)])
    for at, name in enumerate(seen.schema.names):
        kind = fields.split(", ")[at].partition(" ")[2]
        seen = seen.each(name, lambda value: value, f"{name}2 {kind}")
    seen.each(Debug("all")).aggregate(Count(), "n").persistentAggregate(STATE, "n", Sum(), "sum", name="n")
    ((_, found, _),) = run(engine, topology).shown
    for row in found.to_pylist():
        for name in seen.schema.names[: len(given)]:
            assert row[f"{name}2"] == row[name], name
    first = next(row for row in found.to_pylist() if row["b"])
    assert first["at"] == when and first["r"] == {"x": 5, "w": "s"} and dict(first["m"]) == {"a": 1}


@pytest.mark.connect
def test_debug_shows_the_first_tuples_of_the_batch(engine: Slots) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", WORDS).each("word", lambda w: w.upper(), "loud string")
    words.each(Debug("loud", limit=2)).groupBy("loud").persistentAggregate(STATE, Count(), "count", name="counts")
    found = run(engine, topology)
    ((label, shown, more),) = found.shown
    assert (label, shown.num_rows, shown.column_names, more) == ("loud", 2, ["word", "loud"], True)
    assert rows(found.results["counts"]) == [("COW", 1), ("DOG", 1), ("JUMPED", 1), ("THE", 3)]


@pytest.mark.connect
def test_later_stages_start_from_what_the_runtime_made(engine: Slots, tmp_path: Any) -> None:
    from trident.base.attempt import TransactionAttempt
    from trident.compiler.stages import cut

    topology = TridentTopology()
    words = stream(topology, "word string", WORDS)
    counts = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    loud = words.each("word", lambda w: w.upper(), "loud string")
    news = counts.newValuesStream()
    topology.join([loud, news], ["word", "word"], "word, loud, count").groupBy("count").persistentAggregate(
        STATE, "loud", Longest(), "longest", name="longest"
    )
    (group,) = cut(topology).groups
    first, second = group.stages
    slot = engine.slot(group)
    attempt = TransactionAttempt(1, 0)
    spout = {group.spouts[0]: group.spouts[0].spout.open().emit(attempt, 0)}
    made = slot.run(first, spout, attempt, tmp_path / "1").results
    assert set(made) == {"counts", next(o.name for o in first.outputs if o.carried)}
    given = {output.step: made[output.name] for output in first.outputs}
    assert set(second.inputs) == set(given)
    found = slot.run(second, given, attempt, tmp_path / "2").results
    assert rows(found["longest"]) == [(1, "JUMPED"), (3, "THE")]
