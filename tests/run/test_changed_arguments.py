"""User code that changes the lists and dicts that it is given: no other step, state, window or letter sees that."""

import json
from typing import Any

import pytest

from trident import Count, DeadLetter, SlidingCountWindow, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Tags:
    """All tags. It extends the first list that it gets, which is the tuple's own."""

    outputType = "array<long>"

    def init(self, tuple: Any) -> Any:
        return tuple.xs

    def combine(self, a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a

    def zero(self) -> list[int]:
        return []


def test_a_combiner_that_extends_its_argument_changes_no_other_state() -> None:
    batches = [[("a", [1, 2]), ("a", [3]), ("b", [4])], [("a", [5]), ("a", [6])]]
    topology = TridentTopology()
    rows = topology.newStream("s", FixedBatchSpout("k string, xs array<long>", batches))
    state = MemoryMapState.opaque
    rows.groupBy("k").persistentAggregate(state(), "xs", Tags(), "tags", name="tags")
    sized = rows.each("xs", lambda xs: len(xs), "n long")
    sized.groupBy("k").persistentAggregate(state(), "n", Sum(), "sum", name="sums")
    each = rows.flatMap("xs", lambda xs: list(xs), "x long")
    each.groupBy("x").persistentAggregate(state(), Count(), "count", name="counts")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("tags").items()) == {"a": [1, 2, 3, 5, 6], "b": [4]}
        assert dict(running.state("sums").items()) == {"a": 5, "b": 1}
        assert dict(running.state("counts").items()) == dict.fromkeys(range(1, 7), 1)


@pytest.mark.parametrize("rows", [10, 100])
def test_a_function_that_empties_its_argument_leaves_the_field_as_it_is(rows: int) -> None:
    """Small batches keep Python values where large ones keep Arrow arrays."""

    def pop(xs: list[int], m: dict[str, list[int]]) -> int:
        return xs.pop() + m["a"].pop()

    kept: list[Any] = []
    topology = TridentTopology()
    batch = [([n], {"a": [n]}) for n in range(rows)]
    numbers = topology.newStream("s", FixedBatchSpout("xs array<long>, m map<string, array<long>>", [batch]))
    popped = numbers.each("xs, m", pop, "n long").filter("n", lambda n: n >= 4)
    popped.each("xs, m", pop, "again long").peek(lambda t: kept.append((t.xs, t.m, t.n, t.again)))
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
    assert kept == [([n], {"a": [n]}, 2 * n, 2 * n) for n in range(2, rows)]


def test_a_dead_letter_has_the_tuple_that_entered() -> None:
    def pop(xs: list[int]) -> int:
        if xs.pop() == 4:
            raise ValueError("no fours")
        return 1

    topology = TridentTopology()
    rows = topology.newStream("s", FixedBatchSpout("k string, xs array<long>", [[("a", [1]), ("b", [4])]]))
    rows.each("xs", pop, "n long", onError=DeadLetter(attempts=0))
    topology.deadLetterState(MemoryMapState.opaque())
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
        (letter,) = running.state("deadLetters").values()
        assert json.loads(letter.tuple) == {"k": "b", "xs": [4]}


@pytest.mark.parametrize("size", [1, 3, 8])
def test_overlapping_windows_do_not_depend_on_how_the_batches_are_cut(size: int) -> None:
    rows, windows = [("a", [n]) for n in range(8)], list[Any]()
    topology = TridentTopology()
    cut = [rows[at : at + size] for at in range(0, 8, size)]
    stream = topology.newStream("s", FixedBatchSpout("k string, xs array<long>", cut))
    window = stream.window(SlidingCountWindow(4, 2), MemoryMapState.opaque(), "xs", Tags(), "tags", name="w")
    window.peek(lambda t: windows.append(t.tags))
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
    assert windows == [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
