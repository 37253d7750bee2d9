"""The least, the greatest and the first tuples, of partitions and of batches, on both engines."""

import math
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, leaving, run_group, stream
from trident import Count, FirstN, TridentTopology
from trident.base.errors import UserFunctionError
from trident.compiler.stages import cut_nodes
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROWS = [("a", 4), ("b", 9), ("c", 4), ("d", None), ("e", 9), ("f", 2), ("g", 2)]


def numbers(*rows: Any) -> Any:
    return stream(TridentTopology(), "k string, n long", rows or ROWS, [], [("x", None), ("y", None)])


def place(k: str, partitions: int) -> int:
    return ord(k) % partitions


def by_length(a: Any, b: Any) -> int:
    return len(a.k) - len(b.k)


def by_distance_from_five(a: int, b: int) -> int:
    return abs(a - 5) - abs(b - 5)


@pytest.mark.connect
def test_the_last_of_the_equal_extremes_of_a_batch_leaves_whole(engine: Slots) -> None:
    assert leaving(engine, numbers().maxBy("n", scope="batch")) == [("e", 9)]
    assert leaving(engine, numbers().minBy("n", scope="batch")) == [("g", 2)]
    assert leaving(engine, numbers().minBy("n", by_distance_from_five, scope="batch")) == [("c", 4)]
    assert leaving(engine, numbers(("ox", 1), ("cow", 2), ("ewe", 3)).max(by_length, scope="batch")) == [("ewe", 3)]
    assert leaving(engine, numbers(("ox", 1), ("cow", 2), ("ox", 3)).min(by_length, scope="batch")) == [("ox", 3)]
    python = numbers().filter("k", lambda k: k != "e").each("n", lambda n: n, "m long").maxBy("m", scope="batch")
    assert leaving(engine, python) == [("b", 9, 9)]


@pytest.mark.parametrize("batch", [1, 2], ids=["empty", "nulls"])
def test_where_there_is_nothing_to_compare_no_tuple_leaves(engine: Slots, batch: int) -> None:
    for made in (
        numbers().maxBy("n", scope="batch"),
        numbers().minBy("n"),
        numbers().minBy("n", by_distance_from_five),
    ):
        assert leaving(engine, made, batch=batch) == []
    assert len(leaving(engine, numbers().max(by_length, scope="batch"), batch=batch)) == batch - 1


def test_every_partition_has_its_own_extremes(engine: Slots) -> None:
    def parted() -> Any:
        return numbers().partition("k", place).parallelismHint(3)

    # c, f in the first, a, d, g in the second, b, e in the third
    assert leaving(engine, parted().maxBy("n")) == [("c", 4), ("a", 4), ("e", 9)]
    assert leaving(engine, parted().minBy("n")) == [("f", 2), ("g", 2), ("e", 9)]
    assert leaving(engine, parted().minBy("n", scope="batch").aggregate(Count(), "c")) == [(1,)]
    assert leaving(engine, parted().min(by_length)) == [("f", 2), ("g", 2), ("e", 9)]


def test_nan_is_the_greatest_and_every_ordered_type_compares(engine: Slots) -> None:
    for fields, rows, least, most in (
        ("x double", [(1.0,), (math.nan,), (-math.inf,), (None,)], "(-inf,)", "(nan,)"),
        ("x string", [("b",), ("a",), ("",), (None,)], "('',)", "('b',)"),
        ("x boolean", [(True,), (False,), (None,)], "(False,)", "(True,)"),
        ("x binary", [(b"a",), (b"\xff",)], "(b'a',)", "(b'\\xff',)"),
    ):
        made = [stream(TridentTopology(), fields, rows) for _ in range(2)]
        assert repr(leaving(engine, made[0].minBy("x", scope="batch"))) == f"[{least}]"
        assert repr(leaving(engine, made[1].maxBy("x", scope="batch"))) == f"[{most}]"


def test_the_first_tuples_of_a_batch_by_a_field_nulls_last(engine: Slots) -> None:
    first = lambda *args: leaving(engine, numbers().applyAssembly(FirstN(*args)))  # noqa: E731
    assert first(3, "n") == [("f", 2), ("g", 2), ("a", 4)]
    assert first(3, "n", True) == [("b", 9), ("e", 9), ("a", 4)]
    assert first(20, "n")[-2:] == [("e", 9), ("d", None)] and len(first(20, "n")) == 7
    assert first(20, "n", True)[-2:] == [("g", 2), ("d", None)]
    assert len(first(2)) == 2 and len(first(20)) == 7
    assert leaving(engine, numbers().applyAssembly(FirstN(2, "n")), batch=1) == []
    assert leaving(engine, numbers().applyAssembly(FirstN(5, "n")), batch=2) == [("x", None), ("y", None)]


def test_the_first_of_several_partitions_are_the_first_of_all(engine: Slots) -> None:
    many = [(f"k{n:04}", (n * 7919) % 1000) for n in range(1000)]
    made = stream(TridentTopology(), "k string, n long", many).shuffle().parallelismHint(3)
    found = leaving(engine, made.applyAssembly(FirstN(5, "n")))
    assert found == sorted(many, key=lambda row: row[1])[:5]
    fields = made.applyAssembly(FirstN(2, "n", True)).project("k")
    assert leaving(engine, fields) == [(k,) for k, _ in sorted(many, key=lambda row: -row[1])[:2]]


def test_requests_have_their_own_extremes() -> None:
    topology = TridentTopology()
    stream(topology, "k string", ["a"]).groupBy("k").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="s"
    )
    asked = topology.newDRPCStream("longest").flatMap("args", str.split, "word string")
    asked.each("word", len, "size long").maxBy("size").applyAssembly(FirstN(1)).project("word")
    with start_local(topology) as running:
        assert [row.word for row in running.drpc.execute("longest", "an ape and zebras run")] == ["zebras"]
        assert running.drpc.execute("longest", "") == []


@pytest.mark.parametrize(
    ("comparator", "says"),
    [
        (lambda a, b: a.n < b.n, "gave True; comparing TridentTuple(k='b', n=9) with TridentTuple(k='a', n=4)"),
        (lambda a, b: a.m - b.m, "raised AttributeError: the tuple has no field 'm'; its fields are (k, n)"),
        (lambda a, b: None, "gave None; comparing"),
    ],
)
def test_what_goes_wrong_in_a_comparator_is_told(comparator: Any, says: str) -> None:
    from tests.compiler.stage_runner import OnArrow

    with pytest.raises(UserFunctionError) as raised:
        leaving(OnArrow(), numbers(("a", 4), ("b", 9)).max(comparator, scope="batch"))
    assert "s/1:max(<lambda>): <lambda> (test_selections.py:" in str(raised.value)
    assert says.replace("True", "False") in str(raised.value) or says in str(raised.value)


def test_only_what_is_read_travels(engine: Slots) -> None:
    wide = stream(TridentTopology(), "k string, n long, unread string", [("a", 1, "x"), ("b", 2, "y")])
    state = wide.maxBy("n", scope="batch").groupBy("k").persistentAggregate(MemoryMapState.opaque(), Count(), "c")
    (group,) = cut_nodes([state._node], {}).groups
    assert run_group(engine, group).results["s.c"].to_pylist() == [{"k": "b", "c": 1}]  # type: ignore[union-attr]
