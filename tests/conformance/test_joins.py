"""Joins, within one batch."""

from typing import Any

import pytest

from tests.compiler.stage_runner import Slots
from tests.conformance.kit import Case, check, conforms, sink, sinks, unordered
from trident import JoinOutFieldsMode, JoinType, TridentTopology
from trident.spouts import FixedBatchSpout

INNER, OUTER = JoinType.INNER, JoinType.OUTER


def of_two(
    case: Case, engine: Slots, types: list[JoinType], fields: str, mode: str = JoinOutFieldsMode.COMPACT
) -> None:
    topology = TridentTopology()
    people, paid = case.stream(topology, "uid long, name string", "l"), case.stream(topology, "amt long, who long", "r")
    check(case, engine, topology, out=topology.join([people, paid], ["uid", "who"], fields, types, mode))


@conforms("join-inner-compact")
def test_inner(case: Case, engine: Slots) -> None:
    of_two(case, engine, [INNER, INNER], "k, name, amt")


@conforms("join-inner-preserve")
def test_inner_with_all_fields(case: Case, engine: Slots) -> None:
    of_two(case, engine, [INNER, INNER], "uid, name, amt, who", JoinOutFieldsMode.PRESERVE)


@conforms("join-left-compact")
def test_left(case: Case, engine: Slots) -> None:
    of_two(case, engine, [INNER, OUTER], "k, name, amt")


@conforms("join-right-compact")
def test_right(case: Case, engine: Slots) -> None:
    of_two(case, engine, [OUTER, INNER], "k, name, amt")


@conforms("join-full-compact")
def test_full(case: Case, engine: Slots) -> None:
    of_two(case, engine, [OUTER, OUTER], "k, name, amt")


@conforms("join-three-way-mixed")
def test_three_streams_of_which_one_may_be_missing(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    streams = [case.stream(topology, f"k long, {name}v string", name) for name in "abc"]
    check(case, engine, topology, out=topology.join(streams, ["k"] * 3, "k, av, bv, cv", [INNER, OUTER, INNER]))


@conforms("join-composite-key")
def test_keys_meet_by_position_not_by_name(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    left = case.stream(topology, "x string, a long, b long", "l")
    right = case.stream(topology, "d long, c long, y string", "r")
    check(case, engine, topology, out=topology.join([left, right], ["a, b", "c, d"], "k1, k2, x, y"))


# --- beside the cases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["compact", "preserve"])
def test_a_missing_stream_is_null_in_all_its_fields_null_keys_meet_and_duplicates_multiply(
    engine: Slots, mode: str
) -> None:
    topology = TridentTopology()
    left = topology.newStream("l", FixedBatchSpout("k long, x string", [[(None, "n"), (1, "a"), (1, "a"), (2, "b")]]))
    right = topology.newStream("r", FixedBatchSpout("y string, k long", [[("N", None), ("A", 1), ("A", 1), ("C", 3)]]))
    preserved = mode == "preserve"
    fields = "k, x, y, k2" if preserved else "k, x, y"
    sink(topology.join([left, right], ["k", "k"], fields, "full", mode))
    found = sinks(topology, engine, 0)["out"]
    expected: list[Any]
    if preserved:
        expected = [(None, "n", "N", None), *[(1, "a", "A", 1)] * 4, (2, "b", None, None), (None, None, "C", 3)]
    else:
        expected = [(None, "n", "N"), *[(1, "a", "A")] * 4, (2, "b", None), (3, None, "C")]
    assert unordered(found) == unordered(expected)


def test_a_stream_that_meets_itself_is_whole_on_both_sides(engine: Slots) -> None:
    """Trident gives nothing for an inner one, and nulls for an outer one."""
    for types in ([INNER, INNER], [INNER, OUTER], [OUTER, OUTER]):
        topology = TridentTopology()
        numbers = topology.newStream("s", FixedBatchSpout("k long, x string", [[(1, "a"), (1, "b"), (2, "c")]]))
        sink(topology.join([numbers, numbers], ["k", "k"], "k, x, y", types))
        found = sinks(topology, engine, 0)["out"]
        assert unordered(found) == [(1, "a", "a"), (1, "a", "b"), (1, "b", "a"), (1, "b", "b"), (2, "c", "c")]
