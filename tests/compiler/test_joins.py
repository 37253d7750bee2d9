"""Joins and merges of any number of streams: which tuples join, which side may be missing, what leaves."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.stage_runner import STATE, OnArrow, Slots, answered, results, rows, stream
from trident import Count, JoinType, Stream, TridentTopology
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.stages import cut

INNER, OUTER = JoinType.INNER, JoinType.OUTER

Rows = list[tuple[Any, ...]]


def seen(made: Stream, name: str) -> None:
    """Keep the tuples of a batch here, each with its number of times."""
    made.groupBy(list(made.fields)).persistentAggregate(STATE, Count(), "times", name=name)


def tuples(found: dict[str, Rows], name: str) -> Rows:
    return sorted((row[:-1] for row in found[name] for _ in range(row[-1])), key=repr)


def ordered(*tuples: tuple[Any, ...]) -> Rows:
    return sorted(tuples, key=repr)


LEFT = [(1, "ann"), (2, "bob"), (1, "amy")]
RIGHT = [(50, 1), (70, 3), (60, 1)]

PAIRS = [(1, "ann", 50), (1, "amy", 50), (1, "ann", 60), (1, "amy", 60)]


@pytest.mark.connect
def test_each_type_of_a_join_of_two(engine: Slots) -> None:
    topology = TridentTopology()
    people = stream(topology, "uid long, name string", LEFT, [(3, "cat")], name="l")
    paid = stream(topology, "amt long, who long", RIGHT, [(80, 2)], name="r")
    for kind in ("inner", "left", "right", "full"):
        seen(people.join(paid, "uid", "k, name, amt", otherKeys="who", joinType=kind), kind)
    first, second = results(engine, topology), results(engine, topology, batch=1)
    bob, nobody = (2, "bob", None), (3, None, 70)
    assert tuples(first, "inner") == ordered(*PAIRS)
    assert tuples(first, "left") == ordered(*PAIRS, bob)
    assert tuples(first, "right") == ordered(*PAIRS, nobody)
    assert tuples(first, "full") == ordered(*PAIRS, bob, nobody)
    assert tuples(second, "inner") == []
    assert tuples(second, "left") == [(3, "cat", None)]
    assert tuples(second, "right") == [(2, None, 80)]
    assert tuples(second, "full") == ordered((2, None, 80), (3, "cat", None))


def test_preserved_fields_are_null_where_their_stream_is_missing(engine: Slots) -> None:
    topology = TridentTopology()
    people = stream(topology, "uid long, name string", LEFT, name="l")
    paid = stream(topology, "amt long, who long", RIGHT, name="r")
    for kind in ("inner", "full"):
        seen(topology.join([people, paid], ["uid", "who"], "uid, name, amt, who", kind, "preserve"), kind)
    found = results(engine, topology)
    pairs = [(k, name, amt, k) for k, name, amt in PAIRS]
    assert tuples(found, "inner") == ordered(*pairs)
    assert tuples(found, "full") == ordered(*pairs, (2, "bob", None, None), (None, None, 70, 3))


def test_three_streams_of_which_the_second_may_be_missing(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "k long, av string", [(1, "a1"), (2, "a2"), (3, "a3")], name="a")
    b = stream(topology, "k long, bv string", [(1, "b1"), (1, "b2"), (9, "b9")], name="b")
    c = stream(topology, "k long, cv string", [(1, "c1"), (2, "c2"), (2, "c2x")], name="c")
    seen(topology.join([a, b, c], ["k", "k", "k"], "k, av, bv, cv", [INNER, OUTER, INNER]), "mixed")
    assert tuples(results(engine, topology), "mixed") == ordered(
        (1, "a1", "b1", "c1"), (1, "a1", "b2", "c1"), (2, "a2", None, "c2"), (2, "a2", None, "c2x")
    )


def test_several_keys_pair_up_by_position(engine: Slots) -> None:
    topology = TridentTopology()
    left = stream(topology, "x string, a long, b long", [("X1", 1, 2), ("X2", 2, 1)], name="l")
    right = stream(topology, "d long, c long, y string", [(2, 1, "Y1"), (1, 2, "Y2"), (1, 1, "Y3")], name="r")
    seen(topology.join([left, right], ["a, b", "c, d"], "k1, k2, x, y"), "inner")
    seen(topology.join([left, right], ["a, b", "c, d"], "k1, k2, x, y", "full"), "full")
    found = results(engine, topology)
    pairs = [(1, 2, "X1", "Y1"), (2, 1, "X2", "Y2")]
    assert tuples(found, "inner") == ordered(*pairs)
    assert tuples(found, "full") == ordered(*pairs, (1, 1, None, "Y3"))


def test_null_keys_meet_and_a_stream_meets_itself(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "k double, x string", [(None, "n"), (None, "m"), (-0.0, "z"), (float("nan"), "q")], name="a")
    b = stream(topology, "k double, y string", [(None, "N"), (0.0, "Z"), (float("nan"), "Q"), (7.0, "S")], name="b")
    seen(a.join(b, "k", "k, x, y", joinType="full").project("x, y"), "full")
    seen(a.join(a, "k", "k, x, y", joinType="left").project("x, y"), "itself")
    found = results(engine, topology)
    assert tuples(found, "full") == ordered(("n", "N"), ("m", "N"), ("z", "Z"), ("q", "Q"), (None, "S"))
    assert tuples(found, "itself") == ordered(
        *itertools.product("nm", "nm"), ("z", "z"), ("q", "q")
    )  # both sides see every tuple


def test_no_value_is_taken_for_a_null(engine: Slots) -> None:
    topology = TridentTopology()
    least, half, text = -9223372036854775807, -2147483647, "__trident_null"
    keys = [(least, half, text), (None, half, text), (least, None, text), (least, half, None), (None, None, None)]
    a = stream(topology, "a long, b int, c string, x int", [(*key, at) for at, key in enumerate(keys)], name="a")
    b = stream(topology, "a long, b int, c string, y int", [(*key, at) for at, key in enumerate(keys)], name="b")
    seen(a.join(b, "a, b, c", joinType="full").project("x, y"), "full")
    seen(a.join(b, "a, b, c").project("x, y"), "inner")
    found = results(engine, topology)
    assert tuples(found, "full") == tuples(found, "inner") == [(at, at) for at in range(len(keys))]


def test_tuples_of_which_no_field_is_read_are_counted(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "x string, k long", [("a", 1), ("b", 2)], name="a")
    b = stream(topology, "k long, y string", [(1, "c"), (3, "d")], name="b")
    for mode in ("compact", "preserve"):
        both = a.join(b, "k", None if mode == "compact" else "x, k, l, y", joinType="full", mode=mode)
        both.persistentAggregate(STATE, Count(), "count", name=mode)
    a.merge(a, sourceField="from").persistentAggregate(STATE, Count(), "count", name="merged")
    assert results(engine, topology) == {"compact": [(3,)], "preserve": [(3,)], "merged": [(4,)]}


def test_a_missing_stream_makes_a_declared_field_nullable() -> None:
    topology = TridentTopology()
    a = stream(topology, "k long not null, x long not null", [], name="a")
    b = stream(topology, "k long not null, y long not null", [], name="b")
    joined = {kind: a.join(b, "k", joinType=kind).schema for kind in ("inner", "left", "right", "full")}
    assert {kind: [field.nullable for field in schema] for kind, schema in joined.items()} == {
        "inner": [False, False, False],
        "left": [False, False, True],
        "right": [False, True, False],
        "full": [False, True, True],
    }
    kept = a.join(b, "k", "k, x, l, y", joinType="left", mode="preserve").schema
    assert [field.nullable for field in kept] == [False, False, True, True]


# --- against every combination tried by hand -----------------------------------------------------------------------


def by_hand(sides: Sequence[Rows], outer: Sequence[bool], preserve: bool) -> Rows:
    """Return the join of (key, value) streams on their key, by the definition of a join."""
    joined = []
    for key in {row[0] for side in sides for row in side}:
        matches = [[row for row in side if row[0] == key] for side in sides]
        if all(rows or missing for rows, missing in zip(matches, outer, strict=True)):
            for match in itertools.product(*[rows or [(None, None)] for rows in matches]):
                values = [value for row in match for value in (row if preserve else row[1:])]
                joined.append(tuple(values if preserve else [key, *values]))
    return sorted(joined, key=repr)


def many_joins(sides: Sequence[Rows]) -> tuple[TridentTopology, dict[str, Rows]]:
    """Yield every list of join types over these streams, in both modes, with the join that each must give."""
    topology = TridentTopology()
    streams = [stream(topology, f"k{at} int, v{at} string", side, name=f"s{at}") for at, side in enumerate(sides)]
    expected = {}
    for outer in itertools.product([False, True], repeat=len(sides)):
        for mode in ("compact", "preserve"):
            name = f"{mode}-{''.join('o' if each else 'i' for each in outer)}"
            types = [OUTER if each else INNER for each in outer]
            keys = [f"k{at}" for at in range(len(sides))]
            seen(topology.join(streams, keys, joinType=types, mode=mode), name)
            expected[name] = by_hand(sides, outer, mode == "preserve")
    return topology, expected


def sides_of(count: int, seed: int) -> list[Rows]:
    """Return streams of few keys, some of them null, each with values of its own."""
    draw = random.Random(seed)
    return [
        [(draw.choice([None, 1, 2, 3, 4, 5]), f"{at}{row}") for row in range(draw.randint(1, 6))] for at in range(count)
    ]


@given(st.lists(st.lists(st.sampled_from([None, 1, 2, 3]), max_size=4), min_size=2, max_size=4))
@settings(max_examples=15)
def test_any_join_is_what_its_meaning_says(keys: list[list[int | None]]) -> None:
    sides = [[(key, f"{at}{row}") for row, key in enumerate(side)] for at, side in enumerate(keys)]
    topology, expected = many_joins(sides)
    found = results(OnArrow(), topology)
    for name, wanted in expected.items():
        assert tuples(found, name) == wanted, name


@pytest.mark.spark
@pytest.mark.parametrize("count", [2, 3])
def test_any_join_is_the_same_in_spark(on_spark: Slots, count: int) -> None:
    topology, expected = many_joins(sides_of(count, seed=count))
    found = results(on_spark, topology)
    for name, wanted in expected.items():
        assert tuples(found, name) == wanted, name


# --- merge ---------------------------------------------------------------------------------------------------------


@pytest.mark.connect
def test_a_merge_tells_where_a_tuple_comes_from(engine: Slots) -> None:
    topology = TridentTopology()
    a = stream(topology, "x long, y long", [(1, 2)], name="a")
    b = stream(topology, "y long, x long", [(3, 4), (1, 2)], [], name="b").filter("y", lambda y: y > 0)
    merged = topology.merge(a, b, outputFields="p, q", sourceField="from")
    seen(merged, "all")
    seen(merged.project("from"), "from")
    found = results(engine, topology)
    assert tuples(found, "all") == ordered((1, 2, "a"), (1, 2, "b"), (3, 4, "b"))
    assert tuples(found, "from") == ordered(("a",), ("b",), ("b",))


# --- requests ------------------------------------------------------------------------------------------------------


def test_requests_that_share_a_pass_meet_nobody_else() -> None:
    topology = TridentTopology()
    asked = topology.newDRPCStream("ask", "k long, v string")
    few = asked.filter("v", lambda v: v != "b")
    both = asked.join(few, "k", "k, v, w", joinType="full")
    both.merge(both, sourceField="from")
    (plan,) = cut(topology).requests
    args = pa.table({"number": pa.array([4, 5, 6]), "k": pa.array([1, 1, None]), "v": ["a", "b", "c"]})
    answer = answered(compile_request(plan), args, lambda *_: pytest.fail("no state is read"))
    once = [(4, 1, "a", "a"), (5, 1, "b", None), (6, None, "c", "c")]
    assert Counter(rows(answer)) == Counter([(*row, "ask()") for row in once] * 2)
